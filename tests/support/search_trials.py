"""A small row to search, a substitute for training, and a look into its journal; for tests of searches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from lggd.app.comparison import search
from lggd.app.comparison.rows import Categorical, Range, Row
from lggd.app.comparison.runner import Scores
from lggd.app.comparison.search import SearchConfig
from lggd.app.comparison.study import REASON, open_journal

SEARCH = {"dropout": Range(0.1, 0.9, 0.1), "lr": Range(1e-3, 1e-1, log=True), "hidden": Categorical((4, 8))}
ROW = Row("01", "GCN", "gcn", "gcn", {"max_epochs": 15, "weight_decay": 0.001}, SEARCH)


def study_in(folder: Path, row: Row = ROW, dataset: str = "karate") -> optuna.Study:
    journal = open_journal(SearchConfig(results=folder).journal(row))
    return optuna.load_study(storage=journal, study_name=f"{row.slug}/{dataset}/gcn")


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

    monkeypatch.setattr(search, "measure", measure)
    return calls
