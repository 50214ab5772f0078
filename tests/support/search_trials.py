"""A small row to search, a substitute for training, and a look into its study; for tests of searches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from reproduction import sweep
from reproduction.rows import Row
from reproduction.runner import Scores
from reproduction.sweep import REASON, SearchConfig

SEARCH = {
    "backbone__dropout": {"low": 0.1, "high": 0.9, "step": 0.1},
    "optimization__lr": {"low": 1e-3, "high": 1e-1, "log": True},
    "backbone__hidden": [4, 8],
}
ROW = Row("01", "GCN", "gcn", "gcn", {"optimization__epochs": 15, "optimization__weight_decay": 0.001}, SEARCH)


def study_in(folder: Path, row: Row = ROW, dataset: str = "karate") -> optuna.Study:
    file = SearchConfig(results=folder).file(row)
    return optuna.load_study(storage=f"sqlite:///{file}", study_name=f"{row.slug}/{dataset}")


def finished(folder: Path, **which: Any) -> list[Any]:
    """The trials that ended by themselves."""
    return [
        trial
        for trial in study_in(folder, **which).trials
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) or REASON in trial.user_attrs
    ]


def replace_training(
    monkeypatch: pytest.MonkeyPatch, accuracy: Callable[[dict[str, Any], int], float]
) -> list[dict[str, Any]]:
    """Lets `accuracy(settings, split)` replace training; returns the list of calls, which grows."""
    calls: list[dict[str, Any]] = []

    def measure(method: str, settings: Any, dataset: str, splits: list[int], *where: Any, **rest: Any) -> Scores:
        calls.append({"settings": dict(settings), "splits": splits, **rest})
        return Scores([accuracy(settings, split) for split in splits], [], 0.0)

    monkeypatch.setattr(sweep, "measure", measure)
    return calls
