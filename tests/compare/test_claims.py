"""Claims on work: one process at a time, and never longer than it lives."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from lggd.compare.claims import FILE, Claims
from other_process import claimed_elsewhere


def test_a_claim_held_by_another_process_is_not_granted(tmp_path: Path) -> None:
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


def test_claims_can_be_waited_for(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    with claimed_elsewhere(tmp_path, "a") as other:
        assert other.stdin is not None
        other.stdin.write("enough\n")
        other.stdin.flush()
        with claims.on("a", wait=True) as mine:
            assert mine


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_claims_are_released_on_any_error(tmp_path: Path, error: type[BaseException]) -> None:
    claims = Claims(tmp_path)
    with pytest.raises(error), claims.on("a"):
        raise error
    with claimed_elsewhere(tmp_path, "a"), claims.on("a") as mine:
        assert not mine
    claims.close()
