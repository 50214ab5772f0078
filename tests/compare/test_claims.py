"""Claims on work: one process at a time, and never longer than it lives."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from lggd.compare.claims import FILE, Claims
from other_process import claimed_elsewhere


def test_what_another_process_holds_is_not_ours(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    with claimed_elsewhere(tmp_path, "a") as other:
        with claims.on("a") as mine, claims.on("b") as also_mine:
            assert (mine, also_mine) == (False, True)
        other.communicate("enough\n")
        assert other.returncode == 0
        with claims.on("a") as mine:
            assert mine
    assert (tmp_path / FILE).stat().st_size == 0


def test_claims_end_with_their_process(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    with claimed_elsewhere(tmp_path, "a") as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with claims.on("a") as mine:
            assert mine


def test_one_may_wait_for_a_claim(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    with claimed_elsewhere(tmp_path, "a") as other:
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
    with claimed_elsewhere(tmp_path, "a"), claims.on("a") as mine:
        assert not mine
    claims.close()
