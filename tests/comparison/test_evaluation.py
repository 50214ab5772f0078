"""Accuracy, F1 and calibration against scikit-learn and by hand; time and memory."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from lggd.comparison import evaluation
from lggd.comparison.evaluation import Meter, calibration_error, evaluate, merge_bins, read_probabilities
from lggd.errors import InputError

CPU = torch.device("cpu")


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


@pytest.mark.parametrize("shape", [(4,), (3, 2), (4, 3), (4, 0)])
def test_predictions_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"`mine` must predict probabilities \[4, 2\]"):
        read_probabilities("mine", torch.zeros(shape), 4, 2, CPU)


def test_predictions_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InputError, match="the probabilities of mine"):
        read_probabilities("mine", [[0.5, float("nan")]], 1, 2, CPU)


def test_time_and_memory_are_those_of_the_block() -> None:
    with Meter(CPU) as meter:
        block = torch.ones(64 * 2**18)  # 64 MiB
        time.sleep(0.05)
        del block
    assert meter.seconds >= 0.05
    if meter.memory is not None:
        assert 60 * 2**20 < meter.memory < 90 * 2**20
    with Meter(CPU) as later:
        pass
    assert later.memory is None or later.memory < 8 * 2**20


def test_memory_is_unknown_on_other_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(evaluation, "CLEAR", tmp_path / "nowhere/clear_refs")
    with Meter(CPU) as meter:
        pass
    assert meter.memory is None
