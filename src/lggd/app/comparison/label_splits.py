"""Random splits of any labelled graph: training, validation and test nodes, the same for all methods."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lggd.app.comparison import TRAINING
from lggd.app.runs.run_input import data_fingerprint
from lggd.datasets.by_name import (
    EMBEDDED,
    FROM_FILES,
    LABELS_PER_CLASS,
    TRAIN_AND_VALIDATION,
    split_by_count,
    split_by_fraction,
)
from lggd.datasets.pyg_data import MASKS
from lggd.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from torch_geometric.data import Data

MIN_LABELS = 3  # one label of each class to train with, one to validate with, one to test with


def default_labels(data: Data) -> int | float:
    """Returns the training labels of a dataset in the paper's table, or else a fraction of all labels."""
    name = getattr(data, "name", None)
    return LABELS_PER_CLASS if name in EMBEDDED else TRAIN_AND_VALIDATION[0] if name in FROM_FILES else TRAINING


def check_labels(labels: Any) -> int | float:
    """Returns a number of labels per class, or a fraction of the labels of every class.

    >>> check_labels(5), check_labels(0.025)
    (5, 0.025)
    """
    if not isinstance(labels, (int, float)) or isinstance(labels, bool):
        raise InputTypeError("labels", "be a number of labels per class, or a fraction of them", repr(labels))
    if labels < 1 if isinstance(labels, int) else not 0 < labels < 1:
        rule = "be a positive number of labels per class, or a fraction between 0 and 1"
        raise InputError("labels", rule, labels, "Use 5 for five per class, and 0.05 for 5 %.")
    return labels


def describe_labels(labels: int | float) -> str:
    """The amount of training labels in words.

    >>> describe_labels(5), describe_labels(0.025)
    ('5 labels per class', '2.5 % of the labels')
    """
    return f"{labels} labels per class" if isinstance(labels, int) else f"{100 * labels:g} % of the labels"


def draw_splits(data: Data, labels: int | float, count: int) -> list[Any]:
    """Returns `count` copies of PyG data with other masks; all share its tensors.

    `labels` are drawn from every class for training, and as many for validation (of a fraction, at most half of what is
    left); all other labels are for testing. Split s is drawn with the seed s, and those of the paper's datasets are
    those of `lggd.load`.
    """
    y, names = data.y, getattr(data, "class_names", None)
    sizes = torch.bincount(y[y >= 0]).tolist() if bool((y >= 0).any()) else []
    minimum = 2 * labels + 1 if isinstance(labels, int) else MIN_LABELS
    for label, size in enumerate(sizes):
        if size < minimum:
            name = label if names is None else repr(names[label])
            rule = f"have at least {minimum} labels of every class, to train, validate and test with"
            remedy = (
                "Label more nodes, or remove the labels of this class."
                if minimum == MIN_LABELS
                else "Use fewer labels."
            )
            raise InputError("data.y", rule, f"{size} of class {name}", remedy)
    if len(sizes) < 2:
        raise InputError("data.y", "have labels of at least two classes", len(sizes), "Label more nodes.")
    masks = [dict(zip(MASKS, _masks(y, labels, split), strict=True)) for split in range(count)]
    if not bool(masks[0]["test_mask"].any()):
        raise InputError("labels", "leave labels to test with", labels, "Use a smaller fraction.")
    return [copy.copy(data).update(own) for own in masks]


def _masks(y: Tensor, labels: int | float, seed: int) -> list[Tensor]:
    if isinstance(labels, float):
        return split_by_fraction(y, (labels, min(labels, round((1 - labels) / 2, 6))), seed)
    train, rest = split_by_count(y, labels, seed)
    return [train, *split_by_count(torch.where(rest, y, -1), labels, seed)]


def with_fewer_labels(data: Data, share: float, seed: int) -> Any:
    """Returns a copy with a share of the training and validation nodes of every class; smaller shares are subsets."""
    if share == 1:
        return data
    generator = torch.Generator().manual_seed(seed)
    changes = {}
    for name in ("train_mask", "val_mask"):
        changes[name] = torch.zeros_like(data[name])
        for label in torch.unique(data.y[data[name]]).tolist():
            nodes = (data[name] & (data.y == label)).nonzero().squeeze(1)
            order = torch.randperm(len(nodes), generator=generator).to(nodes.device)
            changes[name][nodes[order[: math.ceil(share * len(nodes))]]] = True
    return copy.copy(data).update(changes)


def curve_shares(data: Data, shares: Sequence[float]) -> list[float]:
    """Returns the shares that leave fewer training labels than the next larger one, the last of which is 1."""
    counts = {share: int(with_fewer_labels(data, share, 0).train_mask.sum()) for share in sorted(shares)}
    counts[1.0] = int(data.train_mask.sum())
    return [share for share, larger in pairwise(counts) if counts[share] < counts[larger]]


def visible_to_methods(data: Data) -> Any:
    """Returns a copy without the labels of test nodes, and without their mask: no method can read them."""
    seen = copy.copy(data)
    seen.y = torch.where(data.train_mask | data.val_mask, data.y, -1)
    del seen.test_mask
    return seen


def problem_fingerprint(data: Data) -> str:
    """Returns a digest of the graph, its features and labels, whatever its masks."""
    return data_fingerprint(data, ("y",))
