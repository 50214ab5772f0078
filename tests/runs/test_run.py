"""Runs as a library: what is measured, what is not seen while measuring, and interruptions."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from command_line import answer, command, environment, files_of, program, refused
from lggd.errors import InputError
from lggd.report.run_report import McNemarTest
from lggd.runs.folder import p_value, write_run
from lggd.runs.methods import METHODS, build_model
from lggd.runs.run import RunResult, RunSettings, UnfinishedTraining, run, settings_of_run
from lggd.runs.run_input import RunInput
from lggd.training.engine import Progress
from tables import path_input, two_rings

TRAINED = RunSettings("lggd-trained")


def test_held_out_labels_are_not_seen_before_they_are_restored(tmp_path: Path) -> None:
    tables = two_rings(tmp_path)
    ignored = ("remark", "height", "tall")
    found = RunInput.from_tables(tables[1], tables[3], label="kind", ignore=ignored)  # type: ignore[arg-type]
    result = run(found)
    assert result.features is not None
    assert result.features.shape == (40, 6)
    assert bool((result.measured_labels[found.held_out] == -1).all())
    assert torch.equal(result.labels, found.data.y)
    assert len(result.model.additions_) == 1
    found.data.y[found.held_out] = 1 - found.data.y[found.held_out]
    again = run(found)
    assert torch.equal(again.measured_probabilities, result.measured_probabilities)
    assert again.accuracy["model"] == 100 - result.accuracy["model"]  # type: ignore[operator]


def test_a_method_that_cannot_add_labels_says_so(tmp_path: Path) -> None:
    tables = two_rings(tmp_path)
    found = RunInput.from_tables(tables[1], tables[3], label="kind", ignore=("remark",))  # type: ignore[arg-type]
    result = run(found, RunSettings("gcn", epochs=3))
    assert torch.equal(result.labels, result.measured_labels)
    assert any("cannot add labels without training" in note for note in result.notes)
    assert (result.distances, result.features, result.additions) == (None, None, ())


def test_too_few_labels_leave_accuracy_unknown(tmp_path: Path) -> None:
    found = path_input(tmp_path, ["a", "b", "", "", ""])
    assert int(found.held_out.sum()) == 0
    assert int(found.data.train_mask.sum()) == 2
    result = run(found)
    assert result.accuracy == {"reference": None, "model": None}
    assert sum("Accuracy is unknown" in note for note in result.notes) == 1
    write_run(tmp_path / "few", result)
    assert "Accuracy is unknown: no held-out node" in (tmp_path / "few" / "report.html").read_text()


def test_test_labels_of_a_split_column_stay_hidden(tmp_path: Path) -> None:
    labels, split = ["a", "a", "b", "b", "a", "b"], ["train", "val", "val", "train", "test", "test"]
    result = run(path_input(tmp_path, labels, split=split))
    assert result.labels.tolist() == [0, -1, -1, 1, -1, -1]
    assert result.model.additions_ == []
    facts = write_run(tmp_path / "x", result, report=False)
    assert (facts["labelled"], facts["validation"], facts["heldout"]) == (2, 2, 2)


def test_additions_are_measured_on_nodes_that_are_never_revealed() -> None:
    found = RunInput.from_dataset("moons")
    result = run(found, RunSettings(reference="none", seed=3))
    model, truth = result.model, found.data.y
    assert [a.labels for a in result.additions] == [10, 59, 108, 157]
    assert int((model.labels_ >= 0).sum()) == 10
    assert model.additions_ == []
    # The same by hand: draw, add and count.
    nodes = found.held_out.nonzero().squeeze(1)
    order = nodes[torch.randperm(490, generator=torch.Generator().manual_seed(3))]
    never = order[147:]
    for step, addition in enumerate(result.additions):
        correct = float((model.predict()[never] == truth[never]).double().mean())
        assert addition.accuracy == pytest.approx(100 * correct)
        assert addition.milliseconds > 0
        model.add_labels(order[49 * step : 49 * (step + 1)], truth[order[49 * step : 49 * (step + 1)]])
    assert result.additions[-1].accuracy > result.additions[0].accuracy


# -- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "titles"),
    [
        (RunSettings(), {"reference": "GCN", "model": "LGGD"}),
        (RunSettings("lggd-trained"), {"reference": "GCN", "model": "Trained LGGD with GCN"}),
        (RunSettings("lggd", "gat"), {"reference": "GAT", "model": "LGGD with GAT"}),
        (RunSettings("ggd", "gat"), {"reference": "GAT", "model": "GGD with GAT"}),
        (RunSettings(reference="none"), {"model": "LGGD"}),
        (RunSettings(reference="jknet"), {"reference": "JKNet", "model": "LGGD"}),
        (RunSettings("lggd-plus"), {"reference": "GCN", "model": "LGGD+"}),
        (RunSettings("lggd-plus-trained"), {"reference": "GCN", "model": "Trained LGGD+ with GCN"}),
        (RunSettings("gat"), {"model": "GAT"}),
        (RunSettings("gpr-gnn"), {"reference": "GCN", "model": "GPR-GNN"}),
        (RunSettings("gcn-plus"), {"reference": "GCN", "model": "GCN+"}),
        (RunSettings("label-propagation"), {"reference": "GCN", "model": "Label propagation"}),
        (RunSettings("gdc-ppr", "jknet"), {"reference": "JKNet", "model": "GDC (PPR) with JKNet"}),
    ],
    ids=lambda value: value.method if isinstance(value, RunSettings) else "",
)
def test_models_are_compared_with_their_backbone_alone(settings: RunSettings, titles: dict[str, str]) -> None:
    assert settings.titles() == titles


@pytest.mark.parametrize("method", METHODS)
def test_settings_reach_the_model(method: str) -> None:
    trained = METHODS[method].is_trained
    model = build_model(method, epochs=7 if trained else None, seed=5)
    assert {value for name, value in model.get_params().items() if name.split("__")[-1] == "seed"} == {5}
    if trained:
        assert all(network.optimization.epochs == 7 for network in METHODS[method].networks(model))
    else:
        with pytest.raises(InputError, match=f"`epochs` must be omitted for {method}, which is not trained, got 7"):
            build_model(method, epochs=7)


@pytest.mark.parametrize("settings", [{"method": "nothing"}, {"backbone": "nothing"}])
def test_unknown_names_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InputError) as error:
        RunSettings(**settings)  # type: ignore[arg-type]
    assert error.value.argument in settings


# -- interruptions -----------------------------------------------------------------------------------------------------


class Interrupt:
    """A Ctrl-C that comes after a certain epoch."""

    def __init__(self, part: str, stage: str, epoch: int) -> None:
        self.at = (part, stage, epoch)

    def __call__(self, part: str, progress: Progress) -> None:
        if (part, progress.stage, progress.epoch) == self.at:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def karate() -> RunResult:
    """A run that nothing interrupted."""
    return run(RunInput.from_dataset("karate"), TRAINED)


@pytest.fixture(scope="module")
def earlier(karate: RunResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an earlier run."""
    out = tmp_path_factory.mktemp("earlier") / "karate"
    write_run(out, karate, report=False)
    return out


