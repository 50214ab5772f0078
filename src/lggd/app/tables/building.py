"""A graph on disk from tables that may be larger than memory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lggd._system.files import check_folder_writable, locked_folder, write_errors, write_text
from lggd.app.tables.database import Database, Files, import_duckdb, sql_text
from lggd.app.tables.edge_columns import AS_DETECTED, EdgeFormat
from lggd.app.tables.graph_files import length_note
from lggd.app.tables.large_tables import MAX_UNKNOWN, ArrayFile, LargeEdges, LargeNodes
from lggd.app.tables.table import parquet_column
from lggd.errors import DiskFullError, InputError
from lggd.graph.stored_graph import MANIFEST, writing_graph
from lggd.progress import Callback, Progress

MEMORY, MIN_MEMORY = 2**32, 2**28
MAX_NODES = 2**31
# Files in the folders of the stages.
IDS, EDGES = "ids.parquet", "edges.parquet"
# Ids that an unknown one is compared with, to suggest another.
IDS_COMPARED = 2**16
STATE = "build.json"
# Changes when files of a stage mean something else.
VERSION = 3

Array = NDArray[Any]


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
    memory: int = MEMORY,
    resume: bool = False,
    callback: Callback | None = None,
) -> BuiltGraph:
    """Builds a graph on disk from tables of edges and nodes, for `Graph.open`.

    Columns and cells are read as in `read_edge_file` and `read_node_file`, and the same are refused. Edges are
    undirected and may be listed once or twice; of repeated ones the largest weight counts. Self-loops are left out.
    Nodes are numbered as in their table, or in the order of their ids.
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
        "format": asdict(format), "directed": directed, "unbounded": unbounded, "label": label,
        "id_column": id_column, "unlabelled": None if unlabelled is None else list(unlabelled),
    }  # fmt: skip
    files = [*large_edges.source.paths, *(large_nodes.source.paths if large_nodes else ())]
    with locked_folder(out):
        work = WorkFolder(out, settings, files, resume=resume)
        report = callback or (lambda progress: None)
        try:
            with write_errors(out), Database(memory // 2, work.path) as database:
                built = _Build(work, database, large_edges, large_nodes, directed, report).run(out)
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
    report: Callback

    def run(self, out: Path) -> BuiltGraph:
        stage, path = self.work.stage, self.work.path
        nodes = stage("nodes", self._read_nodes)
        self._tell("reading edges", 0)
        read = stage("edges", lambda folder: self.edges.write(self.database, folder / EDGES))
        number = stage("numbered", partial(self._number_edges, integers=read["integers"] and nodes["integers"]))
        self.work.drop("edges")
        rows = stage("rows", partial(self._write_rows, read=read, nodes=number["nodes"]))
        self.work.drop("numbered")
        notes = [*read["notes"], *self._notes(read, rows), *nodes["notes"]]
        metadata = {
            "feature_names": nodes["feature_names"], "classes": nodes["classes"],
            "lines": read["lines"], "self_loops": read["loops"],
            "unit_weight": read["smallest"] ** -2 if self.edges.columns.is_length else 1.0, "notes": notes,
        }  # fmt: skip
        self._tell("checksums", 0)
        with writing_graph(out) as writer:
            for file in (*sorted(path.glob("rows/*.npy")), *sorted(path.glob("nodes/[xy].npy"))):
                _link(file, writer.folder / file.name)
            ids = parquet_column(self._ids())
            if ids.type != "int64" or not np.array_equal(ids.to_numpy(), np.arange(len(ids))):
                writer.write_ids(ids)
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
        nodes = len(parquet_column(self._ids()))
        if nodes >= MAX_NODES:
            raise InputError("edges", "name fewer than 2**31 nodes", f"{nodes:,}", "Split the graph by component.")
        return {"nodes": nodes}

    def _unknown_error(self, unknown: Sequence[object]) -> InputError:
        ids = parquet_column(self._ids())
        return self.edges.unknown_error(unknown, [str(name) for name in ids[:IDS_COMPARED].to_pylist()], len(ids))

    def _write_rows(self, folder: Path, read: dict[str, Any], nodes: int) -> dict[str, Any]:
        """The rows of the graph in files; `weight.npy` and `root_weight.npy` only if a weight differs from 1."""
        self._tell("sorting edges", 0)
        if self.edges.columns.is_length:
            length_note(read["smallest"], read["largest"])
        weighted = self.edges.is_weighted and not read["smallest"] == read["largest"] == 1
        path = self.work.path / "numbered" / EDGES
        weight = f", {self.edges.weight(read['smallest'])} AS weight" if weighted else ""
        entries = " UNION ALL ".join(
            f"SELECT (({row}::BIGINT << 32) | {column}::BIGINT) AS entry{weight} "
            f"FROM read_parquet({sql_text(path)}) WHERE c0 <> c1"
            for row, column in [("c0", "c1"), ("c1", "c0")][: 1 if self.directed else 2]
        )
        kinds = {"indices": np.int32} | ({"weight": np.float32, "root_weight": np.float32} if weighted else {})
        files = {name: ArrayFile(folder / f"{name}.npy", kind) for name, kind in kinds.items()}
        lengths, degree, all_one = np.zeros(nodes, np.int64), np.zeros(nodes), True
        batches = self.database.batches(f"SELECT * FROM ({entries}) ORDER BY entry", path)
        for entry, *weights in _merged([column.to_numpy() for column in batch.columns] for batch in batches):
            rows = entry >> 32
            if len(rows):
                lengths[rows[0] : rows[-1] + 1] += np.bincount(rows - rows[0])
            files["indices"].append(entry & 0xFFFFFFFF)
            for values in weights:
                np.add.at(degree, rows, values)
                all_one = all_one and bool((values == 1).all())
                files["weight"].append(values)
                files["root_weight"].append(np.sqrt(values))
            self._tell("sorting edges", files["indices"].length)
        for name, file in files.items():
            file.close()
            if all_one and name != "indices":
                (folder / f"{name}.npy").unlink()
        np.save(folder / "indptr.npy", np.r_[0, np.cumsum(lengths)])
        np.save(folder / "degree.npy", (degree if weighted else lengths).astype(np.float32))
        return {"nodes": nodes, "edges": files["indices"].length}

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


def _merged(batches: Iterable[list[Array]]) -> Iterator[list[Array]]:
    """Sorted batches of entries, and possibly weights, with each entry once and its largest weight."""
    held: list[Array] = []
    for batch in filter(lambda columns: len(columns[0]), batches):
        columns = [np.concatenate(both) for both in zip(held, batch, strict=True)] if held else batch
        starts = np.flatnonzero(np.r_[True, columns[0][1:] != columns[0][:-1]])
        merged = [columns[0][starts], *(np.maximum.reduceat(weights, starts) for weights in columns[1:])]
        held = [column[-1:] for column in merged]  # the next batch may begin with the same entry
        yield [column[:-1] for column in merged]
    if held:
        yield held


class WorkFolder:
    """`.NAME-build` next to the graph NAME: one folder per stage, and `build.json` with the stages that are complete.

    Parameters
    ----------
    graph : Path
        The graph that is built.
    settings : mapping
        What the result depends on beside the files.
    files : sequence of Path
        The tables that are read.
    resume : bool
        Continues after the last complete stage; raises if settings or files have changed. Otherwise starts again.
    """

    def __init__(self, graph: Path, settings: Mapping[str, Any], files: Sequence[Path], *, resume: bool) -> None:
        self.path = graph.with_name(f".{graph.name}-build")
        stats = {str(path.resolve()): [path.stat().st_size, path.stat().st_mtime_ns] for path in files}
        self.inputs = json.loads(json.dumps({"version": VERSION, "settings": settings, "files": stats}))
        self.stages: dict[str, dict[str, Any]] = {}
        if resume:
            self._restore()
        else:
            self.remove()
        self.path.mkdir(exist_ok=True)

    def _restore(self) -> None:
        try:
            state = json.loads((self.path / STATE).read_text())
        except (FileNotFoundError, ValueError):
            self.remove()  # nothing is complete
            return
        hints = {"resume": "`resume`"}
        for name, what in (("files", "the tables"), ("settings", "the options"), ("version", "the version of lggd")):
            if state[name] != self.inputs[name]:
                but = f"{what} changed since"
                remedy = "Start again without {resume}."
                raise InputError(
                    "resume", "continue the build that was interrupted", but=but, remedy=remedy, hints=hints
                )
        self.stages = state["stages"]

    def stage(self, name: str, run: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """The result of `run` for the folder of this stage, now or in the build that is resumed."""
        if name not in self.stages:
            folder = self.path / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            self.stages[name] = run(folder)
            write_text(self.path / STATE, json.dumps({**self.inputs, "stages": self.stages}))
        return self.stages[name]

    def drop(self, name: str) -> None:
        """Deletes the files of a stage, which no later one needs."""
        shutil.rmtree(self.path / name, ignore_errors=True)

    def drop_incomplete(self) -> None:
        """Deletes the files of the stage that failed."""
        for folder in self.path.iterdir():
            if folder.is_dir() and folder.name not in self.stages:
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
