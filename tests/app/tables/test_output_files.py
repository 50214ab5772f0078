"""Results in files: written completely or not at all, and read back unchanged."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lggd.app.tables.nodes import read_node_file
from lggd.app.tables.output_files import write_distances, write_features, write_predictions

ODD_IDS = ["007", "7", "Zoë, 王", 'say "hi"', "a;b\tc", "-1", "1.0", "nan", "null"]


def test_distances_are_written_atomically(tmp_path: Path) -> None:
    path = tmp_path / "far.csv"
    write_distances(path, ["a", "b, c"], [0.1, float("inf")])
    assert path.read_text(encoding="utf-8") == 'node,distance\na,0.1\n"b, c",inf\n'
    with pytest.raises(ValueError, match="zip"):
        write_distances(path, ["a", "b"], [1.0])
    assert path.read_text(encoding="utf-8") == 'node,distance\na,0.1\n"b, c",inf\n'
    assert [entry.name for entry in tmp_path.iterdir()] == ["far.csv"]


def test_distances_in_tsv(tmp_path: Path) -> None:
    write_distances(tmp_path / "far.tsv", ["a"], [1.5])
    assert (tmp_path / "far.tsv").read_text(encoding="utf-8") == "node\tdistance\na\t1.5\n"


def test_distances_in_parquet(tmp_path: Path) -> None:
    write_distances(tmp_path / "far.parquet", ["a", "b"], [1.5, float("inf")])
    rows = [{"node": "a", "distance": 1.5}, {"node": "b", "distance": float("inf")}]
    assert pq.read_table(tmp_path / "far.parquet").to_pylist() == rows


def test_predictions_in_csv_and_parquet(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_predictions(path, ["007", "a, b"], ["x", "y z"], torch.tensor([[0.9, 0.1], [0.25, 0.75]]), [-1, 0])
    assert path.read_text(encoding="utf-8") == (
        'node,predicted,probability,labelled,p(x),p(y z)\n007,x,0.9,,0.9,0.1\n"a, b",y z,0.75,x,0.25,0.75\n'
    )
    write_predictions(tmp_path / "out.parquet", ["007"], ["x", "y"], np.array([[0.5, 0.5]]))
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [
        {"node": "007", "predicted": "x", "probability": 0.5, "labelled": "", "p(x)": 0.5, "p(y)": 0.5}
    ]


@pytest.mark.parametrize("name", ["features.parquet", "features.csv", "features.tsv"])
def test_features_round_trip_exactly(tmp_path: Path, name: str) -> None:
    features = torch.randn(len(ODD_IDS), 3, generator=torch.Generator().manual_seed(0))
    write_features(tmp_path / name, ODD_IDS, ["d(x)", "d(y, z)", "id2"], features)
    table = read_node_file(tmp_path / name)
    assert table.ids == ODD_IDS
    assert table.feature_names == ["d(x)", "d(y, z)", "id2"]
    assert np.array_equal(table.x, features.numpy())
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


# Space around a name is not kept, and neither are marks that end a line or a file.
NAMES = st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1).filter(lambda s: s == s.strip())


@given(ids=st.lists(NAMES, min_size=1, unique=True), classes=st.lists(NAMES, min_size=2, max_size=4, unique=True))
def test_arbitrary_names_round_trip(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], classes: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("names")
    given_labels = np.arange(len(ids)) % (len(classes) + 1) - 1
    chances = np.eye(len(classes))[np.arange(len(ids)) % len(classes)]
    for ending in ("csv", "tsv"):
        path = folder / f"out.{ending}"
        write_predictions(path, ids, classes, chances, given_labels)
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter={"csv": ",", "tsv": "\t"}[ending]))
        assert [row["node"] for row in rows] == ids
        assert [row["predicted"] for row in rows] == [classes[k % len(classes)] for k in range(len(ids))]
        assert [row["labelled"] for row in rows] == ["" if k < 0 else classes[k] for k in given_labels]
    for ending in ("csv", "parquet"):
        path = folder / f"features.{ending}"
        write_features(path, ids, ["f"], np.zeros((len(ids), 1)))
        assert read_node_file(path).ids == ids


@pytest.mark.parametrize(
    ("write", "kind", "message"),
    [
        (lambda p: write_features(p, ["a"], ["node"], [[0]]), ValueError, "different names, got 'node' twice"),
        (
            lambda p: write_features(p.with_suffix(".xls"), ["a"], ["x"], [[0]]),
            ValueError,
            r"must end in \.csv, \.tsv or",
        ),
        (
            lambda p: write_predictions(p.parent / "no" / "x.csv", ["a"], ["x"], [[1]]),
            OSError,
            "Create it first",
        ),
    ],
)
def test_invalid_results_leave_no_file(tmp_path: Path, write: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        write(tmp_path / "out.csv")  # type: ignore[operator]
    assert list(tmp_path.iterdir()) == []
