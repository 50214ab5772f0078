"""GAug: the modified graph of GAug-M, and GAug-O's joint training of an edge predictor and a classifier."""

import math

import pytest
import torch
from torch.nn import functional
from torch_geometric.utils import is_undirected, to_dense_adj

import lggd
from lggd import GAT, GCN, Optimization
from lggd.training.problems import adam
from reproduction.baselines import GAugM, GAugO, edge_prediction, gaug
from reproduction.baselines.edge_prediction import VariationalGraphAutoencoder, undirected_edges
from reproduction.baselines.gaug import modify_edges
from support.baseline_cases import FEW, identity, networks
from support.small_data import blocks, random

PREDICTOR = (gaug.FIRST, gaug.SECOND)


def pair_set(edge_index):
    return {tuple(pair) for pair in edge_index.t().tolist()}


def check_modified_edges(modify, entries, monkeypatch):
    monkeypatch.setattr(edge_prediction, "BLOCK_ENTRIES", {"cpu": entries})
    data = blocks(lonely=2)
    z = torch.randn(36, 5, generator=random(1))
    before = undirected_edges(data.edge_index, 36)
    new, _ = modify(z, data.edge_index, None, 0.3, 0.55)
    after = undirected_edges(new, 36)
    count = before.shape[1]
    removed, added = (pair_set(one) - pair_set(other) for one, other in ((before, after), (after, before)))
    assert (len(removed), len(added)) == (int(0.3 * count), int(0.55 * count))
    assert is_undirected(new)
    assert (new[0] != new[1]).all()
    assert len(pair_set(new)) == new.shape[1]
    score = z @ z.t()
    kept = pair_set(before) - removed
    never = {(i, j) for i in range(36) for j in range(i + 1, 36)} - pair_set(before) - added
    assert min(score[pair] for pair in kept) >= max(score[pair] for pair in removed)
    assert min(score[pair] for pair in added) >= max(score[pair] for pair in never)


@pytest.mark.parametrize("entries", [36, 300, 2**20])
def test_least_likely_edges_are_removed_and_most_likely_pairs_added(entries, monkeypatch):
    check_modified_edges(modify_edges, entries, monkeypatch)


@pytest.mark.parametrize(
    "bug",
    [
        lambda z, edges, weight, remove, add: modify_edges(-z.abs(), edges, weight, remove, add),
        lambda z, edges, weight, remove, add: modify_edges(z, edges, weight, add, remove),
        lambda z, edges, weight, remove, add: modify_edges(z, edges, weight, remove / 2, add),
    ],
)
def test_check_finds_wrong_modifications(bug, monkeypatch):
    with pytest.raises(AssertionError):
        check_modified_edges(bug, 2**20, monkeypatch)


def test_planted_edges_between_classes_are_removed():
    data = blocks()
    y = functional.one_hot(data.y, 3).float()
    inside = data.edge_index[:, data.y[data.edge_index[0]] == data.y[data.edge_index[1]]]
    planted = torch.tensor([[0, 3, 6, 1], [1, 5, 8, 2]])
    noisy = torch.cat([inside, planted, planted.flip(0)], dim=1)
    new, _ = modify_edges(y, noisy, None, (planted.shape[1] + 0.5) / (noisy.shape[1] / 2), 0)
    assert pair_set(new) == pair_set(inside)


