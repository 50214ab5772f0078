"""MixUp against its formulas with dense matrices."""

import pytest
import torch
from torch.nn import functional

from baseline_cases import CASES, EXACT, check_together, dense_adjacency, graph, identity, networks, weighted_or_not
from lggd import GCN, JKNet
from lggd.baselines import MixUp, mixup
from small_data import CLASSES, random


def mix(data, ratio, partner):
    """The networks, their targets, the logits `[N, K]` of the mixture without dropout, and those of the GCN."""
    made, targets = networks(MixUp(backbone=GCN(hidden=8)), data)
    with torch.no_grad():
        mixed = made._mixed_logits(torch.tensor([ratio]), partner.unsqueeze(0), identity)
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


def check_mixture(weighted=True):
    data = graph(weighted)
    partner = random_partners(data)
    made, targets, mixed, _ = mix(data, 0.3, partner)
    expected = dense_mixture(data, made, 0.3, partner)
    torch.testing.assert_close(mixed, expected, **EXACT)
    hard = functional.one_hot(data.y, CLASSES).float()
    soft = 0.3 * hard + 0.7 * hard[partner]
    expected_loss = functional.cross_entropy(expected[data.train_mask], soft[data.train_mask])
    loss = made._losses(targets, expected.unsqueeze(0), torch.tensor([0.3]), partner.unsqueeze(0))
    torch.testing.assert_close(loss.detach()[0], expected_loss.detach(), **EXACT)


@weighted_or_not
def test_mixture_and_loss_are_those_of_the_paper(weighted):
    check_mixture(weighted)


def test_check_finds_wrongly_mixed_labels(monkeypatch):
    losses = mixup._MixtureTraining._losses
    planted = lambda self, targets, logits, ratio, partner: losses(  # noqa: E731
        self, targets, logits, ratio, partner.gather(1, partner)
    )
    monkeypatch.setattr(mixup._MixtureTraining, "_losses", planted)
    with pytest.raises(AssertionError):
        check_mixture()


def test_check_finds_wrong_neighbours(monkeypatch):
    monkeypatch.setattr(mixup, "_permuted", lambda values, index: values)
    with pytest.raises(AssertionError):
        check_mixture()


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
    ratios = torch.stack([made._sample_ratios() for _ in range(2000)])
    assert ratios.shape == (2000, 2)
    assert ratios.mean(0).tolist() == pytest.approx([0.5, 0.5], abs=0.02)
    assert ratios.var(0).tolist() == pytest.approx([1 / 36] * 2, abs=0.003)  # 1 / (4 (2 α + 1)) for α = 4
    assert not torch.equal(ratios[:, 0], ratios[:, 1])
    partner = made._sample_partners()
    unmoved = torch.arange(data.num_nodes).repeat(2, 1)
    assert torch.equal(partner.sort(1).values, unmoved)
    assert torch.equal((partner != unmoved).any(0) | data.train_mask, data.train_mask)
    assert not torch.equal(partner[0], partner[1])
    assert not torch.equal(partner, made._sample_partners())


def test_samples_of_ratios_and_partners():
    data = graph()
    check_samples(networks(MixUp(alpha=4), data, (0, 1))[0], data)


def test_check_finds_mixing_of_all_nodes():
    data = graph()
    made = networks(MixUp(alpha=4), data, (0, 1))[0]
    made.train_nodes = [torch.arange(data.num_nodes)] * 2
    with pytest.raises(AssertionError):
        check_samples(made, data)


def test_contract_finds_ratios_shared_between_problems(monkeypatch):
    sample = mixup._MixtureTraining._sample_ratios
    shared = lambda self: sample(self)[:1].expand(len(self.generators)).contiguous()  # noqa: E731
    monkeypatch.setattr(mixup._MixtureTraining, "_sample_ratios", shared)
    with pytest.raises(AssertionError):
        check_together(CASES["MixUp"].make)


def test_unsupported_backbones_raise():
    with pytest.raises(TypeError, match=r"`backbone` must be GCN\(\), got JKNet"):
        MixUp(backbone=JKNet()).fit(graph())
