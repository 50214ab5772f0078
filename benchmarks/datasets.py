"""The paper's datasets with default settings, ten splits of each: features, then the whole classifier."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import lggd
from benchmarks.graphs import splits
from benchmarks.record import Run
from benchmarks.timing import Row, Table, elapsed
from lggd.datasets.by_name import PAPER

SPLITS, EPOCHS, WARM_UP, BAR = 10, 150, 4, 120


def features(count: int, epochs: int) -> list[lggd.LGGD]:
    optimization = replace(lggd.LGGD().optimization, epochs=epochs)
    return [lggd.LGGD(optimization=optimization) for _ in range(count)]


def classifiers(count: int, epochs: int, short: bool) -> list[lggd.LGGDClassifier]:
    """Features and a GCN with default settings; `short` limits the epochs of the GCN too."""
    backbone = lggd.Optimization(epochs=epochs) if short else lggd.Optimization()
    return [lggd.LGGDClassifier(one, lggd.GCN(), backbone) for one in features(count, epochs)]


def fit_each(models: Sequence[lggd.LGGD | lggd.LGGDClassifier], data: list[Any]) -> None:
    for model, one in zip(models, data, strict=True):
        model.fit(one)


def accuracy(models: list[lggd.LGGDClassifier], data: list[Any]) -> str:
    """Test accuracy over the splits, and the number of epochs of the GCNs."""
    found = [100 * model.score(one) for model, one in zip(models, data, strict=True)]
    longest = max(len(model.history_["backbone"]["train_loss"]) for model in models)
    return f"test {statistics.mean(found):.2f} ± {statistics.stdev(found):.2f} %, GCN up to {longest} epochs"


def rows_of(name: str, count: int, epochs: int, run: Run) -> list[Row]:
    data = splits(name, count, run.device)
    first = elapsed(run.device, lambda: fit_each(classifiers(count, WARM_UP, short=True), data))
    learned, whole = features(count, epochs), classifiers(count, epochs, short=run.quick)
    seconds = [elapsed(run.device, lambda m=models: fit_each(m, data)) for models in (learned, whole)]
    return [
        Row(f"{name}, features", seconds[0], unit="s", note=f"after {WARM_UP} epochs of compilation, {first:.1f} s"),
        Row(f"{name}, LGGD + GCN", seconds[1], unit="s", note=accuracy(whole, data)),
    ]


def tables(run: Run) -> list[Table]:
    names = ("cora", "citeseer") if run.quick else tuple(PAPER)
    count, epochs = (2, 6) if run.quick else (SPLITS, EPOCHS)
    pairs = [rows_of(name, count, epochs, run) for name in names]
    table = Table(f"The paper's datasets: {count} splits, five horizons, {epochs} epochs, default settings")
    table.rows += [row for pair in pairs for row in pair]
    for place, what in enumerate(("features", "LGGD + GCN")):
        total = sum(pair[place].ours for pair in pairs)
        table.rows.append(Row(f"all {len(names)}, {what}", total, bar=BAR, unit="s"))
    return [table]
