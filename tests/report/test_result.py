"""The result in words: intervals, the paired verdict and the counts of classes."""

import numpy as np
import pytest

from lggd.report.result import classes_section, result_section
from page_reader import PageReader, text_of
from sample_reports import random_report, small


def compared(only_model, only_reference, both=50):
    """A report in which each of the two models alone is correct on so many of 100 test nodes."""
    report = random_report(115, 3)
    y = report.y
    wrong = (y + 1) % 3
    first = 15 + np.arange(100)
    model_correct, reference_correct = np.zeros(115, bool), np.zeros(115, bool)
    model_correct[first[: both + only_model]] = True
    reference_correct[first[:both]] = True
    reference_correct[first[both + only_model : both + only_model + only_reference]] = True
    return random_report(
        115, 3, predicted=np.where(model_correct, y, wrong), reference_predicted=np.where(reference_correct, y, wrong),
        accuracy={"model": float(both + only_model), "reference": float(both + only_reference)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("only_model", "only_reference", "expected"),
    [
        (20, 2, "LGGD + GCN is better than GCN on these nodes."),
        (2, 20, "LGGD + GCN is worse than GCN on these nodes."),
        (8, 6, "No clear difference between LGGD + GCN and GCN."),
        (5, 0, "No clear difference"),  # p = 1/16
        (6, 0, "is better than"),  # p = 1/32
        (0, 0, "Both classify the same nodes correctly."),
    ],
)
def test_the_verdict_is_that_of_a_paired_test(only_model, only_reference, expected):
    assert expected in text_of(compared(only_model, only_reference))


def test_the_verdict_shows_its_evidence():
    text = text_of(compared(8, 6))
    assert "Only LGGD + GCN is correct on 8 nodes, only GCN on 6" in text
    assert "McNemar's exact test, p = 0.79" in text


@pytest.mark.parametrize(
    ("reference", "model", "expected"),
    [
        (50.0, 90.0, "+40.0 points"),
        (None, 50.0, "there is no comparison"),
        (None, None, "Accuracy is unknown"),
    ],
)
def test_without_predictions_of_the_reference_there_is_no_verdict(reference, model, expected):
    text = text_of(random_report(1015, 3, accuracy={"reference": reference, "model": model}))
    assert expected in text
    assert "than GCN" not in text


def test_few_nodes_have_a_wide_interval():
    # 2 of 3: Wilson's interval, not ± 53.
    assert "20.8 to 93.9" in PageReader(result_section(small())).text


def test_classes_are_counted():
    cells = [row.split("</td>") for row in classes_section(small()).split("<tr>")[2:]]
    counts = [[cell.rpartition(">")[2] for cell in row[:-1]] for row in cells]
    # labels, predicted, true class, test nodes, accuracy, interval
    assert counts[0][:5] == ["1", "3", "2", "1", "100.0"]
    assert counts[1][:5] == ["1", "1", "2", "1", "0.0"]
    assert counts[2][:5] == ["1", "2", "2", "1", "100.0"]


def test_unknown_classes_are_not_counted():
    text = PageReader(classes_section(small(y=np.full(6, -1), test_mask=np.zeros(6, bool)))).text
    assert "true class" not in text
    assert "accuracy" not in text
