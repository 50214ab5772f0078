"""Training distances: against plain torch, each problem as if alone, best states by validation loss."""

import copy
import math
from itertools import repeat

import pytest
import torch
from torch import nn
from torch.nn import functional

from lggd import (
    MLP,
    RK4,
)
from lggd.learning.stacked_mlps import StackedMLPs
from lggd.training.engine import Engine, train
from lggd.training.problems import Optimization
from support.distance_cases import (
    COEFFICIENTS,
    INITIALS,
    LOOSE,
    QUICK,
    SHARED,
    believe,
    both_ways,
    labels_of,
    learner_of,
    linear_stack,
    one_at_a_time,
    scripted,
)
from support.small_data import CLASSES, blocks


@pytest.fixture(scope="module")
def data():
    return blocks(each=8)


@both_ways
@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("coefficients", ["fixed", "both"])
def test_epochs_equal_plain_torch(p, coefficients, data):
    """Linear layers, evolve, cross-entropy and Adam: the losses and the parameters after three epochs."""
    initial = MLP((8, 5), dropout=0.0)
    learner = learner_of(data, initial, COEFFICIENTS[coefficients], p=p)
    graph = learner.trainable.flow.graph
    train, validation = labels_of(data, 3, 0.3, 1), labels_of(data, 3, 0.2, 2)
    modules = [linear_stack(learner.trainable.networks, q, nn.ReLU()) for q in range(3)]
    equation = copy.copy(learner.trainable.flow.equation)
    thetas = [owned.value.detach().clone().requires_grad_() for owned in equation.parameters()]
    if thetas:
        equation.theta_nodes, equation.theta_edges = thetas
    parameters = [one for module in modules for one in module.parameters()] + thetas
    adam = torch.optim.Adam(parameters, lr=QUICK.lr, weight_decay=QUICK.weight_decay)

    def loss(q, labels, boundary_mask):
        start = torch.stack([module(data.x).abs() for module in modules], 1)
        f = one_at_a_time(graph, equation, learner.trainable.flow, start, boundary_mask, p)[0, :, q]
        near = torch.exp(-f) / torch.exp(-f).sum(1, keepdim=True)
        nodes = (labels[q] >= 0).nonzero().squeeze(1)
        return -near[nodes, labels[q, nodes]].log().mean()

    boundary_mask = torch.stack([torch.stack([train[q] == k for k in range(CLASSES)], 1) for q in range(3)], 1)
    for _ in range(3):
        measured = learner.step()
        losses = torch.stack([loss(q, train, None) for q in range(3)])
        adam.zero_grad()
        losses.sum().backward()
        adam.step()
        for q in range(3):
            assert measured[f"train_loss problem {q}"] == pytest.approx(losses.tolist()[q], rel=1e-4)
            expected = float(loss(q, validation, boundary_mask).detach())
            assert measured[f"validation_loss problem {q}"] == pytest.approx(expected, rel=1e-3)
    for q, module in enumerate(modules):
        layers = [layer for layer in module if isinstance(layer, nn.Linear)]
        for k, layer in enumerate(layers):
            torch.testing.assert_close(learner.trainable.networks.weights[k][q].t(), layer.weight, rtol=1e-2, atol=2e-3)
    for owned, theta in zip(learner.trainable.flow.equation.parameters(), thetas, strict=True):
        torch.testing.assert_close(owned.value, theta, rtol=1e-2, atol=2e-3)


def test_loss_of_shared_networks_is_the_mean_over_times(data):
    learner = learner_of(data, MLP((8,), dropout=0.0), horizons=SHARED)
    train = labels_of(data, 1, 0.3, 1)[0]
    trainable = learner.trainable
    f = trainable.flow(trainable.networks(trainable.x, training=False).abs())[:, :, 0]
    nodes = (train >= 0).nonzero().squeeze(1)
    each = [functional.cross_entropy(-f[k, nodes], train[nodes]) for k in range(3)]
    assert learner.step()["train_loss problem 0"] == pytest.approx(float(sum(each).detach()) / 3, rel=1e-5)


def check_as_if_alone(data, together=None, **settings):
    """All problems at once end in the best states that each of them finds by itself.

    `together` are the settings of Adam to learn all of them with; those of each where there are none.
    """
    together = learner_of(data, **settings if together is None else settings | {"optimization": together})
    histories = train(together, "together")
    together.load_best()
    for q in range(3):
        alone = learner_of(data, which=[q], **settings)
        history = train(alone, "alone")
        for name, values in history.items():
            torch.testing.assert_close(torch.tensor(histories[name][: len(values)]), torch.tensor(values), **LOOSE)
        alone.load_best()
        for mine, theirs in zip(together.trainable.parameters(), alone.trainable.parameters(), strict=False):
            if mine.owner is None:
                torch.testing.assert_close(mine.value[q], theirs.value[0], **LOOSE)
        if together.trainable.parameters()[0].owner is not None:
            mine = {o.name.split(".", 2)[2]: o.value for o in together.trainable.parameters() if o.owner == q}
            for name, value in {
                o.name.split(".", 2)[2]: o.value for o in alone.trainable.parameters() if o.owner == 0
            }.items():
                torch.testing.assert_close(mine[name], value, **LOOSE)


@both_ways
@pytest.mark.parametrize(
    ("initial", "coefficients"),
    [*((initial, "both") for initial in INITIALS), *(("MLP", name) for name in COEFFICIENTS if name != "both")],
)
def test_problems_are_trained_as_if_alone(initial, coefficients, data):
    check_as_if_alone(data, initial=INITIALS[initial], coefficients=COEFFICIENTS[coefficients], scheme=RK4(step=0.25))


