"""The scikit-learn face: scikit-learn's own checks, and what they do not ask."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch_geometric.data import Data

import lggd
from lggd import GCN, GGD, LGGD, Optimization
from lggd.sklearn import KNNGraphClassifier as LGGDClassifier

# Distances alone, nothing learned; and both stages of learning, briefly.
DISTANCES = LGGDClassifier(features=GGD(times=(1, 2)), backbone=None, random_state=0)
LEARNED = LGGDClassifier(
    features=LGGD(times=(1, 2), optimization=Optimization(epochs=3)),
    optimization=Optimization(epochs=30, lr=0.05),
    random_state=0,
)
BOTH = pytest.mark.parametrize("estimator", [DISTANCES, LEARNED], ids=["distances", "learned"])


def expected_failures(estimator):
    return {
        "check_classifiers_classes": "It calls two classes -1 and 1, but -1 marks samples without a label. "
        "scikit-learn excepts its own semi-supervised estimators from this by their names. "
        "See test_classes_keep_their_names."
    }


@parametrize_with_checks([DISTANCES, LEARNED], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def few(truth, count, seed=0):
    """y with `count` labels of each class and -1 elsewhere."""
    rng = np.random.default_rng(seed)
    y = np.full(len(truth), -1)
    for k in np.unique(truth):
        chosen = rng.choice(np.flatnonzero(truth == k), count, replace=False)
        y[chosen] = k
    return y


def moons(count=2):
    X, truth = make_moons(300, noise=0.08, random_state=0)
    return X, truth, few(truth, count)


def right(model, truth, y):
    return (model.transduction_ == truth)[y == -1].mean()


# -- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1 / 16])
def test_digits_with_five_labels_a_class(scale):
    X, truth = load_digits(return_X_y=True)
    y = few(truth, 5)
    model = clone(DISTANCES).set_params(features=GGD()).fit(X * scale, y)
    assert right(model, truth, y) > 0.9


def test_it_learns():
    X, truth = load_digits(n_class=5, return_X_y=True)
    X, truth = X[:400], truth[:400]
    y = few(truth, 5)
    learning = LGGD(times=(1, 3), optimization=Optimization(epochs=20))
    model = LGGDClassifier(features=learning, random_state=0).fit(X, y)
    assert right(model, truth, y) > 0.95
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


@BOTH
def test_samples_of_fit_get_their_own_answer(estimator):
    X, _, y = moons()
    model = clone(estimator).fit(X, y)
    shuffled = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(model.predict(X[shuffled]), model.transduction_[shuffled])
    np.testing.assert_array_equal(model.predict_proba(X), model.label_distributions_)
    np.testing.assert_allclose(model.label_distributions_.sum(1), 1)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan", lambda a, b: float(np.abs(a - b).max())])
def test_samples_of_fit_are_found_by_their_numbers_not_by_distance(metric):
    # All on few rays: by the cosine, samples of one ray are at distance 0.
    angle, length = np.meshgrid(np.arange(4), np.linspace(1, 3, 12))
    X = np.stack([length * np.cos(angle), length * np.sin(angle)], -1).reshape(-1, 2)
    X = np.pad(X, ((0, 0), (0, 20))).astype(np.float32)  # brute force, with its rounding
    y = few(np.arange(len(X)) % 4, 2)
    model = clone(DISTANCES).set_params(metric=metric, n_neighbors=3).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), model.label_distributions_)


def test_equal_samples_answer_alike_whatever_their_labels():
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
    model = clone(DISTANCES).set_params(features=GGD()).fit(X, y)
    other, other_truth = make_moons(300, noise=0.08, random_state=1)
    assert model.score(other, other_truth) > 0.9


@BOTH
def test_sparse_samples_answer_like_dense_ones(estimator):
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


# -- labels -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("names", [[3, 7], [2.0, 5.0], ["no", "yes"], [False, True]], ids=str)
def test_classes_keep_their_names(estimator, names):
    X, truth = make_blobs(40, centers=[(-4, 0), (4, 0)], random_state=0)
    names = np.array(names)
    model = clone(estimator).fit(X, names[truth])
    np.testing.assert_array_equal(model.classes_, names)
    np.testing.assert_array_equal(model.transduction_, names[truth])
    np.testing.assert_array_equal(model.predict(X + 1e-3), names[truth])


@pytest.mark.parametrize("as_objects", [True, False])
def test_unlabelled_among_strings(as_objects):
    X, truth, y = moons()
    named = np.array(["lower", "upper"])[truth].astype(object if as_objects else "U5")
    named[y == -1] = -1  # numpy makes "-1" of it among strings of fixed length
    model = clone(DISTANCES).fit(X, named)
    assert model.classes_.tolist() == ["lower", "upper"]
    numbered = clone(DISTANCES).fit(X, y)
    np.testing.assert_array_equal(model.label_distributions_, numbered.label_distributions_)
    assert model.score(X, named) == numbered.score(X, y)


def test_scores_count_labelled_samples_only():
    X, truth, y = moons()
    model = clone(DISTANCES).fit(X, y)
    predicted = model.predict(X)
    half = np.where(np.arange(len(y)) % 2, truth, -1)
    assert model.score(X, half) == pytest.approx((predicted == truth)[1::2].mean())
    weight = np.linspace(0, 1, len(y))
    expected = np.average((predicted == truth)[1::2], weights=weight[1::2])
    assert model.score(X, half, weight) == pytest.approx(expected)
    with pytest.raises(ValueError, match="`y` must label at least one sample to score"):
        model.score(X, np.full(len(y), -1))


@BOTH
def test_new_labels_are_taken_in_without_learning(estimator):
    X, truth, y = moons(count=1)
    model = clone(estimator).fit(X, y)
    untouched = pickle.dumps(model.model_.history_)
    before = right(model, truth, y)
    new = np.random.default_rng(1).choice(np.flatnonzero(y == -1), 40, replace=False)
    assert model.add_labels(new, truth[new]) is model
    assert right(model, truth, y) > before
    np.testing.assert_array_equal(model.predict(X), model.transduction_)
    assert pickle.dumps(model.model_.history_) == untouched
    assert (model.model_.labels_.numpy()[new] == truth[new]).all()
    # The same as the labels in any order, one at a time, or by a mask; known labels change nothing.
    other = clone(estimator).fit(X, y)
    for sample in new[::-1]:
        other.add_labels(sample, truth[sample])
    np.testing.assert_array_equal(other.label_distributions_, model.label_distributions_)
    masked = clone(estimator).fit(X, y).add_labels(np.isin(np.arange(len(y)), new), truth[np.sort(new)])
    np.testing.assert_array_equal(masked.label_distributions_, model.label_distributions_)
    again = model.label_distributions_
    np.testing.assert_array_equal(model.add_labels(new, truth[new]).label_distributions_, again)
    np.testing.assert_array_equal(model.add_labels([], []).label_distributions_, again)


def test_with_nothing_to_learn_new_labels_are_as_good_as_a_new_fit():
    X, truth, y = moons()
    new = np.flatnonzero(y == -1)[:30]
    model = clone(DISTANCES).fit(X, y).add_labels(new, truth[new])
    y[new] = truth[new]
    np.testing.assert_allclose(model.label_distributions_, clone(DISTANCES).fit(X, y).label_distributions_, atol=1e-6)


def test_new_labels_by_the_names_of_classes():
    X, truth, y = moons()
    names = np.array(["lower", "upper"])
    model = clone(DISTANCES).fit(X, np.where(y == -1, "-1", names[truth]))
    new = np.flatnonzero((y == -1) & (truth == 1))[:5]
    numbered = clone(DISTANCES).fit(X, y).add_labels(new, 1)
    np.testing.assert_array_equal(model.add_labels(new, "upper").label_distributions_, numbered.label_distributions_)


def test_a_refit_forgets():
    X, truth, y = moons()
    model = clone(LEARNED).fit(X, y)
    first = model.label_distributions_
    new = np.flatnonzero(y == -1)[:30]
    model.add_labels(new, truth[new])
    assert not np.array_equal(first, model.label_distributions_)
    np.testing.assert_array_equal(model.fit(X, y).label_distributions_, first)
    other = model.fit(X[:50, :1], np.where(truth[:50], "a", "b"))
    assert other.classes_.tolist() == ["a", "b"]
    assert other.n_features_in_ == 1
    assert len(other.transduction_) == 50


# -- manners ------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits():
    X, _, y = moons()
    one, same = (clone(LEARNED).fit(X, y).label_distributions_ for _ in range(2))
    np.testing.assert_array_equal(one, same)
    other = clone(LEARNED).set_params(random_state=1).fit(X, y).label_distributions_
    assert not np.array_equal(one, other)
    drawn = [np.random.RandomState(5), np.random.RandomState(5)]
    one, same = (clone(LEARNED).set_params(random_state=s).fit(X, y).label_distributions_ for s in drawn)
    np.testing.assert_array_equal(one, same)


def test_random_state_takes_the_place_of_the_seed_of_the_features():
    X, _, y = moons()
    seeded = LGGD(times=(1, 2), optimization=Optimization(epochs=3), seed=9)
    model = clone(LEARNED).set_params(features=seeded).fit(X, y)
    np.testing.assert_array_equal(model.label_distributions_, clone(LEARNED).fit(X, y).label_distributions_)


def test_what_was_passed_stays_as_it_is():
    X, truth, y = moons()
    features, module = LGGD(times=(1, 2), optimization=Optimization(epochs=2)), _Linear(5, 2)
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    model = LGGDClassifier(features=features, backbone=module, optimization=Optimization(epochs=5))
    given, given_y = X.copy(), y.copy()
    model.fit(X, y).add_labels([0], truth[:1])
    assert model.features is features
    assert not hasattr(features, "labels_")
    assert model.backbone is module
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
    model = LGGDClassifier(5, features=LGGD(times=(1,)), backbone=GCN(hidden=8), random_state=3)
    copied = clone(model)
    assert copied.get_params()["backbone"] == GCN(hidden=8)
    assert copied.features.times == (1,)
    assert copied.features is not model.features
    assert LGGDClassifier().get_params() == {
        "n_neighbors": 10,
        "metric": "euclidean",
        "features": LGGD,
        "backbone": GCN,
        "optimization": Optimization,
        "random_state": None,
    }
    assert repr(model).startswith("LGGDClassifier(backbone=GCN(hidden=8")


def test_a_class_stands_for_its_defaults():
    X, _, y = moons()
    one, same = (clone(DISTANCES).set_params(features=f).fit(X, y).label_distributions_ for f in (GGD, GGD()))
    np.testing.assert_array_equal(one, same)


def test_contents_alone():
    X, truth, y = moons(count=10)
    model = LGGDClassifier(features=None, optimization=Optimization(epochs=50), random_state=0).fit(X, y)
    assert right(model, truth, y) > 0.7
    with pytest.raises(ValueError, match="`features` must not be None to add labels"):
        model.add_labels([int(np.flatnonzero(y == -1)[0])], [0])


def test_in_a_pipeline_and_a_grid_search():
    X, truth, y = moons(count=10)
    stretched = X * [1, 1000]
    pipeline = make_pipeline(StandardScaler(), clone(DISTANCES)).fit(stretched, y)
    assert pipeline.score(stretched, truth) > 0.9
    grid = {"lggdclassifier__n_neighbors": [5, 10], "lggdclassifier__features": [GGD(times=(1,)), GGD(times=(1, 4))]}
    # -1 is one more class to the folds: each has labelled samples and samples without a label.
    search = GridSearchCV(pipeline, grid, cv=StratifiedKFold(3), error_score="raise").fit(stretched, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_score_ > 0.8
    assert search.best_estimator_[-1].transduction_.shape == y.shape


@BOTH
def test_pickles_go_on(estimator):
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


# -- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_neighbors": 0}, ValueError, "`n_neighbors` must be a whole number from 1, got 0"),
        ({"n_neighbors": 2.5}, ValueError, "`n_neighbors` must be a whole number from 1, got 2.5"),
        ({"metric": "euclidian"}, ValueError, "`metric` must be .* got 'euclidian'. Did you mean 'euclidean'?"),
        ({"metric": "precomputed"}, ValueError, "`metric` must be .* got 'precomputed'"),
        ({"features": "lggd"}, TypeError, r"`features` must be LGGD\(\), GGD\(\) or None, got 'lggd'"),
        ({"optimization": 100}, TypeError, "`optimization` must be one such as"),
        ({"features": None}, ValueError, "`features` or `backbone` must be given"),
        ({"backbone": "gcn"}, TypeError, "`backbone` must be"),
    ],
)
def test_wrong_parameters(parameters, error, message):
    X, _, y = moons()
    with pytest.raises(error, match=message):
        clone(DISTANCES).set_params(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1, -1, -1], "`y` must label samples of at least two classes, got -1 for all"),
        ([-1, 1, 1], "at least two classes, got one class, 1. -1 marks samples without a label"),
        (["-1", "-1", "-1"], "got -1 for all"),
        ([0.5, 1.5, 2.5], "Unknown label type"),
        ([0, 1], "inconsistent numbers of samples"),
    ],
)
def test_wrong_labels(y, message):
    with pytest.raises(ValueError, match=message):
        clone(DISTANCES).fit([[0.0], [1.0], [2.0]], y)


def test_one_sample_is_not_enough():
    with pytest.raises(ValueError, match="1 sample"):
        clone(DISTANCES).fit([[0.0]], [0])


@pytest.mark.parametrize(
    ("indices", "labels", "error", "message"),
    [
        ([500], ["a"], ValueError, r"`indices` must name samples 0..299 of fit, got 500"),
        ([-1], ["a"], ValueError, r"`indices` must name samples 0..299 of fit, got -1"),
        ([0.5], ["a"], TypeError, "`indices` must be row numbers"),
        ([True, False], ["a"], ValueError, r"`indices` as a mask must have shape \[300\]"),
        ([0, 1, 2], ["a", "b"], ValueError, "`labels` must hold a label for each of the 3 samples, got 2"),
        ([0], ["c"], ValueError, "`labels` must be among the classes 'a', 'b', got 'c'. A new class needs a new fit"),
        ([0], [-1], ValueError, "`labels` must be among the classes 'a', 'b', got -1"),
        ([0, 0], ["a", "b"], ValueError, "sample 0 would be both 'b' and 'a'"),
    ],
)
def test_wrong_new_labels_change_nothing(indices, labels, error, message):
    X, truth, _ = moons()
    model = clone(DISTANCES).fit(X, [-1] * 280 + [("a", "b")[k] for k in truth[280:]])
    before = model.label_distributions_
    with pytest.raises(error, match=message):
        model.add_labels(indices, labels)
    np.testing.assert_array_equal(model.label_distributions_, before)
    known = int(np.flatnonzero(truth[280:] == 0)[0]) + 280
    with pytest.raises(ValueError, match=f"sample {known} would be both 'b' and 'a'. Leave it out, or fit anew"):
        model.add_labels([known], ["b"])


def test_labels_come_after_a_fit():
    with pytest.raises(NotFittedError):
        LGGDClassifier().add_labels([0], [0])
