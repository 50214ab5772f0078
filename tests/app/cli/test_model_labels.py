"""Labels of saved models: several commands at once, what lies beside the model, corrections and removals."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

import lggd
from lggd.app.runs.methods import RunSettings
from lggd.app.runs.run import run, write_run
from lggd.app.runs.run_input import RunInput
from lggd.app.runs.saved_model import SavedModel
from lggd.app.tables.nodes import read_node_file
from support.command_line import answer, command, files_of, refused, rows_of
from support.other_process import held_elsewhere
from support.processes import finish, start
from support.tables import PATH_IDS as IDS
from support.tables import labelled_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    tables = labelled_path(folder)
    run_input = RunInput.from_tables(tables[1], tables[3], label="side")  # type: ignore[arg-type]
    write_run(folder / "people", run(run_input, RunSettings("ggd", backbone="none")))
    return folder / "people"


@pytest.fixture
def people(trained: Path, tmp_path: Path) -> Path:
    """The folder of a run, to change at will."""
    shutil.copytree(trained, tmp_path / "people")
    return tmp_path / "people"


def labels_of(folder: Path) -> dict[str, str]:
    model = lggd.load_model(folder / "model")
    return {name: ("left", "right")[k] for name, k in zip(IDS, model.labels_.tolist(), strict=True) if k >= 0}


# -- several at once ----------------------------------------------------------------------------------------------


def test_commands_at_once_lose_nothing(people: Path, tmp_path: Path) -> None:
    labels = {"cy": "left", "gil": "right", "eva": "right"}
    for name, label in labels.items():
        (tmp_path / f"{name}.csv").write_text(f"{name},{label}\n")
    commands = [
        ("add-labels", people, tmp_path / "cy.csv"),
        ("add-labels", people / "model", tmp_path / "gil.csv"),
        ("update", people, "--labels", tmp_path / "eva.csv"),
    ]
    running = [start(*parts, "--json") for parts in commands]
    answers = [json.loads(process.communicate()[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert labels_of(people) == {"Åse": "left", "hal": "right", **labels}
    assert sorted(found["labelled"] for found in answers) == [3, 4, 5]
    assert {row["node"]: row["labelled"] for row in rows_of(people / "predictions.csv")} == {
        name: labels_of(people).get(name, "") for name in IDS
    }
    assert not [name for name in os.listdir(people) if name.startswith(".")]  # noqa: PTH208


def test_a_command_that_waits_says_so(people: Path) -> None:
    with held_elsewhere(people) as other:
        waiting = start("add-labels", people, "cy=left")
        assert waiting.stderr.readline() == f"Waiting for another process that is changing {people}.\n"
        assert labels_of(people) == {"Åse": "left", "hal": "right"}  # reading waits for nobody
        assert command("predict", people).exit_code == 0
        other.kill()
        assert waiting.wait() == 0
    assert labels_of(people)["cy"] == "left"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes that it forks")
def test_killed_commands_leave_all_or_nothing(people: Path) -> None:
    script = Path(__file__).parents[2] / "support" / "killed_saves.py"
    _, out, errors = finish(people, "cy", "right", 4, code=script.read_text())
    assert out.split("\n") == ["fine"] * 4 + [""], out + errors


def test_files_that_a_killed_command_did_not_move_are_moved_by_the_next(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def killed(self: Path, target: Path) -> Path:
        if target.parent == people:
            raise KeyboardInterrupt  # nothing else runs after it in the process that is killed
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        assert command("add-labels", people, "cy=left").exit_code == 130
    assert labels_of(people)["cy"] == "left"
    assert rows_of(people / "predictions.csv")[2]["labelled"] == ""
    refused("add-labels", people, "nobody=left")
    assert rows_of(people / "predictions.csv")[2]["labelled"] == "left"
    assert sorted(path.name for path in (people / "model").iterdir()) == [
        "graph.safetensors", "model.json", "weights.safetensors",
    ]  # fmt: skip


# -- what lies beside the model -----------------------------------------------------------------------------------


def test_the_tables_beside_the_model_are_refreshed(people: Path) -> None:
    (people / "mine.txt").write_text("kept")
    before, summary = files_of(people), json.loads((people / "run.json").read_text())
    assert "updated" not in summary
    found = answer("add-labels", people, "cy=right", "dee=left")
    after = files_of(people)
    assert {name for name in after if after[name] != before.get(name)} == {
        "predictions.csv", "features.csv", "run.json", "model/model.json",
        "model/weights.safetensors",
    }  # fmt: skip
    assert before.keys() == after.keys()
    assert found["refreshed"] == [str(people / name) for name in ("predictions.csv", "features.csv", "run.json")]
    assert found["outdated"] == [str(people / "report.html")]
    model = lggd.load_model(people / "model")
    expected = model.features_.features(model.data_)
    table = read_node_file(people / "features.csv")
    assert table.ids == IDS
    assert torch.equal(torch.from_numpy(table.x), expected)
    facts = json.loads((people / "run.json").read_text())
    assert {key: value for key, value in facts.items() if key != "updated"} == summary
    updated = facts["updated"]
    assert (updated["labelled"], updated["nodes"], updated["edges"], updated["changes"]) == (4, 8, 7, 1)
    assert (updated["outdated"], updated["refreshed"][0]) == (["report.html"], "predictions.csv")


def test_a_model_that_belongs_to_no_run_has_only_predictions(tmp_path: Path) -> None:
    model = lggd.LGGDClassifier(lggd.GGD(), backbone=None).fit(lggd.load("karate"))
    model.save(tmp_path / "club")
    free = int((model.labels_ < 0).nonzero()[0])
    found = answer("add-labels", tmp_path / "club", f"{free}=0", "--out", tmp_path / "new.csv")
    assert (found["refreshed"], found["outdated"]) == ([], [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["club", "new.csv"]
    answer("remove-labels", tmp_path / "club", free)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["club", "new.csv", "predictions.csv"]


def test_an_error_while_writing_changes_nothing(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (people / "run.json").write_text("{")
    before = files_of(people)
    assert "must be the summary of a run, but it is damaged" in refused("add-labels", people, "cy=left")
    assert files_of(people) == before


# -- corrections, removals and conflicts --------------------------------------------------------------------------


def test_new_labels_that_differ_from_predictions_are_shown(people: Path) -> None:
    probabilities = {row["node"]: row for row in rows_of(people / "predictions.csv")}
    found = answer("add-labels", people, "Bo, jr.=right", "cy=left", "gil=left")
    assert {row["node"] for row in found["conflicts"]} == {"gil", "Bo, jr."}
    row = next(row for row in found["conflicts"] if row["node"] == "Bo, jr.")
    assert (row["label"], row["predicted"]) == ("right", "left")
    assert row["probability"] == pytest.approx(float(probabilities["Bo, jr."]["probability"]), abs=1e-6)
    certain = [row["probability"] for row in found["conflicts"]]
    assert certain == sorted(certain, reverse=True)
    other = {"left": "right", "right": "left"}[answer("predict", people)["predictions"]["dee"]]
    assert "New labels that differ from the predictions" in command("add-labels", people, f"dee={other}").stdout


def test_corrections_show_both_labels(people: Path) -> None:
    answer("add-labels", people, "cy=left", "dee=left")
    message = refused("add-labels", people, "cy=right", "dee=right")
    for part in ("'cy' its known label 'left', got 'right'", "'dee' ('left', not 'right')", "--correct"):
        assert part in message
    found = answer("add-labels", people, "cy=right", "--correct")
    assert found["corrections"] == [{"node": "cy", "before": "left", "label": "right"}]
    assert found["conflicts"] == []
    assert labels_of(people)["cy"] == "right"
    assert "Corrected labels" in command("add-labels", people, "dee=right", "--correct").stdout


def test_update_corrects_labels_on_request(people: Path, tmp_path: Path) -> None:
    answer("add-labels", people, "cy=left")
    (tmp_path / "labels.csv").write_text("cy,right\n")
    assert "--correct" in refused("update", people, "--labels", tmp_path / "labels.csv")
    found = answer("update", people, "--labels", tmp_path / "labels.csv", "--correct")
    assert (len(found["corrections"]), found["new_labels"], found["known_labels"]) == (1, 0, 0)
    assert labels_of(people)["cy"] == "right"


def test_labels_are_removed(people: Path) -> None:
    before = files_of(people)["predictions.csv"]
    answer("add-labels", people, "cy=right", "dee=right", "eva=left")
    found = answer("remove-labels", people, "cy", "dee", "eva")
    assert (found["labelled"], found["label_changes"]) == (2, 2)
    assert [(row["node"], row["before"]) for row in found["removals"]] == [
        ("cy", "right"), ("dee", "right"), ("eva", "left"),
    ]  # fmt: skip
    assert found["removals"][0]["predicted"] == "left"
    assert labels_of(people) == {"Åse": "left", "hal": "right"}
    assert files_of(people)["predictions.csv"] == before
    answer("add-labels", people, "gil=right")
    shown = command("remove-labels", people, "gil").stdout
    for part in ("1 removed; 2 in total", "was labelled", "right", "Wrote"):
        assert part in shown


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["cy"], "`NODES` must name labelled nodes, but node cy has no label."),
        (["Cy"], "`NODES` must name some of the 8 nodes, got 'Cy'. Did you mean 'cy'?"),
        (["Åse"], "`NODES` must leave at least one label of every class, got none of class 'left'."),
    ],
)
def test_labels_that_cannot_be_removed(people: Path, names: list[str], expected: str) -> None:
    before = files_of(people)
    assert expected in refused("remove-labels", people, *names)
    assert files_of(people) == before


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Cy=left"], "`Cy=left` must name one of the 8 nodes before =, got 'Cy'. Did you mean 'cy'?"),
        (["cy=Left"], "`cy=Left` must name one of the classes left, right after =, got 'Left'. Did you mean 'left'?"),
        (
            ["cy=left", "cy=right"],
            "`cy=right` must give the node 'cy' one label, got 'right' after 'left'. Remove one.",
        ),
        (["cy"], "`cy` must be a file, but there is none"),
    ],
)
def test_wrong_pairs_are_refused(people: Path, texts: list[str], expected: str) -> None:
    before = files_of(people)
    assert expected in refused("add-labels", people, *texts)
    assert files_of(people) == before


def test_names_may_contain_the_sign(tmp_path: Path) -> None:
    model = lggd.LGGDClassifier(lggd.GGD(), backbone=None).fit(lggd.load("karate"))
    model.metadata_ = {"ids": ["a=b" if k == 20 else f"n{k}" for k in range(34)], "classes": ["x=1", "y"]}
    model.save(tmp_path / "club")
    assert SavedModel(tmp_path / "club").read_labels(["a=b=x=1"]) == {20: 0}


def test_a_classifier_of_samples_is_changed_too(tmp_path: Path) -> None:
    import numpy as np

    from lggd.sklearn import KNNGraphClassifier

    X, y = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]), np.array([0, -1, -1, 1, -1, -1])
    KNNGraphClassifier(lggd.GGD(times=(1, 2)), n_neighbors=2).fit(X, y).save(tmp_path / "samples")
    answer("add-labels", tmp_path / "samples", "1=1")
    assert lggd.load_model(tmp_path / "samples").model_.labels_.tolist() == [0, 1, -1, 1, -1, -1]