@pytest.mark.parametrize("at", [("reference", "backbone", 120), ("model", "distances", 70), ("model", "backbone", 30)])
def test_a_resumed_run_gives_the_same_bits(karate: RunResult, tmp_path: Path, at: tuple[str, str, int]) -> None:
    found, settings = RunInput.from_dataset("karate"), TRAINED
    training = UnfinishedTraining(tmp_path / "karate", settings_of_run(found, settings), every=0)
    with pytest.raises(KeyboardInterrupt):
        run(found, settings, training=training, callback=Interrupt(*at))
    assert training.is_saved
    epochs: list[tuple[str, str, int]] = []
    result = run(
        found,
        settings,
        training=training,
        resume=True,
        callback=lambda part, progress: epochs.append((part, progress.stage, progress.epoch)),
    )
    assert epochs[0] == at  # epochs before the interruption are not run again; its own had not been saved
    assert result.resumed
    resumed, whole = tmp_path / "karate", tmp_path / "whole"
    write_run(resumed, result, report=False)
    write_run(whole, karate, report=False)
    for name in ("predictions.csv", "features.parquet", "model/weights.safetensors"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes(), name
    assert result.accuracy == karate.accuracy


def handle_interrupts() -> None:
    """A process that a shell starts in the background ignores Ctrl-C, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    """`lggd run moons` in a process of its own, on one thread."""
    return subprocess.Popen(
        program("run", "moons", "--method", "lggd-trained", "--no-report", "--out", out, *more),
        preexec_fn=handle_interrupts,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stop(out: Path, sent: signal.Signals) -> subprocess.Popen[str]:
    """The same, but it gets a signal as soon as its first part is saved; the second takes much longer."""
    process = start(out)
    saved = out.with_name(f"{out.name}.training") / "reference" / "backbone.safetensors"
    while not saved.exists() and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(sent)
    process.wait(300)
    return process


def test_a_killed_run_leaves_the_earlier_result_and_can_be_resumed(earlier: Path, tmp_path: Path) -> None:
    out = tmp_path / "moons"
    shutil.copytree(earlier, out)
    before = files_of(out)
    killed = stop(out, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    assert files_of(out) == before
    process = start(out, "--resume", "--json")
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert json.loads(printed)["resumed"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["moons"]
    settings = json.loads((out / "settings.json").read_text())
    assert settings["command"].startswith("lggd run moons --method lggd-trained --no-report --out")
    write_run(tmp_path / "whole", run(RunInput.from_dataset("moons"), TRAINED), report=False)
    assert (out / "predictions.csv").read_bytes() == (tmp_path / "whole" / "predictions.csv").read_bytes()


def test_ctrl_c_exits_with_130_and_says_how_to_continue(tmp_path: Path) -> None:
    interrupted = stop(tmp_path / "moons", signal.SIGINT)
    printed, errors = interrupted.communicate()
    assert interrupted.returncode == 130
    assert printed == ""
    assert "Add --resume to continue" in errors
    assert errors.endswith("Interrupted.\n")
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["moons.training"]
    options = ["--method", "lggd-trained", "--out", tmp_path / "moons", "--resume"]
    message = refused("run", "moons", *options, "--seed", "1")
    assert "`--resume` must continue with the data and settings of the interrupted run, but seed was 0 there" in message
    assert "and is 1 now. Use the same settings, or start again without --resume." in message
    message = refused("run", "karate", *options)
    assert "but dataset was moons there and is karate now" in message


def test_resume_without_anything_saved_starts_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "karate.training" / "reference").mkdir(parents=True)
    (tmp_path / "karate.training" / "training.json").write_text("{}")
    (
        tmp_path / "karate.training" / "reference" / ".backbone-x.safetensors"
    ).touch()  # killed while it saved for the first time
    facts = answer("run", "karate", "--backbone", "none", "--resume", "--no-report", "--out", tmp_path / "karate")
    assert facts["resumed"] is False
    assert any("No interrupted run was found" in note for note in facts["notes"])


def test_without_resume_a_run_starts_again(tmp_path: Path) -> None:
    left = UnfinishedTraining(tmp_path / "karate", {"seed": 5})
    left.open(resume=False)
    (left.folder / "model").mkdir()
    (left.folder / "model" / "distances.safetensors").write_bytes(b"nonsense")
    answer("run", "karate", "--backbone", "none", "--no-report", "--out", tmp_path / "karate")
    assert [path.name for path in tmp_path.iterdir()] == ["karate"]


def test_a_failure_while_writing_keeps_the_earlier_result(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "karate"
    shutil.copytree(earlier, out)
    before = files_of(out)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lggd.runs.folder.write_page", fail)
    result = command("run", "karate", "--backbone", "none", "--out", out)
    assert result.exit_code == 1
    assert f"`{out}` must fit on its disk" in result.stderr
    assert files_of(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["karate", "karate.training"]


def test_damaged_or_foreign_training_is_refused(tmp_path: Path) -> None:
    training = UnfinishedTraining(tmp_path / "a", {"seed": 5})
    training.open(resume=False)
    (training.folder / "model").mkdir()
    (training.folder / "model" / "distances.safetensors").touch()
    (training.folder / "training.json").write_text("[]")
    with pytest.raises(InputError, match="must contain the settings of a run, but it is damaged"):
        training.open(resume=True)
    (tmp_path / "b.training").mkdir()
    (tmp_path / "b.training" / "thesis.txt").touch()
    assert "must be new, empty or contain training.json" in refused("run", "karate", "--out", tmp_path / "b")
    assert (tmp_path / "b.training" / "thesis.txt").exists()


def test_the_p_value_is_that_of_both_on_held_out_nodes() -> None:
    result = run(RunInput.from_dataset("karate"), RunSettings(method="kernel-ridge"))
    tested = result.input.held_out
    y = result.input.data.y[tested]
    correct = [
        (found[tested] == y).numpy() for found in (result.measured_probabilities.argmax(1), result.reference_predicted)
    ]
    assert p_value(result) == McNemarTest.of(*correct).p
    assert p_value(replace(result, reference_predicted=None)) is None
