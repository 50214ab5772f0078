"""The choices of networks: invalid settings."""

import math

import pytest

from lggd import (
    MLP,
    PropagatedMLP,
)


def test_invalid_input_dropout_is_rejected():
    for wrong in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="`input_dropout`"):
            MLP(input_dropout=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden": [8]}, {"hidden": (0,)}, {"hidden": (2.5,)}, {"hidden": (True,)}, {"dropout": 1.0}, {"dropout": -0.1},
        {"dropout": math.nan}, {"activation": "sine"}, {"zeros": -1}, {"zeros": 1.5},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", [MLP, PropagatedMLP])
def test_invalid_settings_are_rejected_by_name(kind, wrong):
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}`"):
        kind(**wrong)


@pytest.mark.parametrize("hops", [0, -1, 1.5, True])
def test_invalid_hops_are_rejected(hops):
    with pytest.raises(ValueError, match="`hops`"):
        PropagatedMLP(hops=hops)


@pytest.mark.parametrize("pagerank", [0, 1, -0.1, 2])
def test_invalid_restart_probabilities_are_rejected(pagerank):
    with pytest.raises(ValueError, match="`pagerank` must lie between 0 and 1"):
        PropagatedMLP(pagerank=pagerank)
