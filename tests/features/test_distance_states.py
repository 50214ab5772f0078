"""States of training distances: in place, without reads from the device, saved and restored."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lggd import (
    PropagatedMLP,
)
from lggd.training.engine import Checkpoint, Engine, train
from support.distance_cases import (
    COEFFICIENTS,
    EACH_ITS_OWN,
    INITIALS,
    both_ways,
    every_coefficient,
    interrupt_at,
    learner_of,
)
from support.small_data import blocks, same


@pytest.fixture(scope="module")
def data():
    return blocks(each=8)


def test_an_epoch_changes_tensors_in_place(data):
    """A recorded epoch can do nothing else."""
    learner = learner_of(data, coefficients=COEFFICIENTS["both"])
    learner.step()

    def tensors():
        parameters = (one.value for one in learner.trainable.parameters())
        return [*learner._counters().values(), *learner._best.values(), *parameters]

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
    learner = learner_of(data, PropagatedMLP((8,)), coefficients, optimization=EACH_ITS_OWN, validation=validation)
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


@both_ways
@pytest.mark.parametrize("initial", INITIALS)
@pytest.mark.parametrize("epoch", [1, 5])
def test_resumed_training_gives_the_same_bits(initial, epoch, data, tmp_path):
    settings = {"initial": INITIALS[initial], "coefficients": COEFFICIENTS["both"]}
    whole = learner_of(data, **settings)
    expected = train(whole, "distances")
    with pytest.raises(KeyboardInterrupt):
        train(learner_of(data, **settings), "distances", interrupt_at(epoch), Checkpoint(tmp_path, "key", every=0))
    resumed, heard = learner_of(data, **settings), []
    history = train(resumed, "distances", heard.append, Checkpoint(tmp_path, "key", every=0))
    assert [one.done for one in heard] == list(range(epoch, 7))
    assert history == expected
    assert same(resumed.state(), whole.state())
    whole.load_best()
    resumed.load_best()
    for a, b in zip(whole.trainable.parameters(), resumed.trainable.parameters(), strict=True):
        assert torch.equal(a.value, b.value)


@pytest.mark.parametrize("forgotten", ["optimizer", "random", "best", "count.best_score"])
def test_a_lost_part_of_the_state_would_be_caught(forgotten, data, tmp_path, monkeypatch):
    right = Engine.restore

    def forgetful(self, state):
        fresh = self.state()
        kept = {name: value.clone() for name, value in fresh.items() if name.startswith(forgotten)}
        given = {name: value for name, value in state.items() if not name.startswith(forgotten)}
        right(self, {**given, **kept})

    monkeypatch.setattr(Engine, "restore", forgetful)
    with pytest.raises(AssertionError):
        test_resumed_training_gives_the_same_bits("MLP", 5, data, tmp_path)


def test_states_are_copies(data):
    learner = learner_of(data)
    learner.step()
    state = learner.state()
    before = {name: value.clone() for name, value in state.items()}
    learner.step()
    assert same(before, state)


def test_a_state_can_be_restored_twice(data):
    learner = learner_of(data)
    learner.step()
    state = {name: value.clone() for name, value in learner.state().items()}
    outcomes = []
    for _ in range(2):
        learner.restore(state)
        learner.step()
        outcomes.append({name: value.clone() for name, value in learner.state().items()})
    assert same(*outcomes)


def test_global_random_state_is_unchanged(data):
    before = torch.get_rng_state()
    for initial in INITIALS.values():
        train(learner_of(data, initial, COEFFICIENTS["both"]), "stage")
    assert torch.equal(torch.get_rng_state(), before)
