"""One method on one split: what it is shown, its settings, what is measured, and what is measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from lggd.app.comparison import fit_job
from lggd.app.comparison.fit_job import (
    ERROR,
    FitJob,
    calibration_error,
    choose_settings,
    evaluate,
    merge_bins,
    read_probabilities,
    run_jobs,
)
from lggd.app.comparison.label_splits import draw_splits, visible_to_methods
from lggd.app.comparison.results import Results
from lggd.app.runs.methods import Method
from lggd.closed_form import KernelRidge
from lggd.errors import InputError
from support.comparison_models import Oracle, Tunable
from support.small_data import blocks, changed


def job(make: Any, data: Any = None, **more: Any) -> FitJob:
    data = draw_splits(blocks() if data is None else data, 3, 1)[0]
    return FitJob(Method("mine", "Mine", make), data, "problem", 3, 0, **more)


def measured(planned: FitJob, folder: Path) -> dict[str, Any]:
    lines, _ = run_jobs([planned], Results(folder))
    return lines[0]


def test_a_line_has_the_scores_on_test_nodes_and_all_that_identifies_it(tmp_path: Path) -> None:
    planned = job(lambda: Oracle(wrong=36))
    data = planned.data
    wrong = int((data.test_mask & (torch.arange(36) < 12)).sum())
    found = measured(job(lambda: Oracle(wrong=12)), tmp_path)
    assert found["accuracy"] == pytest.approx(100 * (1 - wrong / 18))
    assert (found["train"], found["validation"], found["test"]) == (9, 9, 18)
    assert found["settings"] == "Oracle(12)"
    assert {"seconds", "cpu_seconds", "versions", "machine", "when", "split_hash"} <= found.keys()


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


def with_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_job, "installed_versions", lambda: {"lggd": "0.0.9"})


def test_a_line_of_another_version_is_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(job(Oracle), tmp_path)
    with_another_version(monkeypatch)
    model = Oracle()
    measured(job(lambda: model), tmp_path)
    assert len(model.seen) == 1


def test_a_line_without_a_version_is_not_reused(tmp_path: Path) -> None:
    first = measured(job(Oracle), tmp_path)
    del first["version"]
    (tmp_path / "comparison.jsonl").write_text(json.dumps(first) + "\n")
    assert "version" in measured(job(Oracle), tmp_path)
    assert len(Results(tmp_path).lines("comparison")[0]) == 2


def test_a_failure_is_a_line_and_is_tried_again_by_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*_: Any) -> Any:
        raise ValueError("no such\nthing")

    with monkeypatch.context() as patch:
        patch.setattr(Oracle, "fit", fit)
        failed = measured(job(Oracle), tmp_path)
    assert failed[ERROR] == "ValueError: no such thing"
    assert "accuracy" not in failed
    mended = measured(job(Oracle), tmp_path)
    assert "accuracy" in mended
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


def test_methods_that_choose_themselves_are_not_searched() -> None:
    data = visible_to_methods(draw_splits(blocks(), 3, 1)[0])
    candidate = Method("k", "K", KernelRidge)
    assert choose_settings(candidate, 0, data, 5) == ({}, None)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The weight decay of every fit."""
    seen: list[float] = []
    original = Tunable.fit

    def fit(self: Tunable, data: Any) -> Tunable:
        seen.append(self.optimization.weight_decay)
        return original(self, data)

    monkeypatch.setattr(Tunable, "fit", fit)
    return seen


def test_the_best_by_validation_is_chosen(fits: list[float]) -> None:
    data = visible_to_methods(draw_splits(blocks(), 3, 1)[0])
    settings, value = choose_settings(Method("t", "T", Tunable), 0, data, 12)
    assert (settings["optimization__weight_decay"], value) == (5e-3, 100)
    assert fits[0] == 1e-6, "the first trial has the default settings"
    assert len(fits) <= 9, "repeated settings are not fitted again"
    assert choose_settings(Method("t", "T", Tunable), 0, data, 12) == (settings, value)


def test_trials_that_need_too_much_memory_do_not_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    data = visible_to_methods(draw_splits(blocks(), 3, 1)[0])
    original = Tunable.fit

    def fit(self: Tunable, data: Any) -> Tunable:
        if self.optimization.weight_decay == limit:
            raise MemoryError("too large")
        return original(self, data)

    monkeypatch.setattr(Tunable, "fit", fit)
    limit = 1e-6
    assert choose_settings(Method("t", "T", Tunable), 0, data, 12)[1] == 100
    with pytest.raises(MemoryError, match="none of 1 trials succeeded: MemoryError: too large"):
        choose_settings(Method("t", "T", Tunable), 0, data, 1)


def test_settings_do_not_depend_on_test_labels() -> None:
    """Other classes at the test nodes, the same settings; a leak would choose those that are right there."""
    split = draw_splits(blocks(), 3, 1)[0]
    garbled = visible_to_methods(split)
    garbled.y = torch.where(split.test_mask, (split.y + 2) % 3, garbled.y)
    candidate = Method("t", "T", Tunable)
    chosen = [choose_settings(candidate, 0, data, 6) for data in (visible_to_methods(split), garbled)]
    assert chosen[0] == chosen[1]


def test_scores_are_those_of_scikit_learn_over_the_mask() -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(60, 4, generator=generator).double()
    probabilities /= probabilities.sum(1, keepdim=True)
    y, mask = torch.randint(0, 4, (60,), generator=generator), torch.arange(60) % 3 > 0
    found, predicted = evaluate(probabilities, y, mask), probabilities.argmax(1)
    assert found["accuracy"] == pytest.approx(100 * accuracy_score(y[mask], predicted[mask]))
    assert found["macro_f1"] == pytest.approx(100 * f1_score(y[mask], predicted[mask], average="macro"))
    assert sum(count for count, *_ in found["bins"]) == 40
    assert sum(correct for *_, correct in found["bins"]) == (predicted == y)[mask].sum()


def test_calibration_bins_by_hand() -> None:
    probabilities = torch.tensor([[1.0, 0.0], [0.85, 0.15], [0.4, 0.6], [0.45, 0.55]])
    bins = evaluate(probabilities, torch.tensor([0, 1, 1, 1]), torch.ones(4, dtype=torch.bool))["bins"]
    assert [each for each in bins if each[0]] == [[1, 0.55, 1], [1, 0.6, 1], [1, 0.85, 0], [1, 1, 1]]
    assert calibration_error(bins) == pytest.approx(100 * (0.45 + 0.4 + 0.85 + 0) / 4)
    assert merge_bins([bins, bins])[9] == (2, 2, 2)
    assert calibration_error(merge_bins([bins, bins])) == pytest.approx(calibration_error(bins))


def test_scores_that_are_no_probabilities_have_no_calibration() -> None:
    found = evaluate(torch.tensor([[3.0, 1.0]]), torch.tensor([0]), torch.tensor([True]))
    assert found["accuracy"] == 100
    assert found["bins"] is None


@pytest.mark.parametrize("shape", [(36,), (35, 3), (36, 4), (36, 0)])
def test_predictions_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"`mine` must predict probabilities \[36, 3\]"):
        read_probabilities("mine", torch.zeros(shape), blocks())
