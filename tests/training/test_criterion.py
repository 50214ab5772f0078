"""Which epoch is the best, and when training ends."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from lggd import Optimization
from lggd.training.engine import EPOCHS_WITHOUT_VALIDATION, Engine, train
from support.backbone_cases import (
    backbone_engine,
    exported,
    no_edges,
)


class Scripted(nn.Module):
    """Gets as many validation nodes right as the script says for each epoch, and remembers the epoch in its state."""

    def __init__(self, script):
        super().__init__()
        self.script, self.weight = script, nn.Parameter(torch.zeros(2))
        self.register_buffer("epoch", torch.tensor(0))

    def forward(self, x, edge_index, edge_weight=None):
        if self.training:
            self.epoch += 1
            return self.weight.expand(len(x), 2)
        right = torch.arange(len(x)) < self.script[int(self.epoch) - 1]
        return functional.one_hot(right.long(), 2).float()


def scripted(script, engine=Engine, validated=True, **settings):
    x, labels = torch.ones(4, 1), torch.ones(4, dtype=torch.int64)
    optimization = Optimization(**{"epochs": len(script), **settings})
    return backbone_engine(
        [Scripted(script)],
        x,
        no_edges,
        None,
        labels[None],
        labels[None] if validated else None,
        optimization,
        engine=engine,
    )


def check_best(learner_class, script, best):
    learner = scripted(script, engine=learner_class)
    history = train(learner, "backbone")
    assert history["validation_accuracy"] == [right / 4 for right in script]
    assert learner.best_epoch == [best]
    (module,) = exported(learner)
    assert module.epoch == best
    assert not module.training


BEST = [([2, 3, 3, 1], 2), ([0, 0, 0], 1), ([1, 4, 2, 4], 2), ([1, 2, 3, 4], 4), ([4, 3, 2, 1], 1)]


@pytest.mark.parametrize(("script", "best"), BEST)
def test_the_first_of_the_highest_accuracies_is_the_best(script, best):
    check_best(Engine, script, best)


class TakesTheLast(Engine):
    """Planted: as good as the best is good enough."""

    def step(self):
        self._best_score -= 1
        return super().step()


class NeverKeepsAccuracyZero(Engine):
    """Planted: the first epoch has to beat 0."""

    def __init__(self, *args):
        super().__init__(*args)
        self._best_score.zero_()


class KeepsNoCopy(Engine):
    """Planted: the best state goes on learning."""

    def __init__(self, *args):
        super().__init__(*args)
        self._best = {owned.name: owned.value for owned in self.trainable.parameters()}


@pytest.mark.parametrize("wrong", [TakesTheLast, NeverKeepsAccuracyZero, KeepsNoCopy])
def test_planted_criteria_would_be_caught(wrong):
    caught = []
    for script, best in BEST:
        try:
            check_best(wrong, script, best)
        except AssertionError:
            caught.append(script)
    assert caught


def check_patience(learner_class, script, patience, epochs):
    learner = scripted(script, engine=learner_class, patience=patience)
    assert len(train(learner, "backbone")["train_loss"]) == epochs
    assert learner.finished


@pytest.mark.parametrize(
    ("script", "patience", "epochs"),
    [
        ([1, 1, 1, 1, 1, 1], 2, 3),
        ([1, 1, 2, 2, 2, 2], 2, 5),
        ([1, 1, 2, 1, 3, 3, 4, 4], 2, 8),
        ([4, 3, 2, 1], 1, 2),
        ([4, 3, 2, 1], None, 4),
    ],
)
def test_patience_counts_epochs_without_a_larger_accuracy(script, patience, epochs):
    check_patience(Engine, script, patience, epochs)


def test_patience_with_equals_would_be_caught():
    with pytest.raises(AssertionError):
        check_patience(TakesTheLast, [1, 1, 1, 1, 1, 1], 2, 3)


@pytest.mark.parametrize("given", ["none", "all -1"])
def test_without_validation_the_last_epoch_is_the_best(given):
    learner = scripted([1] * 300, validated=False)
    if given == "all -1":
        labels = torch.ones(4, dtype=torch.int64)
        learner = backbone_engine([Scripted([1] * 300)], torch.ones(4, 1), no_edges, None, labels[None], -labels[None])
    assert learner.epochs == min(300, EPOCHS_WITHOUT_VALIDATION)
    history = train(learner, "backbone")
    assert set(history) == {"train_loss"}
    assert len(history["train_loss"]) == EPOCHS_WITHOUT_VALIDATION
    assert learner.best_epoch == [EPOCHS_WITHOUT_VALIDATION]
    assert learner.finished
    assert exported(learner)[0].epoch == EPOCHS_WITHOUT_VALIDATION


def test_without_validation_fewer_epochs_are_respected():
    assert scripted([1] * 7, validated=False).epochs == 7
