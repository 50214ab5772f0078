"""What a run is about: a graph with some labels, which of them are held out to measure with, and everybody's names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd.data.datasets import load
from lggd.data.graph_files import read_graph_files
from lggd.errors import InputError
from lggd.estimator.storage import pack_graph
from lggd.validation import check_int

# An accuracy on fewer nodes than this says nothing.
FEWEST_HELD_OUT = 2
# Tables with a smaller share of entries that are not 0 are left as they are.
MOSTLY_ZERO = 0.2


@dataclass(frozen=True, eq=False)
class Subject:
    """A graph to classify.

    `data` is a PyG Data with `y`, `train_mask`, `test_mask` (the held-out nodes, whose class is known) and perhaps
    `val_mask`. `ids` and `classes` name its nodes and classes. `origin` tells where it came from, for the record.
    `rejoins` says that the held-out labels are the user's own, taken away only to measure with: they are given back
    to the model afterwards. `notes` are sentences about what was done to the data.
    """

    name: str
    data: Any
    ids: list[str]
    classes: list[str]
    origin: Mapping[str, Any]
    rejoins: bool = False
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def held_out(self) -> Tensor:
        """The nodes to measure on, bool `[N]`."""
        mask: Tensor = self.data.test_mask
        return mask

    @property
    def has_contents(self) -> bool:
        return getattr(self.data, "x", None) is not None

    @property
    def num_edges(self) -> int:
        """Each counted once, as people count."""
        return int(self.data.edge_index.shape[1]) // 2

    def fingerprint(self) -> str:
        """64 hexadecimal digits that differ wherever the graph, its contents, its labels or its split do."""
        masks = {name: getattr(self.data, name, None) for name in ("train_mask", "val_mask", "test_mask")}
        tensors = pack_graph(self.data) | {"y": self.data.y}
        tensors |= {name: mask for name, mask in masks.items() if mask is not None}
        digest = hashlib.sha256()
        for name, value in sorted(tensors.items()):
            digest.update(f"{name}{value.dtype}{tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


def subject_from_dataset(name: str, *, split: int = 0, labels_per_class: int | None = None) -> Subject:
    """A dataset by name, as `load` knows it; its test nodes are held out."""
    data = load(name, split=split, labels_per_class=labels_per_class)
    classes = getattr(data, "class_names", None) or [str(k) for k in range(data.num_classes)]
    origin = {"dataset": data.name, "split": split, "labels_per_class": labels_per_class}
    return Subject(data.name, data, [str(k) for k in range(data.num_nodes)], list(classes), origin)


def subject_from_tables(
    edges: str | Path,
    nodes: str | Path | None = None,
    *,
    label: str,
    id_column: str | None = None,
    split_column: str | None = None,
    ignore: Sequence[str] = (),
    test_share: float = 0.3,
    split: int = 0,
) -> Subject:
    """A graph from files, as `read_graph_files` reads them, with weights in (0, 1] and features whose units do not matter.

    Without a column that says which nodes are for testing, `test_share` of every class's labels are held out, drawn at
    random; `split` numbers the draw. At least one label of every class stays.
    """
    if not 0 <= test_share < 1:
        raise InputError("test_share", "be a share in [0, 1)", test_share, "Some labels must stay to learn from.")
    table = read_graph_files(edges, nodes, label=label, id_column=id_column, split_column=split_column, ignore=ignore)
    data, notes = table.data, []
    notes += _scale_weights(data) + _standardize(data)
    if split_column is None:
        data.test_mask, said = _hold_out(data.y, test_share, check_int("split", split, minimum=0))
        data.train_mask = (data.y >= 0) & ~data.test_mask
        notes += said
    origin = {
        "edges": str(edges),
        "nodes": None if nodes is None else str(nodes),
        "label": label,
        "id_column": id_column,
        "split_column": split_column,
        "ignore": list(ignore),
        "test_share": None if split_column else test_share,
        "split": None if split_column else split,
    }
    name = Path(edges if nodes is None else nodes).stem
    return Subject(name, data, table.ids, table.classes, origin, rejoins=split_column is None, notes=tuple(notes))


def _scale_weights(data: Any) -> list[str]:
    """Divides weights by the largest: the method needs them in (0, 1], and only their ratios should count."""
    weight = getattr(data, "edge_weight", None)
    if weight is None or float(weight.max()) == 1:
        return []
    largest = float(weight.max())
    data.edge_weight = weight / largest
    return [f"Edge weights were divided by the largest, {largest:g}, so that they lie in (0, 1]."]


def _standardize(data: Any) -> list[str]:
    """Brings each column of features to mean 0 and deviation 1, unless most entries are 0, as counts of words are."""
    x = getattr(data, "x", None)
    if x is None or int(x.count_nonzero()) < MOSTLY_ZERO * x.numel():
        return []
    spread = x.std(0, unbiased=False)
    data.x = (x - x.mean(0)) / torch.where(spread > 0, spread, 1.0)
    return ["The columns of features were brought to mean 0 and standard deviation 1, so that units do not matter."]


def _hold_out(y: Tensor, share: float, seed: int) -> tuple[Tensor, list[str]]:
    """The nodes to measure on, a mask `[N]`: a share of every class, rounded, but never its last label."""
    draws = torch.Generator().manual_seed(seed)
    mask = torch.zeros(len(y), dtype=torch.bool)
    for k in range(int(y.max()) + 1):
        members = (y == k).nonzero().squeeze(1)
        count = min(len(members) - 1, int(share * len(members) + 0.5))
        mask[members[torch.randperm(len(members), generator=draws)[:count]]] = True
    if share == 0:
        return mask, []
    if int(mask.sum()) < FEWEST_HELD_OUT:
        return torch.zeros_like(mask), [
            f"Accuracy is unknown: {int((y >= 0).sum())} labels are too few to hold some out and measure with them."
        ]
    return mask, [
        f"Accuracy was measured with {int(mask.sum())} of the {int((y >= 0).sum())} labels held out. Afterwards they "
        "were added, without training again: predictions.csv, features.parquet and the model know all labels. "
        "The report shows what was predicted without them."
    ]
