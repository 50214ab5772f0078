"""lggd predict and lggd add-labels."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lggd
from lggd.app.runs.methods import METHODS, build_model
from lggd.app.runs.run import run, write_run
from lggd.app.runs.run_input import RunInput
from support.command_line import answer, command, files_of, refused, rows_of
from support.processes import in_new_process
from support.tables import PATH_IDS as IDS
from support.tables import labelled_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    tables = labelled_path(folder)
    write_run(folder / "people", run(RunInput.from_tables(tables[1], tables[3], label="side")), report=False)  # type: ignore[arg-type]
    return folder / "people"


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


# -- predict ------------------------------------------------------------------------------------------------------


def test_predict_counts_classes_and_lists_the_least_certain(people: Path) -> None:
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
    out = tmp_path / f"predicted.{ending}"
    found = answer("predict", people, "--out", out)
    assert found["out"] == str(out)
    assert found["predictions"] is None
    if ending == "csv":
        assert out.read_bytes() == (people / "predictions.csv").read_bytes()
    if ending == "parquet":
        assert pq.read_table(out)["node"].to_pylist() == IDS
    assert f"Wrote {out}".replace(" ", "") in "".join(command("predict", people, "--out", out).stdout.split())


def test_a_model_saved_by_the_library_has_numbers_for_names(tmp_path: Path) -> None:
    lggd.LGGDClassifier(lggd.GGD(), backbone=None).fit(lggd.load("karate")).save(tmp_path / "club")
    found = answer("predict", tmp_path / "club")
    assert found["dataset"] == "club"
    assert found["classes"] == ["0", "1"]
    assert list(found["predictions"]) == [str(k) for k in range(34)]


@pytest.fixture(scope="module")
def plus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of LGGD+."""
    out = tmp_path_factory.mktemp("plus") / "club"
    facts = answer("run", "karate", "--method", "lggd-plus-trained", "--epochs", "3", "--out", out)
    assert facts["titles"] == {"reference": "GCN", "model": "Trained LGGD+ with GCN"}
    assert {"features.csv", "report.html"} < set(facts["files"])
    return out


def test_lggd_plus_predicts_in_a_new_process_and_adds_labels(plus: Path, tmp_path: Path) -> None:
    found = in_new_process("predict", plus)["predictions"]
    assert found == {row["node"]: row["predicted"] for row in rows_of(plus / "predictions.csv")}
    free = int((lggd.load_model(plus / "model").labels_ < 0).nonzero()[0])
    (tmp_path / "labels.csv").write_text(f"id,label\n{free},Officer\n")
    assert answer("add-labels", plus, tmp_path / "labels.csv", "--out", tmp_path / "new.csv")["new_labels"] == 1
    assert rows_of(tmp_path / "new.csv")[free]["labelled"] == "Officer"


# -- add-labels ---------------------------------------------------------------------------------------------------


def test_labels_are_added_and_saved_across_processes(people: Path, labels: Path) -> None:
    before = answer("predict", people)["predictions"]
    added = in_new_process("add-labels", people, labels)
    after = answer("predict", people)["predictions"]
    assert (added["new_labels"], added["known_labels"], added["labelled"], added["label_changes"]) == (2, 0, 4, 1)
    assert added["changed"] == sum(before[name] != after[name] for name in IDS) > 0
    assert added["milliseconds"] > 0
    assert added["out"] == str(people / "predictions.csv")
    rows = rows_of(people / "predictions.csv")
    assert [row["labelled"] for row in rows] == ["left", "right", "right", "", "", "", "", "right"]
    assert [row["predicted"] for row in rows] == [after[name] for name in IDS]
    (people / "more.csv").write_text("eva,left\nÅse,left\n", encoding="utf-8")
    again = answer("add-labels", people, people / "more.csv")
    assert (again["new_labels"], again["known_labels"], again["labelled"], again["label_changes"]) == (1, 1, 5, 2)
    saved = lggd.load_model(people / "model")
    assert [entry["nodes"] for entry in saved.additions_] == [[1, 2], [4]]
    assert saved.metadata_["ids"] == IDS


def test_the_same_labels_twice_change_nothing(people: Path, labels: Path, tmp_path: Path) -> None:
    answer("add-labels", people, labels)
    before = files_of(people)
    found = answer("add-labels", people, labels)
    assert (found["new_labels"], found["changed"], found["label_changes"]) == (0, 0, 1)
    assert files_of(people) == before
    shown = command("add-labels", people, labels, "--out", tmp_path / "new.csv")
    assert "2 known; 4 in total" in shown.stdout
    assert "1 change of labels so far" in shown.stdout
    assert (tmp_path / "new.csv").read_bytes() == before["predictions.csv"]


