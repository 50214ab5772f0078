"""lggd run: its folder, its methods and its options; lggd features."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch

import lggd
from lggd.app.cli.run import METHODS as METHOD_NAMES
from lggd.app.runs.methods import METHODS, PRESETS
from lggd.app.runs.run_input import RunInput
from lggd.app.tables.nodes import read_node_file
from lggd.datasets.by_name import DATASETS
from support import browser
from support.command_line import answer, command, refused, rows_of
from support.tables import PATH_IDS, RING_IDS, labelled_path, two_rings

OWN = ["--edges", "e.csv", "--nodes", "n.csv", "--label", "kind"]
FILES = ["predictions.csv", "features.csv", "model/", "settings.json", "run.json", "report.html"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    return two_rings(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def finished(tables: list[object], tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The answer of `lggd run` on the tables, and its folder."""
    out = tmp_path_factory.mktemp("finished") / "people"
    return answer("run", *tables, "--method", "evolved-ridge", "--out", out), out


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.launch() as launched:
        yield launched


# -- a run on tables ----------------------------------------------------------------------------------------------


def test_the_answer_is_complete(finished: tuple[dict[str, Any], Path]) -> None:
    facts, out = finished
    assert (facts["dataset"], facts["method"], facts["backbone"]) == ("people", "evolved-ridge", None)
    assert facts["titles"] == {"reference": "GCN", "model": "Kernel ridge, evolved"}
    assert (facts["nodes"], facts["edges"], facts["classes"]) == (40, 121, ["blå", "rød"])
    assert (facts["labelled"], facts["heldout"]) == (14, 6)  # of 10 labels per class, 3 are held out
    assert facts["accuracy"].keys() == {"reference", "model"}
    assert all(0 <= value <= 100 for value in facts["accuracy"].values())
    assert facts["accuracy"]["model"] == 100  # two rings and one wrong edge
    assert facts["seconds"] > 0
    assert facts["additions"] == []  # six nodes are too few
    assert facts["out"] == str(out)
    assert facts["files"] == FILES
    assert any("divided by the largest, 4" in note for note in facts["notes"])
    assert any("6 of the 20 labels were held out" in note for note in facts["notes"])
    assert any("held-out labels were added without training" in note for note in facts["notes"])
    assert json.loads((out / "run.json").read_text(encoding="utf-8")) == facts


def test_the_folder_is_complete_and_nothing_is_next_to_it(finished: tuple[dict[str, Any], Path]) -> None:
    _, out = finished
    assert sorted(path.name for path in out.iterdir()) == sorted(name.rstrip("/") for name in FILES)
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_predictions_have_ids_and_use_all_labels(finished: tuple[dict[str, Any], Path]) -> None:
    rows = rows_of(finished[1] / "predictions.csv")
    assert [row["node"] for row in rows] == RING_IDS
    assert [row["labelled"] for row in rows] == [("blå" if k < 20 else "rød") if k % 2 else "" for k in range(40)]
    for row in rows:
        chances = {name: float(row[f"p({name})"]) for name in ("blå", "rød")}
        assert sum(chances.values()) == pytest.approx(1, abs=1e-5)
        assert chances[row["predicted"]] == float(row["probability"]) == max(chances.values())
    assert sum(row["predicted"] == ("blå" if k < 20 else "rød") for k, row in enumerate(rows)) >= 38


def test_features_are_named_after_classes_and_times(finished: tuple[dict[str, Any], Path]) -> None:
    path = finished[1] / "features.csv"
    names = [f"class {kind}, t={t}" for t in (0.3, 1, 3) for kind in ("blå", "rød")]
    assert list(rows_of(path)[0]) == ["node", *names]
    table = read_node_file(path)
    assert (table.ids, table.feature_names) == (RING_IDS, names)
    model = lggd.load_model(finished[1] / "model")
    assert torch.equal(torch.from_numpy(table.x), model.features_.features(model.data_))
    assert model.metadata_.pop("columns")["features"] == ["height", "tall"]
    assert model.metadata_ == {
        "dataset": "people", "ids": RING_IDS, "classes": ["blå", "rød"], "feature_names": names
    }  # fmt: skip


def test_settings_are_spelt_out(finished: tuple[dict[str, Any], Path]) -> None:
    settings = json.loads((finished[1] / "settings.json").read_text(encoding="utf-8"))
    assert settings["data"]["label"] == "kind"
    assert settings["data"]["test_share"] == 0.3
    assert settings["seed"] == 0
    assert settings["model"]["features"]["times"] == [0.3, 1, 3]
    assert settings["model"]["backbone"] is None
    assert settings["reference"] == "gcn"
    assert len(settings["split_fingerprint"]) == 12
    assert settings["versions"].keys() >= {"lggd", "torch", "python"}
    assert settings["command"].split()[0] == "lggd"


