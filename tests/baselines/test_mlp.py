"""The MLP sees the node features of a node, and nothing else."""

import torch
from torch.nn import functional

from baseline_cases import EXACT, graph, networks
from lggd import Optimization
from lggd.baselines import MLPClassifier
from small_data import blocks, changed


def test_logits_are_those_of_two_linear_layers():
    data = graph()
    made, _ = networks(MLPClassifier(hidden=8), data, (0, 1))
    for q, logits in enumerate(made.logits()):
        own = {name: value.detach()[q] for name, value in made.stacked.items()}
        hidden = torch.relu(functional.linear(data.x, own["first.weight"], own["first.bias"]))
        torch.testing.assert_close(logits, functional.linear(hidden, own["second.weight"], own["second.bias"]), **EXACT)


def test_edges_have_no_effect():
    data, few = blocks(), Optimization(epochs=5)
    other = changed(data, edge_index=data.edge_index[:, :0])
    one, two = (MLPClassifier(optimization=few).fit(each).probabilities_ for each in (data, other))
    assert torch.equal(one, two)


def test_inputs_and_hidden_layer_have_dropout(monkeypatch):
    made, targets = networks(MLPClassifier(hidden=8), graph())
    shapes = []
    monkeypatch.setattr(made, "_dropout", lambda values: shapes.append(values.shape[-1]) or values)
    made.training_step(targets, [True])
    made.logits()
    assert shapes == [6, 8]
