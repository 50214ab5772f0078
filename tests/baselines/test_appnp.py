"""APPNP against PyG's layer; its dropout of Â and its weight decay."""

import pytest
import torch
from torch.nn import functional
from torch_geometric import nn as pyg

from baseline_cases import EXACT, dense_matrix, graph, identity, networks, weighted_or_not
from lggd import Optimization
from lggd.backbones.polynomial import mlp_scores
from lggd.baselines import APPNP, appnp
from lggd.training.randomness import LEVELS


def check_logits(data, alpha, expected_alpha):
    made, _ = networks(APPNP(alpha=alpha, hops=4, hidden=8), data, (0, 1))
    with torch.no_grad():
        scores = mlp_scores(made.stacked, data.x, identity)
    for logits, own in zip(made.logits(), scores, strict=True):
        expected = pyg.APPNP(4, expected_alpha)(own, data.edge_index, data.get("edge_weight"))
        torch.testing.assert_close(logits, expected, **EXACT)


@weighted_or_not
@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_logits_are_those_of_pyg(weighted, alpha):
    check_logits(graph(weighted), alpha, alpha)


def test_check_finds_another_restart_probability():
    with pytest.raises(AssertionError):
        check_logits(graph(), 0.1, 0.2)


def test_coefficients_are_fixed():
    assert sorted(networks(APPNP(), graph())[0].stacked) == [
        "first.bias",
        "first.weight",
        "second.bias",
        "second.weight",
    ]


def test_entries_of_the_matrix_are_dropped_for_each_problem():
    made, _ = networks(APPNP(dropout=0.5), graph(), (0, 1))
    scores, drawn = torch.randn(2, 36, 3), []
    dropout = made._dropout
    made._dropout = lambda values: drawn.append(dropout(values)) or drawn[-1]
    found = made._multiply_with_dropout(scores)
    entries, pattern = drawn[0].squeeze(1), made.graph.pattern
    assert entries.shape == (2, len(pattern.order))
    assert not torch.equal(entries[0], entries[1])
    kept = entries != 0
    assert 0.3 < float(kept.float().mean()) < 0.7
    torch.testing.assert_close(entries[kept], 2 * made.graph.values.expand(2, -1)[kept])
    for q in range(2):
        dense = dense_matrix(pattern.columns, pattern.rows, entries[q], 36)
        torch.testing.assert_close(found[q], dense @ scores[q], **EXACT)


def test_every_multiplication_draws_anew(monkeypatch):
    used = []
    multiply = appnp.multiply_each
    monkeypatch.setattr(
        appnp, "multiply_each", lambda x, values, pattern: used.append(values) or multiply(x, values, pattern)
    )
    made, targets = networks(APPNP(hops=3), graph())
    made.training_step(targets, [True])
    made.logits()
    assert len(used) == 3
    assert not any(torch.equal(used[0], other) for other in used[1:])
    without, _ = networks(APPNP(hops=3, dropout=0.0), graph())
    assert without.keep_level == LEVELS
    without.training_step(targets, [True])
    assert len(used) == 3


def test_gradients_are_those_of_autograd_without_dropout():
    data = graph()
    made, targets = networks(APPNP(hops=3, hidden=8, dropout=0.0), data)
    made.training_step(targets, [True])
    own = {name: value.detach()[0].clone().requires_grad_() for name, value in made.stacked.items()}
    hidden = torch.relu(functional.linear(data.x, own["first.weight"], own["first.bias"]))
    scores = functional.linear(hidden, own["second.weight"], own["second.bias"])
    logits = pyg.APPNP(3, 0.1)(scores, data.edge_index, data.edge_weight)
    functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask]).backward()
    for name, value in made.stacked.items():
        torch.testing.assert_close(value.grad[0], own[name].grad, **EXACT)


def test_only_the_first_weights_decay():
    made, _ = networks(APPNP(), graph())
    adam = made.optimizer([Optimization(weight_decay=0.1)])
    before = {name: value.detach().clone() for name, value in made.stacked.items()}
    for value in made.stacked.values():
        value.grad = torch.zeros_like(value)
    adam.step()
    assert [name for name, value in made.stacked.items() if not torch.equal(value, before[name])] == ["first.weight"]
