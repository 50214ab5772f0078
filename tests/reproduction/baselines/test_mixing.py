"""MixUp and GraphMix against their formulas, and what they sample."""

import pytest
import torch
from torch.nn import functional

from lggd import GCN, JKNet
from lggd.backbones.convolutions import batched_linear
from lggd.training.problems import load_values
from reproduction.baselines import GraphMix, MixUp, mixing
from support.baseline_cases import (
    CASES,
    EXACT,
    check_together,
    dense_adjacency,
    graph,
    identity,
    networks,
    weighted_or_not,
)
from support.small_data import CLASSES, changed, random


def mix(data, ratio, partner):
    """The networks, their targets, the logits `[N, K]` of the mixture without dropout, and those of the GCN."""
    made, targets = networks(MixUp(backbone=GCN(hidden=8)), data)
    with torch.no_grad():
        mixed = made.mixed_logits(torch.tensor([ratio]), partner.unsqueeze(0), identity)
    return made, targets, mixed[0], made.logits()[0]


def random_partners(data, seed=0):
    nodes = data.train_mask.nonzero().squeeze(1)
    partner = torch.arange(data.num_nodes)
    partner[nodes] = nodes[torch.randperm(len(nodes), generator=random(seed))]
    return partner


def dense_mixture(data, made, ratio, partner):
    """Both passes and both branches as in the paper."""
    weight, bias = (
        [made.stacked[f"{layer}.{name}"][0] for layer in ("first", "second")] for name in ("lin.weight", "bias")
    )
    adjacency = dense_adjacency(data)
    off, diagonal = adjacency - adjacency.diag().diag(), adjacency.diag().unsqueeze(1)
    clean, mixed = data.x, ratio * data.x + (1 - ratio) * data.x[partner]
    for layer, activation in ((0, torch.relu), (1, identity)):
        neighbours, centre = off @ clean @ weight[layer].t(), mixed @ weight[layer].t()
        one = activation(neighbours + diagonal * centre + bias[layer])
        other = activation(neighbours[partner] + diagonal[partner] * centre + bias[layer])
        clean = activation(adjacency @ clean @ weight[layer].t() + bias[layer])
        mixed = ratio * one + (1 - ratio) * other
    return mixed


def check_mixture(weighted=True, spoil=lambda made: None):
    data = graph(weighted)
    partner = random_partners(data)
    made, targets = networks(MixUp(backbone=GCN(hidden=8)), data)
    spoil(made)
    mixed = made.mixed_logits(torch.tensor([0.3]), partner.unsqueeze(0), identity)[0]
    expected = dense_mixture(data, made, 0.3, partner)
    torch.testing.assert_close(mixed, expected, **EXACT)
    hard = functional.one_hot(data.y, CLASSES).float()
    soft = 0.3 * hard + 0.7 * hard[partner]
    expected_loss = functional.cross_entropy(expected[data.train_mask], soft[data.train_mask])
    loss = made.losses(targets, expected.unsqueeze(0), torch.tensor([0.3]), partner.unsqueeze(0))
    torch.testing.assert_close(loss.detach()[0], expected_loss.detach(), **EXACT)


@weighted_or_not
def test_mixture_and_loss_are_those_of_the_paper(weighted):
    check_mixture(weighted)


def mix_other_labels(made):
    losses = made.losses
    made.losses = lambda targets, logits, ratio, partner: losses(targets, logits, ratio, partner.gather(1, partner))


def mix_other_neighbours(made):
    made.off_diagonal = made.graph


@pytest.mark.parametrize("spoil", [mix_other_labels, mix_other_neighbours])
def test_check_finds_wrong_mixtures(spoil):
    with pytest.raises(AssertionError):
        check_mixture(spoil=spoil)


@weighted_or_not
def test_trivial_mixtures_are_the_gcn(weighted):
    data = graph(weighted)
    partner, unmoved = random_partners(data), torch.arange(data.num_nodes)
    for ratio, permutation in ((1.0, partner), (0.3, unmoved), (0.0, partner)):
        _, _, mixed, plain = mix(data, ratio, permutation)
        torch.testing.assert_close(mixed, plain[permutation] if ratio == 0 else plain, **EXACT)


def test_only_training_nodes_are_mixed():
    data = graph()
    _, _, mixed, plain = mix(data, 0.4, random_partners(data))
    torch.testing.assert_close(mixed[~data.train_mask], plain[~data.train_mask], **EXACT)
    assert not torch.allclose(mixed[data.train_mask], plain[data.train_mask], atol=1e-2)


