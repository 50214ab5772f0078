"""Jobs that fail: they stop no other, keep nothing in memory, and are known by their number."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import lggd
from lggd.app.comparison.jobs import Job, JobOptions, run_jobs, run_jobs_on_cluster
from lggd.app.comparison.results import Claims, Results
from support.comparison_models import Oracle
from support.small_data import blocks

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


def test_processes_that_share_a_cluster_claim_in_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each of two could hold what the other one waits for."""
    claimed: list[str] = []
    monkeypatch.setattr(Claims, "on", lambda self, name, wait: (claimed.append(name), nullcontext(True))[1])
    monkeypatch.setattr("lggd.app.comparison.jobs.run_tasks", lambda *_: iter(()))
    for numbers in (range(4), reversed(range(4))):
        run_jobs_on_cluster([Failing(number) for number in numbers], JobOptions(Results(tmp_path)))
    assert len(claimed) == 8
    assert claimed[:4] == claimed[4:]


def test_a_comparison_names_methods_whose_lines_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Results.append

    def full(self: Results, experiment: str, line: Any) -> None:
        if line["method"] == "unlucky":
            raise OSError("There is no space\nleft.")
        append(self, experiment, line)

    monkeypatch.setattr(Results, "append", full)
    methods = {"mine": Oracle(), "unlucky": Oracle(wrong=2)}
    found = lggd.compare(blocks(), methods, splits=2, labels=2, folder=tmp_path)
    assert found.failed == {"unlucky": "OSError: There is no space left."}
    assert found.best == "mine"
