"""States of training distances: in place, without reads from the device."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lggd import (
    PropagatedMLP,
)
from lggd.training.engine import train
from support.distance_cases import (
    COEFFICIENTS,
    INITIALS,
    every_coefficient,
    learner_of,
)
from support.small_data import blocks


@pytest.fixture(scope="module")
def data():
    return blocks(each=8)


def test_an_epoch_changes_tensors_in_place(data):
    """A recorded epoch can do nothing else."""
    learner = learner_of(data, coefficients=COEFFICIENTS["both"])
    learner.step()

    def tensors():
        parameters = (one.value for one in learner.trainable.parameters())
        return [learner._epoch, learner._best_epoch, learner._best_score, *learner._best.values(), *parameters]

    before = tensors()
    places = [value.data_ptr() for value in before]
    learner.step()
    assert all(a is b for a, b in zip(before, tensors(), strict=True))
    assert places == [value.data_ptr() for value in tensors()]


LOOKS = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "bincount")


class Looks(TorchDispatchMode):
    """Counts what would have to wait for the device to know a number."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in LOOKS or (name == "index" and any(one.dtype == torch.bool for one in args[1] if one is not None)):
            self.found.append(name)
        return function(*args, **kwargs or {})


@every_coefficient
@pytest.mark.parametrize("validated", [False, True])
def test_an_epoch_reads_no_number_from_the_device(coefficients, validated, data):
    validation = None if validated else torch.full((3, data.num_nodes), -1)
    learner = learner_of(data, PropagatedMLP((8,)), coefficients, validation=validation)
    learner.step()
    with Looks() as looks:
        learner._compute_epoch()
    assert looks.found == []


def test_the_check_on_reads_catches_one(data):
    learner = learner_of(data)
    learner.step()
    right = learner._save_best
    learner._save_best = lambda better: right(better) if better.any() else None
    with Looks() as looks:
        learner._compute_epoch()
    assert looks.found == ["_local_scalar_dense"]


def test_global_random_state_is_unchanged(data):
    before = torch.get_rng_state()
    for initial in INITIALS.values():
        train(learner_of(data, initial, COEFFICIENTS["both"]), "stage")
    assert torch.equal(torch.get_rng_state(), before)
