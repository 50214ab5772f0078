"""From the settings of rows to models: every setting reaches its field, and what a fit would refuse is refused."""

from __future__ import annotations

from typing import Any

import pytest

import lggd
from lggd.errors import InputError
from reproduction.methods import BACKBONES, METHODS, build, read_value, supports_backbone
from support.invalid_settings import INVALID

WITH_EVERY_BACKBONE = ("gcn", "gcn-plus", "ggd", "lggd", "lggd-plus-trained", "gdc-ppr", "gdc-heat", "gaug-m")


def test_settings_reach_the_distances() -> None:
    settings = {
        "features__times": [0.2, 0.4], "features__potential__alpha": -0.3, "features__p": float("inf"),
        "features__initial": {"kind": "MLP", "hidden": [64]}, "features__initial__dropout": 0.1,
    }  # fmt: skip
    model = build("lggd", settings, "gat", seed=5)
    assert model.features.times == (0.2, 0.4)
    assert model.features.potential == lggd.DegreePotential(-0.3)
    assert model.features.initial == lggd.MLP(hidden=(64,), dropout=0.1)
    assert model.features.p == float("inf")
    assert isinstance(model.backbone, lggd.GAT)
    assert (model.seed, model.features.seed) == (5, 5)


def test_settings_reach_the_members_of_self_training() -> None:
    settings = {
        "model__members": 2, "fraction": 0.1, "model__model__backbone__dropout": 0.3,
        "model__model__backbone__hidden": 7,
    }  # fmt: skip
    model = build("gcn-plus", settings, "jknet", seed=4)
    assert (model.seed, model.fraction, model.model.members) == (4, 0.1, 2)
    assert model.model.model.backbone == lggd.JKNet(hidden=7, dropout=0.3)


def test_settings_reach_the_readouts() -> None:
    weak = {"readout__readouts__0__optimization__weight_decay": 0.25, "readout__readouts__0__use_x": False}
    both, networks, nearest = (
        build("lggd-plus-trained", {**weak, "readout": {"part": part}}, "gat").readout
        for part in ("readout", "readout__readouts__0", "readout__readouts__1")
    )
    assert repr(both) == repr(lggd.MeanReadout((networks, nearest)))
    assert (networks.optimization.weight_decay, networks.use_x) == (0.25, False)
    assert networks.backbone == lggd.GAT()
    assert isinstance(nearest, lggd.NearestClass)


def test_settings_of_a_part_are_made_after_it_is_chosen() -> None:
    network = {"kind": "Perceptron", "dropout": 0.25}
    mlp = build("correct-and-smooth", {"model__backbone__hidden": 7, "model__backbone": network}).model.backbone
    assert (mlp.hidden, mlp.dropout) == (7, 0.25)


def test_values_are_described_by_the_class_and_its_settings() -> None:
    assert read_value([512, 128]) == (512, 128)
    assert read_value({"kind": "none"}) is None
    learned = {"kind": "LearnedPotential", "base": {"kind": "DegreePotential", "alpha": -0.5}}
    assert read_value(learned) == lggd.LearnedPotential(lggd.DegreePotential(-0.5))
    alone = {"kind": "LGGDClassifier", "features": {"kind": "none"}, "backbone": {"kind": "GCN", "hidden": 8}}
    assert repr(read_value(alone)) == repr(lggd.LGGDClassifier(None, lggd.GCN(8)))


@pytest.mark.parametrize(("method", "name", "value", "message"), INVALID)
def test_invalid_settings_are_refused(method: str, name: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        build(method, {name: value})
    assert message in str(error.value)


def test_invalid_settings_are_tested_for_every_method() -> None:
    assert {method for method, *_ in INVALID} == set(METHODS)


@pytest.mark.parametrize(
    ("method", "backbone", "message"),
    [
        ("LGGD", "gcn", "`method` must be one of .*Did you mean 'lggd'"),
        ("gcn", "gnc", "`backbone` must be one of .*Did you mean 'gcn'"),
        ("gpr-gnn", "gat", "`backbone` must be gcn for gpr-gnn"),
    ],
)
def test_unknown_names_are_refused(method: str, backbone: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(method, {}, backbone)


@pytest.mark.parametrize("method", METHODS)
def test_methods_are_built_on_the_backbones_that_they_support(method: str) -> None:
    allowed: dict[str, Any] = {
        "dropedge": ("gcn", "chebnet", "jknet"),
        **dict.fromkeys(WITH_EVERY_BACKBONE, tuple(BACKBONES)),
    }
    for backbone in BACKBONES:
        assert supports_backbone(method, backbone) == (backbone in allowed.get(method, ("gcn",)))
