"""Claims on work: one process at a time, and never longer than it lives."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lggd.compare.claims import FILE, Claims

HOLD = """
import sys
from lggd.compare.claims import Claims
with Claims(sys.argv[1]).on(sys.argv[2], wait=True):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def held_elsewhere(folder: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a claim until it hears a line, or dies."""
    command = [sys.executable, "-c", HOLD, str(folder), name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.kill()


def test_what_another_process_holds_is_not_ours(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    with held_elsewhere(tmp_path, "a") as other:
        with claims.on("a") as mine, claims.on("b") as also_mine:
            assert (mine, also_mine) == (False, True)
        other.communicate("enough\n")
        assert other.returncode == 0
        with claims.on("a") as mine:
            assert mine
    assert (tmp_path / FILE).stat().st_size == 0


def test_claims_end_with_their_process(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    with held_elsewhere(tmp_path, "a") as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with claims.on("a") as mine:
            assert mine


def test_one_may_wait_for_a_claim(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    with held_elsewhere(tmp_path, "a") as other:
        assert other.stdin is not None
        other.stdin.write("enough\n")
        other.stdin.flush()
        with claims.on("a", wait=True) as mine:
            assert mine


@pytest.mark.parametrize("wrong", [KeyboardInterrupt, ValueError])
def test_claims_are_given_back_whatever_happens(tmp_path: Path, wrong: type[BaseException]) -> None:
    claims = Claims(tmp_path)
    with pytest.raises(wrong), claims.on("a"):
        raise wrong
    with held_elsewhere(tmp_path, "a"), claims.on("a") as mine:
        assert not mine
    claims.close()
