"""Commands on a disk that is full or read-only: one sentence, the right exit code, and nothing lost.

The disk is a small one in memory, mounted where only the command sees it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import environment
from lggd.runs.methods import RunSettings
from lggd.runs.run import run, write_run
from lggd.runs.run_input import RunInput
from tables import labelled_path

FREE, CHANGED, NO_DISK = 8192, 99, 77
SCRIPT = """
disk=$1 run=$2 free=$3 mode=$4; shift 4
mount -t tmpfs -o size=8m tmpfs "$disk" || exit 77
cp -r "$run" "$disk/people"
head -c 100000000 /dev/zero > "$disk/filler" 2> /dev/null
truncate -s "-$free" "$disk/filler"
test "$mode" = rw || mount -o "remount,$mode" "$disk"
"$@"
code=$?
test "$mode" = rw || mount -o remount,rw "$disk"
rm "$disk/filler"
rm -rf "$disk"/*.training
diff -r "$run" "$disk/people" >&2 || exit 99
test "$(ls -A "$disk")" = people || exit 99
exit $code
"""


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    tables = labelled_path(folder)
    run_input = RunInput.from_tables(tables[1], tables[3], label="side")  # type: ignore[arg-type]
    write_run(folder / "people", run(run_input, RunSettings("ggd", backbone="none")))
    return folder / "people"


def on_small_disk(
    people: Path, disk: Path, *arguments: object, free: int = FREE, mode: str = "rw"
) -> subprocess.CompletedProcess[str]:
    """Runs a command with the run `people` on a disk of which `free` bytes are free, and compares it afterwards."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    disk.mkdir()
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh", disk, people, free, mode]
    command += [sys.executable, "-m", "lggd", *arguments]
    result = subprocess.run(list(map(str, command)), env=environment(), capture_output=True, text=True)
    if result.returncode == NO_DISK or "unshare failed" in result.stderr:
        pytest.skip("needs user namespaces")
    assert result.returncode != CHANGED, result.stderr
    return result


@pytest.mark.parametrize("name", ["add-labels", "update", "predict", "run"])
def test_a_full_disk_loses_nothing(people: Path, tmp_path: Path, name: str) -> None:
    disk, labels = tmp_path / "disk", tmp_path / "labels.csv"
    labels.write_text("cy,left\n")
    folder = people.parent
    options: dict[str, list[object]] = {
        "add-labels": [disk / "people", labels],
        "update": [disk / "people", "--labels", labels],
        "predict": [disk / "people", "--out", disk / "new.csv"],
        "run": [
            "--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--label", "side", "--method", "ggd",
            "--backbone", "none", "--out", disk / "people",
        ],
    }  # fmt: skip
    result = on_small_disk(people, disk, name, *options[name], free=0 if name == "predict" else FREE)
    assert result.returncode == 1, result.stderr
    message = result.stderr.strip().split("\n")[-1]
    assert message.startswith(f"`{disk}/")
    assert "/." not in message  # the final path, not a temporary one
    assert "` must fit on its disk, but it needs more than the " in message
    assert message.endswith(
        "that are free there. Free some space and run it again: what was written before is unchanged."
    )


@pytest.mark.parametrize("name", ["add-labels", "remove-labels"])
def test_a_read_only_disk_is_named(people: Path, tmp_path: Path, name: str) -> None:
    disk = tmp_path / "disk"
    label = "cy=left" if name == "add-labels" else "hal"
    result = on_small_disk(people, disk, name, disk / "people", label, free=10**6, mode="ro")
    assert result.returncode == 2
    assert f"`{disk}/people/model` must lie in a folder you may write to, got {disk}/people." in result.stderr


def test_a_model_on_a_read_only_disk_predicts(people: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    result = on_small_disk(people, disk, "predict", disk / "people", free=10**6, mode="ro")
    assert result.returncode == 0
    assert "8 nodes" in result.stdout


def test_a_missing_folder_is_named(people: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    result = on_small_disk(people, disk, "predict", disk / "people", "--out", disk / "no" / "x.csv", free=10**6)
    assert result.returncode == 2
    assert f"`{disk}/no/x.csv` must lie in a folder that exists, got {disk}/no." in result.stderr
