"""Saved models and features on the command line: predict, add-labels, features."""

from __future__ import annotations

import csv
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import lggd
from command_line import ONE_THREAD, answer, command, refused, rows_of
from lggd.data.nodes import read_node_file
from lggd.runs.folder import run_facts, write_run
from lggd.runs.run import run
from lggd.runs.subject import subject_from_tables

IDS = ["Åse", "Bo, jr.", "cy", "dee", "eva", "fay", "gil", "hal"]


def in_new_process(*arguments: object) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, "-c", "from lggd.cli import main; main()", *map(str, arguments), "--json"],
        env={**os.environ, "PYTHONPATH": str(Path(lggd.__file__).parents[1]), **ONE_THREAD},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == ""
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """A path of eight people whose ends are labelled."""
    folder = tmp_path_factory.mktemp("tables")
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(itertools.pairwise(IDS))
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "side"])
        rows.writerows([name, {"Åse": "left", "hal": "right"}.get(name, "")] for name in IDS)
    return ["--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--label", "side"]


@pytest.fixture(scope="module")
def trained(tables: list[object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "people"
    outcome = run(subject_from_tables(tables[1], tables[3], label="side"))  # type: ignore[arg-type]
    write_run(out, outcome, run_facts(outcome, out, report=False), command="lggd run", report=False)
    return out


@pytest.fixture
def people(trained: Path, tmp_path: Path) -> Path:
    """The folder of a run, to change at will."""
    shutil.copytree(trained, tmp_path / "people")
    return tmp_path / "people"


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text('id,label\n"Bo, jr.",right\ncy,right\n', encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["predict", "add-labels", "features"])
def test_help_teaches_by_example(name: str) -> None:
    result = command(name, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"lggd {name}" in result.stdout
    assert "--json" in result.stdout
    assert name in command("--help").stdout


# -- predict ------------------------------------------------------------------------------------------------------


def test_predict_tells_of_all_and_of_the_least_certain(people: Path) -> None:
    found = answer("predict", people)
    assert found["dataset"] == "nodes"
    assert (found["nodes"], found["classes"], found["labelled"]) == (8, ["left", "right"], 2)
    assert found["counts"] == {"left": 4, "right": 4}
    assert found["out"] is None
    assert list(found["predictions"]) == IDS
    assert {row["node"] for row in found["least_certain"][:2]} == {"dee", "eva"}  # the middle of the path
    assert len(found["least_certain"]) == 6  # the labelled ones are certain
    shown = command("predict", people / "model")
    assert shown.exit_code == 0
    assert shown.stderr == ""
    for part in ("8 nodes", "Least certain", "dee", "left", "--out FILE"):
        assert part in shown.stdout


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_predict_into_a_file(people: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"said.{ending}"
    found = answer("predict", people, "--out", out)
    assert found["out"] == str(out)
    assert found["predictions"] is None
    if ending == "csv":
        assert out.read_bytes() == (people / "predictions.csv").read_bytes()
    if ending == "parquet":
        assert pq.read_table(out)["node"].to_pylist() == IDS
    assert f"Wrote {out}".replace(" ", "") in "".join(command("predict", people, "--out", out).stdout.split())


def test_a_model_saved_by_the_library_has_numbers_for_names(tmp_path: Path) -> None:
    data = lggd.load("karate")
    lggd.LGGDClassifier(lggd.GGD(), backbone=None).fit(data).save(tmp_path / "club")
    found = answer("predict", tmp_path / "club")
    assert found["dataset"] == "club"
    assert found["classes"] == ["0", "1"]
    assert list(found["predictions"]) == [str(k) for k in range(34)]


# -- add-labels ---------------------------------------------------------------------------------------------------


def test_labels_are_added_and_kept_across_processes(people: Path, labels: Path) -> None:
    before = answer("predict", people)["predictions"]
    added = in_new_process("add-labels", people, labels)
    after = in_new_process("predict", people)["predictions"]
    assert (added["labels"], added["new"], added["labelled"], added["additions"]) == (2, 2, 4, 1)
    assert added["changed"] == sum(before[name] != after[name] for name in IDS) > 0
    assert added["milliseconds"] > 0
    assert added["out"] == str(people / "predictions.csv")
    rows = rows_of(people / "predictions.csv")
    assert [row["labelled"] for row in rows] == ["left", "right", "right", "", "", "", "", "right"]
    assert [row["predicted"] for row in rows] == [after[name] for name in IDS]
    (people / "more.csv").write_text("eva,left\nÅse,left\n", encoding="utf-8")
    again = answer("add-labels", people, people / "more.csv")
    assert (again["labels"], again["new"], again["labelled"], again["additions"]) == (2, 1, 5, 2)
    kept = lggd.LGGDClassifier.load(people / "model")
    assert [entry["nodes"] for entry in kept.additions_] == [[1, 2], [4]]
    assert kept.metadata_["ids"] == IDS


def test_the_same_labels_twice_change_nothing(people: Path, labels: Path, tmp_path: Path) -> None:
    answer("add-labels", people, labels)
    model = {path.name: path.read_bytes() for path in (people / "model").iterdir()}
    predictions = (people / "predictions.csv").read_bytes()
    found = answer("add-labels", people, labels)
    assert (found["new"], found["changed"], found["additions"]) == (0, 0, 1)
    assert {path.name: path.read_bytes() for path in (people / "model").iterdir()} == model
    assert (people / "predictions.csv").read_bytes() == predictions
    shown = command("add-labels", people, labels, "--out", tmp_path / "new.csv")
    assert "0 new of 2; the others were known; 4 now" in shown.stdout
    assert "1 addition so far" in shown.stdout
    assert (tmp_path / "new.csv").read_bytes() == predictions


def test_labels_from_parquet_and_into_another_file(people: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["dee"], "label": ["right"]}), tmp_path / "more.parquet")
    before = (people / "predictions.csv").read_bytes()
    found = answer("add-labels", people / "model", tmp_path / "more.parquet", "--out", tmp_path / "new.tsv")
    assert (found["new"], found["out"]) == (1, str(tmp_path / "new.tsv"))
    assert (people / "predictions.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,label\nDee,left\n", "line 2, column 1: must be one of the 8 nodes, got 'Dee'. Did you mean 'dee'?"),
        ("id,label\ndee,up\n", "line 2, column 2: must be one of the classes left, right, got 'up'."),
        ("id,label\ndee,up\n", "A new class needs a new fit."),
        ("dee,left\nÅse,right\n", "node 'Åse': must agree with the label that is known, 'left', got 'right'."),
        ("dee,left\ndee,right\n", "must give the node 'dee' one label, got 'right' after 'left' in line 1"),
        ("", "must hold at least one label, got none"),
    ],
)
def test_wrong_labels_are_refused_and_change_nothing(people: Path, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "wrong.csv").write_text(text, encoding="utf-8")
    before = {path: path.read_bytes() for path in people.rglob("*") if path.is_file()}
    assert said in refused("add-labels", people, tmp_path / "wrong.csv")
    assert {path: path.read_bytes() for path in people.rglob("*") if path.is_file()} == before


