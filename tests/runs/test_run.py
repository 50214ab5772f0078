"""One run from end to end: what it measures, what it writes, and how it survives being interrupted."""

from __future__ import annotations

import csv
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow.parquet as pq
import pytest
import torch

import browser
import lggd
from command_line import ONE_THREAD, answer, command, refused, rows_of
from lggd.data.nodes import read_node_file
from lggd.runs.folder import run_facts, write_run
from lggd.runs.run import Outcome, RunSettings, described, run
from lggd.runs.subject import Subject, subject_from_dataset, subject_from_tables
from lggd.runs.training import UnfinishedTraining
from lggd.training.progress import Progress

OWN = ["--edges", "e.csv", "--nodes", "n.csv", "--label", "kind"]
FILES = ["predictions.csv", "features.parquet", "model/", "settings.json", "run.json", "report.html"]
IDS = [f"Zoë, {k}" if k % 5 == 0 else f"n{k}" for k in range(40)]


def write_tables(folder: Path) -> list[object]:
    """Two rings of twenty nodes that are joined by one edge, half of them labelled: the flags that name them."""
    half = len(IDS) // 2
    draws = torch.Generator().manual_seed(0)
    with (folder / "links.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["source", "target", "weight"])
        for ring in (range(half), range(half, 2 * half)):
            for step in (1, 2, 3):
                rows.writerows([IDS[k], IDS[ring[(k - ring[0] + step) % half]], 4 if step == 1 else 2] for k in ring)
        rows.writerow([IDS[0], IDS[-1], 1])
    with (folder / "people.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "kind", "height", "tall", "remark"])
        for k, name in enumerate(IDS):
            kind = ("blå" if k < half else "rød") if k % 2 else ""
            height = float(k < half) + torch.randn((), generator=draws).item()
            rows.writerow([name, kind, f"{height:.4f}", height > 0, "hello"])
    return [
        "--edges", folder / "links.csv", "--nodes", folder / "people.csv", "--label", "kind", "--ignore", "remark",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def finished(tables: list[object], tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What `lggd run` says of the tables, and its folder."""
    out = tmp_path_factory.mktemp("finished") / "people"
    return answer("run", *tables, "--out", out), out


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.launch() as launched:
        yield launched


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(outcome: Outcome, out: Path) -> Path:
    write_run(out, outcome, run_facts(outcome, out, report=False), command="lggd run", report=False)
    return out


# -- a run on tables ----------------------------------------------------------------------------------------------


def test_the_answer_has_all_its_parts(finished: tuple[dict[str, Any], Path]) -> None:
    facts, out = finished
    assert facts["dataset"] == "people"
    assert facts["backbone"] == "gcn"
    assert facts["features"] == "lggd"
    assert (facts["nodes"], facts["edges"], facts["classes"]) == (40, 121, ["blå", "rød"])
    assert (facts["labelled"], facts["heldout"]) == (14, 6)  # of 10 labels a class, 3 are held out
    assert facts["accuracy"].keys() == {"raw", "lggd"}
    assert all(0 <= value <= 100 for value in facts["accuracy"].values())
    assert facts["accuracy"]["lggd"] == 100  # two rings and one wrong edge
    assert facts["seconds"] > 0
    assert facts["additions"] == []  # six nodes are too few to tell
    assert facts["out"] == str(out)
    assert facts["files"] == FILES
    assert any("divided by the largest, 4" in note for note in facts["notes"])
    assert any("6 of the 20 labels held out" in note for note in facts["notes"])
    assert json.loads((out / "run.json").read_text(encoding="utf-8")) == facts


def test_the_folder_is_complete_and_nothing_lies_beside_it(finished: tuple[dict[str, Any], Path]) -> None:
    _, out = finished
    assert sorted(path.name for path in out.iterdir()) == sorted(name.rstrip("/") for name in FILES)
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_predictions_keep_ids_and_know_all_labels(finished: tuple[dict[str, Any], Path]) -> None:
    rows = rows_of(finished[1] / "predictions.csv")
    assert [row["node"] for row in rows] == IDS
    assert [row["labelled"] for row in rows] == [("blå" if k < 20 else "rød") if k % 2 else "" for k in range(40)]
    for row in rows:
        chances = {name: float(row[f"p({name})"]) for name in ("blå", "rød")}
        assert sum(chances.values()) == pytest.approx(1, abs=1e-5)
        assert chances[row["predicted"]] == float(row["probability"]) == max(chances.values())
    assert sum(row["predicted"] == ("blå" if k < 20 else "rød") for k, row in enumerate(rows)) >= 38


def test_features_are_named_after_classes_and_times(finished: tuple[dict[str, Any], Path]) -> None:
    path = finished[1] / "features.parquet"
    names = [f"class {kind}, t={t}" for t in range(1, 6) for kind in ("blå", "rød")] + ["reachable"]
    assert pq.read_schema(path).names == ["node", *names]
    table = read_node_file(path)
    assert (table.ids, table.feature_names) == (IDS, names)
    model = lggd.LGGDClassifier.load(finished[1] / "model")
    assert torch.equal(torch.from_numpy(table.x), model.features_.features(model.data_))  # type: ignore[union-attr]
    assert model.metadata_["ids"] == IDS
    assert model.metadata_["classes"] == ["blå", "rød"]
    assert model.metadata_["feature_names"] == names


def test_units_of_features_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\nb,c\nc,d\n")
    tables = {
        "plain": "a,1,5,x\nb,2,5,x\nc,3,5,y\nd,6,5,y\n",
        "grams": "a,1000,5,x\nb,2000,5,x\nc,3000,5,y\nd,6000,5,y\n",
    }
    found = {}
    for name, rows in tables.items():
        (tmp_path / f"{name}.csv").write_text("id,size,same,kind\n" + rows)
        found[name] = subject_from_tables(tmp_path / "edges.csv", tmp_path / f"{name}.csv", label="kind", test_share=0)
    x = found["plain"].data.x
    assert torch.allclose(x, found["grams"].data.x, atol=1e-6)
    assert torch.allclose(x.mean(0), torch.zeros(2), atol=1e-6)
    assert x[:, 1].tolist() == [0, 0, 0, 0]
    assert any("deviation 1" in note for note in found["plain"].notes)


def test_counts_of_words_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\n")
    (tmp_path / "nodes.csv").write_text("id,u,v,w,z,q,r,kind\na,3,0,0,0,0,0,x\nb,0,0,0,0,0,1,y\n")
    subject = subject_from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="kind", test_share=0)
    assert subject.data.x.tolist() == [[3, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]]


def test_settings_are_spelt_out(finished: tuple[dict[str, Any], Path]) -> None:
    settings = json.loads((finished[1] / "settings.json").read_text(encoding="utf-8"))
    assert settings["data"]["label"] == "kind"
    assert settings["data"]["test_share"] == 0.3
    assert settings["seed"] == 0
    assert settings["lggd"]["features"]["times"] == [1, 2, 3, 4, 5]
    assert settings["lggd"]["backbone"] == settings["raw"]["backbone"]
    assert settings["lggd"]["backbone"]["kind"] == "GCN"
    assert len(settings["split_fingerprint"]) == 12
    assert settings["versions"].keys() >= {"lggd", "torch", "python"}
    assert settings["command"].split()[0] == "lggd"


def test_the_report_opens_in_a_browser(finished: tuple[dict[str, Any], Path], chromium: browser.Browser) -> None:
    with chromium.page(finished[1] / "report.html") as page:
        assert page.inner_text("h1") == "LGGD on people"
        assert "100.0" in page.inner_text("#result")
        assert "6 of the 20 labels held out" in page.inner_text("#notes")
        assert page.locator("#additions").count() == 0


def test_the_measured_labels_are_not_seen_before_they_are_given_back(tables: list[object]) -> None:
    """Held-out labels must not matter for the accuracy, and must be on the boundary afterwards."""
    subject = subject_from_tables(tables[1], tables[3], label="kind", ignore=["remark", "height", "tall"])
    outcome = run(subject)
    assert outcome.features.shape == (40, 11)
    assert bool((outcome.measured_given[subject.held_out] == -1).all())
    assert torch.equal(outcome.given, subject.data.y)
    assert len(outcome.model.additions_) == 1
    subject.data.y[subject.held_out] = 1 - subject.data.y[subject.held_out]
    again = run(subject)
    assert torch.equal(again.measured_probabilities, outcome.measured_probabilities)
    assert again.accuracy["lggd"] == 100 - outcome.accuracy["lggd"]  # type: ignore[operator]


def test_the_memory_of_a_large_run_is_told_before_it_starts(tables, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("lggd.cli.run.WORTH_TELLING", 0)
    options = ["--backbone", "none", "--no-report", "--out", tmp_path / "told"]
    told = command("run", *tables, *options).stderr
    assert "Learning distances takes about" in told
    assert "free on cpu" in told
    assert "too much" not in told
    monkeypatch.setattr("lggd.memory.free_memory", lambda device: 1)
    assert "That may be too much. Fit fewer models" in command("run", *tables, *options).stderr


def test_a_shortage_of_memory_is_a_sentence(tables, tmp_path, monkeypatch) -> None:
    def short(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr("lggd.learning.learner.DistanceLearner.step", short)
    result = command("run", *tables, "--backbone", "none", "--no-report", "--out", tmp_path / "short")
    assert result.exit_code == 1
    assert "takes about" in result.stderr
    assert "Fit fewer models together" in result.stderr
    assert "Traceback" not in result.stderr
    assert "unexpectedly" not in result.stderr


def test_nodes_without_features_get_plain_distances(tables: list[object], tmp_path: Path) -> None:
    more = ["--ignore", "height", "--ignore", "tall", "--no-report"]
    facts = answer("run", *tables, *more, "--out", tmp_path / "bare")
    assert facts["features"] == "ggd"
    assert facts["accuracy"]["raw"] is None
    assert facts["accuracy"]["lggd"] == 100
    assert any("have no features" in note for note in facts["notes"])
    assert not (tmp_path / "bare" / "report.html").exists()
    shown = command("run", *tables, *more, "--backbone", "none", "--out", tmp_path / "bare")
    assert shown.exit_code == 0
    assert shown.stderr == ""
    for part in ("with GGD", "100.0 %", "40 nodes", "have no features", "predictions.csv"):
        assert part in shown.stdout


@pytest.mark.parametrize("backbone", ["gat", "chebnet", "jknet"])
def test_every_backbone_runs(tables: list[object], tmp_path: Path, backbone: str) -> None:
    more = ["--ignore", "height", "--ignore", "tall", "--epochs", "5", "--no-report", "--backbone", backbone]
    facts = answer("run", *tables, *more, "--out", tmp_path / "people")
    assert facts["backbone"] == backbone
    settings = json.loads((tmp_path / "people" / "settings.json").read_text(encoding="utf-8"))
    assert settings["lggd"]["backbone"]["kind"].lower() == backbone
    assert settings["lggd"]["optimization"]["epochs"] == 5
    history = lggd.LGGDClassifier.load(tmp_path / "people" / "model").history_
    assert len(history["backbone"]["train_loss"]) == 5


@pytest.mark.parametrize(("preset", "horizons"), [("paper", "shared"), ("release", "each")])
def test_presets_are_kept_in_the_settings(tmp_path: Path, preset: str, horizons: str) -> None:
    options = ["--preset", preset, "--backbone", "none", "--no-report", "--out", tmp_path / "karate"]
    assert answer("run", "karate", *options)["preset"] == preset
    settings = json.loads((tmp_path / "karate" / "settings.json").read_text(encoding="utf-8"))
    assert settings["lggd"]["features"]["horizons"] == horizons
    assert settings["raw"] is None


def test_one_graphml_file_is_enough(tmp_path: Path) -> None:
    club = nx.relabel_nodes(nx.karate_club_graph(), lambda k: f"member {k}")
    nx.write_graphml(club, tmp_path / "club.graphml")
    options = ["--label", "club", "--test-share", "0.5", "--no-report", "--out", tmp_path / "club"]
    facts = answer("run", "--edges", tmp_path / "club.graphml", *options)  # 17 of each class: 9 are held out
    assert (facts["dataset"], facts["heldout"], facts["classes"]) == ("club", 18, ["Mr. Hi", "Officer"])
    assert rows_of(tmp_path / "club" / "predictions.csv")[0]["node"] == "member 0"


def test_the_default_folder_and_a_report_without_a_backbone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chromium: browser.Browser
) -> None:
    monkeypatch.chdir(tmp_path)
    facts = answer("run", "karate", "--backbone", "none", "--labels-per-class", "3", "--split", "1")
    assert facts["out"] == "out/karate"
    assert (facts["labelled"], facts["heldout"]) == (6, 28)
    assert facts["accuracy"]["raw"] is None
    with chromium.page(tmp_path / "out" / "karate" / "report.html") as page:
        assert page.inner_text("h1") == "LGGD on karate"


# -- what is held out, and what is made of weights ----------------------------------------------------------------


def made(
    folder: Path,
    labels: list[str],
    weights: str = "",
    split: list[str] | None = None,
    test_share: float = 0.3,
    draw: int = 0,
) -> Subject:
    """A path of nodes with these labels, and with this text after each of its edges."""
    names = [f"v{k}" for k in range(len(labels))]
    pairs = itertools.pairwise(names)
    (folder / "e.csv").write_text("".join(f"{a},{b}{weights}\n" for a, b in pairs))
    parts = ["" for _ in labels] if split is None else split
    rows = "".join(f"{row}\n" for row in map(",".join, zip(names, labels, parts, strict=True)))
    (folder / "n.csv").write_text("id,kind,part\n" + rows)
    return subject_from_tables(
        folder / "e.csv",
        folder / "n.csv",
        label="kind",
        ignore=["part"] if split is None else [],
        split_column=None if split is None else "part",
        test_share=test_share,
        split=draw,
    )


def test_a_share_of_every_class_is_held_out_but_never_its_last_label(tmp_path: Path) -> None:
    labels = ["a"] * 20 + ["b"] * 10 + ["c"] + [""] * 5
    subject, again = (made(tmp_path, labels) for _ in range(2))
    held_out = subject.held_out
    assert torch.equal(held_out, again.held_out)
    counts = [int(held_out[part].sum()) for part in (slice(0, 20), slice(20, 30), slice(30, 31), slice(31, 36))]
    assert counts == [6, 3, 0, 0]
    assert torch.equal(subject.data.train_mask, (subject.data.y >= 0) & ~held_out)
    draws = {tuple(made(tmp_path, labels, draw=number).held_out.tolist()) for number in range(5)}
    assert len(draws) == 5
    most = made(tmp_path, labels, test_share=0.99)
    assert [int((most.data.y[most.data.train_mask] == k).sum()) for k in range(3)] == [1, 1, 1]


def test_too_few_labels_leave_accuracy_unknown(tmp_path: Path) -> None:
    subject = made(tmp_path, ["a", "b", "", "", ""])
    assert int(subject.held_out.sum()) == 0
    assert int(subject.data.train_mask.sum()) == 2
    outcome = run(subject)
    assert outcome.accuracy == {"raw": None, "lggd": None}
    assert sum("Accuracy is unknown" in note for note in outcome.notes) == 1
    write_run(tmp_path / "few", outcome, run_facts(outcome, tmp_path / "few", report=True), command="", report=True)
    assert "No accuracy is known" in (tmp_path / "few" / "report.html").read_text()


def test_a_split_column_decides_and_its_test_labels_stay_hidden(tmp_path: Path) -> None:
    labels, split = ["a", "a", "b", "b", "a", "b"], ["train", "val", "val", "train", "test", "test"]
    subject = made(tmp_path, labels, split=split)
    assert subject.held_out.tolist() == [False] * 4 + [True] * 2
    outcome = run(subject)
    assert outcome.given.tolist() == [0, -1, -1, 1, -1, -1]
    assert outcome.model.additions_ == []
    facts = run_facts(outcome, "x", report=False)
    assert (facts["labelled"], facts["validation"], facts["heldout"]) == (2, 2, 2)


@pytest.mark.parametrize(("weights", "largest"), [(",8", 8), (",0.5", 0.5)])
def test_weights_are_divided_by_the_largest(tmp_path: Path, weights: str, largest: float) -> None:
    subject = made(tmp_path, ["a", "b", "a"], weights)
    assert subject.data.edge_weight.tolist() == [1] * 4
    assert f"divided by the largest, {largest:g}," in subject.notes[0]
    assert made(tmp_path, ["a", "b", "a"], ",1").notes[0].startswith("Accuracy is unknown")


# -- what more labels bring ---------------------------------------------------------------------------------------


def test_additions_are_measured_on_nodes_that_are_never_revealed() -> None:
    subject = subject_from_dataset("moons")
    outcome = run(subject, RunSettings(backbone="none", seed=3))
    model, truth = outcome.model, subject.data.y
    assert [a.labels for a in outcome.additions] == [10, 59, 108, 157]
    assert int((model.labels_ >= 0).sum()) == 10
    assert model.additions_ == []
    # The same by hand: draw, add and count.
    nodes = subject.held_out.nonzero().squeeze(1)
    order = nodes[torch.randperm(490, generator=torch.Generator().manual_seed(3))]
    never = order[147:]
    for step, addition in enumerate(outcome.additions):
        right = float((model.predict()[never] == truth[never]).double().mean())
        assert addition.accuracy == pytest.approx(100 * right)
        assert addition.milliseconds > 0
        model.add_labels(order[49 * step : 49 * (step + 1)], truth[order[49 * step : 49 * (step + 1)]])
    assert outcome.additions[-1].accuracy > outcome.additions[0].accuracy


def test_digits_from_end_to_end(tmp_path: Path, chromium: browser.Browser) -> None:
    facts = answer("run", "digits", "--out", tmp_path / "digits")
    assert (facts["nodes"], facts["labelled"], facts["heldout"]) == (1797, 50, 1747)
    assert facts["accuracy"]["raw"] > 85
    assert facts["accuracy"]["lggd"] > 90
    assert [row["labels"] for row in facts["additions"]] == [50, 224, 398, 572]
    assert facts["additions"][-1]["accuracy"] > facts["additions"][0]["accuracy"]
    rows = rows_of(tmp_path / "digits" / "predictions.csv")
    truth = lggd.load("digits")
    hidden = truth.test_mask.tolist()
    right = [row["predicted"] == str(int(y)) for row, y in zip(rows, truth.y, strict=True)]
    counted = [ok for ok, boundary_mask in zip(right, hidden, strict=True) if boundary_mask]
    assert 100 * sum(counted) / len(counted) == pytest.approx(facts["accuracy"]["lggd"])
    assert sum(row["labelled"] != "" for row in rows) == 50
    with chromium.page(tmp_path / "digits" / "report.html") as page:
        assert "1,747" in page.inner_text("header")
        assert page.locator("#additions tbody tr").count() == 4


# -- interruptions ------------------------------------------------------------------------------------------------


class Interrupt:
    """A Ctrl-C that comes after a certain epoch."""

    def __init__(self, part: str, stage: str, epoch: int) -> None:
        self.at = (part, stage, epoch)

    def __call__(self, part: str, told: Progress) -> None:
        if (part, told.stage, told.epoch) == self.at:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def karate() -> Outcome:
    """A run that nothing interrupted."""
    return run(subject_from_dataset("karate"))


@pytest.mark.parametrize("at", [("raw", "backbone", 120), ("lggd", "distances", 70), ("lggd", "backbone", 30)])
def test_a_resumed_run_gives_the_same_bits(karate: Outcome, tmp_path: Path, at: tuple[str, str, int]) -> None:
    subject, settings = subject_from_dataset("karate"), RunSettings()
    training = UnfinishedTraining(tmp_path / "karate", described(subject, settings), every=0)
    with pytest.raises(KeyboardInterrupt):
        run(subject, settings, training=training, progress=Interrupt(*at))
    assert training.is_saved
    epochs: list[tuple[str, str, int]] = []
    outcome = run(
        subject,
        settings,
        training=training,
        resume=True,
        progress=lambda part, told: epochs.append((part, told.stage, told.epoch)),
    )
    assert epochs[0] == at  # epochs before the interruption are not run again; its own had not been saved
    assert outcome.resumed
    resumed, whole = write(outcome, tmp_path / "karate"), write(karate, tmp_path / "whole")
    for name in ("predictions.csv", "features.parquet", "model/weights.safetensors"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes(), name
    assert outcome.accuracy == karate.accuracy


def hear_interruptions() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    """`lggd run moons` in a process of its own, on one thread."""
    return subprocess.Popen(
        [sys.executable, "-c", "from lggd.cli import main; main()", "run", "moons", "--no-report", "--out", out, *more],
        preexec_fn=hear_interruptions,
        env={**os.environ, "PYTHONPATH": str(Path(lggd.__file__).parents[1]), **ONE_THREAD},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stop(out: Path, sent: signal.Signals) -> subprocess.Popen[str]:
    """The same, but it gets a signal as soon as its first part is saved; the second takes much longer."""
    process = start(out)
    saved = out.with_name(f"{out.name}.training") / "raw" / "backbone.safetensors"
    while not saved.exists() and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(sent)
    process.wait(60)
    return process


def test_a_killed_run_leaves_the_earlier_result_and_can_be_resumed(
    finished: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    out = tmp_path / "moons"
    shutil.copytree(finished[1], out)
    before = tree(out)
    killed = stop(out, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    assert tree(out) == before
    process = start(out, "--resume", "--json")
    told, complaints = process.communicate(timeout=60)
    assert process.returncode == 0, complaints
    assert json.loads(told)["resumed"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["moons"]
    settings = json.loads((out / "settings.json").read_text())
    assert settings["command"].startswith("lggd run moons --no-report --out")
    whole = write(run(subject_from_dataset("moons")), tmp_path / "whole")
    assert (out / "predictions.csv").read_bytes() == (whole / "predictions.csv").read_bytes()


def test_ctrl_c_ends_with_130_and_says_how_to_go_on(tmp_path: Path) -> None:
    interrupted = stop(tmp_path / "moons", signal.SIGINT)
    told, complaints = interrupted.communicate()
    assert interrupted.returncode == 130
    assert told == ""
    assert "Add --resume to go on" in complaints
    assert complaints.endswith("Interrupted.\n")
    assert "Traceback" not in complaints
    assert [path.name for path in tmp_path.iterdir()] == ["moons.training"]
    said = refused("run", "moons", "--out", tmp_path / "moons", "--resume", "--seed", "1")
    assert "`--resume` must go on with the data and settings of the interrupted run, but seed was 0 there" in said
    assert "and is 1 now. Repeat them, or start anew without --resume." in said
    said = refused("run", "karate", "--out", tmp_path / "moons", "--resume")
    assert "but dataset was moons there and is karate now" in said


def test_resume_without_anything_saved_starts_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "karate.training" / "raw").mkdir(parents=True)
    (tmp_path / "karate.training" / "training.json").write_text("{}")
    (
        tmp_path / "karate.training" / "raw" / ".backbone-x.safetensors"
    ).touch()  # killed while it saved for the first time
    facts = answer("run", "karate", "--backbone", "none", "--resume", "--no-report", "--out", tmp_path / "karate")
    assert facts["resumed"] is False
    assert any("no interrupted run to resume" in note for note in facts["notes"])


def test_without_resume_a_run_starts_anew(karate: Outcome, tmp_path: Path) -> None:
    left = UnfinishedTraining(tmp_path / "karate", {"seed": 5})
    left.open(resume=False)
    (left.folder / "lggd").mkdir()
    (left.folder / "lggd" / "distances.safetensors").write_bytes(b"nonsense")
    answer("run", "karate", "--backbone", "none", "--no-report", "--out", tmp_path / "karate")
    assert [path.name for path in tmp_path.iterdir()] == ["karate"]


def test_a_failure_while_writing_keeps_the_earlier_result(
    finished: tuple[dict[str, Any], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "karate"
    shutil.copytree(finished[1], out)
    before = tree(out)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lggd.report.page.write", fail)
    result = command("run", "karate", "--backbone", "none", "--out", out)
    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert tree(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["karate", "karate.training"]


def test_damaged_or_foreign_training_is_refused(tmp_path: Path) -> None:
    training = UnfinishedTraining(tmp_path / "a", {"seed": 5})
    training.open(resume=False)
    (training.folder / "lggd").mkdir()
    (training.folder / "lggd" / "distances.safetensors").touch()
    (training.folder / "training.json").write_text("[]")
    with pytest.raises(ValueError, match="must tell whose training this is, but it is damaged"):
        training.open(resume=True)
    (tmp_path / "b.training").mkdir()
    (tmp_path / "b.training" / "thesis.txt").touch()
    assert "must be new, empty or hold training.json" in refused("run", "karate", "--out", tmp_path / "b")
    assert (tmp_path / "b.training" / "thesis.txt").exists()


# -- bad input ----------------------------------------------------------------------------------------------------


def test_help_teaches_by_example() -> None:
    result = command("run", "--help")
    assert result.exit_code == 0
    for part in ("Example", "lggd run digits", "lggd run --edges edges.csv --nodes nodes.csv --label kind", "--json"):
        assert part in result.stdout
    for name in lggd.data.datasets.DATASETS:
        assert name in result.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["digts"], "`DATASET` must be one of digits, moons, karate, cora, citeseer, pubmed, computers, photo, got"),
        (["digts"], "Did you mean 'digits'?"),
        ([], "`DATASET` or `--edges` must say which graph, got neither. Try digits"),
        (["--nodes", "n.csv"], "got --nodes alone"),
        (["digits", "--edges", "e.csv"], "`--edges` must be left out beside the dataset digits"),
        (["digits", "--label", "kind"], "`--label` must be left out beside the dataset digits"),
        (["digits", "--test-share", "0.5"], "`--test-share` must be left out beside the dataset digits"),
        (["digits", "--labels-per-class", "999"], "`--labels-per-class` must be below 174"),
        (["cora", "--labels-per-class", "3"], "`--labels-per-class` must be left out for cora"),
        (["--edges", "e.csv", "--nodes", "n.csv"], "`--label` must name the column of classes in n.csv, got none"),
        (["--edges", "e.csv", "--label", "kind"], "`--nodes` must be given, because `e.csv` holds edges alone"),
        (["--edges", "e.csv", "--nodes", "no.csv", "--label", "kind"], "`no.csv` must be a file, but there is none"),
        (["--edges", "no.csv", "--nodes", "n.csv", "--label", "kind"], "`no.csv` must be a file, but there is none"),
        (["--edges", "e.csv", "--nodes", "n.csv", "--label", "kin"], "`--label` must be a column of `n.csv`"),
        (["--edges", "e.csv", "--nodes", "n.csv", "--label", "kin"], "Did you mean 'kind'?"),
        ([*OWN, "--id-column", "no"], "`--id-column` must be a column of"),
        ([*OWN, "--ignore", "no"], "`--ignore` must be a column of"),
        ([*OWN, "--split-column", "no"], "`--split-column` must be a column"),
        ([*OWN, "--split-column", "id", "--split", "1"], "`--split` must be left"),
        ([*OWN, "--labels-per-class", "1"], "`--labels-per-class` must be"),
        ([*OWN, "--test-share", "1"], "`--test-share` must be a share in [0"),
        (
            ["--edges", "f.csv", *OWN[2:]],
            "`f.csv`, line 1, column 2, must be one of the 3 nodes",
        ),
        (
            ["karate", "--out", "mine"],
            "mine` must be new, empty or hold run.json, got a folder with other things in it",
        ),
        (["karate", "--out", "no/where"], "must lie in a folder that exists"),
        (["karate", "--out", "n.csv"], "must name a folder to write, got a file"),
    ],
)
def test_bad_input_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text("a,b\nb,c\n")
    (tmp_path / "f.csv").write_text("a,z\nb,c\n")
    (tmp_path / "n.csv").write_text("id,kind\na,red\nb,blue\nc,\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    assert said in refused("run", *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "f.csv", "mine", "n.csv"]


@pytest.mark.parametrize("wrong", [["--backbone", "mlp"], ["--preset", "best"], ["--seed", "-1"], ["--epochs", "0"]])
def test_values_that_a_flag_does_not_know_are_usage_errors(wrong: list[str]) -> None:
    result = command("run", "karate", *wrong)
    assert result.exit_code == 2
    assert wrong[0] in result.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_device_is_refused(tmp_path: Path) -> None:
    said = refused("run", "karate", "--device", "cuda", "--out", tmp_path / "karate")
    assert said.startswith("`--device` must be cpu here, got cuda")
