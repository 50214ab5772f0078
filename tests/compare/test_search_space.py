"""Search spaces: what belongs to them, and their middle, which a search tries first."""

from __future__ import annotations

from typing import Any

import pytest

from lggd.compare.methods import Method
from lggd.compare.search import first_settings
from lggd.compare.search_space import Categorical, Range


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Range(0.2, 0.8), 0.5),
        (Range(0.6, 0.8), 0.7),
        (Range(0.2, 0.9, 0.2), 0.4),
        (Range(0.001, 0.1, log=True), 0.01),
        (Categorical((0.25, 0.75)), 0.25),
    ],
)
def test_what_may_not_be_tried_first_is_replaced_by_the_middle(space: Any, expected: float) -> None:
    method = Method("01", "GCN", "Backbone", "gcn", {"dropout": 0.5}, {"dropout": space})
    assert first_settings(method, "gcn")["dropout"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (Range(8, 64, 8), [8, 32], [9, 72, "8"]),
        (Range(1, 9), [5], [5.5]),
        (Range(0.1, 0.9, 0.1), [0.1, 0.3, 0.9], [0.35, 1.0]),
        (Categorical((1, "a", True)), [1, "a", True], [1.0, "b", False]),
    ],
)
def test_membership_respects_steps_and_types(space: Any, inside: list[Any], outside: list[Any]) -> None:
    assert all(value in space for value in inside)
    assert not any(value in space for value in outside)


def test_ranges_are_integers_if_all_their_numbers_are() -> None:
    assert Range(8, 64, 8).is_integer
    assert not Range(0.05, 0.95, 0.05).is_integer
    assert not Range(1, 2, 0.5).is_integer
    assert isinstance(Range(8, 128, log=True).middle, int)
