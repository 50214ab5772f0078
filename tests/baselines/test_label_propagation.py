"""Label propagation against PyG's module."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.models import LabelPropagation as PyGLabelPropagation

from lggd.baselines import LabelPropagation
from lggd.baselines.baseline import one_hot
from lggd.baselines.label_propagation import propagation_matrix, spread
from lggd.inputs import Labels
from support.baseline_cases import dense_matrix, graph, weighted_or_not


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
