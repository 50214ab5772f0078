"""Interrupted runs, and what a failure leaves in the folder of a run."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import pytest

from lggd.app.runs.methods import RunSettings
from lggd.app.runs.run import RunResult, UnfinishedTraining, run, write_run
from lggd.app.runs.run_input import RunInput
from lggd.errors import InputError
from lggd.progress import Progress
from support.command_line import answer, command, files_of, refused
from support.processes import Forked, start

TRAINED = RunSettings("lggd-trained", epochs=40)


class Interrupt:
    """A Ctrl-C that comes after a certain epoch."""

    def __init__(self, part: str, stage: str, epoch: int) -> None:
        self.at = (part, stage, epoch)

    def __call__(self, part: str, progress: Progress) -> None:
        if (part, progress.stage, progress.done) == self.at:
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


@pytest.mark.parametrize("at", [("reference", "backbone", 25), ("model", "distances", 70), ("model", "backbone", 15)])
def test_a_resumed_run_gives_the_same_bits(karate: RunResult, tmp_path: Path, at: tuple[str, str, int]) -> None:
    found, settings = RunInput.from_dataset("karate"), TRAINED
    training = UnfinishedTraining(tmp_path / "karate", settings.record(found), every=0)
    with pytest.raises(KeyboardInterrupt):
        run(found, settings, training=training, callback=Interrupt(*at))
    assert training.is_saved
    epochs: list[tuple[str, str, int]] = []
    result = run(
        found,
        settings,
        training=training,
        resume=True,
        callback=lambda part, progress: epochs.append((part, progress.stage, progress.done)),
    )
    assert epochs[0] == at  # epochs before the interruption are not run again; its own had not been saved
    assert result.resumed
    resumed, whole = tmp_path / "karate", tmp_path / "whole"
    write_run(resumed, result, report=False)
    write_run(whole, karate, report=False)
    for name in ("predictions.csv", "features.csv", "model/weights.safetensors"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes(), name
    assert result.accuracy == karate.accuracy


COMMAND = ("run", "karate", "--method", "lggd-trained", "--epochs", "40", "--no-report", "--out")


# The second part of the run waits, so that there is time to stop it.
WAITING = """
import runpy, time
from lggd.app.runs.run import UnfinishedTraining
checkpoint = UnfinishedTraining.checkpoint
UnfinishedTraining.checkpoint = lambda self, part: time.sleep(300) if part == "model" else checkpoint(self, part)
runpy.run_module("lggd", run_name="__main__", alter_sys=False)
"""


def stop(out: Path, sent: signal.Signals) -> Forked:
    """A run in a process that gets a signal as soon as its first part is saved."""
    process = start(*COMMAND, out, code=WAITING)
    saved = out.with_name(f"{out.name}.training") / "reference" / "backbone.safetensors"
    while not saved.exists() and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(sent)
    process.wait(300)
    return process


def test_a_killed_run_leaves_the_earlier_result_and_can_be_resumed(earlier: Path, tmp_path: Path) -> None:
    out = tmp_path / "karate"
    shutil.copytree(earlier, out)
    before = files_of(out)
    killed = stop(out, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    assert files_of(out) == before
    process = start(*COMMAND, out, "--resume", "--json")
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert json.loads(printed)["resumed"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["karate"]
    settings = json.loads((out / "settings.json").read_text())
    assert settings["command"].startswith("lggd run karate --method lggd-trained --epochs 40 --no-report --out")
    assert (out / "predictions.csv").read_bytes() == (earlier / "predictions.csv").read_bytes()


def test_ctrl_c_exits_with_130_and_says_how_to_continue(tmp_path: Path) -> None:
    interrupted = stop(tmp_path / "karate", signal.SIGINT)
    printed, errors = interrupted.communicate()
    assert interrupted.returncode == 130
    assert printed == ""
    assert "Add --resume to continue" in errors
    assert errors.endswith("Interrupted.\n")
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["karate.training"]
    options = ["--method", "lggd-trained", "--out", tmp_path / "karate", "--resume"]
    message = refused("run", "karate", *options, "--seed", "1")
    assert "`--resume` must continue with the data and settings of the interrupted run, but seed was 0 there" in message
    assert "and is 1 now. Use the same settings, or start again without --resume." in message
    message = refused("run", "moons", *options)
    assert "but dataset was karate there and is moons now" in message


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

    monkeypatch.setattr("lggd.app.runs.run.render", fail)
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
