"""From settings to models: every setting reaches its field, and what a fit would refuse is refused before."""

from __future__ import annotations

import math
from typing import Any

import pytest

import lggd
from lggd.app.comparison.short_names import BACKBONES, build, complete_settings, supports_backbone
from lggd.app.runs.methods import METHODS
from lggd.errors import InputError
from support.invalid_settings import OF_ANOTHER_TYPE, OUT_OF_RANGE

UNTRAINED = ("label-propagation", "scikit-network", "kernel-ridge", "lggd", "lggd-plus")
WITH_EVERY_BACKBONE = ("gcn", "gcn-plus", "ggd", "lggd-trained", "lggd-plus-trained", "gdc-ppr", "gdc-heat", "gaug-m")


# -- settings reach their fields --------------------------------------------------------------------------------------


def test_settings_reach_the_distances() -> None:
    model = build(
        "lggd-trained",
        {"time": 0.2, "alpha": -0.3, "mlp_hidden": "64", "step": 0.1, "p": "inf", "initial": "mlp"},
        "gat",
        seed=5,
    )
    assert isinstance(model, lggd.LGGDClassifier)
    features = model.features
    assert isinstance(features, lggd.LGGD)
    assert features.times == pytest.approx((0.2, 0.4, 0.6, 0.8, 1.0))
    assert features.potential == lggd.DegreePotential(-0.3)
    assert features.initial == lggd.MLP(hidden=(64,))
    assert features.scheme == lggd.RK4(step=0.1)
    assert features.p == float("inf")
    assert isinstance(model.backbone, lggd.GAT)
    assert (model.seed, features.seed) == (5, 5)


def test_input_dropout_reaches_the_plain_network_and_no_other() -> None:
    model = build("lggd-trained", {"mlp_input_dropout": 0.5, "initial": "mlp"}, "gcn", seed=0)
    assert model.features.initial == lggd.MLP(hidden=(128,), input_dropout=0.5)  # type: ignore[union-attr]
    with pytest.raises(InputError, match="`mlp_input_dropout` must be 0 here: PropagatedMLP has no input_dropout"):
        build("lggd-trained", {"mlp_input_dropout": 0.5, "initial": "propagated"}, "gcn", seed=0)


def test_common_settings_reach_the_training() -> None:
    model = build("gcn", {"lr": 0.1, "weight_decay": 0.2, "hidden": 7, "dropout": 0.3, "max_epochs": 9}, "gcn", 0)
    assert isinstance(model, lggd.LGGDClassifier)
    assert model.backbone == lggd.GCN(7, 0.3)
    assert model.optimization == lggd.Optimization(0.1, 0.2, epochs=9)


def test_settings_of_objects_that_are_not_chosen_are_ignored() -> None:
    """A search may vary the kernel together with the parameters of each."""
    for method in ("gdc-ppr", "gdc-heat"):
        for name, kernel in (("ppr", lggd.baselines.PPR(0.3)), ("heat", lggd.baselines.Heat(2.0))):
            model = build(method, {"kernel": name, "alpha": 0.3, "t": 2.0}, "gcn", 0)
            assert model.kernel == kernel  # type: ignore[attr-defined]


def test_settings_reach_the_model_that_is_corrected() -> None:
    mlp, gcn = (
        build("correct-and-smooth", {"model": model, "hidden": 7, "dropout": 0.3, "lr": 0.1}, "gcn", seed=4).model  # type: ignore[attr-defined]
        for model in ("mlp", "gcn")
    )
    assert (mlp.hidden, mlp.dropout, mlp.optimization.lr) == (7, 0.3, 0.1)
    assert (gcn.backbone, gcn.optimization.lr) == (lggd.GCN(7, 0.3), 0.1)
    scaled = build("correct-and-smooth", {"scaling": "fixed", "scale": 0.5, "iterations": 3}, "gcn", seed=4)
    assert (scaled.scaling, scaled.iterations) == (lggd.baselines.FixedScale(0.5), 3)  # type: ignore[attr-defined]


def test_settings_reach_the_members_of_self_training() -> None:
    settings = {"members": 2, "self_training": 0.1, "rounds": 2, "dropout": 0.3, "hidden": 7}
    model = build("gcn-plus", settings, "jknet", seed=4)
    assert isinstance(model, lggd.SelfTraining)
    assert (model.seed, model.fraction, model.rounds, model.model.members) == (4, 0.1, 2, 2)  # type: ignore[attr-defined]
    assert model.model.model.backbone == lggd.JKNet(hidden=7, dropout=0.3)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        ("diffusion", lggd.baselines.Diffusion(30)),
        ("pagerank", lggd.baselines.PageRank(0.5, 30)),
        ("votes", lggd.baselines.MajorityVote(30)),
        ("neighbours", lggd.baselines.NearestNeighbours(2, 9)),
    ],
)
def test_settings_reach_the_algorithm(name: str, algorithm: object) -> None:
    settings = {"algorithm": name, "iterations": 30, "damping": 0.5, "neighbours": 2, "dimension": 9}
    model = build("scikit-network", settings, "gcn", 0)
    assert model.algorithm == algorithm  # type: ignore[attr-defined]


