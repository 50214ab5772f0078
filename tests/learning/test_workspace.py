"""Memory that is reused."""

import copy
import sys

import torch

from distance_cases import (
    learner_of,
)
from lggd.learning import stacked_mlps
from lggd.learning.workspace import Workspace


def test_memory_is_reused_when_nothing_uses_it():
    space = Workspace()
    one = space.empty((3, 4), torch.float64)
    assert (one.shape, one.dtype) == ((3, 4), torch.float64)
    place, view = one.data_ptr(), one[1].t()
    del one
    assert space.empty((3, 4), torch.float64).data_ptr() != place
    del view
    assert space.empty((2, 6), torch.float64).data_ptr() == place


def test_memory_of_a_gradient_is_reused_when_the_gradient_is_freed():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x.sum()

        @staticmethod
        def backward(ctx, grad):
            return space.empty((5,)).fill_(2)

    space, x = Workspace(), torch.ones(5, requires_grad=True)
    Doubled.apply(x).backward()
    place = x.grad.data_ptr()
    assert space.empty((5,)).data_ptr() != place
    x.grad = None
    lent = [space.empty((5,)) for _ in range(2)]
    assert place in [one.data_ptr() for one in lent]


def test_released_memory_is_not_reused():
    space = Workspace()
    one = space.empty((4,))
    one.fill_(3)
    space.release()
    assert torch.equal(one, torch.full((4,), 3.0))
    del one
    assert space.unused == 0


def test_copies_start_empty():
    space = Workspace()
    space.empty((4,))
    assert space.unused == 1
    assert copy.deepcopy(space).unused == copy.copy(space).unused == 0


def test_memory_is_reclaimed_without_a_python_callback():
    """Where Python runs when an object goes, Ctrl-C is caught and lost."""
    space, ran = Workspace(), []
    one = space.empty((4,))
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_name) if event == "call" else None)
    del one
    sys.setprofile(None)
    assert ran == []
    assert space.unused == 1


def test_epochs_reuse_memory_and_evaluation_releases_it(data, monkeypatch):
    monkeypatch.setattr(stacked_mlps, "SEQUENTIAL_FROM", 0)
    learner = learner_of(data)
    space, counts = learner.trainable.networks._workspace, []
    for _ in range(4):
        learner.step()
        learner.load_best()
        counts.append(space.unused)
    assert counts[1] == counts[2] == counts[3] > 0
    learner.trainable.networks(learner.trainable.x, training=False)
    assert space.unused == 0
