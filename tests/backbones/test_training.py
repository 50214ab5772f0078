"""Training backbones."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from lggd import Optimization
from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.training.engine import train
from support.backbone_cases import (
    TRAIN,
    VALIDATION,
    Plain,
    backbone_engine,
    block_model,
    every_backbone,
    exported,
    initialised,
    present,
    random,
    same,
    sbm_learner,
)


@pytest.mark.parametrize("backbone", [GCN(), GAT(), ChebNet(), JKNet()], ids=repr)
def test_every_backbone_learns_two_blocks(backbone):
    learner, labels = sbm_learner(backbone, epochs=99)
    history = train(learner, "backbone")
    with torch.no_grad():
        logits = exported(learner)[0](*block_model()[:2])
    assert (logits.argmax(1) == labels).float().mean() > 0.9
    assert history["train_loss"][-1] < history["train_loss"][0] / 2
    assert max(history["validation_accuracy"]) > 0.9


@every_backbone
def test_same_seed_same_bits(backbone):
    def trained(seed):
        learner, _ = sbm_learner(backbone, seed)
        history = train(learner, "backbone")
        return history, present(learner)

    (history, state), (again, state_again), (_, other) = trained(0), trained(0), trained(1)
    assert history == again
    assert same(state, state_again)
    assert not same(state, other)


@every_backbone
def test_dropout_depends_on_the_seed(backbone):
    x, edge_index, labels = block_model()
    states = []
    for seed in (0, 1):
        module = initialised(backbone, 0, num_classes=2)
        learner = backbone_engine([module], x, edge_index, None, labels[None], None, Optimization(), [seed])
        learner.step()
        states.append(exported(learner)[0].state_dict())
    assert not same(*states)


@every_backbone
def test_global_random_state_is_unchanged(backbone):
    torch.manual_seed(11)
    before = torch.get_rng_state()
    learner, _ = sbm_learner(backbone)
    train(learner, "backbone")
    exported(learner)
    assert torch.equal(torch.get_rng_state(), before)


def test_global_random_state_is_restored_after_an_error():
    class Failing(Plain):
        def forward(self, x, edge_index):
            torch.rand(5)
            raise RuntimeError("planned")

    learner, _ = sbm_learner(Failing(2))
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="planned"):
        learner.step()
    assert torch.equal(torch.get_rng_state(), before)


@every_backbone
def test_engines_may_take_turns(backbone):
    alone, _ = sbm_learner(backbone)
    for _ in range(6):
        alone.step()
    one, other = sbm_learner(backbone)[0], sbm_learner(backbone, seed=1)[0]
    for _ in range(6):
        one.step()
        torch.rand(3)
        other.step()
    assert same(present(one), present(alone))


@every_backbone
def test_hidden_labels_change_nothing(backbone):
    learner, labels = sbm_learner(backbone)
    garbage = torch.randint(2, labels.shape, generator=random(12))
    seen = torch.cat([TRAIN, VALIDATION])
    garbage[seen] = labels[seen]
    other, _ = sbm_learner(backbone, labels=garbage)
    assert train(learner, "backbone") == train(other, "backbone")
    assert same(present(learner), present(other))


def test_losses_are_means_over_nodes():
    learner, labels = sbm_learner(GCN(dropout=0.0))
    x, edge_index, _ = block_model()

    def expected(nodes):
        with torch.no_grad():
            module = initialised(GCN(dropout=0.0), num_classes=2)
            module.load_state_dict({name: value[0] for name, value in present(learner).items()})
            logits = module(x, edge_index)
        right = (logits[nodes].argmax(1) == labels[nodes]).float().mean()
        return float(-logits.log_softmax(1)[nodes, labels[nodes]].mean()), float(right)

    for _ in range(3):
        before = expected(TRAIN)
        measured = learner.step()
        # The training loss is measured before the step, the validation after it.
        assert measured["train_loss"] == pytest.approx(before[0])
        assert (measured["validation_loss"], measured["validation_accuracy"]) == pytest.approx(expected(VALIDATION))


def test_optimizer_equals_torchs_adam():
    learner, labels = sbm_learner(GCN(dropout=0.0), validated=False, weight_decay=0.1, lr=0.05)
    twin = initialised(GCN(dropout=0.0), num_classes=2)
    adam = torch.optim.Adam(twin.parameters(), lr=0.05, weight_decay=0.1)
    x, edge_index, _ = block_model()
    for _ in range(5):
        learner.step()
        adam.zero_grad()
        functional.cross_entropy(twin(x, edge_index)[TRAIN], labels[TRAIN]).backward()
        adam.step()
    torch.testing.assert_close(exported(learner)[0].state_dict(), twin.state_dict(), rtol=1e-5, atol=1e-6)


def test_optimizer_of_user_modules_equals_torchs_adam():
    learner, labels = sbm_learner(Plain(2), validated=False, weight_decay=0.1, lr=0.05)
    twin = Plain(2)
    twin.load_state_dict({name.removeprefix("module.0.module."): value for name, value in present(learner).items()})
    adam = torch.optim.Adam(twin.parameters(), lr=0.05, weight_decay=0.1)
    x, edge_index, _ = block_model()
    for _ in range(5):
        learner.step()
        adam.zero_grad()
        functional.cross_entropy(twin(x, edge_index)[TRAIN], labels[TRAIN]).backward()
        adam.step()
    torch.testing.assert_close(exported(learner)[0].module.state_dict(), twin.state_dict(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("validated", [True, False])
def test_a_loss_that_is_not_finite_is_an_error(validated):
    x, edge_index, labels = block_model()
    learner, _ = sbm_learner(GCN(), lr=1e30, validated=validated)
    with pytest.raises(FloatingPointError, match=r"at epoch \d\. Lower `lr`, now 1e\+30, or check .* features"):
        train(learner, "backbone")
    x[3] = math.nan
    learner = backbone_engine([initialised(GCN(), num_classes=2)], x, edge_index, None, labels[None])
    with pytest.raises(FloatingPointError, match=r"The loss must stay finite, .* at epoch 1\."):
        learner.step()


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("edge_index", None, r"`edge_index` must be int64 \[2, E\], got None"),
        ("edge_index", torch.tensor([[80], [0]]), "`edge_index` must contain node ids from 0 to 79, got 80"),
        ("edge_weight", torch.ones(3), r"`edge_weight` must have shape \[\d+\].*got \[3\]"),
        ("train", torch.ones(1, 79, dtype=torch.int64), r"`train` must be int64 \[1, 80\]"),
        ("train", torch.ones(80, dtype=torch.int64), r"`train` must be int64 \[Q, N\].*got torch.int64 \[80\]"),
        ("train", torch.ones(1, 80), r"`train` must be int64 \[1, 80\].*got torch.float32"),
        ("train", torch.full((1, 80), -1), "`train` must contain the class of at least one"),
        ("validation", torch.ones(80, 1, dtype=torch.int64), r"`validation` must be int64 \[1, 80\]"),
        ("train", torch.full((1, 80), 2), "`train` must contain classes from 0 to 1, .*got 2"),
        ("validation", torch.full((1, 80), 5), "`validation` must contain classes from 0 to 1, .*got 5"),
        ("modules", [nn.Identity()], "`backbone` must have parameters"),
        ("names", [], "`names` must contain one value per problem, 1 in all, got 0"),
    ],
)
def test_invalid_input_is_rejected(name, wrong, message):
    x, edge_index, labels = block_model()
    modules = [initialised(GCN(), num_classes=2)]
    given = {"modules": modules, "x": x, "edge_index": edge_index, "edge_weight": None, "train": labels[None],
             "validation": None if name == "train" else labels[None], name: wrong}  # fmt: skip
    with pytest.raises(ValueError, match=message):
        backbone_engine(**given).step()
