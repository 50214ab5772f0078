"""One evaluation and one adjoint, compared with a sparse-dense matrix product and with message passing."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

import lggd
from benchmarks.graphs import disk
from benchmarks.operation import Operation, scatter_norm
from benchmarks.record import Run
from benchmarks.timing import Row, Table, elapsed, race_on
from lggd.solvers.adjoint import Stepper

# The targets: how many times as long as a product an evaluation and an adjoint may take.
EVALUATION, ADJOINT = 1.2, 2.4
FAST, SLOW = 20, 3


class UpwindNorm(MessagePassing):
    """Σ_j (f(i) − f(j))₊ as a PyG module."""

    def __init__(self) -> None:
        super().__init__(aggr="sum")

    def forward(self, f: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, f=f)

    def message(self, f_i: Tensor, f_j: Tensor) -> Tensor:
        return (f_i - f_j).relu()


class Peers:
    """The same by other packages, on the same rows in the same order, without padding."""

    def __init__(self, operation: Operation) -> None:
        csr = operation.layout.csr
        self.f = operation.rows[:, : operation.columns].contiguous()
        self.edge_index = torch.stack([csr.rows, csr.indices.long()])
        self.upwind_norm, self.reversed_edges = UpwindNorm(), self.edge_index.flip(0)
        ones = torch.ones(csr.num_edges, device=self.f.device)
        shape = (csr.num_nodes, csr.num_nodes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that CSR is in beta
            self.products = {
                kind: torch.sparse_csr_tensor(csr.indptr.to(kind), csr.indices.to(kind), ones, shape)
                for kind in (torch.int32, torch.int64)
            }

    def product(self, kind: torch.dtype) -> Tensor:
        return self.products[kind] @ self.f

    def message_passing(self) -> Tensor:
        return self.upwind_norm(self.f, self.reversed_edges)

    def scatter(self) -> Tensor:
        return scatter_norm(self.edge_index, self.f)


def check(operation: Operation, peers: Peers) -> None:
    """Raises an error where the results differ, so that times would not be comparable."""
    close = {"rtol": 1e-3, "atol": 1e-3}
    columns = operation.columns
    for expected in (peers.message_passing(), peers.scatter()):
        torch.testing.assert_close(operation.norm()[:, :columns], expected, **close)
    operation.stage()
    torch.testing.assert_close(operation.slope[:, :columns], 1 - expected, **close)
    neighbours = torch.zeros_like(peers.f).index_add_(0, peers.edge_index[0], peers.f[peers.edge_index[1]])
    for kind in peers.products:
        torch.testing.assert_close(peers.product(kind), neighbours, **close)
    leaf = peers.f.clone().requires_grad_()
    (1 - peers.upwind_norm(leaf, peers.reversed_edges)).backward(operation.cotangent[:, :columns])
    torch.testing.assert_close(operation.vjp()[:, :columns], leaf.grad, **close)


def rows_of(graph: lggd.Graph, name: str, columns: int) -> list[Row]:
    operation = Operation(graph, columns)
    peers = Peers(operation)
    check(operation, peers)
    stepper, state = Stepper(operation.field, lggd.RK4.tableau, operation.rows), operation.rows.clone()
    runners: dict[str, Callable[[], object]] = {
        "norm": operation.norm,
        "stage": operation.stage,
        "step": lambda: stepper.step(state, 1e-5),
        "adjoint": operation.vjp,
        "int32": lambda: peers.product(torch.int32),
        "int64": lambda: peers.product(torch.int64),
        "PyG": peers.message_passing,
        "scatter": peers.scatter,
    }
    calls = dict.fromkeys(runners, FAST) | {"PyG": SLOW, "scatter": SLOW}
    best = {who: 1e6 * seconds for who, seconds in race_on(graph.device, calls, turns=5, **runners).items()}
    launched = 1e6 * min(elapsed(graph.device, operation.stage) for _ in range(FAST))
    note = f"{best['step'] / 4:,.2f} µs as a fourth of an RK4 step; {launched:,.0f} µs with one launch from Python"
    index = min(("int32", "int64"), key=lambda kind: best[kind])
    against, spmm, where = f"SpMM, {index}", best[index], f"{name}, K={columns}"
    return [
        Row(f"norm, {where}", best["norm"], spmm, against, 1 / EVALUATION, _padding(operation), "µs"),
        Row(f"stage, {where}", best["stage"], spmm, against, 1 / EVALUATION, note, "µs"),
        Row(f"adjoint, {where}", best["adjoint"], spmm, against, 1 / ADJOINT, unit="µs"),
        Row(f"norm, {where}", best["norm"], best["PyG"], "PyG message passing", unit="µs"),
        Row(f"norm, {where}", best["norm"], best["scatter"], "torch gather, scatter_add", unit="µs"),
    ]


def _padding(operation: Operation) -> str:
    idle = operation.carried - operation.columns
    return f"ours computes {operation.carried} columns, {idle} of them padding" if idle else "no padding"


def tables(run: Run) -> list[Table]:
    name, columns = ("d5k", 10) if run.quick else ("d2M", 100)
    table = Table("One evaluation beside one sparse product of the same shape, p=1, float32")
    table.rows += rows_of(disk(name)[0].to(run.device), name, 10)
    computers = lggd.Graph.from_pyg(lggd.load("computers"), dtype=torch.float32)
    table.rows += rows_of(computers.to(run.device), "Computers", columns)
    return [table]
