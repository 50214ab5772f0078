"""The classifier of samples: names of classes, scores, new labels, and errors."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from lggd import GCN, LGGDClassifier
from lggd.sklearn import KNNGraphClassifier
from support.few_labels import BOTH, DISTANCES, LEARNED, SOLVED, accuracy, moons

# -- labels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (DISTANCES, [3, 7]), (DISTANCES, [2.0, 5.0]), (DISTANCES, ["no", "yes"]), (DISTANCES, [False, True]),
        (LEARNED, ["no", "yes"]), (SOLVED, [3, 7]),
    ],
)  # fmt: skip
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


def test_new_labels_are_solved_for():
    X, truth, y = moons(count=1)
    model = clone(SOLVED).fit(X, y)
    before = accuracy(model, truth, y)
    new = np.random.default_rng(1).choice(np.flatnonzero(y == -1), 40, replace=False)
    assert accuracy(model.add_labels(new, truth[new]), truth, y) > before
    assert model.model_.history_ == {}
    other = clone(SOLVED).fit(X, y)
    for part in np.split(new[::-1], 8):
        other.add_labels(part, truth[part])
    # Settings may have been chosen at other numbers of labels.
    assert np.mean(other.transduction_ == model.transduction_) > 0.95


@BOTH
def test_new_labels_are_used_without_training(estimator):
    X, truth, y = moons(count=1)
    model = clone(estimator).fit(X, y)
    untouched = pickle.dumps(model.model_.history_)
    before = accuracy(model, truth, y)
    new = np.random.default_rng(1).choice(np.flatnonzero(y == -1), 40, replace=False)
    assert model.add_labels(new, truth[new]) is model
    assert accuracy(model, truth, y) > before
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


def test_without_training_new_labels_give_the_same_as_a_new_fit():
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
    numbered = clone(DISTANCES).fit(X, y).add_labels(new, [1] * 5)
    np.testing.assert_array_equal(
        model.add_labels(new, ["upper"] * 5).label_distributions_, numbered.label_distributions_
    )


@BOTH
def test_labels_are_corrected_and_removed(estimator):
    X, truth, y = moons()
    names = np.array(["lower", "upper"])
    model = clone(estimator).fit(X, np.where(y == -1, "-1", names[truth]))
    before = model.label_distributions_
    new = np.flatnonzero(y == -1)[:3]
    right, wrong = names[truth[new]], names[1 - truth[new]]
    added = clone(estimator).fit(X, np.where(y == -1, "-1", names[truth])).add_labels(new, right)
    assert model.add_labels(new, wrong).change_labels(new, right) is model
    np.testing.assert_array_equal(model.label_distributions_, added.label_distributions_)
    assert model.remove_labels(np.isin(np.arange(len(y)), new)) is model
    np.testing.assert_array_equal(model.label_distributions_, before)
    np.testing.assert_array_equal(model.predict(X), model.transduction_)


def test_labels_that_cannot_be_corrected_or_removed():
    X, truth, y = moons()
    names = np.array(["lower", "upper"])
    model = clone(DISTANCES).fit(X, np.where(y == -1, "-1", names[truth]))
    before, free = model.label_distributions_, int(np.flatnonzero(y == -1)[0])
    lower = np.flatnonzero(y == 0)
    for change in (lambda: model.change_labels([free], ["upper"]), lambda: model.remove_labels([free])):
        with pytest.raises(ValueError, match=rf"`indices` must name labelled nodes, but node {free} has no label"):
            change()
    with pytest.raises(ValueError, match=r"`indices` must leave at least one label of every class, got .*'lower'"):
        model.remove_labels(lower)
    with pytest.raises(ValueError, match=r"`indices` must leave at least one label of every class, got .*'lower'"):
        model.change_labels(lower, ["upper"] * len(lower))
    with pytest.raises(ValueError, match="`indices` must lie in"):
        model.remove_labels([len(y)])
    np.testing.assert_array_equal(model.label_distributions_, before)


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


# -- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_neighbors": 0}, ValueError, "`n_neighbors` must be a whole number from 1, got 0"),
        ({"n_neighbors": 2.5}, ValueError, "`n_neighbors` must be a whole number from 1, got 2.5"),
        ({"metric": "euclidian"}, ValueError, "`metric` must be .* got 'euclidian'. Did you mean 'euclidean'?"),
        ({"metric": "precomputed"}, ValueError, "`metric` must be .* got 'precomputed'"),
        ({"model": "lggd"}, TypeError, r"`model` must be a model of nodes .* KernelRidge\(\), or None, got 'lggd'"),
        ({"model": LGGDClassifier}, TypeError, r"`model` must be a model of nodes .*, got <class"),
        ({"model": LogisticRegression()}, TypeError, r"`model` must be a model of nodes .*, got LogisticRegression"),
        ({"model": SOLVED}, TypeError, r"`model` must be a model of nodes .*, got KNNGraphClassifier"),
        ({"model": GCN()}, TypeError, r"`model` must be a model of nodes .*, got GCN"),
        ({"model__features": "lggd"}, TypeError, r"`features` must be LGGD\(\), GGD\(\) or None, got 'lggd'"),
        ({"model__optimization": 100}, TypeError, r"`optimization` must be an Optimization\(\)"),
        ({"model__features": None}, ValueError, "`backbone` must be set if features is None"),
        ({"model__backbone": "gcn"}, TypeError, "`backbone` must be"),
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
        ([500], ["a"], ValueError, r"`indices` must lie in 0..299, got 500"),
        ([-1], ["a"], ValueError, r"`indices` must lie in 0..299, got -1"),
        ([0.5], ["a"], TypeError, "`indices` must be whole numbers"),
        ([True, False], ["a"], ValueError, r"`indices` must have shape \[300\] as a mask"),
        ([0, 1, 2], ["a", "b"], ValueError, "`labels` must have 3 entries, one class each, got 2"),
        ([0, 1], "a", ValueError, "`labels` must have 2 entries, one class each, got 1"),
        ([0], ["c"], ValueError, "`labels` must be among the classes 'a', 'b', got 'c'. A new class needs a new fit"),
        ([0], [-1], ValueError, "`labels` must be among the classes 'a', 'b', got -1"),
        ([0, 0], ["a", "b"], ValueError, "sample 0 would be both 'a' and 'b'"),
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
    with pytest.raises(ValueError, match=f"sample {known} would be both 'b' and 'a'. Correct it with change_labels"):
        model.add_labels([known], ["b"])


def test_labels_come_after_a_fit():
    with pytest.raises(NotFittedError):
        KNNGraphClassifier().add_labels([0], [0])
    with pytest.raises(NotFittedError):
        KNNGraphClassifier().remove_labels([0])
