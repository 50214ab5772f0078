"""A graph on disk from tables that may be larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lggd._system.files import check_folder_writable, locked_folder, write_errors
from lggd.app.tables.database import Database, Files, import_duckdb, sql_text
from lggd.app.tables.edge_columns import AS_DETECTED, EdgeFormat
from lggd.app.tables.graph_files import length_note
from lggd.app.tables.large_tables import MAX_UNKNOWN, LargeEdges, LargeNodes
from lggd.app.tables.node_order import MIN_GAIN, neighbour_order
from lggd.app.tables.row_files import EDGES_AT_ONCE, ArrayFile, RowFiles, count_entries
from lggd.app.tables.table import parquet_column, write_parquet
from lggd.app.tables.work_folder import WorkFolder
from lggd.errors import DiskFullError, InputError
from lggd.graph.csr import MIN_ORDERED_NODES, SCATTERED, gaps, inverse
from lggd.graph.stored_graph import MANIFEST, StoredGraphWriter, writing_graph
from lggd.progress import Callback, Progress
from lggd.validation import check_name

MEMORY, MIN_MEMORY = 2**32, 2**28
MAX_NODES = 2**31
# Files in the folders of the stages.
IDS, EDGES = "ids.parquet", "edges.parquet"
# Bytes per integer between the smallest and the largest id, in which their numbers are looked up.
BYTES_PER_INTEGER = 12
# Rows of features that are copied at a time.
NODES_AT_ONCE = 2**16

Array = NDArray[Any]


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
    edges: Files,
    out: str | Path,
    *,
    nodes: Files | None = None,
    label: str | None = None,
    id_column: str | None = None,
    unlabelled: Sequence[str] | None = None,
    format: EdgeFormat = AS_DETECTED,
    directed: bool = False,
    unbounded: bool = False,
    order: NodeOrder | str = NodeOrder.NEIGHBOURS,
    memory: int = MEMORY,
    resume: bool = False,
    callback: Callback | None = None,
) -> BuiltGraph:
    """Builds a graph on disk from tables of edges and nodes, for `Graph.open`.

    Columns and cells are read as in `read_edge_file` and `read_node_file`, and the same are refused. Edges are
    undirected and may be listed once or twice; of repeated ones the largest weight counts. Self-loops are left out.
    Lengths ℓ become weights (ℓ₀/ℓ)², where ℓ₀ is the shortest. Weights are stored as float32.

    DuckDB reads plain tables. Where decimal commas, or quotes after blanks, need the reader of rows, edges take several
    times as long; nodes with such cells, or with categories among their features, must fit into memory.

    Parameters
    ----------
    edges : path, pattern or list of paths
        `.csv`, `.tsv`, `.txt` or `.parquet` files with equal columns.
    out : path
        The folder to write: new, empty, or a graph to replace. It appears when it is complete.
    nodes : path, pattern or list of paths, optional
        Table of nodes; all columns but the id and the label are features. It must name every node of the edges.
        Without it, nodes are those of the edges.
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
    callback : callable, optional
        Called with a `Progress` of each stage.

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
    if memory < MIN_MEMORY:
        raise InputError("memory", f"be at least {MIN_MEMORY // 2**20} MiB", f"{memory} bytes")
    if nodes is None and label is not None:
        rule, remedy, hints = "be a column of the node table", "Pass `{nodes}` as well.", {"nodes": "nodes"}
        raise InputError("label", rule, "no such table", remedy, hints=hints)
    out = check_folder_writable(out, MANIFEST)
    large_nodes: LargeNodes | None = None
    if nodes is not None:
        large_nodes = LargeNodes(nodes, label=label, id_column=id_column, unlabelled=unlabelled, format=format)
    large_edges = LargeEdges(edges, format, large_nodes, unbounded=unbounded)
    settings = {
        "format": asdict(format), "directed": directed, "unbounded": unbounded, "order": str(order), "label": label,
        "id_column": id_column, "unlabelled": None if unlabelled is None else list(unlabelled),
    }  # fmt: skip
    files = [*large_edges.source.paths, *(large_nodes.source.paths if large_nodes else ())]
    with locked_folder(out):
        work = WorkFolder(out, settings, files, resume=resume)
        report = callback or (lambda progress: None)
        try:
            with write_errors(out), Database(memory // 2, work.path) as database:
                choices = directed, NodeOrder(order), memory
                built = _Build(work, database, large_edges, large_nodes, *choices, report).run(out)
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
    edges: LargeEdges
    nodes: LargeNodes | None
    directed: bool
    order: NodeOrder
    memory: int
    report: Callback

    def run(self, out: Path) -> BuiltGraph:
        stage, path = self.work.stage, self.work.path
        nodes = stage("nodes", self._read_nodes)
        self._tell("reading edges", 0)
        read = stage("edges", lambda folder: self.edges.write(self.database, folder / EDGES))
        low, high = min(read["low"], nodes.get("low", read["low"])), max(read["high"], nodes.get("high", read["high"]))
        integers = read["integers"] and nodes["integers"]
        if not integers or (high - low + 1) * BYTES_PER_INTEGER > max(self.memory // 2, 2**24):
            number = stage("numbered", partial(self._number_edges, integers=integers))
            low, high = 0, number["nodes"] - 1
        rows = stage("rows", partial(self._write_rows, read=read, low=low, high=high))
        for name in ("edges", "numbered"):
            self.work.drop(name)
        ordered = stage("order", self._find_order)
        if ordered["changed"]:
            stage("arranged", self._arrange)
            self.work.drop("rows")
        stage("graph", self._write_nodes)
        final = path / ("arranged" if ordered["changed"] else "rows")
        notes = [*read["notes"], *self._notes(read, rows), *nodes["notes"]]
        metadata = {
            "feature_names": nodes["feature_names"], "classes": nodes["classes"],
            "lines": read["lines"], "self_loops": read["loops"], "node_order": ordered,
            "unit_weight": read["smallest"] ** -2 if self.edges.columns.is_length else 1.0, "notes": notes,
        }  # fmt: skip
        self._tell("checksums", 0)
        with writing_graph(out) as writer:
            for file in (*sorted(final.glob("*.npy")), *sorted((path / "graph").glob("*.*"))):
                _link(file, writer.folder / file.name)
            writer.finish(directed=self.directed, metadata=metadata)
        return BuiltGraph(out, rows["nodes"], rows["edges"], metadata, tuple(notes))

    def _tell(self, stage: str, done: int, total: int | None = None) -> None:
        self.report(Progress(stage, done, total))

    def _read_nodes(self, folder: Path) -> dict[str, Any]:
        if self.nodes is None:
            return {"classes": [], "feature_names": [], "notes": [], "integers": True}
        return self.nodes.read(self.database, folder, self.report)

    def _ids(self) -> Path:
        """The ids of the nodes in the given order: of the table of nodes, or of the edges."""
        path = self.work.path / "nodes" / IDS
        return path if path.exists() else self.work.path / IDS

    def _number_edges(self, folder: Path, integers: bool) -> dict[str, Any]:
        """Writes the edges between numbers of nodes instead of ids."""
        self._tell("numbering nodes", 0)
        path, kind = self.work.path / "edges" / EDGES, "BIGINT" if integers else "VARCHAR"
        edges = f"(SELECT * REPLACE (c0::{kind} AS c0, c1::{kind} AS c1) FROM read_parquet({sql_text(path)}))"
        ends = f"SELECT DISTINCT unnest([c0, c1]) AS id FROM {edges}"
        if self.nodes is None:
            self.database.copy(f"SELECT id FROM ({ends}) ORDER BY id", self._ids(), path, ordered=True)
        stored = f"read_parquet({sql_text(self._ids())}, file_row_number = true)"
        ids = f"(SELECT id::{kind} AS id, file_row_number FROM {stored})"
        joined = (
            f"SELECT edges.* REPLACE (a.file_row_number AS c0, b.file_row_number AS c1) FROM {edges} AS edges "
            f"LEFT JOIN {ids} AS a ON c0 = a.id LEFT JOIN {ids} AS b ON c1 = b.id"
        )
        self.database.copy(joined, folder / EDGES, path)
        table = f"read_parquet({sql_text(folder / EDGES)})"
        if self.database.rows(f"SELECT 1 FROM {table} WHERE c0 IS NULL OR c1 IS NULL LIMIT 1", path):
            query = f"SELECT id FROM ({ends}) WHERE id NOT IN (SELECT id FROM {ids}) LIMIT {MAX_UNKNOWN}"
            raise self._unknown_error([row[0] for row in self.database.rows(query, path)])
        return {"nodes": len(parquet_column(self._ids()))}

    def _unknown_error(self, unknown: Sequence[object]) -> InputError:
        ids = parquet_column(self._ids())
        return self.edges.unknown_error(unknown, [str(name) for name in ids[:NODES_AT_ONCE].to_pylist()], len(ids))

    def _write_rows(self, folder: Path, read: dict[str, Any], low: int, high: int) -> dict[str, Any]:
        """The rows of the graph in the given order, and the ids if they are integers of the edges alone."""
        both, count = not self.directed, high - low + 1
        if self.edges.columns.is_length:
            length_note(read["smallest"], read["largest"])
        present, entries = np.zeros(count, np.bool_), np.zeros(count, np.int32)
        for sources, targets in self._chunks():
            count_entries(sources, targets, low, present, entries, both)
        number: Array | None = None
        if not (self.work.path / "numbered").exists():
            number = np.full(count, -1, np.int32)
            if self.nodes is None:
                ids = np.flatnonzero(present) + low
                write_parquet(self._ids(), ids)
            else:
                ids = parquet_column(self._ids()).to_numpy()
            number[ids - low] = np.arange(len(ids), dtype=np.int32)
            unknown = np.flatnonzero(present & (number < 0))[:MAX_UNKNOWN] + low
            if len(unknown):
                raise self._unknown_error(unknown.tolist())
            entries = entries[ids - low]
        if len(entries) >= MAX_NODES:
            raise InputError(
                "edges", "name fewer than 2**31 nodes", f"{len(entries):,}", "Split the graph by component."
            )
        weighted = self.edges.is_weighted and not read["smallest"] == read["largest"] == 1

        def chunks() -> Iterator[tuple[Array, Array, Array | None]]:
            for sources, targets, *weight in self._chunks(self.edges.weight(read["smallest"]) if weighted else None):
                if number is not None:
                    sources, targets = number[sources - low], number[targets - low]
                yield sources, targets, weight[0] if weight else None

        RowFiles(folder).write(
            chunks(), entries, both=both, weighted=weighted, memory=self.memory // 8,
            progress=partial(self._tell, "sorting edges"),
        )  # fmt: skip
        edges = int(np.load(folder / "indptr.npy", mmap_mode="r")[-1])
        return {"nodes": len(entries), "edges": edges}

    def _chunks(self, weight: str | None = None) -> Iterator[list[Array]]:
        """Sources, targets and weights, if SQL of these is given, of some edges at a time."""
        path = self.work.path / "numbered" / EDGES
        path = path if path.exists() else self.work.path / "edges" / EDGES
        query = f"SELECT c0, c1{f', {weight}' if weight else ''} FROM read_parquet({sql_text(path)})"
        for batch in self.database.batches(query, path, rows=EDGES_AT_ONCE):
            yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]

    def _find_order(self, folder: Path) -> dict[str, Any]:
        """Writes `order.npy` if another order is worth it; returns what was measured."""
        csr = RowFiles(self.work.path / "rows").open(symmetric=not self.directed)
        before = gaps(csr)
        facts: dict[str, Any] = {"changed": False, "order": str(self.order), "gap": before[0], "log_gap": before[1]}
        if self.order == NodeOrder.GIVEN or csr.num_nodes < MIN_ORDERED_NODES or before[0] <= SCATTERED:
            return facts
        order = neighbour_order(csr, partial(self._tell, "ordering nodes"))
        after = gaps(csr, inverse(torch.from_numpy(order)).numpy())
        facts |= {"gap_found": after[0], "log_gap_found": after[1]}
        if after[1] <= (1 - MIN_GAIN) * before[1]:
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
            progress=partial(self._tell, "arranging rows"),
        )  # fmt: skip
        return {}

    def _write_nodes(self, folder: Path) -> dict[str, Any]:
        """`x.npy`, `y.npy` and `ids.arrow` in the final order."""
        path = self.work.path / "order" / "order.npy"
        order, writer = np.load(path) if path.exists() else None, StoredGraphWriter(folder)
        ids = parquet_column(self._ids())
        ids = ids if order is None else ids.take(order)
        if ids.type != "int64" or not np.array_equal(ids.to_numpy(), np.arange(len(ids))):
            writer.write_ids(ids)
        for given in self.work.path.glob("nodes/[xy].npy"):
            if order is None:
                _link(given, folder / given.name)
            else:
                self._permute(np.load(given, mmap_mode="r"), order, folder / given.name)
        return {}

    def _permute(self, given: Array, order: Array, path: Path) -> None:
        file = ArrayFile(path, given.dtype, given.shape[1:])
        for first in range(0, len(order), NODES_AT_ONCE):
            file.append(given[order[first : first + NODES_AT_ONCE]])
            self._tell("arranging nodes", file.length, len(order))
        file.close()

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
