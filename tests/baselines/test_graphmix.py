"""GraphMix: both networks, their losses, and what is sampled."""

import pytest
import torch
from torch.nn import functional

from baseline_cases import CASES, EXACT, check_together, dense_adjacency, graph, networks, weighted_or_not
from lggd.backbones.layers import batched_linear
from lggd.baselines import GraphMix, graphmix
from lggd.training.optimization import load_values
from small_data import CLASSES, changed


def weights_of(made):
    return (made.stacked[f"{layer}.lin.weight"].detach()[0] for layer in ("first", "second"))


def mlp_logits(made):
    return graphmix._mlp_logits(batched_linear(made.x, made.stacked["first.lin.weight"]), made.stacked).detach()


def test_both_networks_are_equal_without_edges():
    data = graph(weighted=False)
    made, _ = networks(GraphMix(), changed(data, edge_index=data.edge_index[:, :0]))
    torch.testing.assert_close(made.logits(), mlp_logits(made), **EXACT)


@weighted_or_not
def test_gcn_is_that_of_dense_matrices(weighted):
    data = graph(weighted)
    made, _ = networks(GraphMix(), data)
    first, second = weights_of(made)
    adjacency = dense_adjacency(data)
    expected = adjacency @ torch.relu(adjacency @ data.x @ first.t()) @ second.t()
    torch.testing.assert_close(made.logits()[0], expected, **EXACT)


def training_step(data, train_gcn, monkeypatch, ratio=1.0, **settings):
    """The networks, the loss and the gradients of an epoch with this choice of network and this λ, without dropout."""
    made, targets = networks(GraphMix(dropout=0, predictions=1, **settings), data)
    monkeypatch.setattr(made, "_train_gcn", lambda: torch.tensor([train_gcn]))
    monkeypatch.setattr(made, "_sample_uniform", lambda: torch.tensor([ratio]))
    loss = made.training_step(targets, [True])
    return made, loss, {name: value.grad[0] for name, value in made.stacked.items()}


def check_losses(data, monkeypatch):
    """Cross-entropy of the GCN; binary cross-entropy of the MLP, here unmixed and without unlabelled nodes."""
    truth = functional.one_hot(data.y, CLASSES).float()
    for train_gcn in (True, False):
        made, loss, gradients = training_step(data, train_gcn, monkeypatch, unlabelled_weight=0)
        own = {name: value.detach()[0].clone().requires_grad_() for name, value in made.stacked.items()}
        matrix = dense_adjacency(data) if train_gcn else torch.eye(data.num_nodes)
        logits = matrix @ torch.relu(matrix @ data.x @ own["first.lin.weight"].t()) @ own["second.lin.weight"].t()
        if train_gcn:
            expected = functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        else:
            probability = torch.softmax(logits, 1)[data.train_mask]
            expected = functional.binary_cross_entropy(probability, truth[data.train_mask])
        expected.backward()
        torch.testing.assert_close(loss[0], expected.detach(), **EXACT)
        for name, value in own.items():
            torch.testing.assert_close(gradients[name], value.grad, **EXACT)


def test_losses_of_both_networks(monkeypatch):
    check_losses(graph(), monkeypatch)


def test_check_finds_an_mlp_without_relu(monkeypatch):
    planted = lambda values, parameters: batched_linear(values, parameters["second.lin.weight"])  # noqa: E731
    monkeypatch.setattr(graphmix, "_mlp_logits", planted)
    with pytest.raises(AssertionError):
        check_losses(graph(), monkeypatch)


def test_unlabelled_nodes_are_trained_on_pseudo_labels(monkeypatch):
    data = graph()
    sampled = (~data.train_mask).nonzero().squeeze(1)[: int(data.train_mask.sum())].flip(0)
    monkeypatch.setattr(graphmix._AlternatingTraining, "_sample_unlabelled", lambda self: sampled)
    settings = {"ramp": (0, 1), "temperature": 1.0}
    labelled = training_step(data, False, monkeypatch, unlabelled_weight=0, **settings)[1]
    made, both, _ = training_step(data, False, monkeypatch, unlabelled_weight=3.0, **settings)
    probability, pseudo_label = (torch.softmax(logits[0], 1) for logits in (mlp_logits(made), made.logits()))
    expected = functional.binary_cross_entropy(probability[sampled], pseudo_label[sampled])
    torch.testing.assert_close(both[0], labelled[0] + 3 * torch.exp(torch.tensor(-5.0)) * expected, **EXACT)