def test_mixture_of_a_pair_is_symmetric():
    data = graph()
    nodes = data.train_mask.nonzero().squeeze(1)
    pairs = torch.arange(data.num_nodes)
    pairs[nodes] = nodes.flip(0)
    one, other = (mix(data, ratio, pairs)[2] for ratio in (0.3, 0.7))
    torch.testing.assert_close(one, other[pairs], **EXACT)


def check_samples(made, data):
    """λ ~ Beta(α, α), one per problem; π permutes the training nodes and leaves all others in place."""
    ratios = torch.stack([made.sample_ratios() for _ in range(2000)])
    assert ratios.shape == (2000, 2)
    assert ratios.mean(0).tolist() == pytest.approx([0.5, 0.5], abs=0.02)
    assert ratios.var(0).tolist() == pytest.approx([1 / 36] * 2, abs=0.003)  # 1 / (4 (2 α + 1)) for α = 4
    assert not torch.equal(ratios[:, 0], ratios[:, 1])
    partner = made.sample_partners()
    unmoved = torch.arange(data.num_nodes).repeat(2, 1)
    assert torch.equal(partner.sort(1).values, unmoved)
    assert torch.equal((partner != unmoved).any(0) | data.train_mask, data.train_mask)
    assert not torch.equal(partner[0], partner[1])
    assert not torch.equal(partner, made.sample_partners())


def test_samples_of_ratios_and_partners():
    data = graph()
    check_samples(networks(MixUp(alpha=4), data, (0, 1))[0], data)


def test_check_finds_mixing_of_all_nodes():
    data = graph()
    made = networks(MixUp(alpha=4), data, (0, 1))[0]
    made.train_nodes = torch.arange(data.num_nodes)
    with pytest.raises(AssertionError):
        check_samples(made, data)


def test_contract_finds_ratios_shared_between_problems(monkeypatch):
    sample = mixing.MixtureTraining.sample_ratios
    shared = lambda self: sample(self)[:1].expand(len(self.generators)).contiguous()  # noqa: E731
    monkeypatch.setattr(mixing.MixtureTraining, "sample_ratios", shared)
    with pytest.raises(AssertionError):
        check_together(CASES["MixUp"].make)


def test_unsupported_backbones_raise():
    with pytest.raises(TypeError, match=r"`backbone` must be GCN\(\), got JKNet"):
        MixUp(backbone=JKNet()).fit(graph())


def weights_of(made):
    return (made.stacked[f"{layer}.lin.weight"].detach()[0] for layer in ("first", "second"))


def mlp_logits(made):
    first, second = weights_of(made)
    return (torch.relu(made.x @ first.t()) @ second.t()).unsqueeze(0)


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


def training_step(data, train_gcn, ratio=1.0, sampled=None, **settings):
    """The networks, the loss and the gradients of an epoch with this choice of network and this λ, without dropout."""
    made, targets = networks(GraphMix(dropout=0, predictions=1, **settings), data)
    drawn = iter([0.0 if train_gcn else 0.5, ratio, ratio])
    made.sample_uniform = lambda: torch.tensor([next(drawn)])
    if sampled is not None:
        made.sample_unlabelled = lambda: sampled
    loss = made.training_step(targets)
    return made, loss, {name: value.grad[0] for name, value in made.stacked.items()}


def check_losses(data):
    """Cross-entropy of the GCN; binary cross-entropy of the MLP, here unmixed and without unlabelled nodes."""
    truth = functional.one_hot(data.y, CLASSES).float()
    for train_gcn in (True, False):
        made, loss, gradients = training_step(data, train_gcn, unlabelled_weight=0)
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


def test_losses_of_both_networks():
    check_losses(graph())


def test_check_finds_an_mlp_without_relu(monkeypatch):
    planted = lambda values, parameters: batched_linear(values, parameters["second.lin.weight"])  # noqa: E731
    monkeypatch.setattr(mixing, "mlp_logits", planted)
    with pytest.raises(AssertionError):
        check_losses(graph())


def test_unlabelled_nodes_are_trained_on_pseudo_labels():
    data = graph()
    sampled = (~data.train_mask).nonzero().squeeze(1)[: int(data.train_mask.sum())].flip(0)
    settings = {"ramp": (0, 1), "temperature": 1.0, "sampled": sampled}
    labelled = training_step(data, False, unlabelled_weight=0, **settings)[1]
    made, both, _ = training_step(data, False, unlabelled_weight=3.0, **settings)
    probability, pseudo_label = (torch.softmax(logits[0], 1) for logits in (mlp_logits(made), made.logits()))
    expected = functional.binary_cross_entropy(probability[sampled], pseudo_label[sampled])
    torch.testing.assert_close(both[0], labelled[0] + 3 * torch.exp(torch.tensor(-5.0)) * expected, **EXACT)


