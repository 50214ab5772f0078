"""The labels that a method may see, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lggd.errors import InputError, InputTypeError

UNLABELLED = -1
ENOUGH_TO_HOLD_OUT = 20


@dataclass(frozen=True, eq=False)
class Labels:
    """The class of each node that may be learned from (`train`) and of each that may be validated on, -1 elsewhere.

    Both are int64 `[N]`. `held_out` says that the validation nodes were taken from the training nodes by us, so that
    they may join the boundary once learning is over.
    """

    train: Tensor
    validation: Tensor
    num_classes: int
    held_out: bool = False

    @classmethod
    def read(cls, data: Any) -> Labels:
        """From `y` with -1 for unlabelled nodes, or from `y` where `train_mask` and `val_mask` are True.

        No other entry of `y` is looked at: not for the number of classes either.
        """
        y = _read_y(data)
        train_mask = _read_mask(data, "train_mask", len(y))
        val_mask = _read_mask(data, "val_mask", len(y))
        if train_mask is None:
            if val_mask is not None:
                raise InputError("data.val_mask", "come with a train_mask", "none", "Say which labels to learn from.")
            return cls.checked(y, torch.full_like(y, UNLABELLED))
        hidden = torch.full_like(y, UNLABELLED)
        validation = hidden if val_mask is None else torch.where(val_mask, y, hidden)
        both = None if val_mask is None else train_mask & val_mask
        if both is not None and bool(both.any()):
            node = int(both.nonzero()[0])
            raise InputError("data.val_mask", "not overlap train_mask", but=f"both hold node {node}")
        return cls.checked(torch.where(train_mask, y, hidden), validation)

    @classmethod
    def checked(cls, train: Tensor, validation: Tensor) -> Labels:
        """Every class from 0 to the largest needs a training label, and validation nodes no other class."""
        for name, labels in (("train", train), ("validation", validation)):
            below = (labels < UNLABELLED).nonzero()
            if len(below):
                node = int(below[0])
                raise InputError(
                    "data.y",
                    "hold classes from 0, or -1 for unlabelled nodes",
                    f"{int(labels[node])} at the {name} node {node}",
                )
        if not bool((train >= 0).any()):
            raise InputError("data.y", "label at least one training node", "none", "Distances need a boundary.")
        classes = torch.unique(train[train >= 0])
        gap = (classes != torch.arange(len(classes), device=classes.device)).nonzero()
        if len(gap):
            raise InputError(
                "data.y",
                f"label a training node of every class from 0 to {int(classes[-1])}",
                f"none of class {int(gap[0])}",
                "Label one, or number the classes without gaps.",
            )
        strange = (validation >= len(classes)).nonzero()
        if len(strange):
            node = int(strange[0])
            raise InputError(
                "data.y",
                "not label validation nodes of a class without a training label",
                f"class {int(validation[node])} at node {node}",
                "Label a training node of that class.",
            )
        return cls(train, validation, len(classes))

    @property
    def has_validation(self) -> bool:
        return bool((self.validation >= 0).any())

    @property
    def known(self) -> Tensor:
        """What a method knows once learning is over: all that it learned from, and what we held out ourselves."""
        if not self.held_out:
            return self.train.clone()
        return torch.where(self.validation >= 0, self.validation, self.train)

    def hold_out(self, share: float, generator: torch.Generator) -> Labels:
        """Labels with validation nodes: those given, or else this share of each class's labels, drawn at random.

        None are held out where some class has fewer than `ENOUGH_TO_HOLD_OUT` labels: a handful of validation nodes
        says less than the labels are worth. Then learning runs for a fixed number of epochs.
        """
        fewest = int(torch.bincount(self.train[self.train >= 0]).min())
        if self.has_validation or share == 0 or fewest < ENOUGH_TO_HOLD_OUT:
            return self
        train, validation = self.train.clone(), self.validation.clone()
        for k in range(self.num_classes):
            nodes = (self.train == k).nonzero().squeeze(1)
            order = torch.randperm(len(nodes), generator=generator).to(nodes.device)
            count = max(1, int(share * len(nodes)))
            taken = nodes[order[:count]]
            train[taken], validation[taken] = UNLABELLED, k
        return Labels(train, validation, self.num_classes, held_out=True)


def merge_labels(known: Tensor, nodes: Any, labels: Any, num_classes: int) -> Tensor:
    """`known` int64 `[N]` with the classes of some more nodes in it; a contradiction is an error."""
    ids = _as_tensor(nodes).to(known.device)
    if ids.dtype == torch.bool:
        if ids.shape != known.shape:
            raise ValueError(f"`nodes` as a mask must have shape {list(known.shape)}, got {list(ids.shape)}.")
        ids = ids.nonzero().squeeze(1)
    ids = ids.reshape(-1)
    classes = _as_tensor(labels).to(known.device).reshape(-1)
    if ids.numel() == 0 and classes.numel() == 0:
        return known
    if ids.dtype.is_floating_point or classes.dtype.is_floating_point or classes.dtype == torch.bool:
        raise TypeError(f"`nodes` and `labels` must be whole numbers, got {ids.dtype} and {classes.dtype}.")
    if len(classes) == 1:
        classes = classes.expand(len(ids))
    if len(ids) != len(classes):
        raise InputError("labels", f"hold a class for each of the {len(ids)} nodes", len(classes))
    ids, classes = ids.long(), classes.long()
    if bool(((ids < 0) | (ids >= len(known))).any()):
        bad = int(ids[(ids < 0) | (ids >= len(known))][0])
        raise InputError("nodes", f"name nodes 0..{len(known) - 1}", bad)
    if bool(((classes < 0) | (classes >= num_classes)).any()):
        bad = int(classes[(classes < 0) | (classes >= num_classes)][0])
        raise InputError(
            "labels",
            f"be classes 0..{num_classes - 1}",
            bad,
            "A new class needs a new fit: every class has learned parameters of its own.",
        )
    merged = known.clone()
    merged[ids] = classes
    clash = (merged[ids] != classes) | ((known[ids] >= 0) & (known[ids] != classes))
    if bool(clash.any()):
        node = int(ids[clash][0])
        raise InputError(
            "labels",
            "agree with what is known",
            but=(
                f"node {node} has two labels: {int(classes[clash][0])} and "
                f"{int(known[node] if known[node] >= 0 else merged[node])}"
            ),
            remedy="Leave it out, or fit anew.",
        )
    return merged


def accuracy(predicted: Tensor, data: Any, mask: Tensor | None, known: Tensor) -> float:
    """The share of `predicted` classes that are those of `data.y`.

    It is taken over `mask`, or `data.test_mask`, or all labels that are not `known` (-1), whichever comes first.
    """
    y = getattr(data, "y", None)
    if not isinstance(y, Tensor):
        raise InputTypeError("data.y", "be a tensor of classes to compare with", type(y).__name__)
    if mask is None:
        mask = getattr(data, "test_mask", None)
    if mask is None:
        mask = (y >= 0) & (known < 0)
    if mask.shape != y.shape or mask.dtype != torch.bool:
        raise InputError("mask", f"be a mask of shape {list(y.shape)}", f"{mask.dtype} {list(mask.shape)}")
    counted = mask & (y >= 0)
    if not bool(counted.any()):
        raise InputError("mask", "hold at least one node with a label in `data.y`", "none")
    return float((predicted[counted] == y[counted]).float().mean())


def _as_tensor(values: Any) -> Tensor:
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`nodes` and `labels` must be whole numbers, got {array.dtype}.")
    return torch.as_tensor(array)


def _read_y(data: Any) -> Tensor:
    y = getattr(data, "y", None)
    if not isinstance(y, Tensor):
        raise InputTypeError("data.y", "be a tensor of classes", type(y).__name__, "Use -1 for unlabelled nodes.")
    if y.dtype.is_floating_point or y.dtype == torch.bool:
        raise InputTypeError("data.y", "hold whole numbers", y.dtype, "Number the classes from 0 and use y.long().")
    if y.dim() != 1 or len(y) != data.num_nodes:
        raise InputError("data.y", f"have shape [{data.num_nodes}], one class a node", list(y.shape))
    return y.long()


def _read_mask(data: Any, name: str, num_nodes: int) -> Tensor | None:
    mask = getattr(data, name, None)
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (num_nodes,):
        shape = f"{mask.dtype} of shape {list(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise InputError(
            f"data.{name}", f"be a mask of shape [{num_nodes}]", shape, "Pick one column, where each is a split."
        )
    return mask
