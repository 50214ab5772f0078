"""A graph on disk from tables that may be larger than memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lggd._system.files import check_folder_writable, locked_folder, write_errors
from lggd.app.graph_build.database import Database, import_duckdb
from lggd.app.graph_build.edge_source import (
    NAMES,
    EdgeSource,
    RawEdges,
    integers_fit,
    number_integers,
    number_names,
    write_names,
    write_numbered,
)
from lggd.app.graph_build.node_order import LEAST_GAIN, neighbour_order
from lggd.app.graph_build.node_source import NodeSource
from lggd.app.graph_build.row_files import ArrayFile, RowFiles
from lggd.app.graph_build.work_folder import WorkFolder
from lggd.app.tables.edge_columns import AS_DETECTED, EdgeFormat
from lggd.app.tables.graph_files import length_note
from lggd.errors import DiskFullError, InputError
from lggd.graph.csr import MIN_ORDERED_NODES, SCATTERED, gaps, inverse
from lggd.graph.stored_graph import MANIFEST, StoredGraphWriter, writing_graph
from lggd.validation import check_name

MEMORY, LEAST_MEMORY = 2**32, 2**28
MOST_NODES = 2**31
# Files beside the folders of the stages.
IDS, FEATURES = "ids.npy", "features.npy"
# Rows of features that are copied at a time.
NODES_AT_ONCE = 2**16

Array = NDArray[Any]
# Called with the stage, how much of it is done, and the total if it is known.
Progress = Callable[[str, int, int | None], None]


class NodeOrder(StrEnum):
    """How nodes are numbered: so that neighbours lie close to each other, or by the node table or their ids."""

    NEIGHBOURS = "neighbours"
    GIVEN = "given"


@dataclass(frozen=True)
class BuiltGraph:
    """A graph that was built: its folder, what the manifest says about it, and sentences about the reading."""

    folder: Path
    nodes: int
    edges: int
    metadata: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def build_graph(
    edges: Any,
    out: str | Path,
    *,
    nodes: Any = None,
    label: str | None = None,
    id_column: str | None = None,
    unlabelled: Sequence[str] | None = None,
    format: EdgeFormat = AS_DETECTED,
    directed: bool = False,
    unbounded: bool = False,
    order: NodeOrder | str = NodeOrder.NEIGHBOURS,
    memory: int = MEMORY,
    resume: bool = False,
    progress: Progress | None = None,
) -> BuiltGraph:
    """Builds a graph on disk from tables of edges and nodes, for `Graph.open`.

    Columns are found as in `read_edge_file` and `read_node_file`, and the same names are refused. Numbers have decimal
    points: whether commas are decimal is decided by a whole table, which is read only once here. Edges are undirected
    and may be listed once or twice; of repeated ones the largest weight counts. Self-loops are left out. Lengths ℓ
    become weights (ℓ₀/ℓ)², where ℓ₀ is the shortest. Weights are stored as float32.

    Parameters
    ----------
    edges : path, pattern or list of paths
        `.csv`, `.tsv`, `.txt` or `.parquet` files with equal columns.
    out : path
        The folder to write: new, empty, or a graph to replace. It appears when it is complete.
    nodes : path, pattern or list of paths, optional
        Table of nodes; all columns but the id and the label must be numbers, the features. It must name every node of
        the edges. Without it, nodes are those of the edges.
    label, id_column, unlabelled
        As in `read_node_file`.
    format : EdgeFormat
        Columns of the edges; its `ignore` names columns of either table.
    directed : bool
        Keeps directions: the row of the source holds the target.
    unbounded : bool
        Allows weights above 1.
    order : NodeOrder or str
        `neighbours` numbers nodes so that neighbours lie close to each other, if they do not yet; `given` keeps the
        order of the node table, or of the ids.
    memory : int
        Bytes that the build may use, besides a few numbers per node and the libraries themselves.
    resume : bool
        Continues a build that was interrupted; raises if tables or settings changed.
    progress : callable, optional
        Called with the name of a stage, what is done and the total, None if unknown.

    Returns
    -------
    BuiltGraph

    Raises
    ------
    InputError
        If a table cannot be read, or something in it is not allowed.
    DiskFullError
        If the disk is full. The stages that are complete stay, for `resume`.

    Examples
    --------
    >>> import tempfile
    >>> from lggd import Graph
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "edges.csv").write_text("source,target\\nada,ben\\nben,cyd\\n")
    >>> build_graph(folder / "edges.csv", folder / "graph").nodes
    3
    >>> Graph.open(folder / "graph")
    Graph(nodes=3, edges=4, on disk)
    """
    import_duckdb()
    check_name("order", order, list(NodeOrder))
    if memory < LEAST_MEMORY:
        raise InputError("memory", f"be at least {LEAST_MEMORY // 2**20} MiB", f"{memory} bytes")
    if nodes is None and label is not None:
        rule, remedy, hints = "be a column of the node table", "Pass `{nodes}` as well.", {"nodes": "nodes"}
        raise InputError("label", rule, "no such table", remedy, hints=hints)
    out = check_folder_writable(out, MANIFEST)
    edge_source = EdgeSource.read(edges, format, unbounded=unbounded)
    node_source = None
    if nodes is not None:
        node_source = NodeSource.read(
            nodes, label=label, id_column=id_column, ignore=format.ignore, delimiter=format.delimiter
        )
    settings = {
        "format": asdict(format), "directed": directed, "unbounded": unbounded, "order": str(order), "label": label,
        "id_column": id_column, "unlabelled": None if unlabelled is None else list(unlabelled),
    }  # fmt: skip
    files = [*edge_source.source.paths, *(node_source.source.paths if node_source else ())]
    with locked_folder(out):
        work = WorkFolder(out, settings, files, resume=resume)
        report = progress or (lambda stage, done, total: None)
        try:
            with write_errors(out), Database(memory // 2, work.path) as database:
                choices = directed, NodeOrder(order), unlabelled, memory
                built = _Build(work, database, edge_source, node_source, *choices, report).run(out)
        except DiskFullError as error:
            work.drop_incomplete()
            remedy, hints = "Free some space and run it again with {resume}.", {"resume": "resume=True"}
            raise error.replace(argument=str(out), remedy=remedy, hints=hints) from error
        except InputError:
            work.remove()
            raise
        except OSError:
            work.drop_incomplete()
            raise
        work.remove()
        return built


@dataclass(frozen=True, eq=False)
class _Build:
    """The stages of a build; each writes files into its own folder and returns what the next ones need to know."""

    work: WorkFolder
    database: Database
    edges: EdgeSource
    nodes: NodeSource | None
    directed: bool
    order: NodeOrder
    unlabelled: Sequence[str] | None
    memory: int
    report: Progress

    def run(self, out: Path) -> BuiltGraph:
        stage, path = self.work.stage, self.work.path
        read = stage("edges", self._read_edges)
        if read["names"]:
            stage("names", partial(self._write_names, integers=read["integers"]))
            read = stage("numbered", partial(self._number_edges, integers=read["integers"]))
        rows = stage("rows", partial(self._write_rows, read=read))
        for name in ("edges", "numbered"):
            self.work.drop(name)
        ordered = stage("order", self._find_order)
        if ordered["changed"]:
            stage("arranged", self._arrange)
            self.work.drop("rows")
        labels = stage("nodes", partial(self._write_nodes, nodes=rows["nodes"]))
        final = path / ("arranged" if ordered["changed"] else "rows")
        notes = [*self.edges.notes, *self._notes(read, rows), *labels["notes"]]
        metadata = {
            "feature_names": [] if self.nodes is None else self.nodes.feature_names, "classes": labels["classes"],
            "lines": read["lines"], "self_loops": read["loops"], "node_order": ordered,
            "unit_weight": read["smallest"] ** -2 if self.edges.columns.is_length else 1.0, "notes": notes,
        }  # fmt: skip
        self.report("checksums", 0, None)
        with writing_graph(out) as writer:
            for file in (*sorted(final.glob("*.npy")), *sorted((path / "nodes").glob("*.*"))):
                _link(file, writer.folder / file.name)
            writer.finish(directed=self.directed, metadata=metadata)
        return BuiltGraph(out, rows["nodes"], rows["edges"], metadata, tuple(notes))

    def _read_edges(self, folder: Path) -> dict[str, Any]:
        """Reads ends as integers if they all are; `names` tells that they must be looked up in a table of ids."""
        node_ids = None
        if self.nodes is not None:
            self.nodes.check_ids(self.database)
            node_ids = self.nodes.integer_ids(self.database)
        if self.nodes is None or node_ids is not None:
            for strip in (False, True):
                query = self.edges.integers(strip=strip)
                raw = RawEdges.write(folder, self.edges, self.database, query, self._lines_read)
                if raw is not None:
                    fits = integers_fit(raw.facts, node_ids, self.memory // 2)
                    if fits and node_ids is not None:
                        np.save(folder / "node_ids.npy", node_ids)
                    return raw.facts | {"names": not fits, "integers": True}
        return {"names": True, "integers": False}

    def _lines_read(self, lines: int) -> None:
        self.report("reading edges", lines, None)

    def _write_names(self, folder: Path, integers: bool) -> dict[str, Any]:
        self.report("reading ids", 0, None)
        return {"nodes": write_names(folder, self.edges, self.nodes, self.database, integers)}

    def _number_edges(self, folder: Path, integers: bool) -> dict[str, Any]:
        names, count = self.work.path / "names" / NAMES, self.work.stages["names"]["nodes"]
        raw = write_numbered(folder, names, self.edges, self.database, count, integers, self._lines_read)
        return raw.facts | {"names": True, "integers": integers}

    def _write_rows(self, folder: Path, read: dict[str, Any]) -> dict[str, Any]:
        """The rows of the graph in the given order, and the ids if they are integers."""
        both, is_length = not self.directed, self.edges.columns.is_length
        raw = RawEdges(self.work.path / ("numbered" if read["names"] else "edges"), read)
        if is_length:
            length_note(read["smallest"], read["largest"])
        if read["names"]:
            numbering = number_names(raw, self.work.stages["names"]["nodes"], both=both)
        else:
            path = self.work.path / "edges" / "node_ids.npy"
            node_ids = np.load(path) if path.exists() else None
            numbering = number_integers(raw, self.edges, node_ids, both=both)
            if numbering.ids is not None:
                np.save(self.work.path / IDS, numbering.ids)
        nodes = len(numbering.entries)
        if nodes >= MOST_NODES:
            raise InputError("edges", "name fewer than 2**31 nodes", f"{nodes:,}", "Split the graph by component.")
        weighted = self.edges.is_weighted and not read["smallest"] == read["largest"] == 1
        chunks = (
            (numbering.of(sources), numbering.of(targets), weight)
            for sources, targets, weight in raw.chunks(weighted=weighted, is_length=is_length)
        )
        RowFiles(folder).write(
            chunks, numbering.entries, both=both, weighted=weighted, memory=self.memory // 8,
            progress=partial(self.report, "sorting edges"),
        )  # fmt: skip
        edges = int(np.load(folder / "indptr.npy", mmap_mode="r")[-1])
        return {"nodes": nodes, "edges": edges}

    def _find_order(self, folder: Path) -> dict[str, Any]:
        """Writes `order.npy` if another order is worth it; returns what was measured."""
        csr = RowFiles(self.work.path / "rows").open(symmetric=not self.directed)
        before = gaps(csr)
        facts: dict[str, Any] = {"changed": False, "order": str(self.order), "gap": before[0], "log_gap": before[1]}
        if self.order == NodeOrder.GIVEN or csr.num_nodes < MIN_ORDERED_NODES or before[0] <= SCATTERED:
            return facts
        order = neighbour_order(csr, partial(self.report, "ordering nodes"))
        after = gaps(csr, inverse(torch.from_numpy(order)).numpy())
        facts |= {"gap_found": after[0], "log_gap_found": after[1]}
        if after[1] <= (1 - LEAST_GAIN) * before[1]:
            np.save(folder / "order.npy", order)
            facts["changed"] = True
        return facts

    def _order(self) -> Array | None:
        path = self.work.path / "order" / "order.npy"
        return np.load(path) if path.exists() else None

    def _arrange(self, folder: Path) -> dict[str, Any]:
        """The same rows in the order that was found."""
        given = RowFiles(self.work.path / "rows")
        csr, order = given.open(symmetric=not self.directed), np.load(self.work.path / "order" / "order.npy")
        rank, lengths = inverse(torch.from_numpy(order)).numpy(), np.diff(csr.indptr.numpy())

        def chunks() -> Iterator[tuple[Array, Array, Array | None]]:
            for first, last in csr.blocks():
                part = csr.part(first, last)
                rows = np.repeat(rank[first:last], lengths[first:last])
                yield rows, rank[part.indices.numpy()], None if part.weight is None else part.weight.numpy()

        RowFiles(folder).write(
            chunks(), lengths[order], both=False, weighted=given.weighted, memory=self.memory // 8,
            progress=partial(self.report, "arranging rows"),
        )  # fmt: skip
        return {}

    def _write_nodes(self, folder: Path, nodes: int) -> dict[str, Any]:
        """`x.npy`, `y.npy` and `ids.arrow` in the final order."""
        order, writer = self._order(), StoredGraphWriter(folder)
        self._write_ids(writer, order)
        facts: dict[str, Any] = {"classes": [], "notes": []}
        if self.nodes is None:
            return facts
        if self.nodes.columns.label is not None:
            y, facts["classes"], notes = self.nodes.read_labels(nodes, self.unlabelled, self.database)
            facts["notes"] = [*self.nodes.source.table.notes, *notes]
            writer.write("y", y if order is None else y[order])
        if self.nodes.columns.features:
            given = self.work.path / FEATURES
            self.nodes.write_features(given, self.database, lambda done: self.report("reading nodes", done, nodes))
            if order is None:
                given.replace(folder / "x.npy")
            else:
                self._permute(np.load(given, mmap_mode="r"), order, folder / "x.npy")
                given.unlink()
        return facts

    def _permute(self, given: Array, order: Array, path: Path) -> None:
        file = ArrayFile(path, np.float32, given.shape[1:])
        for first in range(0, len(order), NODES_AT_ONCE):
            file.append(given[order[first : first + NODES_AT_ONCE]])
            self.report("arranging features", file.length, len(order))
        file.close()

    def _write_ids(self, writer: StoredGraphWriter, order: Array | None) -> None:
        from pyarrow import parquet

        names = self.work.path / "names" / NAMES
        if names.exists():
            ids = parquet.read_table(names).column("id")
            writer.write_ids(ids if order is None else ids.take(order))
            return
        numbers = np.load(self.work.path / IDS)
        numbers = numbers if order is None else numbers[order]
        if not np.array_equal(numbers, np.arange(len(numbers))):
            writer.write_ids(numbers)

    def _notes(self, read: dict[str, Any], rows: dict[str, Any]) -> Iterator[str]:
        if self.edges.columns.is_length:
            yield length_note(read["smallest"], read["largest"])
        if read["loops"]:
            yield f"Self-loops dropped: {read['loops']:,}. They change no distance."
        repeated = read["lines"] - read["loops"] - rows["edges"] // (1 if self.directed else 2)
        if repeated:
            how = "" if self.directed else ", in the same direction or the other"
            kept = " The largest weight counts." if self.edges.is_weighted and not self.edges.columns.is_length else ""
            verb = "repeats" if repeated == 1 else "repeat"
            yield f"{repeated:,} of {read['lines']:,} lines {verb} an edge{how}.{kept}"


def _link(path: Path, new: Path) -> None:
    """Gives a file a second name, so that it stays where it is until the graph is complete."""
    try:
        os.link(path, new)
    except OSError:  # not on this disk
        path.replace(new)
