"""The classifier of samples: scikit-learn's own checks, predictions, and the contract of all models."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch_geometric.data import Data

import lggd
from lggd import (
    GCN,
    GGD,
    LGGD,
    EvolvedKernelRidge,
    KernelRidge,
    LGGDClassifier,
    LGGDPlus,
    NearestClass,
    Optimization,
    SelfTraining,
)
from lggd.backbones import Perceptron
from lggd.baselines import LabelPropagation
from lggd.errors import InputError
from lggd.sklearn import KNNGraphClassifier
from support.few_labels import DISTANCES, EACH, LEARNED, SOLVED, accuracy, few, moons
from support.small_models import stop_at


def expected_failures(estimator):
    return {
        "check_classifiers_classes": "It calls two classes -1 and 1, but -1 marks samples without a label. "
        "scikit-learn excepts its own semi-supervised estimators from this by their names. "
        "See test_classes_keep_their_names."
    }


@parametrize_with_checks([DISTANCES, LEARNED, SOLVED], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -- predictions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1 / 16])
def test_digits_with_five_labels_a_class(scale):
    X, truth = load_digits(return_X_y=True)
    y = few(truth, 5)
    model = clone(DISTANCES).set_params(model__features=GGD()).fit(X * scale, y)
    assert accuracy(model, truth, y) > 0.9


def test_it_learns():
    X, truth = load_digits(n_class=5, return_X_y=True)
    X, truth = X[:400], truth[:400]
    y = few(truth, 5)
    learning = LGGD(times=(1, 3), optimization=Optimization(epochs=20))
    model = KNNGraphClassifier(LGGDClassifier(learning, GCN()), random_state=0).fit(X, y)
    assert accuracy(model, truth, y) > 0.95
    assert len(model.model_.history_["distances"]) > 0
    assert len(model.model_.history_["backbone"]["train_loss"]) > 0


def test_it_is_the_classifier_of_the_neighbour_graph():
    X, _, y = moons()
    model = clone(DISTANCES).set_params(n_neighbors=7).fit(X, y)
    near = kneighbors_graph(X, 7).toarray() > 0
    edges = torch.from_numpy(np.stack(np.nonzero(near | near.T)))
    data = Data(edge_index=edges, y=torch.from_numpy(y), num_nodes=len(y))
    plain = lggd.LGGDClassifier(GGD(times=(1, 2)), backbone=None).fit(data)
    np.testing.assert_allclose(model.label_distributions_, plain.predict_proba().numpy(), atol=1e-6)


@EACH
def test_samples_of_fit_get_their_own_prediction(estimator):
    X, _, y = moons()
    model = clone(estimator).fit(X, y)
    shuffled = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(model.predict(X[shuffled]), model.transduction_[shuffled])
    np.testing.assert_array_equal(model.predict_proba(X), model.label_distributions_)
    np.testing.assert_allclose(model.label_distributions_.sum(1), 1)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan", lambda a, b: float(np.abs(a - b).max())])
def test_samples_of_fit_are_found_by_their_values_not_by_distance(metric):
    # All on few rays: by the cosine, samples of one ray are at distance 0.
    angle, length = np.meshgrid(np.arange(4), np.linspace(1, 3, 12))
    X = np.stack([length * np.cos(angle), length * np.sin(angle)], -1).reshape(-1, 2)
    X = np.pad(X, ((0, 0), (0, 20))).astype(np.float32)  # brute force, with its rounding
    y = few(np.arange(len(X)) % 4, 2)
    model = clone(DISTANCES).set_params(metric=metric, n_neighbors=3).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), model.label_distributions_)


def test_equal_samples_have_the_same_prediction_whatever_their_labels():
    X, _, y = moons()
    X[1:4], y[:4] = X[0], (0, 1, 1, -1)
    model = clone(LEARNED).fit(X, y)
    assert len(np.unique(model.label_distributions_[:4], axis=0)) == 1
    np.testing.assert_array_equal(model.predict(X), model.transduction_)


def test_new_samples_get_the_mean_of_their_neighbours():
    X, _, y = moons()
    model = clone(LEARNED).set_params(n_neighbors=3).fit(X, y)
    new = np.array([[0.5, 0.5], [-1.0, 0.2], [3.0, -4.0]])
    squares = ((new[:, None] - X[None]) ** 2).sum(2)
    expected = model.label_distributions_[squares.argsort(1)[:, :3]].mean(1)
    np.testing.assert_allclose(model.predict_proba(new), expected)
    mixed = model.predict_proba(np.concatenate([X[5:6], new, X[:1]]))
    np.testing.assert_allclose(mixed[[0, -1]], model.label_distributions_[[5, 0]])
    np.testing.assert_allclose(mixed[1:-1], expected)


def test_new_samples_are_classified_well():
    X, _, y = moons(count=5)
    model = clone(DISTANCES).set_params(model__features=GGD()).fit(X, y)
    other, other_truth = make_moons(300, noise=0.08, random_state=1)
    assert model.score(other, other_truth) > 0.9


@EACH
def test_sparse_samples_are_predicted_as_dense_ones(estimator):
    X, truth = load_digits(n_class=3, return_X_y=True)
    X, y = X[:200], few(truth[:200], 4)
    dense, sparse = clone(estimator).fit(X, y), clone(estimator).fit(sp.csr_array(X), y)
    assert (dense.transduction_ == sparse.transduction_).mean() > 0.95
    np.testing.assert_array_equal(sparse.predict_proba(sp.csc_array(X)), sparse.label_distributions_)
    np.testing.assert_array_equal(sparse.predict_proba(X), sparse.label_distributions_)
    zeros_stored = sp.csr_array(X + 1)
    zeros_stored.data -= 1
    np.testing.assert_array_equal(sparse.predict_proba(zeros_stored), sparse.label_distributions_)
    np.testing.assert_array_equal(dense.predict_proba(np.where(X == 0, -0.0, X)), dense.label_distributions_)


def test_few_samples_have_fewer_neighbours():
    model = clone(DISTANCES).fit([[0.0], [1.0], [2.0]], [0, -1, 1])
    assert model.predict([[0.0], [2.0]]).tolist() == [0, 1]


# -- the contract ------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits():
    X, _, y = moons()
    one, same = (clone(LEARNED).fit(X, y).label_distributions_ for _ in range(2))
    np.testing.assert_array_equal(one, same)
    other = clone(LEARNED).set_params(random_state=1).fit(X, y).label_distributions_
    assert not np.array_equal(one, other)
    drawn = [np.random.RandomState(5), np.random.RandomState(5)]
    one, same = (clone(LEARNED).set_params(random_state=s).fit(X, y).label_distributions_ for s in drawn)
    np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize("seed", [9, torch.Generator()], ids=["int", "generator"])
def test_random_state_takes_the_place_of_the_seeds_of_the_model(seed):
    X, _, y = moons()
    model = clone(LEARNED).set_params(model__seed=seed, model__features__seed=seed).fit(X, y)
    np.testing.assert_array_equal(model.label_distributions_, clone(LEARNED).fit(X, y).label_distributions_)
    assert (model.model.seed, model.model.features.seed) == (seed, seed)
    assert model.model_.seed == model.model_.features.seed != seed


def test_inputs_and_settings_are_not_changed():
    X, truth, y = moons()
    features, module = LGGD(times=(1, 2), optimization=Optimization(epochs=2)), _Linear(5, 2)
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    passed = LGGDClassifier(features, module, Optimization(epochs=5))
    model = KNNGraphClassifier(passed)
    given, given_y, settings = X.copy(), y.copy(), repr(passed)
    model.fit(X, y).add_labels([0], truth[:1])
    assert model.model is passed
    assert (passed.features is features, passed.backbone is module) == (True, True)
    assert repr(passed) == settings
    assert not {"labels_", "features_", "module_"} & vars(passed).keys()
    assert not hasattr(features, "labels_")
    assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())
    np.testing.assert_array_equal(X, given)
    np.testing.assert_array_equal(y, given_y)


class _Linear(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.map = torch.nn.Linear(inputs, outputs)

    def forward(self, x, edge_index):
        return self.map(x)


def test_parameters_and_clones():
    model = KNNGraphClassifier(LGGDClassifier(LGGD(times=(1,)), GCN(hidden=8)), n_neighbors=5, random_state=3)
    copied = clone(model)
    assert copied.get_params()["model__backbone"] == GCN(hidden=8)
    assert copied.model.features.times == (1,)
    assert copied.model is not model.model
    assert copied.model.features is not model.model.features
    assert repr(copied) == repr(model)
    defaults = {"model": None, "n_neighbors": 10, "metric": "euclidean", "random_state": None}
    assert KNNGraphClassifier().get_params() == defaults
    assert repr(eval(repr(model), {**{name: getattr(lggd, name) for name in lggd.__all__}, **globals()})) == repr(model)


def test_nested_settings_are_those_of_the_model():
    features = LGGD(times=(1,))
    model = KNNGraphClassifier(LGGDClassifier(features, GCN()))
    deep = model.get_params()
    nested = [deep[f"model__{name}"] for name in ("features__times", "backbone__hidden", "features__initial__hops")]
    assert nested == [(1,), 32, 2]
    model.set_params(
        model__features__times=(2, 3), model__backbone__hidden=8, model__features__initial__hops=1, n_neighbors=4
    )
    assert (model.model.features.times, model.model.features.initial.hops, model.n_neighbors) == ((2, 3), 1, 4)
    assert model.model.backbone == GCN(hidden=8)
    assert features.times == (1,)
    model.set_params(model__features__cross_fit=2, model__features=GGD(times=(7,)))
    found, expected = model.model.features, GGD(times=(7,), cross_fit=2)
    assert found.get_params(deep=False) == expected.get_params(deep=False)
    model.set_params(model__features__times=(9,), model=LGGDClassifier(GGD(times=(8,))))
    assert model.model.features.times == (9,)
    for wrong in ("model__features__time", "model__feature__times", "models__seed", "n_neighbours", "features__times"):
        with pytest.raises(ValueError, match=r"aram"):  # scikit-learn's own error for settings that are not nested
            model.set_params(**{wrong: 1})


MODELS_OF_NODES = {
    "KernelRidge": KernelRidge(),
    "GGD": GGD(times=(1, 2)),
    "SelfTraining": SelfTraining(GGD(times=(1, 2)), fraction=0.5, rounds=2),
    "LGGDPlus": LGGDPlus(readout=NearestClass()),
    "MLP": LGGDClassifier(None, Perceptron(), Optimization(epochs=60)),
    "LabelPropagation": LabelPropagation(),
}


@pytest.mark.parametrize("model", MODELS_OF_NODES.values(), ids=MODELS_OF_NODES)
def test_any_model_of_nodes_classifies_samples(model, tmp_path):
    X, truth, y = moons(count=10)
    estimator = KNNGraphClassifier(model, random_state=0)
    assert repr(clone(estimator)) == repr(estimator)
    fitted = clone(estimator).fit(X, y)
    assert type(fitted.model_) is type(model)
    assert accuracy(fitted, truth, y) > 0.7
    np.testing.assert_array_equal(clone(estimator).fit(X, y).label_distributions_, fitted.label_distributions_)
    fitted.save(tmp_path / "model")
    loaded = lggd.load_model(tmp_path / "model")
    assert repr(loaded) == repr(fitted)
    np.testing.assert_array_equal(loaded.predict_proba(X + 0.01), fitted.predict_proba(X + 0.01))


def test_a_classifier_without_a_model_is_the_default_one():
    X, _, y = moons()
    one, same = (KNNGraphClassifier(m, random_state=0).fit(X, y) for m in (None, KernelRidge()))
    np.testing.assert_array_equal(one.label_distributions_, same.label_distributions_)
    assert one.model is None
    assert type(one.model_) is KernelRidge


def test_what_notebooks_show_contains_the_model():
    X, _, y = moons()
    model = clone(LEARNED)
    for shown in (model, model.fit(X, y), make_pipeline(StandardScaler(), model)):
        assert "KNNGraphClassifier" in (page := shown._repr_html_())
        assert "LGGDClassifier(" in page


def test_a_backbone_alone():
    X, truth, y = moons(count=10)
    optimization = Optimization(epochs=50)
    model = KNNGraphClassifier(LGGDClassifier(None, GCN(), optimization), random_state=0).fit(X, y)
    assert accuracy(model, truth, y) > 0.7
    with pytest.raises(ValueError, match="accept labels without training"):
        model.add_labels([int(np.flatnonzero(y == -1)[0])], [0])


def test_in_a_pipeline_and_a_grid_search():
    X, truth, y = moons(count=10)
    stretched = X * [1, 1000]
    pipeline = make_pipeline(StandardScaler(), clone(DISTANCES)).fit(stretched, y)
    assert pipeline.score(stretched, truth) > 0.9
    grid = {"knngraphclassifier__n_neighbors": [5, 10], "knngraphclassifier__model__features__times": [(1,), (1, 4)]}
    # -1 is one more class to the folds: each has labelled samples and samples without a label.
    search = GridSearchCV(pipeline, grid, cv=StratifiedKFold(3), error_score="raise").fit(stretched, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_score_ > 0.8
    assert search.best_estimator_[-1].transduction_.shape == y.shape


def test_a_grid_search_over_nested_settings():
    X, _, y = moons(count=10)
    grid = [
        {"model__features__times": [(1,), (1, 2)], "model__backbone__hidden": [4]},
        {"model__backbone__hidden": [8]},
    ]
    brief = clone(LEARNED).set_params(model__features__optimization__epochs=1, model__optimization__epochs=3)
    search = GridSearchCV(brief, grid, cv=StratifiedKFold(2), error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 3
    best = search.best_estimator_
    assert best.model_.features_.times == search.best_params_.get("model__features__times", (1, 2))
    hidden = search.best_params_["model__backbone__hidden"]
    assert best.model_.module_.state_dict()["first.lin.weight"].shape[0] == hidden
    assert brief.model.features.times == (1, 2)


def test_a_grid_search_over_the_default_model_and_over_models():
    X, _, y = moons(count=10)
    grids = (
        (KNNGraphClassifier(EvolvedKernelRidge(), random_state=0), {"model__times": [(1,), (1, 4)]}),
        (KNNGraphClassifier(random_state=0), {"model": [None, KernelRidge(), GGD(times=(1, 2))]}),
    )
    for estimator, grid in grids:
        search = GridSearchCV(estimator, grid, cv=StratifiedKFold(2), error_score="raise").fit(X, y)
        ((name, values),) = grid.items()
        assert len(search.cv_results_["params"]) == len(values)
        assert repr(search.best_params_[name]) == repr(search.best_estimator_.get_params()[name])
        assert search.best_score_ > 0.8


def test_settings_of_a_model_that_is_not_passed_are_refused():
    with pytest.raises(InputError, match=r"`model` must be passed where model__features__times is set"):
        KNNGraphClassifier().set_params(model__features__times=(1,))
    assert KNNGraphClassifier().set_params(model=GGD(), model__times=(1,)).model.times == (1,)


def test_every_epoch_is_reported():
    X, _, y = moons()
    reports = []
    clone(LEARNED).fit(X, y, callback=reports.append)
    epochs = [("distances", done) for done in range(1, 4)] + [("backbone", done) for done in range(1, 13)]
    assert [(report.stage, report.done) for report in reports] == epochs


def test_a_failed_fit_leaves_it_unfitted():
    X, _, y = moons()
    for broken, error in (
        (lambda model: model.fit(X, np.full(len(y), -1)), ValueError),
        (lambda model: model.fit(X[:9], y), ValueError),
        (lambda model: model.set_params(n_neighbors=0).fit(X, y), InputError),
        (lambda model: model.fit(X, y, callback=stop_at("backbone", 1)), KeyboardInterrupt),
    ):
        model = clone(LEARNED).fit(X, y)
        with pytest.raises(error):
            broken(model)
        for use in (lambda: model.predict(X), lambda: model.score(X, y), lambda: model.add_labels([0], [0])):  # noqa: B023
            with pytest.raises(NotFittedError):
                use()


@EACH
def test_a_pickled_model_takes_labels(estimator):
    X, truth, y = moons()
    model = clone(estimator).fit(X, y)
    restored = pickle.loads(pickle.dumps(model))
    new = np.flatnonzero(y == -1)[:10]
    for fitted in (model, restored):
        fitted.add_labels(new, truth[new])
    np.testing.assert_array_equal(restored.label_distributions_, model.label_distributions_)


def test_names_of_columns_are_kept():
    pandas = pytest.importorskip("pandas")
    X, _, y = moons()
    model = clone(DISTANCES).fit(pandas.DataFrame(X, columns=["a", "b"]), y)
    assert model.feature_names_in_.tolist() == ["a", "b"]


def test_the_library_does_not_import_scikit_learn_by_itself():
    script = "import sys, lggd; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
