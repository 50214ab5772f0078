"""GAug-O: joint training of an edge predictor and a classifier."""

import math

import pytest
import torch
from torch_geometric.utils import to_dense_adj

from baseline_cases import FEW, identity, networks
from lggd import GAT, GCN, Optimization
from lggd.baselines import GAugO, gaug_o
from lggd.baselines.baseline import BaselineData
from small_data import blocks

PREDICTOR = (gaug_o.FIRST, gaug_o.SECOND)


def joint_training(data, **settings):
    return networks(GAugO(**{"pretrain_predictor": 3, "pretrain_classifier": 3, **settings}), data, (0, 1))


def test_embeddings_are_scaled_by_their_largest_product():
    z = torch.rand(3, 10, 4)
    expected = torch.stack([one @ one.t() / (one @ one.t()).max() for one in z])
    unit = gaug_o._scaled_to_unit(z)
    torch.testing.assert_close(unit @ unit.transpose(1, 2), expected)
    assert (gaug_o._scaled_to_unit(torch.zeros(1, 4, 2)) == 0).all()


def test_alpha_zero_samples_the_given_graph():
    data = blocks(lonely=1)
    made, targets = joint_training(data, alpha=0.0, beta=0.0, backbone=GCN(dropout=0))
    made.training_step(targets, [True, True])
    assert torch.equal(made.sampled.adjacency[0], to_dense_adj(data.edge_index, max_num_nodes=36)[0] + torch.eye(36))
    logits = made.modules[0].logits(made.stacked, data.x, made.sampled, identity)
    torch.testing.assert_close(logits.detach(), made.logits())
    assert all((made.stacked[name].grad == 0).all() for name in PREDICTOR)


def test_predictor_is_trained_by_the_classification_loss_alone():
    made, targets = joint_training(blocks(), alpha=0.7, beta=0.0)
    made.training_step(targets, [True, True])
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
    made.sampled.sample(gaug_o._scaled_to_unit(made._embed().detach()))
    assert torch.equal(logits, made.logits())
    module = made.export()[1]
    torch.testing.assert_close(logits[1], module(data.x, data.edge_index).detach())


def test_only_the_classifier_has_weight_decay():
    made, _ = joint_training(blocks())
    groups = made.optimizer([Optimization(weight_decay=0.5)]).param_groups
    assert [group["weight_decay"] for group in groups] == [0.5, 0.0]
    assert {id(one) for one in groups[1]["params"]} == {id(made.stacked[name]) for name in PREDICTOR}
    assert sum(len(group["params"]) for group in groups) == len(made.stacked)


def test_memory_limits_the_problems_of_a_pass(monkeypatch):
    data = BaselineData(torch.zeros(1000, 2), torch.zeros(2, 0, dtype=torch.int64), None, 2)
    for free, expected in ((None, 1), (0, 1), (2**33, 200)):
        monkeypatch.setattr(gaug_o, "free_memory", lambda device, free=free: free)
        found = GAugO()._capacity(data)
        assert found == expected if expected == 1 else found > expected


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
def test_invalid_settings_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        GAugO(**settings).fit(blocks())
