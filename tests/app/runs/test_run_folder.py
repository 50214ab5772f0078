"""The folder of a run: an earlier result stays until the new one is complete."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from lggd.app.runs.methods import RunSettings
from lggd.app.runs.run import run, write_run
from lggd.app.runs.run_input import RunInput
from lggd.progress import Progress
from support.command_line import command, files_of
from support.processes import Forked, start


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an earlier run."""
    out = tmp_path_factory.mktemp("earlier") / "karate"
    write_run(out, run(RunInput.from_dataset("karate"), RunSettings("ggd", backbone="none")), report=False)
    return out


# The second part of the run waits, so that there is time to stop it.
WAITING = """
import runpy, time
import lggd.app.runs.run as run
accuracy, runs = run._accuracy, []
def waiting(*arguments):
    runs.append(1)
    if len(runs) == 2:
        print("waiting", flush=True)
        time.sleep(300)
    return accuracy(*arguments)
run._accuracy = waiting
runpy.run_module("lggd", run_name="__main__", alter_sys=False)
"""


def stop(out: Path, sent: signal.Signals) -> Forked:
    """A run in a process that gets a signal once its first part is trained."""
    process = start("run", "karate", "--method", "ggd", "--epochs", "5", "--out", out, code=WAITING)
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(sent)
    process.wait(300)
    return process


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_leaves_the_earlier_result_and_nothing_else(
    earlier: Path, tmp_path: Path, sent: signal.Signals
) -> None:
    out = tmp_path / "karate"
    shutil.copytree(earlier, out)
    before = files_of(out)
    interrupted = stop(out, sent)
    assert files_of(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["karate"]
    if sent == signal.SIGKILL:
        assert interrupted.returncode == -signal.SIGKILL
    else:
        printed, errors = interrupted.communicate()
        assert (interrupted.returncode, printed) == (130, "")
        assert errors.endswith("Interrupted.\n")
        assert "Traceback" not in errors


def test_progress_names_the_part_that_is_trained() -> None:
    reports: list[Progress] = []
    run(RunInput.from_dataset("karate"), RunSettings("gcn", epochs=2), callback=reports.append)
    assert [(now.stage, now.done, now.total) for now in reports] == [("GCN: backbone", 1, 2), ("GCN: backbone", 2, 2)]


def test_a_failure_while_writing_keeps_the_earlier_result(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "karate"
    shutil.copytree(earlier, out)
    before = files_of(out)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lggd.app.runs.run.render", fail)
    result = command("run", "karate", "--reference", "none", "--out", out)
    assert result.exit_code == 1
    assert f"`{out}` must fit on its disk" in result.stderr
    assert files_of(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["karate"]
