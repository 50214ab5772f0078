"""GPR-GNN against APPNP and dense powers of Â."""

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn import APPNP

from baseline_cases import EXACT, dense_adjacency, graph, identity, networks, weighted_or_not
from lggd import Optimization
from lggd.backbones.polynomial import pagerank_coefficients
from lggd.baselines import GPRGNN, gprgnn
from lggd.training.randomness import LEVELS


def with_gamma(gamma, data):
    """The logits of GPR-GNN with this γ, and the scores that it propagates."""
    made, _ = networks(GPRGNN(hops=len(gamma) - 1, hidden=8), data)
    with torch.no_grad():
        made.stacked["gamma"].copy_(gamma.unsqueeze(0))
        scores = gprgnn.mlp_scores(made.stacked, data.x, identity)[0]
    own = {name: value.detach()[0] for name, value in made.stacked.items()}
    hidden = torch.relu(functional.linear(data.x, own["first.weight"], own["first.bias"]))
    torch.testing.assert_close(scores, functional.linear(hidden, own["second.weight"], own["second.bias"]), **EXACT)
    return made.logits()[0], scores


def check_initial_polynomial(data, coefficients=pagerank_coefficients):
    logits, scores = with_gamma(coefficients(0.2, 5), data)
    expected = APPNP(5, 0.2)(scores, data.edge_index, data.get("edge_weight"))
    torch.testing.assert_close(logits, expected, **EXACT)


@weighted_or_not
def test_initial_polynomial_is_appnp(weighted):
    check_initial_polynomial(graph(weighted))


def test_check_finds_a_wrong_last_coefficient():
    with pytest.raises(AssertionError):
        check_initial_polynomial(graph(), lambda alpha, hops: alpha * (1 - alpha) ** torch.arange(hops + 1))


def test_initial_coefficients_are_pagerank():
    gamma = networks(GPRGNN(alpha=0.3, hops=7), graph())[0].stacked["gamma"]
    assert gamma.shape == (1, 8)
    assert gamma.dtype == torch.float32
    assert float(gamma.detach().sum()) == pytest.approx(1)
    assert gamma[0, :2].tolist() == pytest.approx([0.3, 0.21])


@weighted_or_not
def test_single_powers(weighted):
    data = graph(weighted)
    for power in (0, 3):
        logits, scores = with_gamma(functional.one_hot(torch.tensor(power), 4).float(), data)
        torch.testing.assert_close(logits, torch.linalg.matrix_power(dense_adjacency(data), power) @ scores, **EXACT)


def check_decay(data):
    """Without a gradient the layers shrink and γ stays."""
    made, _ = networks(GPRGNN(), data)
    adam = made.optimizer([Optimization(weight_decay=0.1)])
    before = {name: value.detach().clone() for name, value in made.stacked.items()}
    for value in made.stacked.values():
        value.grad = torch.zeros_like(value)
    adam.step()
    assert [name for name, value in made.stacked.items() if torch.equal(value, before[name])] == ["gamma"]


def test_coefficients_have_no_weight_decay():
    check_decay(graph())


def test_check_finds_weight_decay_of_coefficients(monkeypatch):
    monkeypatch.setattr(gprgnn._PolynomialTraining, "without_decay", ())
    with pytest.raises(AssertionError):
        check_decay(graph())


def test_scores_have_their_own_dropout(monkeypatch):
    rates = []
    dropout = lambda scores, generators, level: rates.append(1 - level / LEVELS) or scores  # noqa: E731
    monkeypatch.setattr(gprgnn, "dropout", dropout)
    made, targets = networks(GPRGNN(dropout=0.5, propagation_dropout=0.25), graph(), (0, 1))
    made.training_step(targets, [True] * 2)
    made.logits()
    assert rates == [0.25]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -0.1}, "`alpha` must lie"),
        ({"hops": 0}, "`hops` must be"),
        ({"propagation_dropout": 1}, "`propagation_dropout` must lie"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        GPRGNN(**settings).fit(graph())
