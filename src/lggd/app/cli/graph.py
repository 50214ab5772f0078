"""lggd graph: graphs on disk, built from tables larger than memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.table import Column, Table

from lggd.app.cli.options import UNLABELLED, EdgeColumnOptions, command, option
from lggd.app.cli.terminal import Terminal, summary, table
from lggd.errors import DiskFullError, optional_package
from lggd.text import number

graph_app = typer.Typer(help="Graphs on disk: larger than memory, opened at once.", no_args_is_help=True)

EDGES = "Table of edges: .csv, .tsv, .txt or .parquet. Several files, or a pattern in quotes, must have equal columns."
CLASSES_SHOWN = 20


@graph_app.command("build")
@command({})
def build_command(
    terminal: Terminal,
    reading: EdgeColumnOptions,
    edges: list[str] = typer.Argument(..., metavar="EDGES...", help=EDGES, show_default=False),
    out: Path = typer.Argument(..., metavar="OUT", help="Folder to write.", show_default=False),
    nodes: str | None = option(None, "Table of nodes, with their features and labels.", metavar="FILE"),
    label: str | None = option(None, "Column of classes in --nodes.", metavar="COLUMN"),
    id_column: str | None = option(
        None, "Column of ids in --nodes; by default id, node, name or the first.", metavar="COLUMN"
    ),
    unlabelled: list[str] | None = option(None, UNLABELLED, metavar="VALUE"),
    directed: bool = option(False, "Keep edges directed.", "--directed"),
    unbounded: bool = option(False, "Allow edge weights above 1.", "--unbounded"),
    memory: str = option("4GiB", "Memory to use, besides a few numbers per node.", metavar="SIZE"),
    resume: bool = option(False, "Continue a build that was interrupted.", "--resume"),
) -> None:
    r"""Build a graph on disk from tables that may be larger than memory.

    EDGES has one edge per line: source,target or source,target,weight, read
    as by the other commands. Edges are undirected, unless --directed, and may
    be listed once or twice; the largest weight or the shortest length counts.
    Self-loops are dropped. Ids may be text or integers, and are kept.

    --nodes names every node, also those without edges. Its other columns are
    features; with texts among them, it must fit into memory. Without it,
    nodes are those of the edges.

    The folder appears when it is complete; a graph in OUT is replaced then,
    and any other folder with files is refused. A build that was killed, or
    had no space left, is continued with --resume. Needs the extra disk:
    pip install 'lggd\[disk]'. In Python: lggd.Graph.open(OUT).

    Example: a list of edges, and the graph that was built from it:

        lggd graph build edges.parquet big

        lggd graph info big

    Example: features, labels and weights, with little memory:

        lggd graph build edges.csv big --nodes nodes.parquet --label kind --weight strength --memory 2GiB

    Example: many files:

        lggd graph build 'part-*.csv' big
    """
    start = time.perf_counter()
    with terminal.working("Loading lggd"):
        from lggd._system.memory import read_size

        with optional_package("lggd graph build", "lggd[disk]"):
            from lggd.app.tables.building import build_graph
        from lggd.datasets.pyg_data import describe_graph
    size = read_size("memory", memory)
    with terminal.progress() as callback:
        try:
            built = build_graph(
                edges, out, nodes=nodes, label=label, id_column=id_column, unlabelled=unlabelled,
                format=reading.edge_format, directed=directed, unbounded=unbounded, memory=size,
                resume=resume, callback=callback,
            )  # fmt: skip
        except (KeyboardInterrupt, DiskFullError):
            terminal.say("Complete stages are kept. Add --resume to continue.", "yellow")
            raise
    facts = describe_graph(built.folder)
    facts |= {"lines": built.metadata["lines"], "seconds": round(time.perf_counter() - start, 3)}
    terminal.print_result(facts, [*_tables(facts), f"Wrote {facts['folder']} in {facts['seconds']:.1f} s"])


@graph_app.command("info")
@command({})
def info_command(
    terminal: Terminal,
    folder: Path = typer.Argument(..., metavar="GRAPH", help="Folder of a graph on disk.", show_default=False),
    verify: bool = option(False, "Compare the checksum of every file, which reads all of them.", "--verify"),
) -> None:
    """Show what a graph on disk contains.

    Example: nodes, edges, features, labels per class and size:

        lggd graph info big

    Example: whether a copy is complete and unchanged:

        lggd graph info copy --verify
    """
    with terminal.working("Loading lggd"):
        from lggd.datasets.pyg_data import describe_graph
    with terminal.working(f"Reading {folder}"):
        facts = describe_graph(folder, verify=verify)
    terminal.print_result(facts, _tables(facts))


def _tables(facts: dict[str, Any]) -> Iterator[Table | str]:
    from lggd._system.files import size_in_words

    near = facts["neighbours"]
    yield summary(
        nodes=f"{facts['nodes']:,}" + (f", {near['isolated']:,} without edges" if near["isolated"] else ""),
        edges=f"{facts['edges']:,} {'directed' if facts['directed'] else 'undirected'}"
        + (", weighted" if facts["weighted"] else ""),
        neighbours=f"{near['min']:,} to {near['max']:,}, median {near['median']:g}, mean {number(near['mean'])}",
        features=facts["features"] or "none",
        labels="none" if facts["classes"] is None else f"{sum(facts['classes'].values()):,}",
        size=size_in_words(facts["bytes"]),
        checksums=facts["checksums"] + ("" if facts["checksums"] == "match" else "; --verify compares them"),
    )
    if facts["classes"]:
        rows = [(name, f"{count:,}") for name, count in facts["classes"].items()]
        yield table("class", Column("labels", justify="right"), rows=rows[:CLASSES_SHOWN])
        if len(rows) > CLASSES_SHOWN:
            yield f"… and {len(rows) - CLASSES_SHOWN:,} more classes; all with --json"
    yield from facts["notes"]
