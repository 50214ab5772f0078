"""Seeds, and private random states."""

import numpy as np
import pytest
import torch

from lggd.training.problems import RandomState
from lggd.validation import read_seed
from support.small_data import random


def test_a_number_is_its_own_seed_and_a_generator_draws_one():
    assert [read_seed(seed) for seed in (0, 7, 2**63 - 1, np.int64(3))] == [0, 7, 2**63 - 1, 3]
    generator = random(3)
    first, second = read_seed(generator), read_seed(generator)
    assert first != second
    assert first == read_seed(random(3))
    assert 0 <= first < 2**31


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True, "0", None])
def test_invalid_seeds_are_rejected(seed):
    with pytest.raises(ValueError, match="`seed`"):
        read_seed(seed)


def test_reading_a_seed_keeps_the_global_random_state():
    before = torch.get_rng_state()
    read_seed(random(3))
    read_seed(5)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_random_state_continues_where_it_stopped():
    before = torch.get_rng_state()
    mine = RandomState(5, torch.device("cpu"))
    drawn = []
    for _ in range(2):
        with mine.in_use():
            drawn.append(torch.rand(3))
    assert torch.equal(torch.cat(drawn), torch.rand(6, generator=random(5)))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_global_state_is_restored_after_an_error():
    before = torch.get_rng_state()
    mine = RandomState(5, torch.device("cpu"))

    def fail():
        with mine.in_use():
            torch.rand(3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert torch.equal(torch.get_rng_state(), before)


def test_random_states_are_independent():
    one, other, alone = (RandomState(seed, torch.device("cpu")) for seed in (1, 2, 1))
    found = []
    for _ in range(2):
        with one.in_use():
            found.append(torch.rand(2))
        with other.in_use():
            torch.rand(5)
    with alone.in_use():
        expected = torch.rand(4)
    assert torch.equal(torch.cat(found), expected)
