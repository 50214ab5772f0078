"""lggd features."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import lggd
from command_line import answer, refused
from lggd.data.nodes import read_node_file
from lggd.runs.run_input import RunInput
from tables import PATH_IDS, labelled_path


@pytest.fixture
def tables(tmp_path: Path) -> list[object]:
    return labelled_path(tmp_path)


def test_features_of_tables(tables: list[object], tmp_path: Path) -> None:
    found = answer("features", *tables, "--method", "ggd", "--out", tmp_path / "f.csv")
    assert (found["dataset"], found["method"], found["nodes"], found["labelled"]) == ("nodes", "ggd", 8, 2)
    assert found["features"] == [f"class {c}, t={t}" for t in range(1, 6) for c in ("left", "right")] + ["reachable"]
    table = read_node_file(tmp_path / "f.csv")
    assert (table.ids, table.feature_names) == (PATH_IDS, found["features"])
    data = RunInput.from_tables(tables[1], tables[3], 0, label="side").data  # type: ignore[arg-type]
    assert torch.equal(torch.from_numpy(table.x), lggd.GGD().fit(data).features(data))


def test_learned_features_of_a_dataset_use_its_training_labels_alone(tmp_path: Path) -> None:
    found = answer("features", "karate", "--seed", "4", "--out", tmp_path / "f.parquet")
    assert (found["labelled"], found["classes"]) == (10, ["Mr. Hi", "Officer"])
    data = lggd.load("karate")
    data.y[data.test_mask] = 0
    expected = lggd.LGGD.solved(seed=4).fit(data).features(data)
    assert torch.equal(torch.from_numpy(read_node_file(tmp_path / "f.parquet").x), expected)


def test_bad_input_is_refused(tables: list[object], tmp_path: Path) -> None:
    out = tmp_path / "f.csv"
    trained = ["--method", "lggd-trained", "--out", out]
    assert "`--method` must be lggd or ggd for nodes without features" in refused("features", *tables, *trained)
    options = ["--method", "ggd", "--preset", "paper", "--out", out]
    assert "`--preset` must be omitted for methods other than lggd-trained" in refused("features", *tables, *options)
    assert "must end in .csv, .tsv or .parquet" in refused("features", "karate", "--out", tmp_path / "f.txt")
    assert "must lie in a folder that exists" in refused("features", "karate", "--out", tmp_path / "no" / "f.csv")
    assert "Did you mean 'karate'?" in refused("features", "karat", "--out", out)
    assert not out.exists()
