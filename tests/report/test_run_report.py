"""What a report accepts and computes."""

import math
from dataclasses import fields

import numpy as np
import pytest
import torch

from lggd.errors import InputError, InputTypeError
from lggd.report.page import render
from lggd.report.run_report import LabelAddition
from sample_reports import bare, small


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": []}, "`y` must contain at least one node, got none"),
        ({"classes": []}, "`classes` must contain at least one class"),
        ({"times": []}, "`times` must contain at least one time if there are distances, else none"),
        ({"distances": None}, "`times` must contain at least one time if there are distances, else none"),
        ({"reference_predicted": np.full(6, 3)}, r"`reference_predicted` must lie in 0\.\.2, got 3"),
        ({"times": [1.0, math.nan]}, "`times` must be finite"),
        ({"ids": ["a"]}, "`ids` must contain one value per node, 6 in all, got 1"),
        ({"accuracy": {"reference": 1.0}}, '`accuracy` must have the keys "model" and "reference", got'),
        (
            {"accuracy": {"reference": 101.0, "model": None}},
            r'`accuracy\["reference"\]` must be a percentage, 0 to 100, got 101',
        ),
        ({"accuracy": {"reference": math.nan, "model": None}}, "must be a percentage"),
        ({"num_edges": -1}, "`num_edges` must be a whole number from 0, got -1"),
        ({"seconds": math.inf}, "`seconds` must be a duration from 0, got inf"),
        ({"created": "yesterday"}, "`created` must be a time in ISO 8601 .* got 'yesterday'"),
        ({"distances": np.zeros((2, 6, 2))}, r"`distances` must have the shape \[2, 6, 3\], got \[2, 6, 2\]"),
        ({"positions": np.zeros((6, 3))}, r"`positions` must have the shape \[6, 2\], got \[6, 3\]"),
        ({"positions": np.full((6, 2), np.nan)}, "`positions` must be finite, got .* at node 0"),
        ({"edges": np.zeros((3, 4), int)}, r"`edges` must have the shape \[2, E\], got \[3, 4\]"),
        ({"edges": np.array([[0], [6]])}, r"`edges` must lie in 0\.\.5, got 6"),
        ({"labels": np.zeros(5, int)}, r"`labels` must have the shape \[6\], got \[5\]"),
        ({"y": np.full(6, 3)}, r"`y` must lie in -1\.\.2, got 3"),
        ({"predicted": np.full(6, -1)}, r"`predicted` must lie in 0\.\.2, got -1"),
        ({"y": np.full(6, -1)}, "`test_mask` must select nodes whose `y` is known, but that of node 1 is -1"),
        ({"probabilities": np.full((6, 3), 2.0)}, r"`probabilities` must lie in \[0, 1\], got values from 2 to 2"),
        ({"probabilities": np.full((6, 3), np.nan)}, r"`probabilities` must lie in \[0, 1\]"),
    ],
)
def test_invalid_values_are_rejected(changes, message):
    with pytest.raises(InputError, match=message):
        small(**changes)


@pytest.mark.parametrize(
    ("name", "value"), [("labels", np.zeros(6)), ("edges", np.zeros((2, 3))), ("test_mask", np.ones(6))]
)
def test_invalid_types_are_rejected(name, value):
    with pytest.raises(InputTypeError, match=f"`{name}` must be .*, got float64"):
        small(**{name: value})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-1, 50, 1), "`labels`"),
        ((1, 101, 1), "`accuracy`"),
        ((1, 50, -1), "`milliseconds`"),
        ((1, 50, 1, 0), "`tested`"),
    ],
)
def test_invalid_additions_are_rejected(values, message):
    with pytest.raises(InputError, match=message):
        LabelAddition(*values)


def test_tensors_and_lists_are_accepted():
    report = small()
    arrays = {field.name: getattr(report, field.name) for field in fields(report)}
    as_tensors = {name: torch.from_numpy(value) for name, value in arrays.items() if isinstance(value, np.ndarray)}
    as_lists = {name: value.tolist() for name, value in arrays.items() if isinstance(value, np.ndarray)}
    assert render(small(**as_tensors)) == render(small(**as_lists)) == render(report)


def test_input_is_not_modified():
    positions = np.zeros((6, 2))
    report = small(positions=positions)
    render(report)
    assert positions.dtype == np.float64
    assert not positions.any()


def test_confusion_counts_test_nodes():
    # Tested: 1 (red, taken for red), 3 (green, taken for red), 5 (blue, taken for blue).
    assert small().confusion().tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert bare().confusion().tolist() == [[0]]


def test_least_certain_nodes_are_sorted_by_margin():
    report = small()
    # Margins: 3 has 0.02, 1 has 0.1, 5 has 0.6, which is certain; 0, 2 and 4 are labelled.
    assert report.least_certain() == [3, 1]
    assert report.least_certain(1) == [3]
    assert report.top_two[0][3].tolist() == [0, 1]
    assert report.margin[3] == pytest.approx(0.02, abs=1e-6)


def test_labelled_nodes_are_not_uncertain():
    assert small(probabilities=np.full((6, 3), 1 / 3)).least_certain() == [1, 3, 5]


def test_single_class_has_no_second():
    report = bare()
    assert (report.top_two[0].tolist(), report.margin.tolist()) == ([[0, -1]], [1.0])


@pytest.mark.parametrize(
    ("reference", "model", "difference"),
    [(50.0, 60.0, 10.0), (60.0, 50.0, -10.0), (None, 50.0, None), (50.0, None, None)],
)
def test_gain_needs_both_accuracies(reference, model, difference):
    assert small(accuracy={"reference": reference, "model": model}).gain == difference
