"""lggd distance: the distance of every node of a graph from one or more sources."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table
from typer import Argument

from lggd.cli.options import command, file, option
from lggd.cli.terminal import Terminal, flags, json_exponent, summary, table
from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd.data.edges import EdgeTable

ROWS_SHOWN = 10
FLAGS = flags("p", "solver", "directed", "symmetrize", edges="EDGES", target="--path-to", potential="degree^alpha")


SYMMETRIZE = "Make edges undirected; if the two directions differ in weight, use the max or mean."
SOLVERS = "auto uses dijkstra for p = inf and marching otherwise; all are exact."


@command(FLAGS)
def distance_command(
    terminal: Terminal,
    edges: Path = Argument(..., metavar="EDGES", help="A .csv, .tsv or .npz file of edges.", show_default=False),
    source: list[str] | None = option(
        None, "Node to measure distances from. Can be repeated.", metavar="ID", show_default=False
    ),
    sources_file: Path | None = file(None, "Text file with further sources, one name per line."),
    p: float = option(1, "Exponent from 1 (most robust to wrong edges) to inf (shortest paths)."),
    alpha: float | None = option(None, "Use the potential degree^alpha; below 0, dense regions take longer to cross."),
    symmetrize: Literal["max", "mean"] | None = option(None, SYMMETRIZE),
    directed: bool = option(False, "Keep edges directed: paths follow them from a node to a source.", "--directed"),
    unbounded: bool = option(False, "Allow edge weights above 1.", "--unbounded"),
    solver: Literal["auto", "marching", "dijkstra", "iterative"] = option("auto", SOLVERS),
    out: Path | None = file(None, "Write the distances to this CSV file."),
    path_to: str | None = option(None, "Also print the geodesic to this node.", metavar="ID"),
) -> None:
    """Compute the distance of every node from one or more sources.

    EDGES has one edge per line: source,target or source,target,weight; a
    header line is optional. Weights are in (0, 1]; the length of an edge is
    1/sqrt(weight), so that larger weights mean shorter edges. An .npz file
    is one saved by scipy.sparse.save_npz; its nodes are named 0, 1, 2, ...

    Example: distances along roads that are listed once each:

        lggd distance roads.csv --source home --symmetrize max --out far.csv

    Example: a shortest path along roads listed in both directions:

        lggd distance roads.csv --source home --path-to work --p inf
    """
    with terminal.working("Loading lggd"):
        import lggd
        from lggd.data.edges import read_edge_file
        from lggd.data.output_files import write_distances
        from lggd.files import check_writable
    if out is not None:
        check_writable(out)
    with terminal.working(f"Reading {edges}"):
        edge_table = read_edge_file(edges)
        sources = _read_sources(edge_table, source or [], sources_file)
        goal = None if path_to is None else edge_table.number(path_to, "--path-to")
        terminal.node_names = edge_table.ids
        kind: dict[str, Any] = {"directed": directed, "symmetrize": symmetrize, "unbounded": unbounded}
        graph = lggd.Graph.from_edges(edge_table.edges, edge_table.weight, num_nodes=len(edge_table.ids), **kind)
    with terminal.working("Computing distances"):
        potential = None if alpha is None else lggd.DegreePotential(alpha)
        solvers = {"marching": lggd.FastMarching, "dijkstra": lggd.Dijkstra, "iterative": lggd.FastIterative}
        chosen: Any = solvers[solver]() if solver in solvers else None
        solution = lggd.distance(graph, list(sources.values()), p=p, potential=potential, solver=chosen)
        path = None if goal is None else lggd.shortest_path(graph, solution, goal).tolist()
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
    }  # fmt: skip
    if solution.status not in (lggd.Status.EXACT, lggd.Status.UNREACHABLE):
        terminal.say("The solver did not converge: some distances are too large. Use --solver marching.", "yellow")
    distances = dict(zip(edge_table.ids, values, strict=True))
    # Not printed as JSON if they were written to a file.
    finite = (
        {name: value if math.isfinite(value) else None for name, value in distances.items()} if out is None else None
    )
    terminal.answer(facts | {"distances": finite}, _tables(facts, distances))


def _read_sources(edge_table: EdgeTable, names: list[str], more: Path | None) -> dict[str, int]:
    from lggd.data.graph_files import read_id_file

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
        seconds=f"{facts['seconds']:.3g}",
        reachable=f"{facts['reachable']:,} of {facts['nodes']:,} nodes",
        max=f"{facts['max']:.6g}",
    )
    first = islice(distances.items(), ROWS_SHOWN)
    rows = ((name, "unreachable" if math.isinf(value) else f"{value:.6g}") for name, value in first)
    yield table("node", "distance", rows=rows)
    more = len(distances) - ROWS_SHOWN
    if more > 0:
        yield f"… and {more:,} more{'' if facts['out'] else '; write all of them with --out FILE'}"
    if facts["path"] is not None:
        yield "path  " + " → ".join(facts["path"])
    if facts["out"] is not None:
        yield f"Wrote {facts['out']}"
