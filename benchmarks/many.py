"""Ten splits trained in one pass, compared with ten passes: how much work they share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch

import lggd
from benchmarks.graphs import splits
from benchmarks.record import Run
from benchmarks.timing import Row, Table, elapsed
from lggd.training.cuda_graph import WARM_UP

SPLITS = 10
# The target: how many times as long as one split ten may take.
AT_MOST = 2.5
TURNS, EPOCHS = 3, 4


def epoch(data: list[Any], make: Callable[..., lggd.LGGD]) -> float:
    """Seconds of the shortest epoch of a fit to all data, without what precedes the first epoch."""
    optimization = replace(make().optimization, epochs=WARM_UP + EPOCHS)
    models = [make(optimization=optimization) for _ in data]
    ends: list[float] = []
    lggd.fit_together(models, data, callback=lambda progress: ends.append(time.perf_counter()))
    return min(after - before for before, after in pairwise(ends))


def evolution(data: list[Any]) -> float:
    """Seconds of an evolution of as many columns and its gradient, without the networks."""
    graph, settings = lggd.Graph.from_pyg(data[0]), lggd.LGGD()
    columns = len(data) * len(settings.times) * data[0].num_classes
    start = torch.rand(graph.num_nodes, columns, device=graph.device, requires_grad=True)

    def forward_and_backward() -> None:
        found = lggd.evolve(graph, None, start=start, times=settings.times, potential=settings.potential)
        torch.autograd.grad(found.value[-1].square().mean(), start)

    forward_and_backward()
    return min(elapsed(graph.device, forward_and_backward) for _ in range(EPOCHS))


def row(what: str, data: list[Any], turns: int, seconds: Callable[[list[Any]], float]) -> Row:
    """All splits at once, compared with one after another, measured in turns."""
    one, together = float("inf"), float("inf")
    for _ in range(turns):
        one, together = min(one, seconds(data[:1])), min(together, seconds(data))
    note = f"{together / one:.2f} times one split, which takes {1e3 * one:.1f} ms; the target is {AT_MOST} times"
    count = len(data)
    return Row(what, 1e3 * together, count * 1e3 * one, f"{count} times one split", count / AT_MOST, note)


def tables(run: Run) -> list[Table]:
    data = splits("cora", SPLITS, run.device)
    turns = 1 if run.quick else TURNS
    table = Table(f"Many at once: Cora, {SPLITS} splits, five horizons, one epoch with validation")
    table.rows += [
        row("default settings", data, turns, lambda some: epoch(some, lggd.LGGD)),
        row("release's settings", data, turns, lambda some: epoch(some, lggd.LGGD.release)),
        row("the evolution and its gradient alone, default settings", data, turns, evolution),
    ]
    return [table]