def check_mixture(data, monkeypatch):
    """Hidden values and labels are mixed with the same λ and the same permutation."""
    made, _ = networks(GraphMix(), data)
    partner = made._sample_partners()
    monkeypatch.setattr(made, "_sample_partners", lambda: partner)
    monkeypatch.setattr(made, "_sample_uniform", lambda: torch.tensor([0.3]))
    first, second = weights_of(made)
    hidden = torch.relu(data.x @ first.t())[data.train_mask]
    labels = functional.one_hot(data.y, CLASSES).float()[data.train_mask]
    mixed, mixed_labels = (0.3 * each + 0.7 * each[partner] for each in (hidden, labels))
    expected = functional.binary_cross_entropy(torch.softmax(mixed @ second.t(), 1), mixed_labels)
    found = made._mixed_losses(mlp_logits(made), made.labelled, made.classes)
    torch.testing.assert_close(found[0], expected, **EXACT)


def test_hidden_values_and_labels_are_mixed(monkeypatch):
    check_mixture(graph(), monkeypatch)


def test_check_finds_wrongly_mixed_labels(monkeypatch):
    losses = graphmix._AlternatingTraining._mixed_losses
    planted = lambda self, logits, nodes, labels: losses(self, logits, nodes, labels.roll(1, 0))  # noqa: E731
    monkeypatch.setattr(graphmix._AlternatingTraining, "_mixed_losses", planted)
    with pytest.raises(AssertionError):
        check_mixture(graph(), monkeypatch)


def test_the_other_network_cannot_make_gradients_infinite(monkeypatch):
    data = graph()
    huge = changed(data, x=data.x * 1e15)
    for train_gcn in (True, False):
        gradients = training_step(huge, train_gcn, monkeypatch, ratio=0.5)[2]
        assert all(bool(gradient.isfinite().all()) for gradient in gradients.values())


def test_pseudo_labels_are_averaged_and_sharpened():
    data = graph()
    made, _ = networks(GraphMix(dropout=0, temperature=0.5, predictions=3), data)
    squares = torch.softmax(made.logits(), 2).square()
    torch.testing.assert_close(made._pseudo_labels(), squares / squares.sum(2, keepdim=True), **EXACT)
    with_dropout = networks(GraphMix(dropout=0.5, predictions=3), data)[0]
    assert not torch.equal(with_dropout._pseudo_labels(), with_dropout._pseudo_labels())
    assert not with_dropout._pseudo_labels().requires_grad


def test_samples():
    data = graph()
    made, _ = networks(GraphMix(), data, (0, 1))
    sampled = made._sample_unlabelled()
    count = int(data.train_mask.sum())
    assert len(sampled) == 2 * count
    assert (sampled[:count] < data.num_nodes).all()
    assert (sampled[count:] >= data.num_nodes).all()
    assert not bool(data.train_mask.repeat(2)[sampled].any())
    partner = made._sample_partners()
    assert torch.equal(partner[:count].sort().values, torch.arange(count))
    assert torch.equal(partner.sort().values, torch.arange(2 * count))
    choices = torch.stack([made._train_gcn() for _ in range(1000)]).float()
    assert choices.mean(0).tolist() == pytest.approx([0.5, 0.5], abs=0.05)


def test_contract_finds_samples_shared_between_problems(monkeypatch):
    sample = graphmix._AlternatingTraining._sample_uniform
    shared = lambda self: sample(self)[:1].expand(len(self.generators)).contiguous()  # noqa: E731
    monkeypatch.setattr(graphmix._AlternatingTraining, "_sample_uniform", shared)
    with pytest.raises(AssertionError):
        check_together(CASES["GraphMix"].make)


def test_weight_of_unlabelled_nodes_rises():
    made, _ = networks(GraphMix(unlabelled_weight=10, ramp=(500, 1000)), graph())
    for epoch, expected in ((0, 0.0673795), (500, 0.0673795), (750, 2.865048), (1000, 10), (3000, 10)):
        made.epoch.fill_(epoch)
        assert float(made._ramp_weight()) == pytest.approx(expected, rel=1e-4)
    all_labelled = changed(graph(), train_mask=torch.ones(36, dtype=torch.bool), val_mask=None)
    assert float(networks(GraphMix(), all_labelled)[0]._ramp_weight()) == 0


def test_epochs_are_counted_per_fit_and_restored():
    made, targets = networks(GraphMix(predictions=1), graph(), (0, 1))
    for _ in range(3):
        made.training_step(targets, [True] * 2)
    assert made.epoch.tolist() == [3, 3]
    other = networks(GraphMix(), graph(), (0, 1))[0]
    assert other.epoch.tolist() == [0, 0]
    load_values(other.parameters(), {one.name: one.value for one in made.parameters()})
    assert other.epoch.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0}, "`temperature` must be positive"),
        ({"unlabelled_weight": -1}, "`unlabelled_weight` must be 0 or above"),
        ({"ramp": (5, 5)}, r"`ramp\[1\]` must be a whole number from 6"),
        ({"ramp": (-1, 5)}, r"`ramp\[0\]` must be a whole number from 0"),
        ({"ramp": [1, 5]}, "`ramp` must be a tuple"),
        ({"predictions": 0}, "`predictions` must be"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        GraphMix(**settings).fit(graph())
