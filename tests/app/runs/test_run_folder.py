"""Interrupted runs, and what a failure leaves in the folder of a run."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest

from lggd.app.runs.methods import RunSettings
from lggd.app.runs.run import RunResult, run, write_run
from lggd.app.runs.run_input import RunInput
from support.command_line import answer, command, files_of
from support.processes import Forked, start

TRAINED = RunSettings("lggd-trained", epochs=40)


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


COMMAND = ("run", "karate", "--method", "lggd-trained", "--epochs", "40", "--no-report", "--out")


# The second part of the run waits, so that there is time to stop it.
WAITING = """
import runpy, sys, time
from pathlib import Path
import lggd
fit = lggd.LGGDClassifier.fit
def wait(model, *data, **others):
    if model.features is not None:
        Path(sys.argv[-1]).with_name("waiting").touch()
        time.sleep(300)
    return fit(model, *data, **others)
lggd.LGGDClassifier.fit = wait
runpy.run_module("lggd", run_name="__main__", alter_sys=False)
"""


def stop(out: Path, sent: signal.Signals) -> Forked:
    """A run in a process that gets a signal as soon as its first part is trained."""
    process, waiting = start(*COMMAND, out, code=WAITING), out.with_name("waiting")
    while not waiting.exists() and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(sent)
    process.wait(300)
    waiting.unlink()
    return process


def test_a_killed_run_leaves_the_earlier_result_and_starts_again(earlier: Path, tmp_path: Path) -> None:
    out = tmp_path / "karate"
    shutil.copytree(earlier, out)
    before = files_of(out)
    killed = stop(out, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    assert files_of(out) == before
    answer(*COMMAND, out)
    assert [path.name for path in tmp_path.iterdir()] == ["karate"]
    assert (out / "predictions.csv").read_bytes() == (earlier / "predictions.csv").read_bytes()


def test_ctrl_c_exits_with_130_and_leaves_nothing(tmp_path: Path) -> None:
    interrupted = stop(tmp_path / "karate", signal.SIGINT)
    printed, errors = interrupted.communicate()
    assert interrupted.returncode == 130
    assert printed == ""
    assert errors == "Interrupted.\n"
    assert list(tmp_path.iterdir()) == []


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
    assert [path.name for path in tmp_path.iterdir()] == ["karate"]
