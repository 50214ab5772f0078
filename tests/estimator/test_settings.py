"""Settings by name, down into nested choices."""

import pytest

from lggd import GCN, GGD, LGGD, MLP, LGGDPlus, MeanReadout, NearestClass, Optimization
from lggd.errors import InputError
from lggd.estimator.settings import format_setting, get_params
from support.small_models import classifier, distances


def test_nested_settings_have_names_with_two_underscores():
    shallow, deep = (get_params(classifier(distances()), deep) for deep in (False, True))
    assert list(shallow) == ["features", "backbone", "optimization", "seed"]
    assert deep["features__initial__hidden"] == (8,)
    assert deep["backbone__hidden"] == 8
    assert deep["optimization__lr"] == Optimization().lr
    assert get_params(classifier(None))["features"] is None
    assert LGGDPlus.trained().get_params()["features__model__model__initial__pagerank"] == 0.1


def test_nested_settings_are_set_in_copies():
    features = distances()
    model = classifier(features).set_params(features__times=(3.0,), features__initial__hidden=(4,), backbone__hidden=9)
    assert (model.features.times, model.features.initial, model.backbone) == ((3.0,), MLP((4,)), GCN(hidden=9))
    assert features.times != (3.0,)
    assert model.set_params() is model


def test_a_choice_and_its_settings_can_be_set_at_once():
    model = classifier(distances()).set_params(features__cross_fit=2, features=GGD(times=(7,)))
    assert model.features.get_params() == GGD(times=(7,), cross_fit=2).get_params()


def test_entries_of_tuples_of_objects_have_their_numbers_as_names():
    model = LGGDPlus.trained()
    assert model.get_params()["readout__readouts__0__backbone__hidden"] == 32
    model.set_params(readout__readouts__0__optimization__epochs=7, readout__readouts__0__backbone=GCN(hidden=9))
    trained, nearest = model.readout.readouts
    assert (trained.optimization.epochs, trained.backbone.hidden) == (7, 9)
    assert isinstance(nearest, NearestClass)
    assert LGGDPlus.trained().readout.readouts[0].optimization.epochs != 7
    assert "features__times__0" not in model.get_params(), "a tuple of numbers is one setting"
    with pytest.raises(InputError, match=r"`params` must name settings of entries of .*\(0, 1\), got '2__members'"):
        model.set_params(readout__readouts__2__members=1)


def test_models_are_shown_with_the_settings_that_are_not_defaults():
    assert repr(classifier(distances())) == (
        "LGGDClassifier(features=LGGD(times=(1.0, 2.0), initial=MLP(hidden=(8,)), "
        "optimization=Optimization(lr=0.02, weight_decay=0.002, epochs=4, patience=None)), "
        "backbone=GCN(hidden=8), optimization=Optimization(epochs=6, patience=None))"
    )
    assert repr(LGGD(initial=MLP(activation="tanh"))) == "LGGD(initial=MLP(activation='tanh'))"
    assert repr(LGGDPlus(readout=MeanReadout((NearestClass(),)))) == (
        "LGGDPlus(readout=MeanReadout(readouts=(NearestClass(),)))"
    )
    assert format_setting(()) == "()"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("time", r"name settings of LGGD \(times, .*\), got 'time'. Did you mean 'times'"),
        ("initial__hiden", r"name settings of MLP .*'hiden'. Did you mean 'hidden'"),
        ("inital__hidden", r"name settings of LGGD .*'inital__hidden'. Did you mean 'initial'"),
        ("times__first", "name a setting that times has, got times__first"),
        ("preset", "name settings of LGGD"),
    ],
)
def test_unknown_settings_are_refused_with_a_suggestion(name, message):
    with pytest.raises(InputError, match=f"`params` must {message}") as caught:
        LGGD(initial=MLP()).set_params(**{name: 1})
    assert caught.value.argument == "params"
