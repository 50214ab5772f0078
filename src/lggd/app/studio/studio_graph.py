"""The graph of a studio: nodes and classes by name, first labels, known classes, pictures and attributes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from lggd._system.memory import fingerprint
from lggd.app.report.graph_layout import layout_graph
from lggd.app.runs.run_input import Columns, RunInput
from lggd.app.runs.saved_model import SavedModel
from lggd.app.studio.store import UNLABELLED, LabelStore
from lggd.closed_form import KernelRidge
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.inputs import NodeData
from lggd.inputs.labels import read_mask, read_y
from lggd.validation import check_same_length

if TYPE_CHECKING:
    from torch_geometric.data import Data

MAX_ATTRIBUTES = 24


@dataclass(frozen=True, eq=False)
class StudioGraph:
    """A graph to label.

    `data` is a PyG Data without labels; `ids` and `classes` name nodes and classes. `labels` are those to start with
    and `truth` all known classes, int64 `[N]` with -1 elsewhere; accuracy is measured on the nodes of `held_out`, bool
    `[N]`, as long as nobody labels them. `pictures` are uint8 `[N, H, W]`, 0 for black; `columns` how features were
    read from a table. `model` is one to start with.
    """

    name: str
    data: Data
    ids: list[str]
    classes: tuple[str, ...]
    labels: NDArray[np.int64]
    truth: NDArray[np.int64]
    held_out: NDArray[np.bool_]
    pictures: NDArray[np.uint8] | None = None
    columns: Columns | None = None
    model: KernelRidge | None = field(default=None, repr=False)

    @classmethod
    def from_data(
        cls, data: Data, ids: list[str] | None = None, classes: list[str] | None = None, name: str | None = None
    ) -> StudioGraph:
        """The graph of a PyG Data, whose labels are `y` where `train_mask`, and held out where `test_mask`."""
        nodes = NodeData.read(data)
        count, is_known = nodes.num_nodes, getattr(data, "y", None) is not None
        truth = read_y(data).clamp(min=UNLABELLED).numpy() if is_known else np.full(count, UNLABELLED)
        num_classes = int(truth.max(initial=UNLABELLED)) + 1
        if classes is None:
            classes = getattr(data, "class_names", None) or [str(k) for k in range(num_classes)]
        if len(classes) < num_classes:
            raise InputError("classes", f"name at least {num_classes} classes", len(classes))
        node_ids = [str(k) for k in (range(count) if ids is None else ids)]
        check_same_length("ids", node_ids, count, "node")
        for argument, names in (("ids", node_ids), ("classes", classes)):
            repeated = [each for each, times in Counter(names).items() if times > 1]
            if repeated:
                raise InputError(argument, "have different names", f"{repeated[0]!r} twice", "Rename one.")
        train, test = (read_mask(data, mask, count) for mask in ("train_mask", "test_mask"))
        visible = (truth >= 0) & (True if train is None else train.numpy())
        return cls(
            name=str(name or getattr(data, "name", None) or "graph"), data=nodes.to_pyg(), ids=node_ids,
            classes=tuple(classes), labels=np.where(visible, truth, UNLABELLED), truth=truth,
            held_out=(truth >= 0) & ~visible & (False if test is None else test.numpy()),
        )  # fmt: skip

    @classmethod
    def from_run_input(cls, given: RunInput, *, unlabelled: bool = False) -> StudioGraph:
        """The graph of a dataset or of tables; with `unlabelled` its labels are not used to start with."""
        graph = cls.from_data(given.data, list(given.ids), list(given.classes), given.name)
        if unlabelled:
            graph = replace(graph, labels=np.full_like(graph.truth, UNLABELLED), held_out=graph.truth >= 0)
        pictures = _digit_pictures() if given.name == "digits" and given.columns is None else None
        return replace(graph, pictures=pictures, columns=given.columns)

    @classmethod
    def from_model(cls, folder: str | Path) -> StudioGraph:
        """The graph and the labels of a saved model; a `KernelRidge` keeps its settings."""
        saved = SavedModel(folder)
        if saved.model.data_.edge_index is None:
            rule, remedy = "be of a graph in memory, which a page can show", "Use lggd predict and lggd add-labels."
            raise InputError(str(folder), rule, "one on disk", remedy)
        columns = saved.model.metadata_.get("columns")
        labels = saved.model.labels_.numpy().astype(np.int64)
        return cls(
            name=saved.dataset, data=saved.model.data_.to_pyg(), ids=list(saved.ids),
            classes=tuple(saved.classes), labels=labels, truth=labels.copy(), held_out=np.zeros(len(labels), bool),
            pictures=_digit_pictures() if saved.dataset == "digits" and len(labels) == 1797 else None,
            columns=Columns(**columns) if isinstance(columns, dict) else None,
            model=saved.model if isinstance(saved.model, KernelRidge) else None,
        )  # fmt: skip

    @property
    def num_nodes(self) -> int:
        return len(self.ids)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each node by its id."""
        return {name: k for k, name in enumerate(self.ids)}

    @cached_property
    def graph(self) -> Graph:
        return NodeData.read(self.data).undirected_graph

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 digest of nodes, edges and features; labels may differ."""
        return fingerprint(NodeData.read(self.data).pack(), "\0".join(self.ids).encode("utf-8", "surrogatepass"))

    def open_store(self, path: str | Path) -> LabelStore:
        """The labels in this file; a new one begins with those of the graph."""
        return LabelStore(path, self.fingerprint, self.num_nodes, self.classes, self.labels)

    def with_classes(self, classes: Sequence[str]) -> StudioGraph:
        """The same graph with its classes numbered as in `classes`, which contain them."""
        number = np.array([*map(classes.index, self.classes), UNLABELLED])  # -1 remains -1
        return replace(self, classes=tuple(classes), labels=number[self.labels], truth=number[self.truth])

    def positions(self, store: LabelStore) -> NDArray[np.float32]:
        """A place on the map for every node, `[N, 2]` within [-1, 1]; computed once and kept in the store."""
        kept = store.read_cache("layout")
        if kept is not None and len(kept) == 8 * self.num_nodes:
            return np.frombuffer(kept, "<f4").reshape(-1, 2)
        positions = layout_graph(self.graph).astype("<f4")
        store.write_cache("layout", positions.tobytes())
        return positions

    def neighbours(self, node: int) -> list[int]:
        csr = self.graph.csr
        neighbours: list[int] = csr.indices[int(csr.indptr[node]) : int(csr.indptr[node + 1])].tolist()
        return neighbours

    # -- attributes -----------------------------------------------------------------------------------------------

    @property
    def attribute_names(self) -> list[str]:
        """The columns of features; empty where they have no names."""
        return [] if self.columns is None else self.columns.features

    def attributes(self, node: int) -> dict[str, float]:
        """Features of a node in the units of its table; without names the largest ones, by number."""
        x = getattr(self.data, "x", None)
        if x is None or self.pictures is not None:
            return {}
        row = x[node].to_dense().double()
        if self.columns is not None:
            values = self._in_units(row)[:MAX_ATTRIBUTES].tolist()
            return {k: float(f"{v:.6g}") for k, v in zip(self.columns.features, values, strict=False)}
        largest = row.abs().topk(min(MAX_ATTRIBUTES, len(row))).indices.sort().values
        return {f"feature {k}": float(f"{row[k]:.6g}") for k in largest.tolist() if row[k] != 0}

    def attribute(self, name: str) -> NDArray[np.float64]:
        """One named feature of all nodes, `[N]`."""
        column = self.attribute_names.index(name)
        values = self.data.x.to_dense()[:, column].double()
        return np.asarray(self._in_units(values, column).numpy())

    def _in_units(self, values: torch.Tensor, column: int | None = None) -> torch.Tensor:
        """Undoes the standardization of features."""
        if self.columns is None or self.columns.mean is None or self.columns.deviation is None:
            return values
        mean, deviation = (torch.tensor(v, dtype=torch.float64) for v in (self.columns.mean, self.columns.deviation))
        return values * deviation + mean if column is None else values * deviation[column] + mean[column]


def _digit_pictures() -> NDArray[np.uint8]:
    from sklearn.datasets import load_digits

    return np.asarray(np.rint(255 - load_digits().images * (255 / 16)), np.uint8)
