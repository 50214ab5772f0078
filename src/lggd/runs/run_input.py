"""The input of a run: a graph, its labels, the held-out nodes for accuracy, and the names of nodes and classes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd.data.datasets import load
from lggd.data.graph_files import read_graph_files
from lggd.estimator.storage import pack_graph
from lggd.validation import check_int, check_real

FEWEST_HELD_OUT = 2  # accuracy is not reported for fewer nodes
SPARSE_BELOW = 0.2  # features with a smaller fraction of nonzero entries, such as word counts, are not standardized


@dataclass(frozen=True)
class Columns:
    """How tables were read, so that nodes and edges that arrive later are read in the same way.

    `features` are the columns of node features, `ignored` those that were not read as features (labels and splits
    included), `id_column` the column of ids or None. Features have `mean` subtracted and are divided by `deviation`,
    unless these are None; weights are divided by `largest_weight`. A model stores it as JSON.
    """

    features: list[str]
    ignored: list[str]
    id_column: str | None = None
    mean: list[float] | None = None
    deviation: list[float] | None = None
    largest_weight: float = 1.0


@dataclass(frozen=True, eq=False)
class RunInput:
    """A graph to classify.

    `data` is a PyG Data with `y`, `train_mask`, `test_mask` (the held-out nodes, whose class is known) and possibly
    `val_mask`; `ids` and `classes` name its nodes and classes; `origin` records its source. With `restores_labels`, the
    held-out labels are added to the model after accuracy is measured. `notes` describe the preprocessing in sentences,
    and `columns` how later tables are read; None for datasets.
    """

    name: str
    data: Any
    ids: list[str]
    classes: list[str]
    origin: dict[str, Any]
    restores_labels: bool = False
    notes: tuple[str, ...] = ()
    columns: Columns | None = None

    @classmethod
    def from_dataset(cls, name: str, split: int = 0, labels_per_class: int | None = None) -> RunInput:
        """Loads a dataset by name; its test nodes are held out."""
        data = load(name, split=split, labels_per_class=labels_per_class)
        classes = getattr(data, "class_names", None) or [str(k) for k in range(data.num_classes)]
        origin = {"dataset": data.name, "split": split, "labels_per_class": labels_per_class}
        return cls(data.name, data, [str(k) for k in range(data.num_nodes)], list(classes), origin)

    @classmethod
    def from_tables(
        cls,
        edges: str | Path,
        nodes: str | Path | None = None,
        test_share: float = 0.3,
        split: int = 0,
        *,
        split_column: str | None = None,
        **columns: Any,
    ) -> RunInput:
        """Reads a graph from tables; `columns` are further arguments of `read_graph_files`.

        Weights are scaled to (0, 1], and dense features are standardized. Without a split column, the fraction
        `test_share` of the labels of each class is held out, drawn with the seed `split`, but never its last label.
        """
        check_real("test_share", test_share, 0, 1, closed="left", remedy="Some labels must remain to train on.")
        check_int("split", split, minimum=0)
        table = read_graph_files(edges, nodes, split_column=split_column, **columns)
        data, drawn = table.data, split_column is None
        read = _columns(data, table.feature_names, split_column, **columns)
        notes = [*_scale_weights(data), *_standardize(data), *(_hold_out(data, test_share, split) if drawn else ())]
        origin = {
            "edges": str(edges), "nodes": None if nodes is None else str(nodes), "split_column": split_column,
            **{name: list(value) if isinstance(value, tuple) else value for name, value in columns.items()},
            "test_share": test_share if drawn else None, "split": split if drawn else None,
        }  # fmt: skip
        name = Path(edges if nodes is None else nodes).stem
        return cls(name, data, table.ids, table.classes, origin, drawn, tuple(notes), read)

    @property
    def held_out(self) -> Tensor:
        """The nodes that accuracy is measured on, bool `[N]`."""
        mask: Tensor = self.data.test_mask
        return mask

    @property
    def has_features(self) -> bool:
        return getattr(self.data, "x", None) is not None

    @property
    def num_edges(self) -> int:
        """The number of undirected edges."""
        return int(self.data.edge_index.shape[1]) // 2

    def fingerprint(self) -> str:
        """Returns a SHA-256 digest of the graph, its features, labels and split."""
        known = {name: getattr(self.data, name, None) for name in ("y", "train_mask", "val_mask", "test_mask")}
        tensors = pack_graph(self.data) | {name: value for name, value in known.items() if value is not None}
        digest = hashlib.sha256()
        for name, value in sorted(tensors.items()):
            digest.update(f"{name}{value.dtype}{tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


def _columns(
    data: Any,
    features: list[str],
    split: str | None,
    label: str | None,
    id_column: str | None = None,
    ignore: Any = (),
    fewest_classes: int = 2,
) -> Columns:
    """What `_scale_weights` and `_standardize` will do to these data, and the names of their columns."""
    weight, x = getattr(data, "edge_weight", None), getattr(data, "x", None)
    ignored = [name for name in (label, split, *ignore) if name is not None]
    largest = 1.0 if weight is None else float(weight.max())
    if x is None or not _is_dense(x):
        return Columns(features, ignored, id_column, largest_weight=largest)
    mean, deviation = _moments(x)
    return Columns(features, ignored, id_column, mean.tolist(), deviation.tolist(), largest)


def _scale_weights(data: Any) -> list[str]:
    weight = getattr(data, "edge_weight", None)
    if weight is None or float(weight.max()) == 1:
        return []
    largest = float(weight.max())
    data.edge_weight = weight / largest
    return [f"Edge weights were divided by the largest, {largest:g}, so that they lie in (0, 1]."]


def _standardize(data: Any) -> list[str]:
    """Standardizes each column of the features, unless most entries are 0; returns notes."""
    x = getattr(data, "x", None)
    if x is None or not _is_dense(x):
        return []
    mean, deviation = _moments(x)
    data.x = (x - mean) / deviation
    return ["Features were standardized to mean 0 and standard deviation 1, so that their units do not matter."]


def _is_dense(x: Tensor) -> bool:
    return int(x.count_nonzero()) >= SPARSE_BELOW * x.numel()


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of each column, and its standard deviation, 1 for constant columns."""
    deviation = x.std(0, unbiased=False)
    return x.mean(0), torch.where(deviation > 0, deviation, 1.0)


def _hold_out(data: Any, share: float, seed: int) -> list[str]:
    """Holds out a fraction of every class, rounded, but never its last label; returns notes."""
    generator, y = torch.Generator().manual_seed(seed), data.y
    mask = torch.zeros(len(y), dtype=torch.bool)
    for k in range(int(y.max()) + 1):
        members = (y == k).nonzero().squeeze(1)
        count = min(len(members) - 1, int(share * len(members) + 0.5))
        mask[members[torch.randperm(len(members), generator=generator)[:count]]] = True
    count = int(mask.sum())
    data.test_mask = mask & (count >= FEWEST_HELD_OUT)
    data.train_mask = (y >= 0) & ~data.test_mask
    held_out = f"{count} of the {int((y >= 0).sum())} labels were held out to measure accuracy."
    return [held_out] if count >= FEWEST_HELD_OUT else []
