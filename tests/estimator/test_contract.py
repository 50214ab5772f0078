"""The contract of `Member`, for every model: fitting, predicting, saving, settings."""

import math

import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nan

import lggd
from lggd import Progress, baselines, filters, load_model
from lggd.errors import InputError, InputTypeError
from lggd.estimator.member import Member
from lggd.estimator.settings import format_setting, get_params
from lggd.inputs import Labels
from reproduction import baselines as moved
from support.small_data import CLASSES, blocks, changed, garbled, random, same, snapshot
from support.small_models import MODELS, agree, is_fitted, learned, stop_at

NODES = 36
CLOSE = {"rtol": 1e-3, "atol": 5e-4}
WITHOUT_RANDOMNESS = ["LabelPropagation"]
WITHOUT_TRAINING = ["GGD", "KernelRidge", "EvolvedKernelRidge", *WITHOUT_RANDOMNESS]
every_model = pytest.mark.parametrize("name", MODELS)
every_trained = pytest.mark.parametrize("name", [name for name in MODELS if name not in WITHOUT_TRAINING])


def make(name, seed=0):
    return MODELS[name](seed)


def settings(model):
    """All settings, nested ones too, as text."""
    return {name: format_setting(value) for name, value in get_params(model).items()}


# -- fitting ------------------------------------------------------------------------------------------------------


@every_model
def test_fit_sets_its_attributes(name, data, fitted):
    model = fitted(name)
    assert model.num_classes_ == CLASSES
    assert model.labels_.dtype == torch.int64
    assert torch.equal(model.labels_, torch.where(data.train_mask, data.y, -1))
    assert (model.additions_, model.metadata_) == ([], {})
    assert not hasattr(model.data_, "y")


