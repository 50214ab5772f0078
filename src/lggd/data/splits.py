"""Which nodes teach, which choose and which test: random splits a class at a time, and their fingerprint."""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lggd.errors import InputError

# The masks that say who was used for what. All of them together are a split.
MASKS = ("train_mask", "val_mask", "new_mask", "test_mask")
FINGERPRINT_LENGTH = 12


def by_share(y: Tensor, shares: Sequence[float], seed: int) -> list[Tensor]:
    """Parts of `shares` of every class, and the rest: masks bool `[N]`, one more than there are shares.

    Of a class of n nodes in random order, the first ⌊share · n⌋ (but at least one) are the first part, and so on. More
    shares therefore change nothing in the parts before them. Nodes with a negative `y` are unlabelled and in no part.

    >>> train, validation, test = by_share(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]), (0.25, 0.25), seed=0)
    >>> train.sum().item(), validation.sum().item(), test.sum().item()
    (2, 2, 4)
    """
    exact = [Fraction(str(share)) for share in shares]  # 0.29 of 100 is 29, though 0.29 * 100 is a little less
    if not all(0 < share < 1 for share in exact) or sum(exact) >= 1:
        raise InputError("shares", "be positive and sum to less than 1", tuple(shares), "Leave out the rest.")
    masks = _empty_masks(y, len(shares) + 1)
    for label, members in _shuffled_classes(y, seed):
        sizes = [max(1, math.floor(share * len(members))) for share in exact]
        if sum(sizes) > len(members):
            raise InputError(
                "y",
                "have a node of every class for every share",
                f"{len(members)} of class {label} for {len(sizes)} shares",
                "Use fewer shares, or leave the class out.",
            )
        parts = torch.split(members, [*sizes, len(members) - sum(sizes)])
        for mask, part in zip(masks, parts, strict=True):
            mask[part] = True
    return [mask.to(y.device) for mask in masks]


def by_count(y: Tensor, per_class: int, seed: int) -> list[Tensor]:
    """`per_class` random nodes of every class, and the rest: two masks bool `[N]`.

    Nodes with a negative `y` are unlabelled and in neither.

    >>> train, test = by_count(torch.tensor([0, 0, 0, 1, 1, 1]), 1, seed=0)
    >>> train.sum().item(), test.sum().item()
    (2, 4)
    """
    per_class = check_whole(per_class, "per_class", least=1)
    chosen, rest = _empty_masks(y, 2)
    for label, members in _shuffled_classes(y, seed):
        if len(members) < per_class:
            raise InputError(
                "per_class", f"be at most {len(members)}, the size of class {label}", per_class, "Take fewer."
            )
        chosen[members[:per_class]] = True
        rest[members[per_class:]] = True
    return [chosen.to(y.device), rest.to(y.device)]


def fingerprint(data: Any) -> str:
    """Twelve hexadecimal digits that differ wherever the masks of a PyG Data do: which split a result belongs to."""
    digest = hashlib.sha256()
    for name in MASKS:
        mask = getattr(data, name, None)
        if mask is not None:
            digest.update(f"{name}{tuple(mask.shape)}".encode())
            digest.update(np.packbits(mask.detach().cpu().numpy().astype(bool)).tobytes())
    if all(getattr(data, name, None) is None for name in MASKS):
        raise InputError("data", f"have one of {', '.join(MASKS)}", "none", "Split it first.")
    return digest.hexdigest()[:FINGERPRINT_LENGTH]


def check_whole(value: int, argument: str, least: int) -> int:
    """The whole number that was given, if it is at least `least` and fits 63 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number < 2**63:
        raise InputError(argument, f"be a whole number of at least {least}", repr(value))
    return number


def _empty_masks(y: Tensor, count: int) -> list[Tensor]:
    if y.dim() != 1 or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise InputError("y", "be the class of each node, integers [N]", f"{y.dtype} {list(y.shape)}")
    return [torch.zeros(len(y), dtype=torch.bool) for _ in range(count)]


def _shuffled_classes(y: Tensor, seed: int) -> Iterator[tuple[int, Tensor]]:
    """Each class in turn with its nodes in random order. One generator serves all, the global one is left alone."""
    generator = torch.Generator().manual_seed(check_whole(seed, "seed", least=0))
    labels = y.detach().cpu()
    for label in sorted(set(labels[labels >= 0].tolist())):
        members = (labels == label).nonzero().flatten()
        yield label, members[torch.randperm(len(members), generator=generator)]
