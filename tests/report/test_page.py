"""The page as text: complete, safe and self-contained."""

import json

import numpy as np
import pytest

from lggd.report.page import render, write
from lggd.report.run_report import LabelAddition
from page_reader import PageReader, text_of
from sample_reports import HOSTILE, bare, hostile, random_report, small


def test_rendering_is_deterministic():
    assert render(small()) == render(small())


def test_page_is_written_atomically(tmp_path):
    path = tmp_path / "report.html"
    write(small(), path)
    assert path.read_text(encoding="utf-8") == render(small())
    assert [other.name for other in tmp_path.iterdir()] == ["report.html"]


def test_missing_folder_is_rejected(tmp_path):
    with pytest.raises(OSError, match="must lie in a folder that exists"):
        write(small(), tmp_path / "nowhere" / "report.html")


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