@every_model
def test_history_holds_the_curves_of_every_stage(name, fitted, reports):
    model, reported = fitted(name), reports(name)
    assert all(isinstance(report, Progress) for report in reported)
    assert bool(model.history_) == (name not in WITHOUT_TRAINING)
    for stage, curves in model.history_.items():
        own = [report for report in reported if report.stage == stage]
        epochs = own[0].total
        assert [report.done for report in own] == [*range(1, epochs + 1)] * (len(own) // epochs)  # member after member
        assert {report.total for report in own} == {epochs}
        assert {name.split()[0] for name in curves} >= {"train_loss", "validation_loss"}
        assert all(len(curve) == epochs and all(map(math.isfinite, curve)) for curve in curves.values())


@every_model
def test_a_fit_depends_on_its_inputs_alone_and_changes_none(name, fitted):
    """The same seed gives the same bits, whatever the global random numbers are; they do not change either."""
    data, model = blocks(), make(name)
    before, text = snapshot(data), repr(model)
    with torch.random.fork_rng([]):
        torch.manual_seed(77)
        state = torch.get_rng_state()
        assert model.fit(data) is model
        assert torch.equal(torch.get_rng_state(), state)
    assert same(learned(model), learned(fitted(name)))
    assert torch.equal(model.predict_proba(), fitted(name).predict_proba())
    assert model.history_ == fitted(name).history_
    model.score(data)
    if model.accepts_labels:
        model.add_labels([30], [0])
    assert same(before, snapshot(data))
    assert repr(model) == text
    nested = [value for value in get_params(model).values() if isinstance(value, Member)]
    assert not any(hasattr(one, "labels_") for one in nested)


@every_model
def test_the_order_of_x_in_memory_changes_no_bit(name, data, fitted):
    by_column = data.x.t().contiguous().t()
    assert not by_column.is_contiguous()
    model = make(name).fit(changed(data, x=by_column))
    assert torch.equal(model.predict_proba(), fitted(name).predict_proba())


@every_model
@pytest.mark.parametrize("disabled", [torch.no_grad, torch.inference_mode])
def test_a_fit_enables_the_gradients_that_it_needs(name, disabled, fitted):
    with disabled():
        model = make(name).fit(blocks())
        assert not torch.is_grad_enabled()
    assert torch.equal(model.predict_proba(), fitted(name).predict_proba())


@every_model
def test_a_generator_is_a_seed_and_another_seed_gives_other_bits(name, data, fitted):
    one, other = (make(name, seed=random(4)).fit(data) for _ in range(2))
    assert same(learned(one), learned(other))
    assert same(learned(one), learned(fitted(name))) == (name in WITHOUT_RANDOMNESS)


@every_model
def test_a_refit_forgets(name, data, fitted):
    model = make(name).fit(blocks(each=9, seed=3))
    model.metadata_["note"] = "the first graph"
    if model.accepts_labels:
        model.add_labels([26], [2])
    model.fit(data)
    assert same(learned(model), learned(fitted(name)))
    assert torch.equal(model.predict_proba(), fitted(name).predict_proba())
    assert (model.additions_, model.metadata_, model.history_) == ([], {}, fitted(name).history_)


# -- hidden labels ------------------------------------------------------------------------------------------------


def check_hidden_labels(name, data, expected):
    """Neither nonsense in place of hidden labels nor a permutation of them may change a bit."""
    hidden = (~(data.train_mask | data.val_mask)).nonzero().squeeze(1)
    y = data.y.clone()
    y[hidden] = (y[hidden[torch.randperm(len(hidden), generator=random())]] + 1) % CLASSES
    for other in (garbled(data), changed(data, y=y)):
        model = make(name).fit(other)
        assert torch.equal(model.predict_proba(), expected.predict_proba())
        assert torch.equal(model.predict_proba(other), expected.predict_proba())
        assert same(learned(model), learned(expected))


@every_model
def test_hidden_labels_are_unreachable(name, data, fitted):
    check_hidden_labels(name, data, fitted(name))


@pytest.mark.parametrize("name", ["GGD", "LGGDClassifier", "MixUp"])
def test_the_check_on_hidden_labels_catches_a_leak(name, data, monkeypatch):
    def leak(batch):
        return Labels.checked(torch.where(batch.y >= 0, batch.y % CLASSES, -1), torch.full_like(batch.y, -1))

    monkeypatch.setattr(Labels, "read", leak)
    with pytest.raises(AssertionError):
        check_hidden_labels(name, data, make(name).fit(data))


# -- failures -----------------------------------------------------------------------------------------------------


@every_model
def test_an_unfitted_model_says_so(name, data, tmp_path):
    model = make(name)
    for use in (
        model.predict,
        model.predict_proba,
        lambda: model.score(data),
        lambda: model.add_labels([0], [0]),
        lambda: model.change_labels([0], [0]),
        lambda: model.remove_labels([0]),
        lambda: model.save(tmp_path / "model"),
    ):
        with pytest.raises(NotFittedError, match=f"This {type(model).__name__} must be fitted first. Call fit"):
            use()
    assert not (tmp_path / "model").exists()


@every_model
def test_a_failed_fit_leaves_the_model_unfitted(name, data, fitted):
    for broken, argument in (
        (changed(data, y=None), "data.y"),
        (changed(data, train_mask=torch.zeros_like(data.train_mask)), "data.train_mask"),
        (changed(data, edge_index=data.edge_index + 99), "edge"),
        ("no data", "data"),
    ):
        model = fitted(name)
        with pytest.raises(InputError) as caught:
            model.fit(broken)
        assert argument in caught.value.argument
        assert is_fitted(model) == (argument == "data")  # what is not even data is refused before anything happens


@every_model
@pytest.mark.parametrize(
    ("x", "error"), [(None, InputTypeError), (torch.full((NODES, 2), nan), InputError), (torch.ones(5, 2), InputError)]
)
def test_node_features_are_checked_where_they_are_used(name, x, error, data, fitted):
    if name in ("GGD", *WITHOUT_RANDOMNESS, "LGGDClassifier on GGD"):
        assert torch.equal(make(name).fit(changed(data, x=x)).predict(), fitted(name).predict())
        return
    if name in ("KernelRidge", "EvolvedKernelRidge") and x is None:  # takes rows of the adjacency instead
        assert make(name).fit(changed(data, x=x)).predict().shape == (NODES,)
        return
    with pytest.raises(error, match=r"`data\.x`"):
        make(name).fit(changed(data, x=x))


@every_trained
def test_an_interrupted_fit_leaves_the_model_unfitted(name, data, fitted):
    for stage in fitted(name).history_:
        model = fitted(name)
        with pytest.raises(KeyboardInterrupt):
            model.fit(data, callback=stop_at(stage, 3))
        assert not is_fitted(model)
        model.fit(data)
        assert same(learned(model), learned(fitted(name)))
        assert model.history_ == fitted(name).history_
        assert torch.equal(model.predict_proba(), fitted(name).predict_proba())


# -- predictions --------------------------------------------------------------------------------------------------


@every_model
def test_predictions_are_the_most_probable_classes(name, data, fitted):
    model = fitted(name)
    probabilities, predicted = model.predict_proba(), model.predict()
    assert (probabilities.shape, probabilities.dtype) == ((NODES, CLASSES), torch.float32)
    assert (predicted.shape, predicted.dtype) == ((NODES,), torch.int64)
    assert not probabilities.requires_grad
    assert bool((probabilities >= 0).all())
    torch.testing.assert_close(probabilities.sum(1), torch.ones(NODES))
    assert torch.equal(predicted, probabilities.argmax(1))
    assert torch.equal(model.predict_proba(data), probabilities)
    assert torch.equal(model.predict(data), predicted)
    assert torch.equal(model.predict_proba(), probabilities)


@every_model
def test_another_number_of_nodes_is_refused(name, fitted):
    other = blocks(each=9)
    if name == "LGGDClassifier without features":
        assert len(fitted(name).predict(other)) == 27  # a backbone alone runs on any graph
        return
    with pytest.raises(InputError, match="`data`"):
        fitted(name).predict(other)


@every_model
def test_predictions_are_for_pyg_data(name, fitted):
    with pytest.raises(InputTypeError, match="`data` must be a PyG Data, got int"):
        fitted(name).predict(3)


@every_model
def test_the_score_is_the_fraction_of_correct_predictions(name, data, fitted):
    model = fitted(name)
    correct = (model.predict() == data.y).float()
    assert model.score(data) == pytest.approx(float(correct[data.test_mask].mean()))
    assert model.score(data, data.val_mask) == pytest.approx(float(correct[data.val_mask].mean()))


# -- files --------------------------------------------------------------------------------------------------------


@every_model
def test_a_loaded_model_is_the_one_that_was_saved(name, data, fitted, tmp_path):
    model = fitted(name)
    if model.accepts_labels:
        model.add_labels([30], [0])
    model.metadata_ = {"class_names": ["Fuchs", "狐", "b"], "seen": 3}
    model.save(tmp_path / "model")
    for loaded in (load_model(tmp_path / "model"), type(model).load(str(tmp_path / "model"))):
        assert type(loaded) is type(model)
        assert agree(name, loaded.predict_proba(), model.predict_proba())
        assert torch.equal(loaded.labels_, model.labels_)
        assert (loaded.history_, loaded.additions_) == (model.history_, model.additions_)
        assert (loaded.metadata_, loaded.num_classes_) == (model.metadata_, CLASSES)
        assert same(learned(loaded), learned(model))
        assert settings(loaded) == settings(model)
    loaded.save(tmp_path / "again")
    for file in (tmp_path / "model").iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name
    if model.accepts_labels:
        for one in (loaded, model):
            one.add_labels([31], [1])
        assert agree(name, loaded.predict_proba(), model.predict_proba())
    assert torch.equal(loaded.fit(data).predict_proba(), fitted(name).predict_proba())


# -- settings -----------------------------------------------------------------------------------------------------


@every_model
def test_settings_can_be_read_set_and_cloned(name, fitted):
    model = fitted(name)
    shallow, deep = model.get_params(deep=False), model.get_params()
    assert shallow.items() <= deep.items()
    assert all(getattr(model, setting) is value for setting, value in shallow.items())
    copied = clone(model)
    assert not is_fitted(copied)
    assert settings(copied) == settings(model)
    assert make(name).set_params(seed=7).seed == 7
    for setting in deep:
        # Setting what is there already changes nothing.
        assert settings(make(name).set_params(**{setting: make(name).get_params()[setting]})) == settings(model)
    with pytest.raises(InputError) as caught:
        make(name).set_params(sed=3)
    assert caught.value.argument == "params"


@every_model
def test_the_representation_evaluates_to_an_equal_model(name):
    names = {name: getattr(module, name) for module in (lggd, baselines, filters, moved) for name in module.__all__}
    again = eval(repr(make(name, seed=3)), names)
    assert type(again) is type(make(name))
    assert settings(again) == settings(make(name, seed=3))
    assert repr(again) == repr(make(name, seed=3))
