"""Labels: which cells are classes, and what is said about the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from lggd.data.graph_files import read_graph_files
from lggd.data.labels import UNLABELLED, LabelReader, sorted_classes
from lggd.errors import InputError, InputTypeError
from table_files import written


@pytest.mark.parametrize("text", ["", *UNLABELLED, "NA", "NaN", "Unknown", None, float("nan"), -1, -1.0])
def test_cells_without_a_class(text: object) -> None:
    assert LabelReader().read(text) is None


@pytest.mark.parametrize("text", ["0", "1", "-2", "nana", "no", "false", "na na", "nothing"])
def test_classes(text: str) -> None:
    assert LabelReader().read(text) == text


def test_named_values_replace_the_usual_ones() -> None:
    reader = LabelReader(["tbd", " x "])
    assert [reader.read(text) for text in ("tbd", "x", "", "TBD", "unknown", "-1")] == [
        None, None, None, "TBD", "unknown", "-1",
    ]  # fmt: skip
    with pytest.raises(InputTypeError, match="`unlabelled` must be a list of values, got the text 'tbd'"):
        LabelReader("tbd")


def test_named_values_that_surprise_are_said() -> None:
    reader = LabelReader(["tbd", "x,y", ""])
    labels = [reader.read(text) for text in ("red", "tbd", "NA", "nan", "blue")]
    assert reader.notes(labels)[1:] == (
        "'NA', 'nan' are classes, because option `unlabelled` names other values; repeat it for each.",
        "No label is 'x,y', which option `unlabelled` names.",
    )
    plain = LabelReader(["tbd"])
    assert len(plain.notes([plain.read(text) for text in ("red", "tbd", "blue")])) == 1


def test_what_was_read_is_said() -> None:
    reader = LabelReader()
    labels = [reader.read(text) for text in ("red", "NA", "red", "", "-1", "NA", "blue", "Red")]
    assert reader.notes(labels) == (
        "Labels: 1 Red, 1 blue, 2 red; 4 of 8 nodes are unlabelled (2 'NA', 1 empty, 1 '-1'; option `unlabelled` for "
        "other values).",
        "Classes 'Red' and 'red' differ only in case or format.",
    )
    assert sorted_classes({"10", "9", "1.5"}) == ["1.5", "9", "10"]


def test_too_few_classes_show_the_remedy(tmp_path: Path) -> None:
    edges = written(tmp_path / "e.csv", "source,target\na,b\n")
    nodes = written(tmp_path / "n.csv", "id,k\na,1\nb,-1\n")
    with pytest.raises(InputError, match=r"got only '1' besides 1 '-1', read as unlabelled.*unlabelled=\[''\]"):
        read_graph_files(edges, nodes, label="k")
    assert read_graph_files(edges, nodes, label="k", unlabelled=[""]).classes == ["-1", "1"]
