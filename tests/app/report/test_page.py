"""The page as text: complete, safe and self-contained."""

import json
import math

import numpy as np
import pytest

from lggd.app.report.page import classes_section, flatten_settings, render, result_section
from lggd.app.report.run_report import LabelAddition, McNemarTest
from support.page_reader import PageReader, text_of
from support.sample_reports import HOSTILE, bare, hostile, random_report, small


def test_rendering_is_deterministic():
    assert render(small()) == render(small())


def test_hostile_names_stay_text():
    kinds = [tag for tag, _ in PageReader(render(small())).tags]
    read = PageReader(render(hostile()))
    assert [tag for tag, _ in read.tags].count("script") == kinds.count("script") == 2
    assert not {"img", "b onerror"} & {tag for tag, _ in read.tags}
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]
    assert read.text.count(HOSTILE[0]) >= 3
    assert json.loads(read.data)["classes"] == HOSTILE[:3]


def test_page_refers_to_no_other_file(digits):
    for tag, attributes in PageReader(render(digits)).tags:
        assert not {"src", "srcset", "action"} & set(attributes), tag
        assert attributes.get("href", "#").startswith(("#", "data:,"))


def test_empty_sections_are_omitted():
    text = text_of(bare())
    for heading in ("Training", "Confusion matrix", "Least certain nodes", "Adding labels", "Settings", "Notes"):
        assert heading not in text
        assert heading in text_of(small())


def test_nodes_are_called_least_certain_only_if_they_are():
    certain = np.tile([0.9, 0.1, 0.0], (6, 1))
    assert "Least certain nodes" not in text_of(small(probabilities=certain, predicted=certain.argmax(1)))


def test_marks_of_the_best_epoch_are_explained_only_where_they_are():
    words = "Dots mark the best validation epoch."
    assert words in text_of(small())
    assert words not in text_of(small(curves={"GCN": {"train_loss": [2.0, 1.0]}}))


def test_rings_are_explained_only_where_they_are():
    assert "Rings mark labelled nodes." in text_of(small())
    assert "Rings mark" not in text_of(small(labels=np.full(6, -1)))


def test_report_without_distances_has_a_map_and_no_more():
    text = text_of(random_report(50, 3, times=0, distances=None))
    assert "Distance" not in text
    assert "All 50 nodes." in text


def test_two_accuracies_for_the_same_labels_are_explained():
    report = random_report(115, 3, additions=[LabelAddition(15, 50.0, 1.0, 70), LabelAddition(45, 60.0, 1.0, 70)])
    text = text_of(report)
    assert "measured on the 70 test nodes whose labels are never added" in text
    assert "50.0\u00a0% with 15 labels is not the same number as 66.7\u00a0% on all 100 test nodes" in text
    same = random_report(115, 3, additions=[LabelAddition(15, 50.0, 1.0, 100)])
    assert "never added" not in text_of(same)


def test_notes_come_before_the_map():
    text = text_of(small(notes=["The column height was ignored."]))
    assert text.index("The column height was ignored.") < text.index("A node's distance to a class")


def test_settings_are_flattened():
    nested = {"a": 1, "b": {"c": None, "d": {"e": [1, 2.5]}}, "f": {}, "g": True, "h": 1e-6, "i": math.inf}
    assert flatten_settings(nested) == [
        ("a", "1"), ("b.c", "none"), ("b.d.e", "1, 2.5"), ("f", "none"), ("g", "yes"), ("h", "1e-06"), ("i", "∞"),
    ]  # fmt: skip


# -- the result in words


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
        115, 3, predicted=np.where(model_correct, y, wrong),
        comparison=McNemarTest.of(model_correct, reference_correct),
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
