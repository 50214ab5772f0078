"""The hot operation beside torch's scatter, its share of the copy bandwidth, and how it grows with E and K."""

from __future__ import annotations

import torch

from benchmarks.graphs import disk
from benchmarks.timing import Row, Table, race
from lggd.graph import Graph
from lggd.kernels import Field, cpu
from lggd.solvers.cauchy import CauchyProblem


def scatter_rate(edge_index: torch.Tensor, rho: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    """The right-hand side the way message passing does it: gather both ends of every edge, scatter the sum."""
    rows, columns = edge_index
    fall = (f[rows] - f[columns]).clamp_(min=0)
    index = rows.unsqueeze(1).expand_as(fall)
    return 1 - rho * torch.zeros_like(f).scatter_add_(0, index, fall)


def ours(graph: Graph, columns: int) -> tuple[Field, torch.Tensor, torch.Tensor, torch.Tensor]:
    """What an evolution of that many columns hands to the kernel at every stage."""
    start = torch.rand(graph.num_nodes, columns, generator=torch.Generator().manual_seed(0))
    problem = CauchyProblem(graph, None, start, 1, None, None, 0)
    return problem.field, problem.start, torch.empty(1, *problem.start.shape), torch.empty_like(problem.start)


def against_scatter(name: str, columns: int, bar: float, peer_runs: int) -> Row:
    graph, _ = disk(name)
    field, rows, slopes, out = ours(graph, columns)
    f = torch.rand(graph.num_nodes, columns)
    rho, edges = torch.ones(graph.num_nodes, 1), graph.edge_index
    best = race(
        {"ours": 60 if columns * graph.num_edges < 10**8 else 9, "peer": peer_runs},
        ours=lambda: cpu.stage(field, rows, rows, slopes, 0, [0.1], out),
        peer=lambda: scatter_rate(edges, rho, f),
    )
    # Per edge an index and a neighbour's row; per node a row read, two written, and the pointers.
    gathered = graph.num_edges * (4 + 4 * columns) + graph.num_nodes * (12 + 12 * columns)
    share = gathered / best["ours"] / copy_bandwidth()
    return Row(
        f"right-hand side, {name}, K={columns}", best["ours"] * 1e3, best["peer"] * 1e3, "torch scatter_add", bar,
        note=f"gathers {gathered / best['ours'] / 1e9:.0f} GB/s, {share:.0%} of copy bandwidth",
    )  # fmt: skip


_bandwidth: list[float] = []


def copy_bandwidth() -> float:
    """Bytes read and written a second by a large copy on all cores."""
    if not _bandwidth:
        source = torch.rand(64 * 2**20)
        target = torch.empty_like(source)
        best = race({"copy": 7}, copy=lambda: target.copy_(source))
        _bandwidth.append(2 * source.numel() * 4 / best["copy"])
    return _bandwidth[0]


def growth(quick: bool) -> Table:
    table = Table("Growth of the right-hand side with E and K (ns an edge and column)")
    for name in ("d20k", "d200k") if quick else ("d20k", "d200k", "d2M"):
        graph, _ = disk(name)
        for columns in (1, 10, 100):
            if graph.num_nodes * columns > 10**8:
                continue
            field, f, slopes, out = ours(graph, columns)
            runs = 15 if graph.num_edges * columns < 10**8 else 3
            best = race({"ours": runs}, ours=lambda a=field, b=f, c=slopes, d=out: cpu.stage(a, b, b, c, 0, [0.1], d))
            each = best["ours"] * 1e9 / graph.num_edges / columns
            what = f"{name}: E={graph.num_edges:,}, K={columns}"
            table.rows.append(Row(what, each, unit="ns", note=f"{best['ours'] * 1e3:.2f} ms"))
    return table


def tables(quick: bool) -> list[Table]:
    if not agree():
        raise RuntimeError("the two right-hand sides differ, so their times cannot be compared")
    table = Table("Right-hand side, p=1, float32")
    table.rows += [against_scatter("d20k", 1, 1, 20), against_scatter("d20k", 10, 35, 20)]
    if not quick:
        table.rows += [against_scatter("d200k", 10, 1, 3), against_scatter("d200k", 100, 100, 2)]
    table.rows.append(Row("copy bandwidth of this machine", copy_bandwidth() / 1e9, unit="GB/s"))
    return [table, growth(quick)]


def agree() -> bool:
    graph, _ = disk("d20k")
    field, rows, slopes, out = ours(graph, 10)
    cpu.stage(field, rows, rows, slopes, 0, [0.1], out)
    layout = graph.layout(100)
    expected = scatter_rate(graph.edge_index, torch.ones(graph.num_nodes, 1), layout.to_nodes(rows))
    return torch.allclose(layout.to_nodes(slopes[0]), expected, atol=1e-3)
