"""MLP, SGC, APPNP and GPR-GNN against PyG's layers, scikit-learn and dense powers of Â."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional
from torch_geometric import nn as pyg
from torch_geometric.nn import SGConv

from lggd import LGGDClassifier, Optimization
from lggd.backbones import APPNP, GPR, SGC, Perceptron, build_seeded, trainable_backbones
from lggd.backbones import polynomial as decoupled
from lggd.backbones.network import no_dropout
from lggd.backbones.polynomial import pagerank_coefficients
from lggd.inputs import Labels
from lggd.training.problems import Targets, adam
from support.baseline_cases import EXACT, dense_adjacency, dense_matrix, graph, weighted_or_not
from support.small_data import blocks, changed


def networks(backbone, data, seeds=(0,)):
    """Networks before their first epoch, and their training targets."""
    labels = Labels.read(data)
    modules = [build_seeded(backbone, data.x.shape[1], labels.num_classes, seed) for seed in seeds]
    made = trainable_backbones(modules, data.x, data.edge_index, data.get("edge_weight"), seeds)
    return made, Targets(torch.stack([labels.train] * len(seeds)), "target")


def scores_of(made, x):
    with torch.no_grad():
        return made.modules[0].scores(made.stacked, x, no_dropout)


def test_logits_are_those_of_two_linear_layers():
    data = graph()
    made, _ = networks(Perceptron(hidden=8), data, (0, 1))
    for q, logits in enumerate(made.logits()):
        own = {name: value.detach()[q] for name, value in made.stacked.items()}
        hidden = torch.relu(functional.linear(data.x, own["first.weight"], own["first.bias"]))
        torch.testing.assert_close(logits, functional.linear(hidden, own["second.weight"], own["second.bias"]), **EXACT)


def test_edges_have_no_effect():
    data, few = blocks(), Optimization(epochs=5)
    other = changed(data, edge_index=data.edge_index[:, :0])
    one, two = (LGGDClassifier(None, Perceptron(), few).fit(each).predict_proba() for each in (data, other))
    assert torch.equal(one, two)


def test_inputs_and_hidden_layer_have_dropout(monkeypatch):
    made, targets = networks(Perceptron(hidden=8), graph())
    shapes = []
    monkeypatch.setattr(made, "_dropout", lambda values, *_: shapes.append(values.shape[-1]) or values)
    made.training_step(targets)
    made.logits()
    assert shapes == [6, 8]


def check_sgc_logits(data, hops, expected_hops):
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
    check_sgc_logits(graph(weighted), hops, hops)


def test_check_finds_a_missing_hop():
    with pytest.raises(AssertionError):
        check_sgc_logits(graph(), 2, 3)


def test_training_ends_where_logistic_regression_does():
    """Weight decay λ on W and b with a mean loss is scikit-learn's C = 1 / (n λ) with the bias as one more feature."""
    data, decay = blocks(), 0.05
    settings = Optimization(lr=0.05, weight_decay=decay, epochs=1500, patience=None)
    data.val_mask = torch.zeros_like(data.val_mask)
    data.train_mask = data.train_mask | data.test_mask
    model = LGGDClassifier(None, SGC(), settings).fit(data)
    x = (torch.linalg.matrix_power(dense_adjacency(data), 2) @ data.x).numpy()
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    train = data.train_mask.numpy()
    oracle = LogisticRegression(C=1 / (train.sum() * decay), fit_intercept=False, tol=1e-10, max_iter=2000)
    expected = oracle.fit(x[train], data.y[train]).predict_proba(x)
    np.testing.assert_allclose(model.predict_proba().numpy(), expected, atol=5e-3)


def check_appnp_logits(data, alpha, expected_alpha):
    made, _ = networks(APPNP(alpha=alpha, hops=4, hidden=8), data, (0, 1))
    for logits, own in zip(made.logits(), scores_of(made, data.x), strict=True):
        expected = pyg.APPNP(4, expected_alpha)(own, data.edge_index, data.get("edge_weight"))
        torch.testing.assert_close(logits, expected, **EXACT)


@weighted_or_not
@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_logits_are_those_of_pyg(weighted, alpha):
    check_appnp_logits(graph(weighted), alpha, alpha)


def test_check_finds_another_restart_probability():
    with pytest.raises(AssertionError):
        check_appnp_logits(graph(), 0.1, 0.2)


def test_coefficients_are_fixed():
    made, targets = networks(APPNP(alpha=0.3, hops=4), graph(), (0, 1))
    optimizer = adam(made.parameters(), Optimization(lr=1.0))
    made.training_step(targets)
    optimizer.step()
    assert torch.equal(made.stacked["gamma"], pagerank_coefficients(0.3, 4).expand(2, -1))


def test_entries_of_the_matrix_are_dropped_for_each_problem():
    made, _ = networks(APPNP(dropout=0.5), graph(), (0, 1))
    scores, drawn = torch.randn(2, 36, 3), []

    def drop(values):
        drawn.append(made._dropout(values))
        return drawn[-1]

    product = decoupled._multiply_with_dropout(made.graph, drop, scores)
    entries, pattern = drawn[0].squeeze(1), made.graph.pattern
    assert entries.shape == (2, len(pattern.order))
    assert not torch.equal(entries[0], entries[1])
    kept = entries != 0
    assert 0.3 < float(kept.float().mean()) < 0.7
    torch.testing.assert_close(entries[kept], 2 * made.graph.values.expand(2, -1)[kept])
    for q in range(2):
        dense = dense_matrix(pattern.columns, pattern.rows, entries[q], 36)
        torch.testing.assert_close(product[q], dense @ scores[q], **EXACT)


