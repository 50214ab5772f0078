"""SGC against PyG's SGConv, and its training against scikit-learn's logistic regression."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch_geometric.nn import SGConv

from baseline_cases import EXACT, dense_adjacency, graph, networks, weighted_or_not
from lggd import Optimization
from lggd.baselines import SGC
from small_data import blocks


def check_logits(data, hops, expected_hops):
    made, _ = networks(SGC(hops=hops), data, (0, 1))
    for q, logits in enumerate(made.logits()):
        conv = SGConv(6, 3, K=expected_hops)
        with torch.no_grad():
            conv.lin.weight.copy_(made.stacked["linear.weight"][q])
            conv.lin.bias.copy_(made.stacked["linear.bias"][q])
            torch.testing.assert_close(logits, conv(data.x, data.edge_index, data.get("edge_weight")), **EXACT)


@weighted_or_not
@pytest.mark.parametrize("hops", [1, 2, 5])
def test_logits_are_those_of_sgconv(weighted, hops):
    check_logits(graph(weighted), hops, hops)


def test_check_finds_a_missing_hop():
    with pytest.raises(AssertionError):
        check_logits(graph(), 2, 3)


def test_training_ends_where_logistic_regression_does():
    """Weight decay λ on W and b with a mean loss is scikit-learn's C = 1 / (n λ) with the bias as one more feature."""
    data, decay = blocks(), 0.05
    settings = Optimization(lr=0.05, weight_decay=decay, epochs=1500, patience=None)
    data.val_mask = torch.zeros_like(data.val_mask)
    data.train_mask = data.train_mask | data.test_mask
    model = SGC(optimization=settings).fit(data)
    x = (torch.linalg.matrix_power(dense_adjacency(data), 2) @ data.x).numpy()
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    train = data.train_mask.numpy()
    oracle = LogisticRegression(C=1 / (train.sum() * decay), fit_intercept=False, tol=1e-10, max_iter=2000)
    expected = oracle.fit(x[train], data.y[train]).predict_proba(x)
    np.testing.assert_allclose(model.probabilities_.numpy(), expected, atol=5e-3)
