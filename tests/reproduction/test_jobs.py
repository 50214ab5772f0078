"""Jobs that fail stop no other and keep nothing in memory; claims on work end with their process."""

from __future__ import annotations

import signal
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from lggd.app.comparison.results import Results
from reproduction.jobs import CLAIMS, Claims, Job, JobOptions, run_jobs
from support.other_process import claimed_elsewhere

SEEN: list[weakref.ref[torch.Tensor]] = []


@dataclass(frozen=True)
class Failing(Job):
    """A job of one line, which fails if its number is odd."""

    number: int
    experiment: str = "failing"
    CELL: ClassVar = ("number",)
    IDENTITY: ClassVar = ("number",)

    @property
    def title(self) -> str:
        return f"job {self.number}"

    def identities(self, options: JobOptions) -> list[dict[str, Any]]:
        return [{"number": self.number}]

    def lines(self, options: JobOptions, missing: Any, callback: Any) -> Iterator[dict[str, Any]]:
        large = torch.zeros(1000)
        SEEN.append(weakref.ref(large))
        if self.number % 2:
            raise MemoryError("too much")
        yield missing[0]


def test_a_failed_job_stops_no_other_and_keeps_no_tensor(tmp_path: Path) -> None:
    found = run_jobs([Failing(number) for number in range(4)], JobOptions(Results(tmp_path)))
    assert found.lines == [{"number": 0}, {"number": 2}]
    assert {number: str(error) for number, error in found.failures.items()} == {1: "too much", 3: "too much"}
    assert [reference() for reference in SEEN] == [None] * 4
    again = run_jobs([Failing(number) for number in range(3)], JobOptions(Results(tmp_path)))
    assert (again.reused, list(again.failures)) == (2, [1])


def test_a_claim_held_by_another_process_is_not_granted(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    with claimed_elsewhere(tmp_path, "a") as other:
        with claims.on("a") as mine, claims.on("b") as also_mine:
            assert (mine, also_mine) == (False, True)
        other.communicate("enough\n")
        assert other.returncode == 0
        with claims.on("a") as mine:
            assert mine
    assert all(path.stat().st_size == 0 for path in (tmp_path / CLAIMS).iterdir())


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
