"""One method on one split: what it is shown, the line it leaves, and what is measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from comparison_models import Oracle, Tunable
from lggd.comparison.candidates import Candidate
from lggd.comparison.fit_job import ERROR, FitJob
from lggd.comparison.jobs import JobOptions, run_jobs
from lggd.comparison.label_splits import draw_splits
from lggd.comparison.results import Results
from small_data import blocks, changed


def job(make: Any, data: Any = None, **more: Any) -> FitJob:
    data = draw_splits(blocks() if data is None else data, 3, 1)[0]
    return FitJob(Candidate("mine", "Mine", make), data, "problem", 3, 0, **more)


def measured(planned: FitJob, folder: Path) -> dict[str, Any]:
    (found,) = run_jobs([planned], JobOptions(Results(folder), 1, reuse=False)).lines
    return found


def test_a_line_has_the_scores_on_test_nodes_and_all_that_identifies_it(tmp_path: Path) -> None:
    planned = job(lambda: Oracle(wrong=36))
    data = planned.data
    wrong = int((data.test_mask & (torch.arange(36) < 12)).sum())
    found = measured(job(lambda: Oracle(wrong=12)), tmp_path)
    assert found["accuracy"] == pytest.approx(100 * (1 - wrong / 18))
    assert (found["train"], found["validation"], found["test"]) == (9, 9, 18)
    assert found["settings"] == "Oracle(12)"
    assert {"seconds", "cpu_seconds", "memory", "versions", "machine", "when", "split_hash"} <= found.keys()


def test_methods_see_no_test_labels(tmp_path: Path) -> None:
    model = Oracle()
    planned = job(lambda: model)
    measured(planned, tmp_path)
    (seen,) = model.seen
    assert bool((seen.y[planned.data.test_mask] == -1).all())
    assert "test_mask" not in seen


@pytest.mark.parametrize("trials", [0, 4])
def test_no_trial_sees_test_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trials: int) -> None:
    shown: list[Any] = []
    original = Tunable.fit
    monkeypatch.setattr(Tunable, "fit", lambda self, data: (shown.append(data), original(self, data))[1])
    planned = job(Tunable, trials=trials)
    measured(planned, tmp_path)
    assert len(shown) > (trials > 0)
    assert all(bool((seen.y[planned.data.test_mask] == -1).all()) and "test_mask" not in seen for seen in shown)


def test_a_line_is_reused_unless_the_settings_change(tmp_path: Path) -> None:
    models = [Oracle(), Oracle(), Oracle(wrong=5)]
    found = [measured(job(lambda model=model: model), tmp_path) for model in models]
    assert found[0] == found[1] != found[2]
    assert [len(model.seen) for model in models] == [1, 0, 1]
    again = Oracle()
    measured(job(lambda: again, data=changed(blocks(), y=blocks().y.flip(0))), tmp_path)
    assert len(again.seen) == 1, "other masks are another measurement"


def test_a_failure_is_a_line_and_is_tried_again_by_the_next_command(tmp_path: Path) -> None:
    def broken() -> Any:
        raise ValueError("no such\nthing")

    found = measured(job(broken), tmp_path)
    assert found[ERROR] == "ValueError: no such thing"
    assert "accuracy" not in found
    mended = Oracle()
    mended.__class__ = type("Oracle", (Oracle,), {"__repr__": lambda self: found["settings"]})
    assert "accuracy" in measured(job(lambda: mended), tmp_path)
    assert len(Results(tmp_path).lines("comparison")[0]) == 2


NOT_FINITE = torch.full((36, 3), torch.nan)


@pytest.mark.parametrize(
    ("predicted", "reason"), [(torch.zeros(3, 3), "must predict probabilities"), (NOT_FINITE, "must be finite")]
)
def test_wrong_predictions_are_failures(tmp_path: Path, predicted: torch.Tensor, reason: str) -> None:
    class Wrong(Oracle):
        def predict_proba(self) -> torch.Tensor:
            return predicted

    assert reason in measured(job(Wrong), tmp_path)[ERROR]


def test_memory_errors_are_failures(tmp_path: Path) -> None:
    class Greedy(Oracle):
        def fit(self, data: Any) -> Any:
            raise torch.OutOfMemoryError("too large")

    assert measured(job(Greedy), tmp_path)[ERROR] == "OutOfMemoryError: too large"


def test_settings_are_chosen_by_validation_and_not_by_test_accuracy(tmp_path: Path) -> None:
    plain, searched = (measured(job(Tunable, trials=trials), tmp_path) for trials in (0, 6))
    assert plain["accuracy"] == 100, "the defaults of this model are right on test nodes alone"
    assert searched["accuracy"] == 0
    assert searched["chosen"]["optimization__weight_decay"] == 5e-3
    assert searched["chosen_by"] == 100