def test_the_report_opens_in_a_browser(finished: tuple[dict[str, Any], Path], chromium: browser.Browser) -> None:
    with chromium.page(finished[1] / "report.html") as page:
        assert page.inner_text("h1") == "Kernel ridge, evolved on people"
        assert "100.0" in page.inner_text("#result")
        assert "6 of the 20 labels were held out" in page.inner_text("#notes")
        assert page.locator("#additions").count() == 0


def test_nodes_need_no_features(tables: list[object], tmp_path: Path) -> None:
    more = ["--ignore", "height", "--ignore", "tall", "--no-report"]
    facts = answer("run", *tables, *more, "--out", tmp_path / "bare")
    assert facts["accuracy"] == {"reference": None, "model": 100}
    assert any("have no features" in note for note in facts["notes"])
    assert not (tmp_path / "bare" / "report.html").exists()
    shown = command("run", *tables, *more, "--out", tmp_path / "bare")
    assert shown.exit_code == 0
    assert shown.stderr == ""
    for part in ("Kernel ridge", "100.0 %", "40 nodes", "have no features", "predictions.csv"):
        assert part in shown.stdout
    message = refused("run", *tables, *more, "--method", "gdc-ppr", "--out", tmp_path / "bare")
    assert message.startswith("`--method` must be one that needs no node features, got gdc-ppr.")


# -- methods and settings -----------------------------------------------------------------------------------------


def test_the_command_line_knows_every_method() -> None:
    assert list(METHODS) == list(METHOD_NAMES)


@pytest.mark.parametrize("method", [name for name in METHOD_NAMES if name not in ("kernel-ridge", "lggd-plus-trained")])
def test_every_method_trains_saves_and_loads(tmp_path: Path, method: str) -> None:
    out = tmp_path / "club"
    # Networks are never compared with one; others are in the next test.
    options = [] if method in ("gcn", "gat", "chebnet", "jknet") else ["--reference", "none"]
    options += ["--epochs", "3"] if METHODS[method].is_trained else []
    facts = answer("run", "karate", "--method", method, *options, "--no-report", "--out", out)
    assert facts["method"] == method
    assert facts["accuracy"]["model"] >= 0
    assert facts["accuracy"]["reference"] is None
    rows = rows_of(out / "predictions.csv")
    model = lggd.load_model(out / "model")
    assert [row["predicted"] for row in rows] == [model.metadata_["classes"][k] for k in model.predict().tolist()]
    assert ("features.csv" in facts["files"]) == (out / "features.csv").exists()


def test_the_comparison_is_printed(tmp_path: Path) -> None:
    options = ["--method", "gdc-ppr", "--epochs", "3", "--no-report", "--out", tmp_path / "club"]
    shown = command("run", "karate", *options).stdout
    for part in ("34 nodes", "accuracy", "GCN", "GDC (PPR) with GCN", "difference", " points", "predictions.csv"):
        assert part in shown
    assert "difference is not clear: chance alone explains it (McNemar's" in " ".join(shown.split())


@pytest.mark.parametrize("backbone", ["gat", "chebnet", "jknet"])
def test_every_backbone_runs(tables: list[object], tmp_path: Path, backbone: str) -> None:
    more = ["--ignore", "height", "--ignore", "tall", "--epochs", "5", "--no-report"]
    more += ["--method", "evolved-ridge", "--backbone", backbone]
    facts = answer("run", *tables, *more, "--out", tmp_path / "people")
    assert facts["backbone"] == backbone
    settings = json.loads((tmp_path / "people" / "settings.json").read_text(encoding="utf-8"))["model"]
    assert settings["backbone"]["kind"].lower() == backbone
    assert settings["optimization"]["epochs"] == 5
    history = lggd.load_model(tmp_path / "people" / "model").history_
    assert len(history["backbone"]["train_loss"]) == 5


@pytest.mark.parametrize(("preset", "per_time"), [("paper", False), ("release", True)])
def test_presets_are_spelt_out_in_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str, per_time: bool
) -> None:
    few = lggd.Optimization(epochs=2)
    monkeypatch.setitem(PRESETS, preset, functools.partial(PRESETS[preset], optimization=few))
    options = ["--method", "lggd", "--preset", preset, "--backbone", "none", "--reference", "none"]
    facts = answer("run", "karate", *options, "--no-report", "--out", tmp_path / "karate")
    assert facts["preset"] == preset
    settings = json.loads((tmp_path / "karate" / "settings.json").read_text(encoding="utf-8"))
    assert settings["model"]["features"]["per_time"] is per_time
    assert settings["reference"] is None


