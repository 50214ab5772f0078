"""From new labels to new predictions, without retraining, with one model for all times."""

from __future__ import annotations

import statistics

import lggd
from benchmarks.record import Run
from benchmarks.timing import Row, Table, elapsed

REPEATS, BAR = 20, 10
# The time of adding labels does not depend on how well distances were trained.
EPOCHS = 20


def tables(run: Run) -> list[Table]:
    data = lggd.load("pubmed", dynamic=True).to(run.device)
    nodes = data.new_mask[:, 0].nonzero().squeeze(1)
    labels = data.y[nodes]
    features = lggd.LGGD(per_time=False, optimization=lggd.Optimization(weight_decay=0.002, epochs=EPOCHS))
    backbone = lggd.Optimization(epochs=5) if run.quick else lggd.Optimization()
    model = lggd.LGGDClassifier(features, lggd.GCN(), backbone).fit(data)
    before = model.labels_

    def add() -> None:
        model._set_labels(before)
        model.add_labels(nodes, labels).predict()

    add()
    taken = [1e3 * elapsed(run.device, add) for _ in range(REPEATS)]
    table = Table(f"New labels: PubMed, {len(nodes)} labels added, to predictions for all nodes; shared model, GCN")
    table.rows += [
        Row(f"median of {REPEATS}", statistics.median(taken), bar=BAR),
        Row(f"best of {REPEATS}", min(taken), bar=BAR),
    ]
    return [table]