def test_every_multiplication_draws_anew(monkeypatch):
    used = []
    multiply = decoupled.multiply_each
    monkeypatch.setattr(
        decoupled, "multiply_each", lambda x, values, pattern: used.append(values) or multiply(x, values, pattern)
    )
    made, targets = networks(APPNP(hops=3), graph())
    made.training_step(targets)
    made.logits()
    assert len(used) == 3
    assert not any(torch.equal(used[0], other) for other in used[1:])
    without, _ = networks(APPNP(hops=3, dropout=0.0), graph())
    without.training_step(targets)
    assert len(used) == 3


def test_gradients_are_those_of_autograd_without_dropout():
    data = graph()
    made, targets = networks(APPNP(hops=3, hidden=8, dropout=0.0), data)
    made.training_step(targets)
    own = {name: value.detach()[0].clone().requires_grad_() for name, value in made.stacked.items()}
    hidden = torch.relu(functional.linear(data.x, own["first.weight"], own["first.bias"]))
    scores = functional.linear(hidden, own["second.weight"], own["second.bias"])
    logits = pyg.APPNP(3, 0.1)(scores, data.edge_index, data.edge_weight)
    functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask]).backward()
    for name in ("first.weight", "first.bias", "second.weight", "second.bias"):
        torch.testing.assert_close(made.stacked[name].grad[0], own[name].grad, **EXACT)


def test_only_the_first_weights_decay():
    made, _ = networks(APPNP(), graph())
    optimizer = adam(made.parameters(), Optimization(weight_decay=0.1))
    before = {name: value.detach().clone() for name, value in made.stacked.items()}
    for value in made.stacked.values():
        value.grad = torch.zeros_like(value)
    optimizer.step()
    assert [name for name, value in made.stacked.items() if not torch.equal(value, before[name])] == ["first.weight"]


def with_gamma(gamma, data):
    """The logits of GPR-GNN with this γ, and the scores that it propagates."""
    made, _ = networks(GPR(hops=len(gamma) - 1, hidden=8), data)
    with torch.no_grad():
        made.stacked["gamma"].copy_(gamma.unsqueeze(0))
    scores = scores_of(made, data.x)[0]
    own = {name: value.detach()[0] for name, value in made.stacked.items()}
    hidden = torch.relu(functional.linear(data.x, own["first.weight"], own["first.bias"]))
    torch.testing.assert_close(scores, functional.linear(hidden, own["second.weight"], own["second.bias"]), **EXACT)
    return made.logits()[0], scores


def check_initial_polynomial(data, coefficients=pagerank_coefficients):
    logits, scores = with_gamma(coefficients(0.2, 5), data)
    expected = pyg.APPNP(5, 0.2)(scores, data.edge_index, data.get("edge_weight"))
    torch.testing.assert_close(logits, expected, **EXACT)


@weighted_or_not
def test_initial_polynomial_is_appnp(weighted):
    check_initial_polynomial(graph(weighted))


def test_check_finds_a_wrong_last_coefficient():
    with pytest.raises(AssertionError):
        check_initial_polynomial(graph(), lambda alpha, hops: alpha * (1 - alpha) ** torch.arange(hops + 1))


def test_initial_coefficients_are_pagerank():
    gamma = networks(GPR(alpha=0.3, hops=7), graph())[0].stacked["gamma"]
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
    made, _ = networks(GPR(), data)
    optimizer = adam(made.parameters(), Optimization(weight_decay=0.1))
    before = {name: value.detach().clone() for name, value in made.stacked.items()}
    for value in made.stacked.values():
        value.grad = torch.zeros_like(value)
    optimizer.step()
    assert [name for name, value in made.stacked.items() if torch.equal(value, before[name])] == ["gamma"]


def test_coefficients_have_no_weight_decay():
    check_decay(graph())


def test_check_finds_weight_decay_of_coefficients(monkeypatch):
    monkeypatch.setattr(decoupled._GPRNetwork, "without_decay", ())
    with pytest.raises(AssertionError):
        check_decay(graph())


def test_scores_have_their_own_dropout(monkeypatch):
    made, targets = networks(GPR(dropout=0.5, propagation_dropout=0.25), graph(), (0, 1))
    rates = []
    monkeypatch.setattr(made, "_dropout", lambda values, rate=None: rates.append(rate) or values)
    made.training_step(targets)
    made.logits()
    assert rates == [None, None, 0.25]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GPR(alpha=-0.1), "`alpha` must lie"),
        (lambda: GPR(propagation_dropout=1), "`propagation_dropout` must lie"),
        (lambda: APPNP(alpha=1.5), "`alpha` must lie"),
        (lambda: APPNP(hops=0), "`hops` must be"),
        (lambda: SGC(hops=0), "`hops` must be"),
        (lambda: Perceptron(hidden=0), "`hidden` must be"),
    ],
)
def test_invalid_settings_raise(build, message):
    with pytest.raises(ValueError, match=message):
        build()
