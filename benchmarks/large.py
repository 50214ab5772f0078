"""A graph of a hundred million edges on one device: the fraction of the copy bandwidth, and the memory of a step."""

from __future__ import annotations

import gc
import time

import torch

import lggd
from benchmarks.graphs import disk
from benchmarks.operation import Operation, copy_bandwidth, problem_of
from benchmarks.record import Run
from benchmarks.timing import Row, Table, race_on
from lggd.solvers.adjoint import Stepper

COLUMNS, WITHOUT_IDLE = 10, 12
SHARE, STATES = 0.4, 6


def bandwidth(graph: lggd.Graph, built: str) -> list[Row]:
    """The time of a stage, compared with copying as many bytes."""
    device, operation = graph.device, Operation(graph, COLUMNS)
    copied = copy_bandwidth(device)
    best = race_on(device, {"stage": 10, "norm": 10}, stage=operation.stage, norm=operation.norm)
    idle = 1 - COLUMNS / operation.carried
    rate = operation.gathered / best["stage"]
    note = f"{rate / 1e9:,.0f} GB/s without the {idle:.0%} of padded columns that are gathered too; norm alone "
    return [
        Row(
            f"stage, E={graph.num_edges:,}, K={COLUMNS}", best["stage"] * 1e3, operation.gathered / copied * 1e3,
            "copying as many bytes", SHARE, note + f"{best['norm'] * 1e3:.2f} ms",
        ),
        Row("copy bandwidth of this device", copied / 1e9, unit="GB/s", note=built),
    ]  # fmt: skip


def memory(graph: lggd.Graph, columns: int, device: torch.device) -> Row:
    """The peak memory of an RK4 step, in states of these columns, in addition to the rows of the graph."""
    gc.collect()
    before = torch.cuda.memory_allocated()
    graph = graph.to(device)
    csr = graph.layout(100).csr
    rows = csr.indptr.nbytes + csr.indices.nbytes
    problem = problem_of(graph, columns)
    stepper = Stepper(problem.field, lggd.RK4.tableau, problem.start)
    torch.cuda.reset_peak_memory_stats()
    stepper.step(problem.start, 1e-3)
    first = torch.cuda.max_memory_allocated() - before - rows
    torch.cuda.reset_peak_memory_stats()
    stepper.step(problem.start, 1e-3)
    later = torch.cuda.max_memory_allocated() - before - rows
    state, carried = graph.num_nodes * columns * 4, problem.start.shape[1]
    # Four states, and a few numbers per node: the order of the nodes, that of the rows, ρ.
    small = later - 4 * problem.start.nbytes
    note = f"CSR {rows / 2**20:,.0f} MiB, a state {state / 2**20:,.0f} MiB; 4 states of {carried} columns with padding "
    note += f"and {small / state:.2f} for orders and ρ; {first / state:.2f} in the first step"
    return Row(f"RK4 step, K={columns}: memory beyond the CSR", later / state, bar=STATES, unit="states", note=note)


def tables(run: Run) -> list[Table]:
    began = time.perf_counter()
    graph, _ = disk("d5k" if run.quick else "d5M")
    built = f"the graph from its points: {time.perf_counter() - began:.0f} s on one core of the CPU"
    table = Table(f"A large graph, {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, float32")
    table.rows += bandwidth(graph.to(run.device), built)
    if run.device.type == "cuda":
        table.rows += [memory(graph, columns, run.device) for columns in (COLUMNS, WITHOUT_IDLE)]
    return [table]
