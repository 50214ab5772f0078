"""The evolution and its gradient, compared with torchdiffeq over gather and scatter as in the authors' code."""

from __future__ import annotations

import torch

import lggd
from benchmarks.graphs import disk
from benchmarks.operation import scatter_rate
from benchmarks.record import Run
from benchmarks.timing import Row, Table, race

STEPS, STEP, COLUMNS = 100, 0.02, 10


class AuthorsEquation(torch.nn.Module):
    """The right-hand side as a module with the potential as its parameter, and 0 on the boundary."""

    def __init__(self, graph: lggd.Graph, rho: torch.Tensor, boundary_mask: torch.Tensor) -> None:
        super().__init__()
        self.rho = torch.nn.Parameter(rho)
        self.register_buffer("edge_index", graph.edge_index)
        self.register_buffer("free", (~boundary_mask).float())

    def forward(self, t: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
        return self.free * scatter_rate(self.edge_index, self.rho, f)


def setting() -> tuple[lggd.Graph, list[list[int]], torch.Tensor, AuthorsEquation]:
    graph, boundary = disk("d20k")
    classes = [boundary[k::COLUMNS].tolist() for k in range(COLUMNS)]
    boundary_mask = torch.zeros(graph.num_nodes, COLUMNS, dtype=torch.bool)
    for k, nodes in enumerate(classes):
        boundary_mask[nodes, k] = True
    start = torch.rand(graph.num_nodes, COLUMNS, generator=torch.Generator().manual_seed(0)).masked_fill(
        boundary_mask, 0
    )
    return graph, classes, start, AuthorsEquation(graph, torch.ones(graph.num_nodes, 1), boundary_mask)


def tables(run: Run) -> list[Table]:
    import torchdiffeq

    graph, classes, start, equation = setting()
    times = torch.tensor([0.0, STEPS * STEP])
    options = {"method": "rk4", "options": {"step_size": STEP}}
    scheme = lggd.RK4(STEP)

    def peer_forward() -> torch.Tensor:
        with torch.no_grad():
            return torchdiffeq.odeint(equation, start, times, **options)[-1]

    def our_forward() -> torch.Tensor:
        return lggd.evolve(graph, classes, start=start, times=[STEPS * STEP], scheme=scheme).value[-1]

    def peer_gradient() -> torch.Tensor:
        leaf = start.clone().requires_grad_()
        torchdiffeq.odeint_adjoint(equation, leaf, times, **options)[-1].square().mean().backward()
        return leaf.grad

    def our_gradient() -> torch.Tensor:
        leaf, rho = start.clone().requires_grad_(), torch.ones(graph.num_nodes, requires_grad=True)
        found = lggd.evolve(graph, classes, start=leaf, times=[STEPS * STEP], scheme=scheme, potential=rho)
        found.value[-1].square().mean().backward()
        return leaf.grad

    difference = float((our_forward() - peer_forward()).abs().max())
    table = Table(f"Evolution: d20k, K={COLUMNS}, {STEPS} RK4 steps")
    runs = {"ours": 3, "peer": 1}
    best = race(runs, ours=our_forward, peer=peer_forward)
    note = f"largest difference {difference:.1g}"
    table.rows.append(Row("forward", best["ours"] * 1e3, best["peer"] * 1e3, "torchdiffeq rk4, scatter", 20, note))
    best = race(runs, ours=our_gradient, peer=peer_gradient)
    table.rows.append(
        Row("gradient (start and potential)", best["ours"] * 1e3, best["peer"] * 1e3, "odeint_adjoint, scatter", 30)
    )
    return [table]
