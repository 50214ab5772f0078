"""Results on disk: nothing is lost to two writers, a kill or an unfinished line."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from lggd.app.comparison.results import Results
from lggd.errors import DiskFullError, InputFileError
from support.processes import Forked, start

# Imports nothing heavy: the module is read from its file.
WRITER = """
import sys
from lggd.app.comparison.results import Results
results = Results(sys.argv[1])
for number in range(int(sys.argv[3])):
    results.append("many", {"writer": sys.argv[2], "number": number, "filling": "x" * 3000})
    print(number, flush=True)
"""


def writer(folder: Path, name: str, count: int) -> Forked:
    return start(folder, name, count, code=WRITER)


def test_lines_come_back_in_order(tmp_path: Path) -> None:
    results = Results(tmp_path / "new/folder")
    assert results.lines("table1") == ([], 0)
    for number in range(3):
        results.append("table1", {"number": number, "name": "LGGD w. ρ(x)"})
    assert [line["number"] for line in results.lines("table1")[0]] == [0, 1, 2]
    assert "ρ" in results.path("table1").read_text(encoding="utf-8")
    assert results.lines("other") == ([], 0)


def test_a_torn_line_is_skipped_and_counted_and_harms_no_later_one(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.append("table1", {"number": 0})
    with results.path("table1").open("a") as file:
        file.write('{"number": 1, "te')
    assert results.lines("table1") == ([{"number": 0}], 1)
    results.append("table1", {"number": 2})
    assert results.lines("table1") == ([{"number": 0}, {"number": 2}], 1)


@pytest.mark.parametrize("torn", [b"\xff\xfe", b"17", b'"text"', b"[1]"])
def test_whatever_is_no_object_is_torn(tmp_path: Path, torn: bytes) -> None:
    results = Results(tmp_path)
    results.path("table1").write_bytes(b'{"a": 1}\n' + torn + b"\n\n")
    assert results.lines("table1") == ([{"a": 1}], 1)


def test_what_json_cannot_hold_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    results = Results(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        results.append("table1", {"mean": float("nan")})
    assert results.lines("table1") == ([], 0)


def test_wrong_places_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputFileError, match="must be a folder"):
        Results(tmp_path / "file")
    with pytest.raises(ValueError, match="`experiment`"):
        Results(tmp_path).path("../table1")
    with pytest.raises(InputFileError, match="must lie in a folder that exists"):
        Results(tmp_path / "file" / "results").prepare()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(tmp_path)
    results.append("table1", {"number": 0})
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, written: write(handle, written[:5]))
    with pytest.raises(DiskFullError, match=r"table1\.jsonl` must fit on its disk, but it needs more than"):
        results.append("table1", {"number": 1})
    monkeypatch.undo()
    results.append("table1", {"number": 2})
    assert results.lines("table1") == ([{"number": 0}, {"number": 2}], 0)


def test_processes_that_write_at_once_lose_and_mix_nothing(tmp_path: Path) -> None:
    count = 60
    writers = [writer(tmp_path, name, count) for name in ("a", "b", "c")]
    for one in writers:
        one.communicate(timeout=60)
        assert one.returncode == 0
    lines, torn = Results(tmp_path).lines("many")
    assert torn == 0
    for name in ("a", "b", "c"):
        assert [line["number"] for line in lines if line["writer"] == name] == list(range(count))


def test_a_killed_writer_loses_nothing_that_it_said_was_written(tmp_path: Path) -> None:
    doomed = writer(tmp_path, "doomed", 100_000)
    assert doomed.stdout is not None
    said = [int(doomed.stdout.readline()) for _ in range(20)]
    time.sleep(0.05)
    doomed.send_signal(signal.SIGKILL)
    said += [int(text) for text in doomed.stdout.read().split()]
    assert doomed.wait() == -signal.SIGKILL
    results = Results(tmp_path)
    kept = [line["number"] for line in results.lines("many")[0]]
    assert kept[: len(said)] == said
    assert len(kept) <= len(said) + 1
    results.append("many", {"number": "after"})
    assert json.loads(results.path("many").read_bytes().rstrip().split(b"\n")[-1]) == {"number": "after"}
