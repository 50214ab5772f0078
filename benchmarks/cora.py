"""Distances on Cora with the settings of the authors' code: ten splits, compared with their method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import lggd
from benchmarks.graphs import splits
from benchmarks.learning import AuthorsModel
from benchmarks.record import Run
from benchmarks.timing import Row, Table, elapsed
from lggd import DegreePotential, LearnedEdgeWeights
from lggd.inputs import Labels

SPLITS, HORIZONS, EPOCHS, WARM_UP, BAR = 10, (1.0, 2.0, 3.0, 4.0, 5.0), 150, 4, 5
# Timed epochs of each of the authors' models; all others take as long.
TIMED = 2
KINDS = {"learned edge weights": LearnedEdgeWeights(DegreePotential(-0.5)), "fixed weights": DegreePotential(-0.5)}


def models(potential: DegreePotential | LearnedEdgeWeights, count: int, epochs: int) -> list[lggd.LGGD]:
    """The settings of the authors' code, one model per split."""
    optimization = replace(lggd.LGGD.release().optimization, epochs=epochs)
    return [lggd.LGGD.release(potential=potential, optimization=optimization) for _ in range(count)]


def fit_each(models: list[lggd.LGGD], data: list[Any]) -> None:
    for model, one in zip(models, data, strict=True):
        model.fit(one)


def authors_seconds(data: object, learned: bool) -> float:
    """Seconds of one epoch of five models of one split, one after another: the best of `TIMED`, after a warm-up."""
    labels, total = Labels.read(data), 0.0
    for horizon in HORIZONS:
        model = AuthorsModel(data, labels, horizon, learned)
        model.epoch()
        total += min(elapsed(data.x.device, model.epoch) for _ in range(TIMED))
    return total


def rows_of(kind: str, data: list, epochs: int) -> list[Row]:
    device, potential = data[0].x.device, KINDS[kind]
    warm_up = elapsed(device, lambda: fit_each(models(potential, len(data), WARM_UP), data))
    ours = elapsed(device, lambda: fit_each(models(potential, len(data), epochs), data))
    each = authors_seconds(data[0], learned=isinstance(potential, LearnedEdgeWeights))
    extrapolated = f"from {TIMED} epochs per time, {1e3 * each:,.0f} ms for all five, times {epochs} and {len(data)}"
    return [
        Row(kind, ours, bar=BAR, unit="s", note=f"after {WARM_UP} epochs of compilation, {warm_up:.1f} s"),
        Row(kind, ours, each * epochs * len(data), "odeint_adjoint rk4, scatter", unit="s", note=extrapolated),
    ]


def tables(run: Run) -> list[Table]:
    count, epochs = (2, 6) if run.quick else (SPLITS, EPOCHS)
    data = splits("cora", count, run.device)
    table = Table(f"Learning: Cora, {count} splits, five horizons, {epochs} epochs with validation, step 0.1, 512-128")
    for kind in KINDS:
        table.rows += rows_of(kind, data, epochs)
    return [table]