def test_kept_edges_keep_their_weight_and_added_edges_have_weight_one():
    data = blocks(weighted=True)
    loop = torch.tensor([[4], [4]])
    edges, weight = torch.cat([data.edge_index, loop], 1), torch.cat([data.edge_weight, torch.tensor([0.5])])
    new, new_weight = modify_edges(torch.randn(36, 3, generator=random()), edges, weight, 0.5, 0.25)
    added = int(0.25 * (data.num_edges // 2))
    assert (new_weight[-2 * added :] == 1).all()
    old = {tuple(pair): one for pair, one in zip(edges.t().tolist(), weight.tolist(), strict=True)}
    kept = zip(new.t().tolist()[: -2 * added], new_weight.tolist(), strict=False)
    assert all(old[tuple(pair)] == one for pair, one in kept)
    assert (4, 4) in pair_set(new)


def test_at_most_all_pairs_are_added():
    new, _ = modify_edges(torch.randn(9, 3, generator=random()), blocks(each=3).edge_index, None, 0.0, 100.0)
    assert new.shape[1] == 9 * 8


def test_unmodified_graph_gives_the_backbone():
    data = blocks(lonely=1)
    plain = lggd.LGGDClassifier(features=None, backbone=GCN(), optimization=FEW, seed=3).fit(data)
    assert torch.equal(GAugM(optimization=FEW, seed=3).fit(data).probabilities_, plain.predict_proba())


def test_modified_graph_is_trained_on_and_its_autoencoder_trained_once(monkeypatch):
    data, calls = blocks(seed=41), []  # of no other test
    train = VariationalGraphAutoencoder.train
    monkeypatch.setattr(VariationalGraphAutoencoder, "train", lambda *a, **k: calls.append(1) or train(*a, **k))
    model = GAugM(remove=0.2, add=0.4, predictor_epochs=10, optimization=FEW)
    made = model.transform(data)
    plain = lggd.LGGDClassifier(features=None, backbone=GCN(), optimization=FEW).fit(made)
    assert torch.equal(model.fit(data).probabilities_, plain.predict_proba())
    GAugM(remove=0.1, add=0.1, predictor_epochs=10).transform(data.clone())
    assert len(calls) == 1
    other = GAugM(remove=0.2, add=0.4, predictor_epochs=10, predictor_seed=8).transform(data)
    assert not torch.equal(other.edge_index, made.edge_index)


def test_transformed_data_do_not_share_the_cache():
    data, model = blocks(), GAugM(remove=0.2, predictor_epochs=3)
    model.transform(data).edge_index.fill_(0)
    assert model.transform(data).edge_index.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"remove": 1.5}, r"`remove` must lie in \[0, 1\]"),
        ({"add": -0.1}, "`add` must be 0 or above"),
        ({"predictor_epochs": 0}, "`predictor_epochs` must be"),
        ({"predictor_seed": -1}, "`predictor_seed` must be"),
    ],
)
def test_invalid_settings_of_gaug_m_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        GAugM(**settings).fit(blocks())


def joint_training(data, **settings):
    return networks(GAugO(**{"pretrain_predictor": 3, "pretrain_classifier": 3, **settings}), data, (0, 1))


def test_embeddings_are_scaled_by_their_largest_product():
    z = torch.rand(3, 10, 4)
    expected = torch.stack([one @ one.t() / (one @ one.t()).max() for one in z])
    unit = gaug.scaled_to_unit(z)
    torch.testing.assert_close(unit @ unit.transpose(1, 2), expected)
    assert (gaug.scaled_to_unit(torch.zeros(1, 4, 2)) == 0).all()


def test_alpha_zero_samples_the_given_graph():
    data = blocks(lonely=1)
    made, targets = joint_training(data, alpha=0.0, beta=0.0, backbone=GCN(dropout=0))
    made.training_step(targets)
    assert torch.equal(made.sampled.adjacency[0], to_dense_adj(data.edge_index, max_num_nodes=36)[0] + torch.eye(36))
    logits = made.modules[0].logits(made.stacked, data.x, made.sampled, identity)
    torch.testing.assert_close(logits.detach(), made.logits())
    assert all((made.stacked[name].grad == 0).all() for name in PREDICTOR)


def test_predictor_is_trained_by_the_classification_loss_alone():
    made, targets = joint_training(blocks(), alpha=0.7, beta=0.0)
    made.training_step(targets)
    assert all(one.grad.flatten(1).abs().amax(1).min() > 0 for one in made.stacked.values())


def test_pretraining_comes_first():
    stages = []
    GAugO(pretrain_predictor=4, pretrain_classifier=2, optimization=FEW).fit(
        blocks(lonely=1), callback=lambda progress: stages.append(progress.stage)
    )
    pretraining = ["pretraining of the edge predictor"] * 4 + ["pretraining of the classifier"] * 2
    assert stages == pretraining + ["training"] * FEW.epochs


def test_logits_come_from_the_given_graph():
    data = blocks(lonely=1)
    made, _ = joint_training(data)
    logits = made.logits()
    made.sampled.sample(gaug.scaled_to_unit(made.embed().detach()))
    assert torch.equal(logits, made.logits())
    module = made.export()[1]
    torch.testing.assert_close(logits[1], module(data.x, data.edge_index).detach())


def test_only_the_classifier_has_weight_decay():
    made, _ = joint_training(blocks())
    assert {one.name for one in made.parameters() if not one.decays} == set(PREDICTOR)
    groups = adam(made.parameters(), Optimization(weight_decay=0.5)).param_groups
    assert {group["weight_decay"]: len(group["params"]) for group in groups} == {0.5: len(made.stacked) - 2, 0.0: 2}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 1.1}, "`alpha` must lie in"),
        ({"temperature": 0}, "`temperature` must be positive"),
        ({"beta": math.nan}, "`beta` must be 0 or above"),
        ({"pretrain_predictor": -1}, "`pretrain_predictor` must be a whole number from 0"),
        ({"backbone": GAT()}, "`backbone` must be GCN"),
    ],
)
def test_invalid_settings_of_gaug_o_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        GAugO(**settings).fit(blocks())
