"""The right-hand side compared with torch's scatter, and its fraction of the copy bandwidth."""

from __future__ import annotations

import torch

from benchmarks.graphs import disk
from benchmarks.operation import Operation, copy_bandwidth, scatter_rate
from benchmarks.record import Run
from benchmarks.timing import Row, Table, race

CPU = torch.device("cpu")


def against_scatter(name: str, columns: int, bar: float, peer_runs: int) -> Row:
    graph, _ = disk(name)
    operation = Operation(graph, columns)
    f = torch.rand(graph.num_nodes, columns)
    rho, edges = torch.ones(graph.num_nodes, 1), graph.edge_index
    best = race(
        {"ours": 60 if columns * graph.num_edges < 10**8 else 9, "peer": peer_runs},
        ours=operation.stage,
        peer=lambda: scatter_rate(edges, rho, f),
    )
    rate = operation.gathered / best["ours"]
    return Row(
        f"right-hand side, {name}, K={columns}", best["ours"] * 1e3, best["peer"] * 1e3, "torch scatter_add", bar,
        note=f"gathers {rate / 1e9:.0f} GB/s, {rate / copy_bandwidth(CPU):.0%} of copy bandwidth",
    )  # fmt: skip


def tables(run: Run) -> list[Table]:
    if not agree():
        raise RuntimeError("the two right-hand sides differ, so their times cannot be compared")
    table = Table("Right-hand side, p=1, float32")
    table.rows += [against_scatter("d20k", 1, 1, 20), against_scatter("d20k", 10, 35, 20)]
    if not run.quick:
        table.rows += [against_scatter("d200k", 10, 1, 3), against_scatter("d200k", 100, 100, 2)]
    table.rows.append(Row("copy bandwidth of this machine", copy_bandwidth(CPU) / 1e9, unit="GB/s"))
    return [table]


def agree() -> bool:
    graph, _ = disk("d20k")
    operation = Operation(graph, 10)
    operation.stage()
    layout = operation.layout
    expected = scatter_rate(graph.edge_index, torch.ones(graph.num_nodes, 1), layout.to_nodes(operation.rows))
    return torch.allclose(layout.to_nodes(operation.slope), expected, atol=1e-3)
