"""The input of a run: a graph, its labels, the held-out nodes for accuracy, and the names of nodes and classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lggd._system.memory import fingerprint
from lggd.app.tables.edge_columns import AS_DETECTED, EdgeFormat
from lggd.app.tables.graph_files import read_graph_files
from lggd.datasets.by_name import load
from lggd.datasets.pyg_data import MASKS, NodeNames, checked_data, load_stored, read_data_file
from lggd.errors import InputError
from lggd.inputs import NodeData
from lggd.validation import check_int, check_real, listed

if TYPE_CHECKING:
    from torch_geometric.data import Data

MIN_HELD_OUT = 2  # accuracy is not reported for fewer nodes
MAX_EDGES = 2**24  # a graph on disk with more is fitted by few kernels, and has no report
SPARSE_BELOW = 0.2  # features with a smaller fraction of nonzero entries, such as word counts, are not standardized


@dataclass(frozen=True)
class Columns:
    """How tables were read, so that nodes and edges that arrive later are read in the same way.

    `features` are the names of node features, `ignored` the columns that were not read as features (labels and splits
    included), `id_column` the column of ids or None. Each value of a column of text in `categories` is a feature, and
    missing values are replaced by `fill`. Features have `mean` subtracted and are divided by `deviation`, unless these
    are None; weights are divided by `largest_weight`. `edges` are the parts of the format of edges that are not
    detected, and `symmetrize` joins different weights of an edge. A model stores it as JSON.
    """

    features: list[str]
    ignored: list[str]
    id_column: str | None = None
    mean: list[float] | None = None
    deviation: list[float] | None = None
    largest_weight: float = 1.0
    categories: dict[str, list[str]] = field(default_factory=dict)
    fill: dict[str, float] = field(default_factory=dict)
    edges: dict[str, Any] = field(default_factory=dict)
    symmetrize: str | None = None

    @property
    def table_columns(self) -> list[str]:
        """The columns of a table that features are read from."""
        encoded = {f"{name}={value}": name for name, values in self.categories.items() for value in values}
        return list(dict.fromkeys(encoded.get(name, name) for name in self.features))

    @property
    def edge_format(self) -> EdgeFormat:
        return EdgeFormat(**{**self.edges, "ignore": tuple(self.edges.get("ignore", ()))})


@dataclass(frozen=True, eq=False)
class RunInput:
    """A graph to classify.

    `data` is a PyG Data with `y`, `train_mask`, `test_mask` (the held-out nodes, whose class is known) and possibly
    `val_mask`; `ids` and `classes` name its nodes and classes; `origin` records its source. With `restores_labels`, the
    held-out labels are added to the model after accuracy is measured. `notes` describe the preprocessing in sentences,
    and `columns` how later tables are read; None where features and weights are used as they are.
    """

    name: str
    data: Data
    ids: Sequence[str]
    classes: list[str]
    origin: dict[str, Any]
    restores_labels: bool = False
    notes: tuple[str, ...] = ()
    columns: Columns | None = None

    @classmethod
    def from_dataset(
        cls, name: str, split: int = 0, labels_per_class: int | None = None, root: str | Path | None = None
    ) -> RunInput:
        """Loads a dataset by name; its test nodes are held out."""
        data = load(name, split=split, labels_per_class=labels_per_class, root=root)
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
        format: EdgeFormat = AS_DETECTED,
        **columns: Any,
    ) -> RunInput:
        """Reads a graph from tables; `format` and `columns` are further arguments of `read_graph_files`.

        Weights are scaled to (0, 1], and dense features are standardized. Without a split column, the fraction
        `test_share` of the labels of each class is held out, drawn with the seed `split`, but never its last label.
        """
        _check_hold_out(test_share, split)
        table = read_graph_files(edges, nodes, split_column=split_column, format=format, **columns)
        data, notes, drawn = table.data, list(table.notes), split_column is None
        record = {name: value for name, value in _as_json(asdict(format)).items() if value not in (None, [])}
        largest = table.unit_weight * _scale_weights(data, notes)
        ignored = (columns.get("label"), split_column, *columns.get("ignore", ()))
        read = Columns(
            table.feature_names, [name for name in ignored if name is not None], columns.get("id_column"),
            **_standardize(data, notes), largest_weight=largest, categories=dict(table.categories),
            fill=dict(table.fill), edges=record, symmetrize=columns.get("symmetrize"),
        )  # fmt: skip
        if drawn:
            notes += _hold_out(data, test_share, split)
        origin = {
            "edges": str(edges), "nodes": None if nodes is None else str(nodes), "split_column": split_column,
            **_as_json(columns), **({"format": record} if record else {}),
            "test_share": test_share if drawn else None, "split": split if drawn else None,
        }  # fmt: skip
        name = Path(edges if nodes is None else nodes).stem
        return cls(name, data, table.ids, table.classes, origin, drawn, tuple(notes), read)

    @classmethod
    def from_file(cls, path: str | Path, test_share: float = 0.3, split: int = 0) -> RunInput:
        """Reads a graph from a `.pt` or `.npz` file; dense features are standardized.

        The masks of the file tell which nodes are held out, those of number `split` if there are several; without masks
        the fraction `test_share` of the labels of each class is held out, as for tables.
        """
        _check_hold_out(test_share, split)
        data, checks = checked_data(read_data_file(path), path)
        notes = list(checks)
        units = _standardize(data, notes)
        y, drawn = data.y, data.get("train_mask") is None
        largest, read = _scale_weights(data, notes), None
        if units or largest != 1:
            features = 0 if data.get("x") is None else data.x.shape[1]
            read = Columns([str(k) for k in range(features)], [], **units, largest_weight=largest)
        notes += _hold_out(data, test_share, split) if drawn else _choose_masks(data, split)
        data.num_classes = int(y.max()) + 1
        classes = [str(k) for k in range(data.num_classes)]
        counts = [f"{int((y == k).sum()):,} {name}" for k, name in enumerate(classes)]
        labels = f"Labels: {listed(counts)}; {int((y < 0).sum()):,} of {len(y):,} nodes are unlabelled."
        origin = {"file": str(path), "test_share": test_share if drawn else None, "split": split}
        ids = [str(k) for k in range(len(y))]
        return cls(Path(path).stem, data, ids, classes, origin, drawn, (labels, *notes), read)

    @classmethod
    def from_graph(
        cls, folder: str | Path, test_share: float = 0.3, split: int = 0, *, verify: bool = True
    ) -> RunInput:
        """Opens a graph on disk; the fraction `test_share` of the labels of each class is held out, as for tables.

        `verify` compares the checksum of every file.
        """
        _check_hold_out(test_share, split)
        data = load_stored(folder, verify=verify)
        notes = _hold_out(data, test_share, split)
        names, stored = data.get("class_names") or [str(k) for k in range(data.num_classes)], data.graph.stored
        labelled = f"{int((data.y >= 0).sum()):,} of {data.num_nodes:,} nodes are labelled. The graph stays on disk."
        origin = {"graph": str(Path(folder).resolve()), "test_share": test_share, "split": split}
        return cls(data.name, data, NodeNames(stored), list(names), origin, True, (labelled, *notes))

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
        return NodeData.read(self.data).num_edges // 2

    @property
    def is_stored(self) -> bool:
        """Whether the graph is on disk."""
        return NodeData.read(self.data).graph is not None

    @property
    def is_large(self) -> bool:
        """Whether the graph is on disk and has so many edges that each pass over them counts."""
        graph = NodeData.read(self.data).graph
        return graph is not None and graph.num_edges > MAX_EDGES


def data_fingerprint(data: Data, names: Sequence[str] = ("y", *MASKS)) -> str:
    """Returns a SHA-256 digest of a graph, its features, and these tensors: by default labels and split."""
    known = {name: getattr(data, name, None) for name in names}
    nodes = NodeData.read(data)
    tensors = nodes.pack() | {name: value for name, value in known.items() if value is not None}
    return fingerprint(tensors, b"" if nodes.files is None else nodes.files.fingerprint.encode())


def _check_hold_out(test_share: float, split: int) -> None:
    check_real("test_share", test_share, 0, 1, closed="left", remedy="Some labels must remain to train on.")
    check_int("split", split, minimum=0)


def _choose_masks(data: Data, split: int) -> list[str]:
    """Takes one of several splits, and leaves unlabelled nodes out of the masks; returns notes."""
    several = data.train_mask.dim() == 2
    if several and split >= data.train_mask.shape[1]:
        raise InputError("split", f"be below {data.train_mask.shape[1]}, the number of splits of the data", split)
    if data.get("test_mask") is None:
        data.test_mask = ~data.train_mask if data.get("val_mask") is None else ~(data.train_mask | data.val_mask)
    for name in MASKS:
        mask = data.get(name)
        if mask is not None:
            data[name] = (mask[:, split] if mask.dim() == 2 else mask) & (data.y >= 0)
    counts = ", ".join(f"{int(data[name].sum()):,} {name}" for name in MASKS if data.get(name) is not None)
    return [f"The masks of the data{f' of split {split}' if several else ''} are used: {counts}."]


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _scale_weights(data: Data, notes: list[str]) -> float:
    """Divides edge weights by the largest, which is returned; 1 without weights."""
    weight = getattr(data, "edge_weight", None)
    if weight is None:
        return 1.0
    largest = float(weight.max())
    if largest != 1:
        data.edge_weight = weight / largest
        notes.append(f"Edge weights were divided by the largest, {largest:g}, so that they lie in (0, 1].")
    return largest


def _standardize(data: Data, notes: list[str]) -> dict[str, Any]:
    """Standardizes each column of the features, unless most entries are 0; returns its mean and standard deviation."""
    x = getattr(data, "x", None)
    if x is None or int(x.count_nonzero()) < SPARSE_BELOW * x.numel():
        return {}
    mean, deviation = x.mean(0), x.std(0, unbiased=False)
    deviation = torch.where(deviation > 0, deviation, 1.0)  # constant columns become 0
    data.x = (x - mean) / deviation
    notes.append("Features were standardized to mean 0 and standard deviation 1, so that their units do not matter.")
    return {"mean": mean.tolist(), "deviation": deviation.tolist()}


def _hold_out(data: Data, share: float, seed: int) -> list[str]:
    """Holds out a fraction of every class, rounded, but never its last label; returns notes."""
    generator, y = torch.Generator().manual_seed(seed), data.y
    mask = torch.zeros(len(y), dtype=torch.bool)
    for k in range(int(y.max()) + 1):
        members = (y == k).nonzero().squeeze(1)
        count = min(len(members) - 1, int(share * len(members) + 0.5))
        mask[members[torch.randperm(len(members), generator=generator)[:count]]] = True
    count = int(mask.sum())
    data.test_mask = mask & (count >= MIN_HELD_OUT)
    data.train_mask = (y >= 0) & ~data.test_mask
    held_out = f"{count} of the {int((y >= 0).sum())} labels were held out to measure accuracy."
    return [held_out] if count >= MIN_HELD_OUT else []
