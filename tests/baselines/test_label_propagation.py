"""Label propagation, and correct and smooth, against PyG's modules."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.models import CorrectAndSmooth as PyGCorrectAndSmooth
from torch_geometric.nn.models import LabelPropagation as PyGLabelPropagation

from lggd import GCN, LGGDClassifier, Optimization
from lggd.baselines import AutoScale, CorrectAndSmooth, FixedScale, LabelPropagation, MLPClassifier
from lggd.baselines.baseline import one_hot, to_probabilities
from lggd.baselines.label_propagation import propagation_matrix, spread
from lggd.inputs import Labels
from support.baseline_cases import dense_matrix, graph, weighted_or_not
from support.small_data import blocks


def spread_of(data, alpha=0.8, iterations=20, **settings):
    matrix = propagation_matrix(data.edge_index, data.get("edge_weight"), data.num_nodes)
    return spread(matrix, alpha, iterations, one_hot(Labels.read(data).train, 3), **settings)


def check_against_pyg(data, alpha=0.8, expected_alpha=0.8):
    weight = torch.ones(data.num_edges) if data.get("edge_weight") is None else data.edge_weight
    edge_index, weight = gcn_norm(data.edge_index, weight.double(), data.num_nodes, add_self_loops=False)
    oracle = PyGLabelPropagation(20, expected_alpha)
    expected = oracle(one_hot(data.y, 3), edge_index, mask=data.train_mask, edge_weight=weight)
    torch.testing.assert_close(spread_of(data, alpha), expected)


@weighted_or_not
def test_iterations_are_those_of_pyg(weighted):
    check_against_pyg(graph(weighted))


def test_check_finds_another_alpha():
    with pytest.raises(AssertionError):
        check_against_pyg(graph(), 0.8, 0.7)


@given(seed=st.integers(0, 99), alpha=st.floats(0, 0.95))
def test_many_iterations_solve_the_linear_system(seed, alpha):
    """F = (1 - α)(I - αS)⁻¹ Y, with a dense NumPy S."""
    data = graph(seed=seed)
    adjacency = dense_matrix(*data.edge_index, data.edge_weight, data.num_nodes).double().numpy()
    degree = adjacency.sum(1)
    root = np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    system = np.eye(data.num_nodes) - alpha * root[:, None] * adjacency * root
    labels = np.where(data.train_mask[:, None], np.eye(3)[data.y], 0)
    expected = (1 - alpha) * np.linalg.solve(system, labels)
    np.testing.assert_allclose(spread_of(data, alpha, 600).numpy(), expected, atol=1e-9)


def test_nodes_that_no_label_reaches_get_the_shares_of_classes():
    data = graph()
    model = LabelPropagation().fit(data)
    lonely = torch.bincount(data.edge_index[0], minlength=36) == 0
    assert bool(lonely.any())
    for _ in range(2):
        shares = torch.bincount(model.labels_[model.labels_ >= 0]) / (model.labels_ >= 0).sum()
        torch.testing.assert_close(model.predict_proba()[lonely], shares.expand(int(lonely.sum()), 3))
        model.add_labels([12, 15, 18], [0, 0, 0])


def test_added_labels_equal_a_fit_with_all_of_them():
    data = graph()
    later = LabelPropagation().fit(data).add_labels(data.val_mask, data.y[data.val_mask])
    data.train_mask, data.val_mask = data.train_mask | data.val_mask, torch.zeros_like(data.val_mask)
    assert torch.equal(later.predict_proba(), LabelPropagation().fit(data).predict_proba())


@pytest.mark.parametrize(("settings", "argument"), [({"alpha": 1.0}, "alpha"), ({"iterations": 0}, "iterations")])
def test_invalid_settings_raise(settings, argument):
    with pytest.raises(ValueError, match=f"`{argument}` must"):
        LabelPropagation(**settings).fit(graph())


FEW = Optimization(epochs=10)
BASES = {
    "MLP": MLPClassifier(hidden=8, optimization=FEW),
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
    base = MLPClassifier(optimization=Optimization(epochs=60))
    assert CorrectAndSmooth(base).fit(data).score(data) > base.fit(data).score(data) + 0.1


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"model": "MLP"}, "model"),
        ({"model": MLPClassifier(hidden=0)}, "hidden"),
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
