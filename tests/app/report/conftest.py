"""The report of a run on digits, and a browser."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import lggd
from lggd._system.files import write_text
from lggd.app.report.graph_layout import layout_graph
from lggd.app.report.page import render
from support import browser
from support.sample_reports import small


@pytest.fixture(scope="session")
def digits():
    """Distances to five labelled images of each digit, and what they alone predict."""
    images = load_digits()
    graph = lggd.Graph.from_points(images.data, k=10)
    generator = np.random.default_rng(0)
    labels = np.full(graph.num_nodes, -1)
    for k in range(10):
        labels[generator.choice(np.flatnonzero(images.target == k), 5, replace=False)] = k
    final = lggd.distance(graph, [np.flatnonzero(labels == k).tolist() for k in range(10)]).value.numpy()
    distances = np.stack([np.minimum(final, t) for t in (1.0, 2.0, 8.0)])
    probabilities = torch.softmax(torch.from_numpy(-4 * final), dim=1).numpy()
    predicted, test_mask = probabilities.argmax(1), labels < 0
    losses = {
        f"{part}_loss t={t}": [2 / (1 + k) + t / 10 for k in range(60)]
        for part in ("train", "validation")
        for t in (1, 2)
    }
    accurate = {"train_loss": [2.0, 1.0, math.nan, math.inf, 0.4], "validation_accuracy": [0.1, 0.5, 0.9, 0.8, 0.85]}
    return small(
        title="Handwritten digits", num_edges=graph.num_edges, classes=[str(k) for k in range(10)], ids=None,
        y=images.target, labels=labels, predicted=predicted, probabilities=probabilities, test_mask=test_mask,
        times=[1.0, 2.0, 8.0], distances=distances, positions=layout_graph(graph), edges=graph.edge_index,
        accuracy={"reference": 86.0, "model": 100 * float((predicted == images.target)[test_mask].mean())},
        curves={"GCN": accurate, "distances": losses, "LGGD + GCN": accurate},
    )  # fmt: skip


@pytest.fixture(scope="module")
def chromium():
    with browser.launch() as launched:
        yield launched


@pytest.fixture(scope="session")
def digits_page(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "digits.html"
    write_text(path, render(digits))
    return path


@pytest.fixture
def written(tmp_path):
    def write_it(report):
        write_text(tmp_path / "report.html", render(report))
        return tmp_path / "report.html"

    return write_it
