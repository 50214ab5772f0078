"""From new nodes to new predictions: one node with five edges arrives at the closed form on Cora."""

from __future__ import annotations

import statistics

import torch

import lggd
from benchmarks.record import Run
from benchmarks.timing import Row, Table, elapsed

# Milliseconds: everything is solved again with the settings at hand.
BAR = 150
ARRIVALS, EDGES, SPLITS = 50, 5, 3


def tables(run: Run) -> list[Table]:
    table = Table(
        f"New nodes: Cora, a node with {EDGES} edges, to predictions for all nodes; side by side with all again"
    )
    splits = 1 if run.quick else SPLITS
    for split in range(splits):
        updated, again, difference = measure(run, split)
        what = f"split {split}, median of {len(updated)} arrivals"
        note = f"same probabilities to {difference:.0e}"
        table.rows.append(Row(what, statistics.median(updated), bar=BAR, note=note))
        table.rows.append(
            Row(what, statistics.median(updated), statistics.median(again), "restoring the model on the new graph")
        )
    return [table]


def measure(run: Run, split: int) -> tuple[list[float], list[float], float]:
    """Milliseconds of each arrival, of restoring the model on the new graph, and how much probabilities differ."""
    data = lggd.load("cora", split=split).to(run.device)
    generator = torch.Generator().manual_seed(split)
    model = lggd.KernelRidge().fit(data)
    updated, again, difference = [], [], 0.0
    for arrival in range(6 if run.quick else ARRIVALS):
        count = model.data_.num_nodes
        # The features of some node, and edges to others at random.
        like = int(torch.randint(data.num_nodes, (1,), generator=generator))
        ends = torch.randperm(count, generator=generator)[:EDGES].to(run.device)
        edges = torch.stack([torch.full_like(ends, count), ends])
        x = data.x[like : like + 1]
        updated.append(1e3 * elapsed(run.device, lambda: model.add_nodes(x, edges).predict()))  # noqa: B023
        fresh = model.__class__(**model.get_params(deep=False))
        fresh._start(model.data_, model.num_classes_)
        fresh.labels_, state = model.labels_, model._state()
        if arrival % 5 == 0:
            again.append(1e3 * elapsed(run.device, lambda: fresh._restore(fresh.data_, state)))  # noqa: B023
            fresh_proba = fresh.predict_proba()
            difference = max(difference, float((fresh_proba - model.predict_proba()).abs().max()))
    return updated[1:], again, difference