@pytest.mark.parametrize("patience", [1, 2])
def test_problems_are_trained_as_if_alone_with_patience(patience, data):
    optimization = Optimization(lr=0.2, weight_decay=0.0, epochs=12, patience=patience)
    check_as_if_alone(data, optimization=optimization, coefficients=COEFFICIENTS["both"], scheme=RK4(step=0.25))


def test_only_problems_with_validation_nodes_report_validation(data):
    validation = labels_of(data, 3, 0.2, 2)
    validation[1] = -1
    metrics = learner_of(data, validation=validation).step()
    assert [name for name in metrics if name.startswith("validation")] == [
        "validation_loss problem 0",
        "validation_loss problem 2",
    ]


def test_shared_random_numbers_would_be_caught(data, monkeypatch):
    right = StackedMLPs.__init__

    def one_for_all(self, *given):
        right(self, *given)
        self.generators = self.generators[:1] * len(self.generators)

    monkeypatch.setattr(StackedMLPs, "__init__", one_for_all)
    with pytest.raises(AssertionError):
        check_as_if_alone(data, scheme=RK4(step=0.25))


def test_a_shared_best_state_would_be_caught(data, monkeypatch):
    optimization = Optimization(lr=0.2, weight_decay=0.0, epochs=12, patience=2)
    right = Engine._save_best
    monkeypatch.setattr(Engine, "_save_best", lambda self, better: right(self, better | better.any()))
    with pytest.raises(AssertionError):
        check_as_if_alone(data, optimization=optimization, scheme=RK4(step=0.25))


def test_best_state_has_the_lowest_validation_loss(data):
    learner = learner_of(data, coefficients=COEFFICIENTS["both"])
    losses = [[3.0, 1.0, 2.0], [2.0, 2.0, math.nan], [4.0, 1.0, 0.5], [2.0, 3.0, 0.5], [5.0, 3.0, 0.7]]
    snapshots = scripted(learner, losses)
    for place, owned in enumerate(learner.trainable.parameters()):
        for q, epoch in enumerate((1, 0, 2)):
            assert torch.equal(owned.value[q], snapshots[epoch][place][q])
            assert not torch.equal(owned.value[q], snapshots[4][place][q])


def test_a_problem_out_of_patience_keeps_its_best_state(data):
    learner = learner_of(data, optimization=Optimization(epochs=10, patience=2))
    finished = []
    losses = [[3.0, 3.0, 3.0], [4.0, 2.0, 2.0], [4.0, 5.0, 1.0], [1.0, 1.5, 2.0], [1.0, 0.0, 2.0]]
    believe(learner, losses)
    snapshots = []
    for _ in losses:
        learner.step()
        finished.append(learner.finished)
        snapshots.append([owned.value.detach().clone() for owned in learner.trainable.parameters()])
    learner.load_best()
    assert finished == [False, False, False, False, False]
    for place, owned in enumerate(learner.trainable.parameters()):
        for q, epoch in enumerate((0, 4, 2)):
            assert torch.equal(owned.value[q], snapshots[epoch][place][q])


def test_training_ends_when_all_are_out_of_patience(data):
    learner = learner_of(data, optimization=Optimization(epochs=50, patience=3))
    believe(learner, repeat([1.0, 1.0, 1.0]))
    assert len(train(learner, "stage")["train_loss problem 0"]) == 4


def test_without_validation_nodes_the_last_state_is_the_best(data):
    nothing = torch.full((3, data.num_nodes), -1)
    learner = learner_of(data, validation=nothing, optimization=Optimization(epochs=5, patience=1))
    history = train(learner, "stage")
    assert set(history) == {f"train_loss problem {q}" for q in range(3)}
    assert len(history["train_loss problem 0"]) == 5
    last = [owned.value.detach().clone() for owned in learner.trainable.parameters()]
    learner.load_best()
    assert all(torch.equal(a, owned.value) for a, owned in zip(last, learner.trainable.parameters(), strict=True))


def test_a_problem_without_validation_nodes_keeps_its_last_state(data):
    validation = labels_of(data, 3, 0.2, 2)
    validation[1] = -1
    learner = learner_of(data, validation=validation, optimization=Optimization(lr=0.3, epochs=6, patience=None))
    train(learner, "stage")
    last = [owned.value.detach().clone() for owned in learner.trainable.parameters()]
    learner.load_best()
    assert all(torch.equal(a[1], owned.value[1]) for a, owned in zip(last, learner.trainable.parameters(), strict=True))


def test_a_loss_that_is_not_finite_is_an_error(data):
    learner = learner_of(data)
    with torch.no_grad():
        learner.trainable.networks.weights[0][1] = math.nan
    with pytest.raises(FloatingPointError, match="`lr`"):
        learner.step()


@pytest.mark.parametrize("training", [False, True])
def test_every_label_matters_and_nothing_else(training, data):
    targets, validation = labels_of(data, 3, 0.3, 1), labels_of(data, 3, 0.2, 2)
    before = train(learner_of(data, train=targets, validation=validation), "stage")
    which = targets if training else validation
    problem, node = (which < 0).nonzero()[0].tolist()
    which[problem, node] = 0
    after = train(learner_of(data, train=targets, validation=validation), "stage")
    for name, values in after.items():
        enters = name.endswith(str(problem)) and (training or name.startswith("validation"))
        assert (values != before[name]) == enters, name
