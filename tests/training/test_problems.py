"""Settings of Adam."""

import math

import pytest

from lggd import Optimization


def test_the_defaults_are_those_of_the_paper_for_backbones():
    assert Optimization() == Optimization(lr=0.01, weight_decay=1e-6, epochs=5000, patience=100)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": 0.0}, {"lr": -1.0}, {"lr": math.inf}, {"lr": math.nan},
        {"weight_decay": -0.1}, {"weight_decay": math.inf}, {"weight_decay": math.nan},
        {"epochs": 0}, {"epochs": 1.5}, {"epochs": True}, {"epochs": None}, {"epochs": "5"},
        {"patience": 0}, {"patience": 2.0}, {"patience": False},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_settings_are_rejected_by_name(wrong):
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}`"):
        Optimization(**wrong)


def test_boundary_values_are_accepted():
    Optimization(lr=1e-12, weight_decay=0.0, epochs=1, patience=1)
    assert Optimization(patience=None).patience is None
