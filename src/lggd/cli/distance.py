"""lggd distance: how far each node of a file lies from some of them."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lggd.cli.terminal import AsJson, Debug, Terminal, json_exponent, json_number, summary
from lggd.cli.wording import EXPONENT
from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd import Graph, Solution
    from lggd.data.tables import EdgeTable
    from lggd.solvers.eikonal_problem import Solver

ROWS_SHOWN = 10
FLAGS = {
    "`target`": "`--path-to`",
    "the boundary": "a source",
    "`potential`": "The potential degree^alpha",
    **EXPONENT,
}


class Symmetrize(StrEnum):
    MAX = "max"
    MEAN = "mean"


class SolverName(StrEnum):
    AUTO = "auto"
    MARCHING = "marching"
    DIJKSTRA = "dijkstra"
    ITERATIVE = "iterative"


def distance_command(
    edges: Annotated[
        Path, typer.Argument(metavar="EDGES", help="A .csv, .tsv or .npz file of edges.", show_default=False)
    ],
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A node at distance 0. Repeat it for more.", show_default=False),
    ] = None,
    sources_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="More sources: a text file with one name a line.")
    ] = None,
    p: Annotated[
        float, typer.Option(help="1 is robust to wrong edges, inf is the shortest path, others lie between.")
    ] = 1,
    alpha: Annotated[
        float | None, typer.Option(help="Use the potential degree^alpha: below 0, dense regions take longer to cross.")
    ] = None,
    symmetrize: Annotated[
        Symmetrize | None,
        typer.Option(help="Make edges run both ways; where two weights differ, keep their max or mean."),
    ] = None,
    directed: Annotated[
        bool, typer.Option("--directed", help="Keep arrows: a node walks along them to a source.")
    ] = False,
    unbounded: Annotated[bool, typer.Option("--unbounded", help="Admit weights above 1.")] = False,
    solver: Annotated[
        SolverName, typer.Option(help="auto takes dijkstra for p = inf and marching otherwise; all are exact.")
    ] = SolverName.AUTO,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write node,distance here as CSV.")] = None,
    path_to: Annotated[str | None, typer.Option(metavar="ID", help="Also print the geodesic to this node.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Measure the distance of every node from one or more sources.

    EDGES has one edge a line: source,target or source,target,weight, with or
    without a line of names above. Weights lie in (0, 1]; the larger, the
    closer: an edge is 1/sqrt(weight) long. An .npz file comes from
    scipy.sparse.save_npz, and its nodes are called 0, 1, 2, ...

    Example, where each road is listed once:

        lggd distance roads.csv --source home --symmetrize max --out far.csv

    Example, the shortest path where both directions are listed:

        lggd distance roads.csv --source home --path-to work --p inf
    """
    with Terminal(as_json=as_json, debug=debug, flags=FLAGS) as terminal:
        with terminal.working("Loading lggd"):
            import lggd
            from lggd.data.tables import read_edges, write_distances
            from lggd.files import check_writable
        if out is not None:
            check_writable(out)
        with terminal.working(f"Reading {edges}"):
            table = read_edges(edges)
            sources = _read_sources(table, source or [], sources_file)
            goal = None if path_to is None else table.number(path_to, "--path-to")
            terminal.node_names = table.ids
            graph = _graph(table, symmetrize, directed, unbounded)
        with terminal.working("Measuring distances"):
            potential = None if alpha is None else lggd.DegreePotential(alpha)
            solution = lggd.distance(graph, list(sources.values()), p=p, potential=potential, solver=_solver(solver))
            path = None if goal is None else lggd.shortest_path(graph, solution, goal).tolist()
        if out is not None:
            write_distances(out, table.ids, solution.value.tolist())
        facts = _facts(graph, solution, p) | {
            "sources": list(sources),
            "out": None if out is None else str(out),
            "path": None if path is None else [table.ids[node] for node in path],
        }
        if solution.status not in (lggd.Status.EXACT, lggd.Status.UNREACHABLE):
            terminal.say(solution.status.value, "yellow")
        # A file that holds the distances already is answer enough.
        distances = _by_name(table, solution) if as_json and out is None else None
        terminal.answer(facts | {"distances": distances}, _tables(facts, table, solution))


def _read_sources(table: EdgeTable, names: list[str], more: Path | None) -> dict[str, int]:
    """The number of each source."""
    from lggd.data.tables import read_ids

    sources = {name: table.number(name, "--source") for name in names}
    if more is not None:
        sources |= {name: table.number(name, "--sources-file") for name in read_ids(more)}
    if not sources:
        raise InputError("--source", "be given at least once", "none", "Distances need a node to start from.")
    return sources


def _graph(table: EdgeTable, symmetrize: Symmetrize | None, directed: bool, unbounded: bool) -> Graph:
    from lggd import Graph

    return Graph.from_edges(
        table.edges,
        table.weight,
        num_nodes=len(table.ids),
        directed=directed,
        symmetrize=None if symmetrize is None else symmetrize.value,
        unbounded=unbounded,
    )


def _solver(name: SolverName) -> Solver | None:
    from lggd import Dijkstra, FastIterative, FastMarching

    match name:
        case SolverName.MARCHING:
            return FastMarching()
        case SolverName.DIJKSTRA:
            return Dijkstra()
        case SolverName.ITERATIVE:
            return FastIterative()
        case _:
            return None


def _facts(graph: Graph, solution: Solution, p: float) -> dict[str, Any]:
    reached = solution.value[solution.value.isfinite()]
    return {
        "nodes": graph.num_nodes,
        # Here an edge that runs both ways counts once, as people count.
        "edges": graph.num_edges if graph.is_directed else graph.num_edges // 2,
        "directed": graph.is_directed,
        "p": json_exponent(p),
        "method": solution.statistics.method,
        "status": solution.status.name,
        "seconds": solution.statistics.seconds,
        "reachable": len(reached),
        "max": float(reached.max()),
    }


def _by_name(table: EdgeTable, solution: Solution) -> dict[str, float | None]:
    return {name: json_number(value) for name, value in zip(table.ids, solution.value.tolist(), strict=True)}


def _tables(facts: dict[str, Any], table: EdgeTable, solution: Solution) -> list[Table | Text]:
    shown = summary(
        {
            "nodes": f"{facts['nodes']:,}",
            "edges": f"{facts['edges']:,} {'directed' if facts['directed'] else 'undirected'}",
            "method": f"{facts['method']}, p = {facts['p']}",
            "seconds": f"{facts['seconds']:.3g}",
            "reachable": f"{facts['reachable']:,} of {facts['nodes']:,} nodes",
            "max": f"{facts['max']:.6g}",
        }
    )
    rows = Table("node", "distance")
    for name, value in zip(table.ids[:ROWS_SHOWN], solution.value[:ROWS_SHOWN].tolist(), strict=True):
        rows.add_row(Text(name), "out of reach" if math.isinf(value) else f"{value:.6g}")
    more = len(table.ids) - ROWS_SHOWN
    parts: list[Table | Text] = [shown, rows]
    if more > 0:
        parts.append(Text(f"… and {more:,} more{'' if facts['out'] else '; write them all with --out FILE'}"))
    if facts["path"] is not None:
        parts.append(Text("path  " + " → ".join(facts["path"])))
    if facts["out"] is not None:
        parts.append(Text(f"Wrote {facts['out']}"))
    return parts
