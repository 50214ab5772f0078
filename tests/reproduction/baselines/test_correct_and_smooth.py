"""Correct and smooth against PyG's module."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.models import CorrectAndSmooth as PyGCorrectAndSmooth

from lggd import GCN, LGGDClassifier, Optimization
from lggd.backbones import Perceptron
from lggd.baselines import LabelPropagation
from lggd.baselines.baseline import to_probabilities
from reproduction.baselines import AutoScale, CorrectAndSmooth, FixedScale
from support.baseline_cases import graph, weighted_or_not
from support.small_data import blocks

FEW = Optimization(epochs=10)
BASES = {
    "MLP": LGGDClassifier(None, Perceptron(8), FEW),
    "GCN": LGGDClassifier(None, GCN(8), FEW),
    "label propagation": LabelPropagation(),
}
SCALINGS = {"auto": (AutoScale(), {}), "fixed": (FixedScale(0.7), {"autoscale": False, "scale": 0.7})}


def expected(model, data, alphas=(0.6, 0.9), **scaling):
    """The same by PyG, from the predictions of the fitted base and the labels in use."""
    weight = torch.ones(data.num_edges) if data.get("edge_weight") is None else data.edge_weight
    edges = gcn_norm(data.edge_index, weight.double(), data.num_nodes, add_self_loops=False)
    oracle = PyGCorrectAndSmooth(7, alphas[0], 7, alphas[1], **scaling)
    labels, mask = model.labels_, model.labels_ >= 0
    base = model.model_.predict_proba(data).double()
    corrected = oracle.correct(base, labels[mask], mask, *edges)
    return to_probabilities(oracle.smooth(corrected, labels[mask], mask, *edges), labels)


def check(base, data, scaling="auto", expected_alphas=(0.6, 0.9)):
    ours, theirs = SCALINGS[scaling]
    model = CorrectAndSmooth(base, 0.6, 0.9, iterations=7, scaling=ours).fit(data)
    torch.testing.assert_close(model.predict_proba(), expected(model, data, expected_alphas, **theirs))
    model.add_labels([20, 22], [0, 1])
    torch.testing.assert_close(model.predict_proba(), expected(model, data, expected_alphas, **theirs))


@weighted_or_not
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("base", BASES)
def test_predictions_are_those_of_pyg(base, scaling, weighted):
    check(BASES[base], graph(weighted), scaling)


@pytest.mark.parametrize("alphas", [(0.5, 0.9), (0.6, 0.8)])
def test_check_finds_other_settings(alphas):
    with pytest.raises(AssertionError):
        check(BASES["MLP"], graph(), expected_alphas=alphas)


def test_check_finds_another_scaling():
    model = CorrectAndSmooth(BASES["MLP"], 0.6, 0.9, iterations=7, scaling=FixedScale(0.7)).fit(graph())
    with pytest.raises(AssertionError):
        torch.testing.assert_close(model.predict_proba(), expected(model, graph()))


@settings(max_examples=15)
@given(seed=st.integers(0, 99), alpha=st.floats(0, 0.99))
def test_probabilities_on_any_graph(seed, alpha):
    data = graph(seed=seed)
    found = CorrectAndSmooth(BASES["label propagation"], alpha, alpha, iterations=5).fit(data).predict_proba()
    assert bool(found.isfinite().all())
    assert bool((found >= 0).all())
    torch.testing.assert_close(found.sum(1), torch.ones(len(found)))


def test_without_neighbours_only_labelled_nodes_change():
    """With α = 0 nothing spreads."""
    data = graph()
    model = CorrectAndSmooth(BASES["MLP"], 0.0, 0.0, scaling=FixedScale()).fit(data)
    base, labelled = model.model_.predict_proba(), model.labels_ >= 0
    torch.testing.assert_close(model.predict_proba()[~labelled], base[~labelled])
    assert torch.equal(model.predict()[labelled], data.y[labelled])


def test_it_helps_an_mlp_on_a_graph_with_homophily():
    data = blocks(each=30, noise=1.5)
    base = LGGDClassifier(None, Perceptron(), Optimization(epochs=60))
    assert CorrectAndSmooth(base).fit(data).score(data) > base.fit(data).score(data) + 0.1


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"model": "MLP"}, "model"),
        ({"model": LabelPropagation(iterations=0)}, "iterations"),
        ({"correct_alpha": 1.0}, "correct_alpha"),
        ({"smooth_alpha": -0.1}, "smooth_alpha"),
        ({"iterations": 0}, "iterations"),
        ({"scaling": "auto"}, "scaling"),
    ],
)
def test_invalid_settings_of_correct_and_smooth_raise(changes, argument):
    with pytest.raises((ValueError, TypeError), match=f"`{argument}` must"):
        CorrectAndSmooth(**changes).fit(graph())
    with pytest.raises(ValueError, match="`scale` must be positive"):
        FixedScale(0.0)
