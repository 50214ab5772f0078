"""The page as text: complete, safe and self-contained."""

import json

import pytest

from lggd.report.page import render, write
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


@pytest.mark.parametrize(
    ("reference", "model", "expected"),
    [
        (50.0, 90.0, "LGGD + GCN is better than GCN."),
        (90.0, 50.0, "LGGD + GCN is worse than GCN."),
        (50.0, 50.0, "LGGD + GCN and GCN are equal."),
        (None, 50.0, "there is no comparison"),
        (None, None, "Accuracy is unknown"),
    ],
)
def test_result_states_the_comparison(reference, model, expected):
    assert expected in text_of(random_report(1015, 3, accuracy={"reference": reference, "model": model}))


def test_insignificant_differences_are_reported():
    text = text_of(random_report(115, 3, accuracy={"reference": 80.0, "model": 81.0}))
    assert "each accuracy has an uncertainty of about ±7.7, more than the difference." in text


def test_empty_sections_are_omitted():
    text = text_of(bare())
    for heading in ("Training", "Confusion matrix", "Least certain nodes", "Adding labels", "Settings", "Notes"):
        assert heading not in text
        assert heading in text_of(small())