# -- models that are none -----------------------------------------------------------------------------------------


def test_what_is_no_model_is_refused(people: Path, labels: Path, tmp_path: Path) -> None:
    assert "must be a folder with a saved model" in refused("predict", tmp_path / "nowhere")
    assert "must be a folder with a saved model" in refused("add-labels", tmp_path, labels)
    assert "must be a file, but there is none" in refused("add-labels", people, tmp_path / "nowhere.csv")
    assert "must end in .csv, .tsv or .parquet" in refused("predict", people, "--out", tmp_path / "said.txt")
    assert "must lie in a folder that exists" in refused("predict", people, "--out", tmp_path / "no" / "said.csv")


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "graph.safetensors"])
def test_a_damaged_model_is_refused(people: Path, name: str) -> None:
    path = people / "model" / name
    path.write_bytes(path.read_bytes()[:40])
    assert "but it is damaged" in refused("predict", people)
    path.unlink()
    assert "must be a" in refused("predict", people)


def test_a_model_that_lacks_names_or_settings_is_refused(people: Path) -> None:
    path = people / "model" / "model.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["about"]["ids"].pop()
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert "must name all 8 ids, but it does not" in refused("predict", people)
    for name in ("num_inputs", "features"):
        del settings[name]
        path.write_text(json.dumps(settings), encoding="utf-8")
        assert f"must be complete, but it lacks '{name}'" in refused("predict", people)


def test_a_model_without_distances_cannot_take_labels(tmp_path: Path) -> None:
    optimization = lggd.Optimization(epochs=2)
    model = lggd.LGGDClassifier(None, lggd.GCN(), optimization).fit(lggd.load("karate"))
    model.save(tmp_path / "raw")
    free = int((model.labels_ < 0).nonzero()[0])
    (tmp_path / "labels.csv").write_text(f"id,label\n{free},0\n")
    assert "must not be None to add labels" in refused("add-labels", tmp_path / "raw", tmp_path / "labels.csv")


# -- features -----------------------------------------------------------------------------------------------------


def test_features_of_tables(tables: list[object], tmp_path: Path) -> None:
    found = answer("features", *tables, "--method", "ggd", "--out", tmp_path / "f.csv")
    assert (found["dataset"], found["method"], found["nodes"], found["labelled"]) == ("nodes", "ggd", 8, 2)
    assert found["features"] == [f"class {c}, t={t}" for t in range(1, 6) for c in ("left", "right")] + ["reachable"]
    table = read_node_file(tmp_path / "f.csv")
    assert (table.ids, table.feature_names) == (IDS, found["features"])
    data = subject_from_tables(tables[1], tables[3], label="side", test_share=0).data  # type: ignore[arg-type]
    assert torch.equal(torch.from_numpy(table.x), lggd.GGD().fit(data).features(data))


def test_learned_features_of_a_dataset_see_its_training_labels_alone(tmp_path: Path) -> None:
    found = answer("features", "karate", "--seed", "4", "--out", tmp_path / "f.parquet")
    assert (found["labelled"], found["classes"]) == (10, ["Mr. Hi", "Officer"])
    data = lggd.load("karate")
    data.y[data.test_mask] = 0
    assert torch.equal(
        torch.from_numpy(read_node_file(tmp_path / "f.parquet").x), lggd.LGGD(seed=4).fit(data).features(data)
    )


def test_features_refuse(tables: list[object], tmp_path: Path) -> None:
    out = tmp_path / "f.csv"
    assert "`--method` must be ggd for nodes without features" in refused("features", *tables, "--out", out)
    assert "`--preset` must be left out with --method ggd" in refused(
        "features", *tables, "--method", "ggd", "--preset", "paper", "--out", out
    )
    assert "must end in .csv, .tsv or .parquet" in refused("features", "karate", "--out", tmp_path / "f.txt")
    assert "must lie in a folder that exists" in refused("features", "karate", "--out", tmp_path / "no" / "f.csv")
    assert "Did you mean 'karate'?" in refused("features", "karat", "--out", out)
    assert not out.exists()