def test_one_graphml_file_is_enough(tmp_path: Path) -> None:
    club = nx.relabel_nodes(nx.karate_club_graph(), lambda k: f"member {k}")
    nx.write_graphml(club, tmp_path / "club.graphml")
    options = ["--label", "club", "--test-share", "0.5", "--no-report", "--out", tmp_path / "club"]
    facts = answer("run", "--edges", tmp_path / "club.graphml", *options)  # 17 of each class: 9 are held out
    assert (facts["dataset"], facts["heldout"], facts["classes"]) == ("club", 18, ["Mr. Hi", "Officer"])
    assert rows_of(tmp_path / "club" / "predictions.csv")[0]["node"] == "member 0"


def test_the_default_folder_and_a_report_without_a_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chromium: browser.Browser
) -> None:
    monkeypatch.chdir(tmp_path)
    facts = answer("run", "karate", "--reference", "none", "--labels-per-class", "3", "--split", "1")
    assert facts["out"] == "out/karate"
    assert (facts["labelled"], facts["heldout"]) == (6, 28)
    assert facts["accuracy"]["reference"] is None
    with chromium.page(tmp_path / "out" / "karate" / "report.html") as page:
        assert page.inner_text("h1") == "Kernel ridge on karate"


def test_digits_from_end_to_end(tmp_path: Path, chromium: browser.Browser) -> None:
    facts = answer("run", "digits", "--out", tmp_path / "digits")
    assert (facts["nodes"], facts["labelled"], facts["heldout"]) == (1797, 50, 1747)
    assert facts["accuracy"]["reference"] > 85
    assert facts["accuracy"]["model"] > 90
    assert [row["labels"] for row in facts["additions"]] == [50, 224, 398, 572]
    assert facts["additions"][-1]["accuracy"] > facts["additions"][0]["accuracy"]
    rows = rows_of(tmp_path / "digits" / "predictions.csv")
    truth = lggd.load("digits")
    correct = [row["predicted"] == str(int(y)) for row, y in zip(rows, truth.y, strict=True)]
    counted = [ok for ok, held_out in zip(correct, truth.test_mask.tolist(), strict=True) if held_out]
    assert 100 * sum(counted) / len(counted) == pytest.approx(facts["accuracy"]["model"])
    assert sum(row["labelled"] != "" for row in rows) == 50
    with chromium.page(tmp_path / "digits" / "report.html") as page:
        assert "1,747" in page.inner_text("header")
        assert page.locator("#additions tbody tr").count() == 4


# -- bad input ----------------------------------------------------------------------------------------------------


