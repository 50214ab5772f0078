"""Reports of small, empty, random and hostile runs."""

from __future__ import annotations

import numpy as np

from lggd.app.report.run_report import LabelAddition, RunReport

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "' onmouseover='window.hacked = 1",
    "<!-- -->",
    "&lt;b&gt;",
    "$script $data ${x}",
    "lone \ud800 half, \u2028 and \0",
    "a very long name " * 20,
]


def small(**changes):
    """A report of six nodes in three classes. Nodes 0, 2 and 4 are labelled, the others tested."""
    probabilities = np.array(
        [[0.8, 0.1, 0.1], [0.5, 0.4, 0.1], [0.1, 0.8, 0.1], [0.35, 0.33, 0.32], [0.1, 0.1, 0.8], [0.0, 0.2, 0.8]]
    )
    values = {
        "title": "A small run", "dataset": "six", "titles": {"model": "LGGD + GCN", "reference": "GCN"},
        "created": "2025-01-31T12:00:00", "version": "0.1.0", "machine": "a computer", "seconds": 1.5,
        "settings": {"seed": 0, "split": {"train": 0.5}}, "num_edges": 10, "classes": ["red", "green", "blue"],
        "ids": list("abcdef"), "accuracy": {"reference": 50.0, "model": 66.7},
        "curves": {"GCN": {"train_loss": [2.0, 1.0, 0.5], "validation_loss": [2.0, 1.2, 1.3]}},
        "times": [1.0, 2.0], "distances": np.arange(36).reshape(2, 6, 3) / 10,
        "positions": np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]]),
        "edges": np.array([[0, 1, 1, 3, 2, 3, 3, 5, 4, 5], [1, 0, 3, 1, 3, 2, 5, 3, 5, 4]]),
        "y": np.array([0, 0, 1, 1, 2, 2]), "labels": np.array([0, -1, 1, -1, 2, -1]),
        "predicted": probabilities.argmax(1), "probabilities": probabilities,
        "test_mask": np.array([False, True, False, True, False, True]),
        "additions": [LabelAddition(3, 66.7, 0.0), LabelAddition(4, 100.0, 2.5)], "notes": ["Nothing to note."],
    }  # fmt: skip
    return RunReport(**{**values, **changes})


def bare(**changes):
    """A report without anything optional: a single node, no edge, no accuracy, no curve."""
    nothing = {
        "num_edges": 0, "classes": ["only"], "ids": None, "accuracy": {"reference": None, "model": None}, "curves": {},
        "times": [1.0], "distances": np.full((1, 1, 1), np.inf), "positions": np.zeros((1, 2)),
        "edges": np.zeros((2, 0), int), "y": np.array([-1]), "labels": np.array([-1]), "predicted": np.array([0]),
        "probabilities": np.ones((1, 1)), "test_mask": np.array([False]), "additions": [], "notes": [], "settings": {},
    }  # fmt: skip
    return small(**{**nothing, **changes})


def random_report(nodes, classes, times=5, edges=4, **changes):
    """Random numbers of the given sizes; the first five nodes per class are labelled, the others tested."""
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(classes), nodes)
    y = generator.integers(classes, size=nodes)
    labels = np.where(np.arange(nodes) < 5 * classes, y, -1)
    return small(**{
        "num_edges": edges * nodes, "classes": [f"class {k}" for k in range(classes)], "ids": None,
        "times": list(range(1, times + 1)), "distances": generator.random((times, nodes, classes)),
        "positions": generator.normal(size=(nodes, 2)), "edges": generator.integers(nodes, size=(2, edges * nodes)),
        "y": y, "labels": labels, "predicted": probabilities.argmax(1), "probabilities": probabilities,
        "test_mask": labels < 0, **changes,
    })  # fmt: skip


def hostile():
    """A report in which every name is an attack."""
    return small(
        title=HOSTILE[0], dataset=HOSTILE[1], titles={"model": HOSTILE[2], "reference": HOSTILE[5]},
        version=HOSTILE[3], machine=HOSTILE[4], classes=HOSTILE[:3], ids=HOSTILE[3:9],
        settings={HOSTILE[0]: {HOSTILE[1]: HOSTILE[2]}}, notes=HOSTILE,
        curves={HOSTILE[1]: {HOSTILE[0]: [1.0, 2.0], f"validation_loss {HOSTILE[2]}": [1.0, 2.0]}},
    )  # fmt: skip