def test_any_field_can_be_set_by_its_path() -> None:
    settings = {"features.initial.normalize": True, "initial": "mlp"}
    model = build("lggd-trained", settings, "gcn", 0)
    assert model.features.initial == lggd.MLP(hidden=(128,), normalize=True)  # type: ignore[union-attr]
    complete = complete_settings("lggd-trained", settings, "gcn")
    assert complete == {**complete_settings("lggd-trained", {}, "gcn"), **settings}
    with pytest.raises(InputError, match=r"`features.initial.normalize` must be true or false, got 3"):
        build("lggd-trained", {"features.initial.normalize": 3}, "gcn", 0)
    model = build("lggd-trained", {"features.initial.activation": "tanh"}, "gcn", 0)
    assert model.features.initial.activation == "tanh"  # type: ignore[union-attr]
    with pytest.raises(InputError, match=r"activation` must be one of relu, .* got 'sin'"):
        build("lggd-trained", {"features.initial.activation": "sin"}, "gcn", 0)
    for path in ("features.initial", "features.nothing", "features.fit", "nothing.at.all"):
        with pytest.raises(InputError, match="`settings` must be settings of"):
            build("lggd-trained", {path: 1}, "gcn", 0)


POTENTIAL = lggd.DegreePotential(-0.5)


@pytest.mark.parametrize(
    ("name", "potential"),
    [
        ("learned", lggd.LearnedPotential(POTENTIAL)),
        ("edges", lggd.LearnedEdgeWeights(POTENTIAL)),
        ("both", lggd.LearnedEdgeWeights(lggd.LearnedPotential(POTENTIAL))),
    ],
)
def test_potentials_can_be_learned(name: str, potential: object) -> None:
    model = build("lggd-trained", {"potential": name, "alpha": -0.5}, "gcn", 0)
    assert model.features.potential == potential  # type: ignore[union-attr]


@pytest.mark.parametrize("method", METHODS)
def test_complete_settings_hold_all_and_build_the_same(method: str) -> None:
    complete = complete_settings(method, {}, "gcn")
    training = {"lr", "weight_decay", "max_epochs", "patience"}
    assert "contents" in complete
    assert complete.keys() & training == (set() if method in UNTRAINED else training)
    assert complete_settings(method, complete, "gcn") == complete
    assert repr(build(method, complete, "gcn", 0)) == repr(build(method, {}, "gcn", 0))


@pytest.mark.parametrize(
    "settings", [{"time": 2}, {"p": 2}, {"p": "inf"}, {"p": math.inf}, {"alpha": 0}, {"reachable": True}, {"step": 0}]
)
def test_complete_settings_keep_what_is_written(settings: dict[str, Any]) -> None:
    """Otherwise finished measurements would not be recognized."""
    for method in ("ggd", "lggd-trained"):
        found = complete_settings(method, settings, "gcn")
        for name, value in settings.items():
            assert (type(found[name]), found[name]) == (type(value), value)
        build(method, settings, "gcn", 0)


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "name", "value", "message"), OF_ANOTHER_TYPE)
def test_values_of_another_type_are_refused(method: str, name: str, value: Any, message: str) -> None:
    for check in (complete_settings, lambda *arguments: build(*arguments, 0)):
        with pytest.raises(InputError) as error:
            check(method, {name: value}, "gcn")
        assert f"`{name}` must be {message}" in str(error.value)


@pytest.mark.parametrize(("method", "name", "value", "message"), OUT_OF_RANGE)
def test_what_a_fit_would_refuse_is_not_built(method: str, name: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        build(method, {name: value}, "gcn", 0)
    assert message in str(error.value)


def test_invalid_settings_are_tested_for_every_method() -> None:
    assert {method for method, *_ in OF_ANOTHER_TYPE + OUT_OF_RANGE} == set(METHODS)


@pytest.mark.parametrize(
    ("method", "settings", "backbone", "message"),
    [
        ("LGGD", {}, "gcn", "`method` must be one of .*Did you mean 'lggd'"),
        ("gdc-ppr", {"alhpa": 0.1}, "gcn", "`settings` must be settings of gdc-ppr: .* 'alhpa'. Did you mean 'alpha'"),
        ("goal", {"dropout": 0.1}, "gcn", "`settings` must be settings of goal: .*got 'dropout'"),
        ("gcn", {"contents": "row"}, "gcn", "`contents` must be one of raw, sum, length, got 'row'"),
        ("gcn", {}, "gnc", "`backbone` must be one of .*Did you mean 'gcn'"),
        ("gpr-gnn", {}, "gat", "`backbone` must be gcn for gpr-gnn"),
        ("lggd-trained", {"scale": "maximum"}, "gcn", "`scale` must be one of max, standard"),
        ("lggd-trained", {"mlp_hidden": "a-b"}, "gcn", '`mlp_hidden` must be sizes such as "512-128"'),
        ("gdc-ppr", {"kernel": "hot"}, "gcn", "`kernel` must be one of ppr, heat"),
    ],
)
def test_unknown_names_are_refused(method: str, settings: dict[str, Any], backbone: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(method, settings, backbone, 0)


@pytest.mark.parametrize("method", METHODS)
def test_methods_are_built_on_the_backbones_that_they_support(method: str) -> None:
    allowed = {"dropedge": ("gcn", "chebnet", "jknet"), **dict.fromkeys(WITH_EVERY_BACKBONE, BACKBONES)}
    for backbone in BACKBONES:
        is_supported = backbone in allowed.get(method, ("gcn",))
        assert supports_backbone(method, backbone) == is_supported
        if is_supported:
            build(method, {}, backbone, 0)
        else:
            with pytest.raises(InputError, match="`backbone` must be"):
                build(method, {}, backbone, 0)