def check_graphmix(data, roll=0):
    """Hidden values and labels are mixed with the same λ and the same permutation."""
    made, _ = networks(GraphMix(), data)
    partner = made.sample_partners()
    made.sample_partners, made.sample_uniform = lambda: partner, lambda: torch.tensor([0.3])
    first, second = weights_of(made)
    hidden = torch.relu(data.x @ first.t())[data.train_mask]
    labels = functional.one_hot(data.y, CLASSES).float()[data.train_mask]
    mixed, mixed_labels = (0.3 * each + 0.7 * each[partner] for each in (hidden, labels))
    expected = functional.binary_cross_entropy(torch.softmax(mixed @ second.t(), 1), mixed_labels)
    losses = made.mixed_losses(mlp_logits(made), made.targets.position, made.classes.roll(roll, 0))
    torch.testing.assert_close(losses[0], expected, **EXACT)


def test_hidden_values_and_labels_are_mixed():
    check_graphmix(graph())


def test_check_finds_wrongly_mixed_labels_of_graphmix():
    with pytest.raises(AssertionError):
        check_graphmix(graph(), roll=1)


def test_the_other_network_cannot_make_gradients_infinite():
    data = graph()
    huge = changed(data, x=data.x * 1e15)
    for train_gcn in (True, False):
        gradients = training_step(huge, train_gcn, ratio=0.5)[2]
        assert all(bool(gradient.isfinite().all()) for gradient in gradients.values())


def test_pseudo_labels_are_averaged_and_sharpened():
    data = graph()
    made, _ = networks(GraphMix(dropout=0, temperature=0.5, predictions=3), data)
    squares = torch.softmax(made.logits(), 2).square()
    torch.testing.assert_close(made.pseudo_labels(), squares / squares.sum(2, keepdim=True), **EXACT)
    with_dropout = networks(GraphMix(dropout=0.5, predictions=3), data)[0]
    assert not torch.equal(with_dropout.pseudo_labels(), with_dropout.pseudo_labels())
    assert not with_dropout.pseudo_labels().requires_grad


def test_samples():
    data = graph()
    made, _ = networks(GraphMix(), data, (0, 1))
    sampled = made.sample_unlabelled()
    count = int(data.train_mask.sum())
    assert len(sampled) == 2 * count
    assert (sampled[:count] < data.num_nodes).all()
    assert (sampled[count:] >= data.num_nodes).all()
    assert not bool(data.train_mask.repeat(2)[sampled].any())
    partner = made.sample_partners()
    assert torch.equal(partner[:count].sort().values, torch.arange(count))
    assert torch.equal(partner.sort().values, torch.arange(2 * count))
    numbers = torch.stack([made.sample_uniform() for _ in range(1000)])
    assert (numbers < 0.5).float().mean(0).tolist() == pytest.approx([0.5, 0.5], abs=0.05)


def test_contract_finds_samples_shared_between_problems(monkeypatch):
    sample = mixing.AlternatingTraining.sample_uniform
    shared = lambda self: sample(self)[:1].expand(len(self.generators)).contiguous()  # noqa: E731
    monkeypatch.setattr(mixing.AlternatingTraining, "sample_uniform", shared)
    with pytest.raises(AssertionError):
        check_together(CASES["GraphMix"].make)


def test_weight_of_unlabelled_nodes_rises():
    made, _ = networks(GraphMix(unlabelled_weight=10, ramp=(500, 1000)), graph())
    for epoch, expected in ((0, 0.0673795), (500, 0.0673795), (750, 2.865048), (1000, 10), (3000, 10)):
        made.epoch.fill_(epoch)
        assert float(made.ramp_weight()) == pytest.approx(expected, rel=1e-4)
    all_labelled = changed(graph(), train_mask=torch.ones(36, dtype=torch.bool), val_mask=None)
    assert float(networks(GraphMix(), all_labelled)[0].ramp_weight()) == 0


def test_epochs_are_counted_per_fit_and_restored():
    made, targets = networks(GraphMix(predictions=1), graph(), (0, 1))
    for _ in range(3):
        made.training_step(targets)
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
