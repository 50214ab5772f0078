"""lggd distance: the distance of every node of a graph from one or more sources."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table
from typer import Argument

from lggd.app.cli.options import EDGES, EdgeTableOptions, command, file, option
from lggd.app.cli.terminal import Terminal, json_exponent, summary, table
from lggd.errors import InputError
from lggd.text import number

if TYPE_CHECKING:
    from lggd.app.tables.edges import EdgeTable
    from lggd.graph import Graph

ROWS_SHOWN = 10
FLAGS = {"target": "--path-to", "potential": "degree^alpha"}
SOLVERS = "auto uses dijkstra for p = inf and marching otherwise; all are exact."


@command(FLAGS)
def distance_command(
    terminal: Terminal,
    reading: EdgeTableOptions,
    edges: Path = Argument(..., metavar="EDGES", help=EDGES, show_default=False),
    source: list[str] | None = option(
        None, "Node to measure distances from. Can be repeated.", metavar="ID", show_default=False
    ),
    sources_file: Path | None = file(None, "Text file with further sources, one name per line."),
    p: float = option(1, "Exponent from 1 (most robust to wrong edges) to inf (shortest paths)."),
    alpha: float | None = option(None, "Use the potential degree^alpha; below 0, dense regions take longer to cross."),
    directed: bool = option(False, "Keep edges directed: paths follow them from a source to a node.", "--directed"),
    reverse: bool = option(False, "With --directed: distances to the sources instead, along the edges.", "--reverse"),
    unbounded: bool = option(False, "Allow edge weights above 1.", "--unbounded"),
    solver: Literal["auto", "marching", "dijkstra", "iterative"] = option("auto", SOLVERS),
    out: Path | None = file(None, "Write the distances to this file: .csv, .tsv or .parquet."),
    path_to: str | None = option(None, "Also print the geodesic to this node; with --reverse, from it.", metavar="ID"),
) -> None:
    """Compute the distance of every node from one or more sources.

    EDGES has one edge per line: source,target or source,target,weight; a
    header line is optional. Weights are in (0, 1]; the length of an edge is
    1/sqrt(weight), so that larger weights mean shorter edges. A column of
    lengths is named by --length; with --p inf, distances are their sums.
    Other columns are not used, and reported. A .npz file is one saved by
    scipy.sparse.save_npz; its nodes are named 0, 1, 2, ...

    Edges are undirected: listed in both directions, or --symmetrize max.
    With --directed, distances are those from the sources along the edges,
    as in networkx; with --reverse too, those to the sources.

    Example: distances along roads that are listed once each:

        lggd distance roads.csv --source home --symmetrize max --out far.csv

    Example: a shortest path in kilometers, along roads listed once each:

        lggd distance roads.csv --source home --path-to work --p inf --length km --symmetrize min

    Example: one-way streets, distances from home, and to home:

        lggd distance streets.csv --source home --directed

        lggd distance streets.csv --source home --directed --reverse
    """
    if reverse and not directed:
        raise InputError("--reverse", "be used with --directed", remedy="Undirected distances have no direction.")
    with terminal.working("Loading lggd"):
        import lggd
        from lggd.app.tables.edges import read_edge_file
        from lggd.app.tables.output_files import check_table_writable, write_distances
    if out is not None:
        check_table_writable(out)
    with terminal.working(f"Reading {edges}"):
        edge_table = read_edge_file(edges, format=reading.edge_format)
        sources = _read_sources(edge_table, source or [], sources_file)
        goal = None if path_to is None else edge_table.number(path_to, "--path-to")
        terminal.node_names = edge_table.ids
        edge_table, graph = _build_graph(edge_table, reading.symmetrize, directed, reverse, unbounded)
    with terminal.working("Computing distances"):
        potential = None if alpha is None else lggd.DegreePotential(alpha)
        solvers = {"marching": lggd.FastMarching, "dijkstra": lggd.Dijkstra, "iterative": lggd.FastIterative}
        chosen: Any = solvers[solver]() if solver in solvers else None
        solution = lggd.distance(graph, list(sources.values()), p=p, potential=potential, solver=chosen)
        path = None if goal is None else lggd.shortest_path(graph, solution, goal).tolist()
        path = path[::-1] if path is not None and reverse else path  # along the edges, to the source
    values = solution.value.tolist()
    if out is not None:
        write_distances(out, edge_table.ids, values)
    reached = [value for value in values if math.isfinite(value)]
    facts = {
        "nodes": graph.num_nodes,
        # An undirected edge counts once.
        "edges": graph.num_edges if graph.is_directed else graph.num_edges // 2, "directed": graph.is_directed,
        "p": json_exponent(p), "method": solution.statistics.method, "status": solution.status.name,
        "seconds": solution.statistics.seconds, "reachable": len(reached), "max": max(reached),
        "sources": list(sources), "out": None if out is None else str(out),
        "path": None if path is None else [edge_table.ids[node] for node in path],
        "direction": ("to" if reverse else "from") + " the sources", "notes": list(edge_table.notes),
    }  # fmt: skip
    if solution.status not in (lggd.results.Status.EXACT, lggd.results.Status.UNREACHABLE):
        terminal.say("The solver did not converge: some distances are too large. Use --solver marching.", "yellow")
    distances = dict(zip(edge_table.ids, values, strict=True))
    # Not printed as JSON if they were written to a file.
    finite = (
        {name: value if math.isfinite(value) else None for name, value in distances.items()} if out is None else None
    )
    terminal.print_result(facts | {"distances": finite}, _tables(facts, distances))


def _build_graph(
    table: EdgeTable, symmetrize: str | None, directed: bool, reverse: bool, unbounded: bool
) -> tuple[EdgeTable, Graph]:
    """Returns the graph to compute distances on, and the table with notes about its edges."""
    import lggd
    from lggd.app.tables.edges import join_directions, report_different_values

    if symmetrize is not None and not directed:
        table = join_directions(table, symmetrize)
    else:
        table = report_different_values(table)
    # f(i) is the length of walking from i along the edges to a source: turned around, it is that from the source to i.
    edges = table.edges[::-1] if directed and not reverse else table.edges
    joined = "max" if symmetrize is not None else None  # by now only the missing direction is added
    kind: dict[str, Any] = {"directed": directed, "symmetrize": joined, "unbounded": unbounded or table.is_length}
    return table, lggd.Graph.from_edges(edges, table.weight, num_nodes=len(table.ids), **kind)


def _read_sources(edge_table: EdgeTable, names: list[str], more: Path | None) -> dict[str, int]:
    from lggd.app.tables.graph_files import read_id_file

    sources = {name: edge_table.number(name, "--source") for name in names}
    if more is not None:
        sources |= {name: edge_table.number(name, "--sources-file") for name in read_id_file(more)}
    if not sources:
        raise InputError("--source", "be used at least once", "none", "Name a node to measure distances from.")
    return sources


def _tables(facts: dict[str, Any], distances: dict[str, float]) -> Iterator[Table | str]:
    yield summary(
        nodes=f"{facts['nodes']:,}",
        edges=f"{facts['edges']:,} {'directed' if facts['directed'] else 'undirected'}",
        method=f"{facts['method']}, p = {facts['p']}",
        seconds=number(facts["seconds"]),
        reachable=f"{facts['reachable']:,} of {facts['nodes']:,} nodes",
        max=f"{facts['max']:.6g}",
        **({"direction": f"along the edges, {facts['direction']}"} if facts["directed"] else {}),
    )
    first = islice(distances.items(), ROWS_SHOWN)
    rows = ((name, "unreachable" if math.isinf(value) else f"{value:.6g}") for name, value in first)
    yield table("node", "distance", rows=rows)
    more = len(distances) - ROWS_SHOWN
    if more > 0:
        yield f"… and {more:,} more{'' if facts['out'] else '; write all of them with --out FILE'}"
    if facts["path"] is not None:
        yield "path  " + " → ".join(facts["path"])
    yield from facts["notes"]
    if facts["out"] is not None:
        yield f"Wrote {facts['out']}"