def test_help_lists_datasets_and_methods() -> None:
    shown = " ".join(command("run", "--help", env={"COLUMNS": "200"}).stdout.split())
    assert "lggd run --edges edges.csv --nodes nodes.csv --label kind" in shown
    for name in (*DATASETS, *METHOD_NAMES):
        assert name in shown


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["e.csv"], "got the file e.csv. Read tables by --edges and --nodes."),
        (["digts"], "`DATASET` must be one of digits, moons, karate, cora, citeseer, pubmed, computers, photo, actor"),
        (["digts"], "Did you mean 'digits'?"),
        ([], "`DATASET` must be a name, or use --edges or --file, got none. Try digits"),
        (["--nodes", "n.csv"], "got --nodes alone"),
        (["digits", "--edges", "e.csv"], "`--edges` must be omitted with the dataset digits"),
        (["digits", "--label", "kind"], "`--label` must be omitted with the dataset digits. It applies to tables."),
        (["digits", "--test-share", "0.5"], "`--test-share` must be omitted with the dataset digits. A dataset has"),
        (["digits", "--labels-per-class", "999"], "`--labels-per-class` must be below 174"),
        (["cora", "--labels-per-class", "3"], "`--labels-per-class` must be"),
        (["--edges", "e.csv", "--nodes", "n.csv"], "`--label` must name the column of classes in n.csv, got none"),
        (["--edges", "e.csv", "--label", "kind"], "`--nodes` must be a file, because `e.csv` has only edges"),
        (["--edges", "e.csv", "--nodes", "no.csv", "--label", "kind"], "`no.csv` must be a file, but there is none"),
        (["--edges", "no.csv", "--nodes", "n.csv", "--label", "kind"], "`no.csv` must be a file, but there is none"),
        (["--edges", "e.csv", "--nodes", "n.csv", "--label", "kin"], "`--label` must be a column of `n.csv`"),
        (["--edges", "e.csv", "--nodes", "n.csv", "--label", "kin"], "Did you mean 'kind'?"),
        ([*OWN, "--id-column", "no"], "`--id-column` must be a column of"),
        ([*OWN, "--ignore", "no"], "`--ignore` must be a column of"),
        ([*OWN, "--split-column", "no"], "`--split-column` must be a column"),
        ([*OWN, "--split-column", "id", "--split", "1"], "`--split` must be omitted with --split-column"),
        ([*OWN, "--labels-per-class", "1"], "`--labels-per-class` must be omitted with --edges"),
        ([*OWN, "--test-share", "1"], "`--test-share` must lie in [0, 1), got 1.0. Some labels must remain"),
        (["--edges", "f.csv", *OWN[2:]], "must be one of the 3 nodes"),
        (["karate", "--method", "lgd"], "`--method` must be one of kernel-ridge, evolved-ridge, "),
        (["karate", "--method", "gpr-gnn", "--backbone", "gat"], "`--backbone` must be omitted for gpr-gnn"),
        (
            ["karate", "--method", "ggd", "--preset", "paper"],
            "`--preset` must be omitted for methods other than",
        ),
        (["karate", "--out", "mine"], "mine` must be new, empty or contain run.json, got a folder with other"),
        (["karate", "--out", "no/where"], "must lie in a folder that exists"),
        (["karate", "--out", "n.csv"], "must name a folder to write, got a file"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text("a,b\nb,c\n")
    (tmp_path / "f.csv").write_text("a,z\nb,c\n")
    (tmp_path / "n.csv").write_text("id,kind\na,red\nb,blue\nc,\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    assert expected in refused("run", *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "f.csv", "mine", "n.csv"]


@pytest.mark.parametrize("wrong", [["--backbone", "mlp"], ["--preset", "best"], ["--seed", "-1"], ["--epochs", "0"]])
def test_values_outside_an_option_are_usage_errors(wrong: list[str]) -> None:
    result = command("run", "karate", *wrong)
    assert result.exit_code == 2
    assert wrong[0] in result.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_device_is_refused(tmp_path: Path) -> None:
    message = refused("run", "karate", "--device", "cuda", "--out", tmp_path / "karate")
    assert message.startswith("`--device` must be cpu, got cuda")


# -- lggd features ------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> list[object]:
    return labelled_path(tmp_path)


def test_features_of_tables(path: list[object], tmp_path: Path) -> None:
    found = answer("features", *path, "--method", "ggd", "--out", tmp_path / "f.csv")
    assert (found["dataset"], found["method"], found["nodes"], found["labelled"]) == ("nodes", "ggd", 8, 2)
    assert found["features"] == [f"class {c}, t={t}" for t in range(1, 6) for c in ("left", "right")] + ["reachable"]
    table = read_node_file(tmp_path / "f.csv")
    assert (table.ids, table.feature_names) == (PATH_IDS, found["features"])
    data = RunInput.from_tables(path[1], path[3], 0, label="side").data  # type: ignore[arg-type]
    assert torch.equal(torch.from_numpy(table.x), lggd.GGD().fit(data).features(data))


def test_learned_features_of_a_dataset_use_its_training_labels_alone(tmp_path: Path) -> None:
    found = answer("features", "karate", "--seed", "4", "--out", tmp_path / "f.parquet")
    assert (found["labelled"], found["classes"]) == (10, ["Mr. Hi", "Officer"])
    data = lggd.load("karate")
    data.y[data.test_mask] = 0
    expected = lggd.EvolvedKernelRidge(seed=4).fit(data).features(data)
    assert torch.equal(torch.from_numpy(read_node_file(tmp_path / "f.parquet").x), expected)


def test_bad_input_for_features_is_refused(path: list[object], tmp_path: Path) -> None:
    out = tmp_path / "f.csv"
    trained = ["--method", "lggd", "--out", out]
    assert "`--method` must be evolved-ridge or ggd for nodes without features" in refused("features", *path, *trained)
    options = ["--method", "ggd", "--preset", "paper", "--out", out]
    assert "`--preset` must be omitted for methods other than lggd" in refused("features", *path, *options)
    assert "must end in .csv, .tsv or .parquet" in refused("features", "karate", "--out", tmp_path / "f.txt")
    assert "must lie in a folder that exists" in refused("features", "karate", "--out", tmp_path / "no" / "f.csv")
    assert "Did you mean 'karate'?" in refused("features", "karat", "--out", out)
    assert not out.exists()
