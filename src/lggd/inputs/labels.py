"""The labels of training and validation nodes: read from PyG data, held out, added, changed and removed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lggd.errors import InputError, InputTypeError
from lggd.graph.edge_list import numbers, whole_numbers

if TYPE_CHECKING:
    from torch_geometric.data import Data

UNLABELLED = -1
# The minimum number of labels per class for holding some out for validation.
MIN_TO_HOLD_OUT = 20


class LabelConflictError(InputError):
    """A node would have two labels: the new `label`, and `known`."""

    node: int
    label: int
    known: int


class LastLabelError(InputError):
    """The class `label` would have no label left."""

    label: int


@dataclass(frozen=True, eq=False)
class Labels:
    """The classes of the training nodes and of the validation nodes, both int64 `[N]` with -1 elsewhere."""

    train: Tensor
    validation: Tensor
    num_classes: int
    held_out: bool = False  # whether validation nodes were drawn from the training nodes: they may join them again

    @classmethod
    def read(cls, data: Data) -> Labels:
        """From `y` with -1 for unlabelled nodes, or from `y` where `train_mask` and `val_mask` are True.

        No other entry of `y` is read, not even to count the classes.
        """
        y = read_y(data)
        train_mask, val_mask = (read_mask(data, name, len(y)) for name in ("train_mask", "val_mask"))
        if val_mask is None:
            val_mask = torch.zeros_like(y, dtype=torch.bool)
        elif train_mask is None:
            remedy = "Pass a mask of the labels to train on."
            raise InputError("data.val_mask", "come with a train_mask", "none", remedy)
        elif bool((train_mask & val_mask).any()):
            node = int((train_mask & val_mask).nonzero()[0])
            raise InputError("data.val_mask", "not overlap train_mask", but="both contain node {0}", nodes=[node])
        if train_mask is not None and not bool((y[train_mask] >= 0).any()):
            raise InputError("data.train_mask", "contain a node with a label in `data.y`", "none")
        train = y if train_mask is None else torch.where(train_mask, y, UNLABELLED)
        return cls.checked(train, torch.where(val_mask, y, UNLABELLED))

    @classmethod
    def checked(cls, train: Tensor, validation: Tensor) -> Labels:
        """Checks that every class from 0 to the largest has a training label; validation nodes have no other class."""
        for name, labels in (("train", train), ("validation", validation)):
            below = (labels < UNLABELLED).nonzero()
            if len(below):
                node = int(below[0])
                value = f"{int(labels[node])} at the {name} node {{0}}"
                raise InputError("data.y", "contain classes from 0, or -1 for unlabelled nodes", value, nodes=[node])
        if not bool((train >= 0).any()):
            raise InputError("data.y", "label at least one training node", "none")
        classes = torch.unique(train[train >= 0])
        gap = (classes != torch.arange(len(classes), device=classes.device)).nonzero()
        if len(gap):
            rule = f"label a training node of every class from 0 to {int(classes[-1])}"
            remedy = "Label one, or number the classes without gaps."
            raise InputError("data.y", rule, f"none of class {int(gap[0])}", remedy)
        unknown = (validation >= len(classes)).nonzero()
        if len(unknown):
            node = int(unknown[0])
            rule = "not label validation nodes of a class without a training label"
            remedy = "Label a training node of that class."
            raise InputError("data.y", rule, f"class {int(validation[node])} at node {{0}}", remedy, nodes=[node])
        return cls(train, validation, len(classes))

    @property
    def known(self) -> Tensor:
        """The labels that a trained model uses: all training labels, and those that were held out of them."""
        if not self.held_out:
            return self.train.clone()
        return torch.where(self.validation >= 0, self.validation, self.train)

    def hold_out(self, fraction: float, generator: torch.Generator) -> Labels:
        """Labels with validation nodes: the existing ones, or else a fraction of each class's labels, drawn at random.

        None are held out where some class has fewer than `MIN_TO_HOLD_OUT` labels: they are more useful for training
        than for validation. Training then runs for a fixed number of epochs.
        """
        fewest = int(torch.bincount(self.train[self.train >= 0]).min())
        if bool((self.validation >= 0).any()) or fraction == 0 or fewest < MIN_TO_HOLD_OUT:
            return self
        train, validation = self.train.clone(), self.validation.clone()
        for k in range(self.num_classes):
            nodes = (self.train == k).nonzero().squeeze(1)
            order = torch.randperm(len(nodes), generator=generator).to(nodes.device)
            chosen = nodes[order[: max(1, int(fraction * len(nodes)))]]
            train[chosen], validation[chosen] = UNLABELLED, k
        return Labels(train, validation, self.num_classes, held_out=True)

    def with_confident(self, probabilities: Tensor, fraction: float) -> Labels:
        """Labels that also train on the most confident `fraction` of the predictions of each class.

        Nodes with a label of either kind keep it.
        """
        free = (self.train < 0) & (self.validation < 0)
        nodes, classes = confident_predictions(probabilities, free, fraction)
        return replace(self, train=self.train.index_copy(0, nodes, classes))


def confident_predictions(probabilities: Tensor, free: Tensor, fraction: float) -> tuple[Tensor, Tensor]:
    """The most confident `fraction` of the predictions of each class among `free` nodes, bool `[N]`.

    Returns the nodes, class by class, and their predicted classes, int64 `[n]` each.
    """
    confidence, predicted = probabilities.max(1)
    chosen = []
    for k in range(probabilities.shape[1]):
        nodes = ((predicted == k) & free).nonzero().squeeze(1)
        order = confidence[nodes].argsort(descending=True, stable=True)
        chosen.append(nodes[order[: int(fraction * len(nodes))]])
    nodes = torch.cat(chosen)
    return nodes, predicted[nodes]


def merge_labels(known: Tensor, nodes: Any, labels: Any, num_classes: int) -> Tensor:
    """Returns `known`, int64 `[N]`, with the labels of more nodes; raises an error if two labels of a node differ."""
    ids, classes = _read_labels(known, nodes, labels, num_classes)
    merged = known.clone()
    merged[ids] = classes
    other = torch.where(known[ids] >= 0, known[ids], merged[ids])
    _check_agreement(ids, classes, other, "Change it with change_labels, leave it out, or fit again.")
    return merged


def replace_labels(known: Tensor, nodes: Any, labels: Any, num_classes: int) -> Tensor:
    """Returns `known`, int64 `[N]`, with other labels for nodes that have one; no class may lose its last label."""
    ids, classes = _read_labels(known, nodes, labels, num_classes)
    _check_labelled(known, ids, "Use add_labels for new ones.")
    replaced = known.clone()
    replaced[ids] = classes
    _check_agreement(ids, classes, replaced[ids], "Pass one of them.")
    _check_every_class(replaced, num_classes)
    return replaced


def remove_labels(known: Tensor, nodes: Any, num_classes: int) -> Tensor:
    """Returns `known`, int64 `[N]`, without the labels of these nodes; no class may lose its last label."""
    ids = _read_nodes(known, nodes)
    _check_labelled(known, ids, "Leave it out.")
    remaining = known.clone()
    remaining[ids] = UNLABELLED
    _check_every_class(remaining, num_classes)
    return remaining


def _read_labels(known: Tensor, nodes: Any, labels: Any, num_classes: int) -> tuple[Tensor, Tensor]:
    """The ids of nodes, int64 `[n]`, and the class of each, int64 `[n]`."""
    ids, classes = _read_nodes(known, nodes), whole_numbers("labels", labels, known.device).reshape(-1)
    if len(ids) != len(classes):
        raise InputError("labels", f"have {len(ids)} entries, one class each", len(classes))
    outside = (classes < 0) | (classes >= num_classes)
    if bool(outside.any()):
        first = int(classes[outside][0])
        remedy = "A new class needs a new fit: every class has trained parameters of its own."
        if first < 0:
            remedy = "Use remove_labels for nodes that are to be unlabelled, and leave out those that are."
        raise InputError("labels", f"be classes 0..{num_classes - 1}", first, remedy)
    return ids, classes


def _read_nodes(known: Tensor, nodes: Any) -> Tensor:
    """The ids of nodes, int64 `[n]`, from ids or a mask."""
    given = numbers("nodes", nodes, "be whole numbers")
    if given.dtype == torch.bool:
        if given.shape != known.shape:
            raise InputError("nodes", f"have shape {list(known.shape)} as a mask", list(given.shape))
        given = given.nonzero()
    ids = whole_numbers("nodes", given, known.device).reshape(-1)
    outside = (ids < 0) | (ids >= len(known))
    if bool(outside.any()):
        raise InputError("nodes", f"lie in 0..{len(known) - 1}", int(ids[outside][0]))
    return ids


def _check_agreement(ids: Tensor, classes: Tensor, other: Tensor, remedy: str) -> None:
    """Raises an error if a node gets two different classes."""
    conflict = classes != other
    if bool(conflict.any()):
        node, label, known = (int(values[conflict][0]) for values in (ids, classes, other))
        clause = f"node {{0}} has two labels: {label} and {known}"
        error = LabelConflictError("labels", "agree with the known labels", but=clause, remedy=remedy, nodes=[node])
        error.node, error.label, error.known = node, label, known
        raise error


def _check_labelled(known: Tensor, ids: Tensor, remedy: str) -> None:
    unlabelled = ids[known[ids] < 0]
    if len(unlabelled):
        node = int(unlabelled[0])
        raise InputError("nodes", "name labelled nodes", but="node {0} has no label", remedy=remedy, nodes=[node])


def _check_every_class(labels: Tensor, num_classes: int) -> None:
    empty = (torch.bincount(labels[labels >= 0], minlength=num_classes) == 0).nonzero()
    if len(empty):
        remedy = "Add another label of that class first, or fit again without it."
        value = f"none of class {int(empty[0])}"
        error = LastLabelError("nodes", "leave at least one label of every class", value, remedy)
        error.label = int(empty[0])
        raise error


def accuracy(predicted: Tensor, data: Data, mask: Tensor | None, known: Tensor) -> float:
    """The fraction of `predicted` that equals `data.y` on `mask`, `data.test_mask`, or labels that are not `known`."""
    y = getattr(data, "y", None)
    if not isinstance(y, Tensor):
        raise InputTypeError("data.y", "be a tensor of classes to compare with", type(y).__name__)
    if mask is None:
        mask = getattr(data, "test_mask", None)
    if mask is None:
        mask = (y >= 0) & (known < 0)
    mask = numbers("mask", mask, "be a mask").to(y.device)
    if mask.shape != y.shape or mask.dtype != torch.bool:
        raise InputError("mask", f"be a mask of shape {list(y.shape)}", f"{mask.dtype} {list(mask.shape)}")
    counted = mask & (y >= 0)
    if not bool(counted.any()):
        raise InputError(
            "mask", "contain a node with a label in `data.y`", "none", "Pass `mask` to score labelled nodes."
        )
    return float((predicted[counted] == y[counted]).float().mean())


def read_y(data: Data) -> Tensor:
    """The classes of the nodes, int64 `[N]`."""
    y = getattr(data, "y", None)
    if not isinstance(y, Tensor):
        raise InputTypeError("data.y", "be a tensor of classes", type(y).__name__, "Use -1 for unlabelled nodes.")
    if y.dtype.is_floating_point or y.dtype == torch.bool:
        raise InputTypeError("data.y", "be whole numbers", y.dtype, "Number the classes from 0 and use y.long().")
    if y.dim() != 1 or len(y) != data.num_nodes:
        remedy = "Use y.squeeze(1)." if y.shape == (data.num_nodes, 1) else ""
        raise InputError("data.y", f"have shape [{data.num_nodes}], one class per node", list(y.shape), remedy)
    return y.long()


def read_mask(data: Data, name: str, num_nodes: int) -> Tensor | None:
    """A mask, bool `[N]`; None where the data have none of this name."""
    mask = getattr(data, name, None)
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (num_nodes,):
        received = f"{mask.dtype} of shape {list(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        is_split = isinstance(mask, Tensor) and mask.dim() == 2
        remedy = "If each column is a split, select one." if is_split else "Use a tensor of True and False."
        raise InputError(f"data.{name}", f"be a mask of shape [{num_nodes}]", received, remedy)
    return mask