def test_labels_from_parquet_and_predictions_into_another_file(people: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["dee"], "label": ["right"]}), tmp_path / "more.parquet")
    before = (people / "predictions.csv").read_bytes()
    found = answer("add-labels", people / "model", tmp_path / "more.parquet", "--out", tmp_path / "new.tsv")
    assert (found["new_labels"], found["out"]) == (1, str(tmp_path / "new.tsv"))
    assert (people / "predictions.csv").read_bytes() != before
    assert rows_of(people / "predictions.csv")[3]["labelled"] == "right"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,label\nDee,left\n", "must be one of the 8 nodes, got 'Dee'. Did you mean 'dee'?"),
        ("id,label\ndee,up\n", "must be one of the classes left, right, got 'up'."),
        ("id,label\ndee,up\n", "Fit a new model."),
        ("dee,left\nÅse,right\n", "must give the node 'Åse' its known label 'left', got 'right'."),
        ("dee,left\ndee,right\n", "must give the node 'dee' one label, got 'right' after 'left' in line 1"),
        ("", "must contain at least one label, got an empty file"),
    ],
)
def test_wrong_labels_are_refused_and_change_nothing(people: Path, tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "wrong.csv").write_text(text, encoding="utf-8")
    before = files_of(people)
    assert expected in refused("add-labels", people, tmp_path / "wrong.csv")
    assert files_of(people) == before


def test_wrong_labels_are_corrected_on_request(people: Path, tmp_path: Path) -> None:
    (tmp_path / "first.csv").write_text("cy,left\n", encoding="utf-8")
    answer("add-labels", people, tmp_path / "first.csv")
    (tmp_path / "labels.csv").write_text("cy,right\ndee,right\nÅse,left\n", encoding="utf-8")
    assert "use --correct" in refused("add-labels", people, tmp_path / "labels.csv")
    found = answer("add-labels", people, tmp_path / "labels.csv", "--correct")
    assert (found["new_labels"], found["known_labels"], len(found["corrections"]), found["labelled"]) == (1, 1, 1, 4)
    saved = lggd.load_model(people / "model")
    assert [(entry["nodes"], entry.get("change")) for entry in saved.additions_] == [
        ([2], None),
        ([3], None),
        ([2], "changed"),
    ]
    assert int(saved.labels_[2]) == 1
    (tmp_path / "again.csv").write_text("cy,left\neva,right\n", encoding="utf-8")
    shown = command("add-labels", people, tmp_path / "again.csv", "--correct")
    assert "1 new, 1 corrected; 5 in total" in shown.stdout


@pytest.mark.parametrize("method", ["gcn", "gdc-heat"])
def test_a_model_that_cannot_add_labels_names_the_remedy(tmp_path: Path, method: str) -> None:
    model = build_model(method, epochs=2).fit(lggd.load("karate"))
    model.save(tmp_path / "club")
    free = int((model.labels_ < 0).nonzero()[0])
    (tmp_path / "labels.csv").write_text(f"id,label\n{free},0\n")
    message = refused("add-labels", tmp_path / "club", tmp_path / "labels.csv")
    assert message.startswith("`MODEL` must accept labels without training, got ")
    assert "use a model in closed form, such as KernelRidge()" in message


# -- folders that hold no model -----------------------------------------------------------------------------------


def test_other_folders_and_files_are_refused(people: Path, labels: Path, tmp_path: Path) -> None:
    assert "must be a folder with a saved model" in refused("predict", tmp_path / "nowhere")
    assert "must be a folder with a saved model" in refused("add-labels", tmp_path, labels)
    assert "must be a file, but there is none" in refused("add-labels", people, tmp_path / "nowhere.csv")
    assert "must end in .csv, .tsv or .parquet" in refused("predict", people, "--out", tmp_path / "said.txt")
    assert "must lie in a folder that exists" in refused("predict", people, "--out", tmp_path / "no" / "said.csv")


@pytest.mark.parametrize(
    ("name", "damaged", "missing"),
    [
        ("model.json", "but it is damaged", "must be a"),
        ("weights.safetensors", "bytes, but it has 40", "bytes, but there is none"),
        ("graph.safetensors", "bytes, but it has 40", "bytes, but there is none"),
    ],
)
def test_a_damaged_model_is_refused(people: Path, name: str, damaged: str, missing: str) -> None:
    path = people / "model" / name
    path.write_bytes(path.read_bytes()[:40])
    assert damaged in refused("predict", people)
    path.unlink()
    assert missing in refused("predict", people)


def test_a_model_that_lacks_names_or_settings_is_refused(people: Path) -> None:
    path = people / "model" / "model.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["metadata"]["ids"].pop()
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert "must name all 8 ids, but it does not" in refused("predict", people)
    for name in ("num_classes", "model"):
        del settings[name]
        path.write_text(json.dumps(settings), encoding="utf-8")
        assert f"must be complete, but it lacks '{name}'" in refused("predict", people)


def test_only_some_methods_add_labels() -> None:
    accepting = {name for name in METHODS if build_model(name).accepts_labels}
    distances = {"evolved-ridge", "lggd", "lggd-plus", "ggd", "lggd-plus-trained"}
    without_distances = {"kernel-ridge", "label-propagation"}
    assert accepting == distances | without_distances
