"""Scores and their propagation against dense NumPy."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from baseline_cases import EXACT, dense_adjacency, graph, identity
from lggd.baselines import MLPClassifier
from lggd.baselines.polynomial import ScoringNetwork, mlp_scores, pagerank_coefficients, polynomial
from lggd.graph.sparse import normalized_adjacency
from small_data import random


class Scores(ScoringNetwork):
    def logits(self, parameters, x, graph, drop):
        return mlp_scores(parameters, x, drop)


def test_scores_of_each_problem_are_those_of_an_mlp():
    data, networks = graph(), [Scores(MLPClassifier(hidden=5), 6, 3) for _ in range(2)]
    stacked = {
        name: torch.stack([dict(one.named_parameters())[name] for one in networks]).detach()
        for name, _ in networks[0].named_parameters()
    }
    found = mlp_scores(stacked, data.x, identity)
    for scores, one in zip(found, networks, strict=True):
        w1, b1, w2, b2 = (one.get_parameter(f"{a}.{b}").detach().numpy() for a in ("first", "second") for b in
                          ("weight", "bias"))  # fmt: skip
        hidden = np.maximum(data.x.numpy() @ w1.T + b1, 0)
        np.testing.assert_allclose(scores.numpy(), hidden @ w2.T + b2, rtol=1e-4, atol=1e-5)


@given(seed=st.integers(0, 99), gamma=st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=6))
def test_polynomials_are_sums_of_dense_powers(seed, gamma):
    data = graph(seed=seed)
    scores = torch.randn(2, data.num_nodes, 3, generator=random(seed))
    adjacency = normalized_adjacency(data.edge_index, data.edge_weight, data.num_nodes)
    found = polynomial(scores, torch.tensor([gamma]), adjacency)
    dense = dense_adjacency(data)
    powers = sum(value * torch.linalg.matrix_power(dense, k) for k, value in enumerate(gamma))
    torch.testing.assert_close(found, powers @ scores, **EXACT)


@given(alpha=st.floats(0, 1), hops=st.integers(1, 20))
def test_pagerank_coefficients_sum_to_one_and_decay(alpha, hops):
    gamma = pagerank_coefficients(alpha, hops)
    assert len(gamma) == hops + 1
    assert abs(float(gamma.sum()) - 1) < 1e-5
    assert bool((gamma[:-1].diff() <= 0).all())
