"""Random splits into training, validation and test nodes, stratified by class, and their fingerprint."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lggd.errors import InputError
from lggd.training.randomness import read_seed
from lggd.validation import check_int

# The masks that define a split.
MASKS = ("train_mask", "val_mask", "new_mask", "test_mask")
FINGERPRINT_LENGTH = 12


def by_fraction(y: Tensor, fractions: Sequence[float], seed: int) -> list[Tensor]:
    """Splits every class by `fractions`; returns one mask bool `[N]` per fraction, and one for the remaining nodes.

    The n nodes of a class are shuffled; the first ⌊fraction · n⌋ (at least one) are the first part, and so on. Further
    fractions therefore do not change the parts before them. Nodes with a negative `y` are in no part.

    >>> train, validation, test = by_fraction(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]), (0.25, 0.25), seed=0)
    >>> train.sum().item(), validation.sum().item(), test.sum().item()
    (2, 2, 4)
    """
    exact = [Fraction(str(fraction)) for fraction in fractions]  # 0.29 of 100 is 29, but 0.29 * 100 < 29
    if not all(0 < fraction < 1 for fraction in exact) or sum(exact) >= 1:
        raise InputError("fractions", "be positive and sum to less than 1", tuple(fractions), "Omit the remainder.")
    masks = _empty_masks(y, len(fractions) + 1)
    for label, members in _shuffled_classes(y, seed):
        sizes = [max(1, math.floor(fraction * len(members))) for fraction in exact]
        if sum(sizes) > len(members):
            value = f"{len(members)} of class {label} for {len(sizes)} fractions"
            rule, remedy = "have a node of every class for every fraction", "Use fewer fractions, or remove the class."
            raise InputError("y", rule, value, remedy)
        parts = torch.split(members, [*sizes, len(members) - sum(sizes)])
        for mask, part in zip(masks, parts, strict=True):
            mask[part] = True
    return [mask.to(y.device) for mask in masks]


def by_count(y: Tensor, per_class: int, seed: int) -> list[Tensor]:
    """Draws `per_class` nodes of every class; returns their mask and that of the remaining nodes, bool `[N]`.

    Nodes with a negative `y` are unlabelled and in neither.

    >>> train, test = by_count(torch.tensor([0, 0, 0, 1, 1, 1]), 1, seed=0)
    >>> train.sum().item(), test.sum().item()
    (2, 4)
    """
    per_class = check_int("per_class", per_class, minimum=1)
    masks = _empty_masks(y, 2)
    for label, members in _shuffled_classes(y, seed):
        if len(members) < per_class:
            raise InputError("per_class", f"be at most {len(members)}, the size of class {label}", per_class)
        masks[0][members[:per_class]] = True
        masks[1][members[per_class:]] = True
    return [mask.to(y.device) for mask in masks]


def fingerprint(data: Any) -> str:
    """Returns a hash of the masks of a PyG Data, twelve hexadecimal digits, to record the split of a result."""
    masks = {name: mask for name in MASKS if (mask := getattr(data, name, None)) is not None}
    if not masks:
        raise InputError("data", f"have one of {', '.join(MASKS)}", "none", "Split it first.")
    digest = hashlib.sha256()
    for name, mask in masks.items():
        digest.update(f"{name}{tuple(mask.shape)}".encode())
        digest.update(np.packbits(mask.detach().cpu().numpy().astype(bool)).tobytes())
    return digest.hexdigest()[:FINGERPRINT_LENGTH]


def _empty_masks(y: Tensor, count: int) -> list[Tensor]:
    if y.dim() != 1 or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise InputError("y", "be the class of each node, integers [N]", f"{y.dtype} {list(y.shape)}")
    return [torch.zeros(len(y), dtype=torch.bool) for _ in range(count)]


def _shuffled_classes(y: Tensor, seed: int) -> Iterator[tuple[int, Tensor]]:
    """Yields each class with its nodes in random order."""
    generator = torch.Generator().manual_seed(read_seed(check_int("seed", seed, minimum=0)))
    labels = y.detach().cpu()
    for label in sorted(set(labels[labels >= 0].tolist())):
        members = (labels == label).nonzero().flatten()
        yield label, members[torch.randperm(len(members), generator=generator)]
