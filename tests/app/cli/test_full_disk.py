"""Commands on a disk that is full or read-only: one sentence, the right exit code, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from lggd.app.runs.methods import RunSettings
from lggd.app.runs.run import run, write_run
from lggd.app.runs.run_input import RunInput
from support.small_disk import small_disk
from support.tables import labelled_path

FREE = 8192
FILL = 'cp -r "$1" people; head -c 100000000 /dev/zero > filler 2> /dev/null; truncate -s "-$2" filler'


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    tables = labelled_path(folder)
    run_input = RunInput.from_tables(tables[1], tables[3], label="side")  # type: ignore[arg-type]
    write_run(folder / "people", run(run_input, RunSettings("ggd", backbone="none")))
    return folder / "people"


def on_small_disk(
    people: Path, folder: Path, *commands: list[object], free: int = FREE, mode: str = "rw"
) -> list[tuple[int | None, str, str]]:
    """Runs commands with the run `people` on a disk of which `free` bytes are free; it must be as before afterwards.

    Returns exit code, stdout and stderr of each.
    """
    with small_disk(folder, size="8m") as disk:
        assert disk.sh(FILL, people, free) == 0
        assert disk.sh(f"mount -o remount,{mode} $0") == 0
        results = [disk.lggd(*command) for command in commands]
        assert disk.sh("mount -o remount,rw $0; rm -f filler") == 0
        assert disk.sh('diff -r "$1" people', people) == 0
        assert disk.sh('test "$(ls -A)" = people') == 0
    return results


@pytest.mark.parametrize("free", [FREE, 0])
def test_a_full_disk_loses_nothing(people: Path, tmp_path: Path, free: int) -> None:
    disk, labels = tmp_path / "disk", tmp_path / "labels.csv"
    labels.write_text("cy,left\n")
    tables = ["--edges", people.parent / "edges.csv", "--nodes", people.parent / "nodes.csv", "--label", "side"]
    changing: list[list[object]] = [
        ["add-labels", disk / "people", labels],
        ["update", disk / "people", "--labels", labels],
        ["run", *tables, "--method", "ggd", "--backbone", "none", "--out", disk / "people"],
    ]
    predicting: list[list[object]] = [["predict", disk / "people", "--out", disk / "new.csv"]]
    for code, _, errors in on_small_disk(people, disk, *(changing if free else predicting), free=free):
        assert code == 1, errors
        message = errors.strip().split("\n")[-1]
        assert message.startswith(f"`{disk}/")
        assert "/." not in message  # the final path, not a temporary one
        assert "` must fit on its disk, but it needs more than the " in message
        assert message.endswith(
            "that are free there. Free some space and run it again: what was written before is unchanged."
        )


def test_a_read_only_disk_is_named_and_a_model_there_predicts(people: Path, tmp_path: Path) -> None:
    run = tmp_path / "disk" / "people"
    commands: list[list[object]] = [["add-labels", run, "cy=left"], ["remove-labels", run, "hal"], ["predict", run]]
    *changes, predicted = on_small_disk(people, tmp_path / "disk", *commands, free=10**6, mode="ro")
    for code, _, errors in changes:
        assert code == 2
        assert f"`{run}` must lie in a folder you may write to, got {run.parent}." in errors
    assert predicted[0] == 0
    assert "8 nodes" in predicted[1]
