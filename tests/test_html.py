"""Cards: bounded, escaped, there for every object."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

import lggd
from lggd.html import MAX_ROWS, bars, card, card_table, curve, histogram

VOID = {"br", "img"}
LARGEST = 20_000  # characters of any card


class Balance(HTMLParser):
    """Collects the open tags, and fails where one is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(html: str) -> set[str]:
    """The tags of well-formed HTML of bounded size, without scripts and addresses."""
    reader = Balance()
    reader.feed(html)
    assert reader.open == []
    assert len(html) < LARGEST
    assert not {"script", "link", "style", "iframe"} & reader.seen
    assert "nan" not in re.sub(r"<[^>]*>", "", html).lower().split()
    return reader.seen


GRAPHS = {
    "path": lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max"),
    "without edges": lggd.Graph.from_edges(np.empty((2, 0), int), num_nodes=3),
    "one node": lggd.Graph.from_edges(np.empty((2, 0), int), num_nodes=1),
    "directed, weighted": lggd.Graph.from_edges([(0, 1), (1, 2)], [0.5, 1.0], directed=True),
    "points": lggd.Graph.from_points(np.random.default_rng(0).random((500, 2)), k=5),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_and_its_distance_are_shown(name: str) -> None:
    graph = GRAPHS[name]
    html = graph._repr_html_()
    check(html)
    assert f"{graph.num_nodes:,}" in html
    solution = lggd.distance(graph, [0])
    assert solution.status.name in solution._repr_html_()
    check(solution._repr_html_())


def test_an_evolution_shows_its_last_time_and_its_step() -> None:
    graph = lggd.Graph.from_grid(np.ones((4, 4), bool))
    start = torch.rand(16, 2, requires_grad=True)
    html = lggd.evolve(graph, [[0], [15]], start=start, times=(1, 2))._repr_html_()
    assert "svg" in check(html)
    assert "step" in html


def test_models_are_shown_before_and_after_the_fit() -> None:
    data = lggd.load("karate")
    model = lggd.LGGDClassifier(None, lggd.GCN(), lggd.Optimization(epochs=3))
    before = model._repr_html_()
    check(before)
    assert "not fitted" in before
    model.fit(data).metadata_["classes"] = ["<b>Mr. Hi</b>", "x" * 1000]
    after = model._repr_html_()
    assert "svg" in check(after)  # the training curve
    assert "&lt;b&gt;Mr. Hi&lt;/b&gt;" in after
    assert "<b>Mr" not in after
    assert "x" * 200 not in after
    assert f"{int((model.labels_ >= 0).sum())} of 34" in after


def test_a_comparison_shows_its_table_and_recommendation() -> None:
    comparison = lggd.compare(
        lggd.load("karate"), ["label-propagation", "kernel-ridge"], splits=2, labels=2, curve=False
    )
    html = comparison._repr_html_()
    assert "table" in check(html)
    assert "label-propagation" in html
    assert comparison.recommendation.split(":")[0] in html


def test_names_are_escaped_everywhere() -> None:
    name = "<script>alert(1)</script>\"'"
    for html in (
        card(name, [(name, name)], note=name),
        card_table([name], [[name]]),
        bars([(name, 1.0)], name),
        histogram([1, 2], name),
        curve([1, 2], name),
    ):
        assert "<script>" not in html
        check(html)


def test_sizes_are_bounded() -> None:
    check(card("many", [("name" * 100, "value" * 100)] * 1000))
    html = card_table(["n"], [[k] for k in range(MAX_ROWS + 5)])
    assert "and 5 more" in html
    assert "and 980 more" in bars([("x", 1)] * 1000, "many")
    check(histogram(np.random.default_rng(0).normal(size=10**6), "values"))
    check(curve(list(range(10**5)), "loss"))


def test_nothing_finite_is_no_picture() -> None:
    assert histogram([], "values") == histogram([math.inf, math.nan], "values") == ""
    assert curve([1.0], "loss") == curve([], "loss") == ""
    assert "svg" in check(histogram([3.0, 3.0], "equal"))
