"""Random splits: their sizes, what they share, and that nothing but the seed decides them."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lggd.datasets.by_name import split_by_count, split_by_fraction, split_fingerprint

LABELS = torch.tensor([0, 1, 2]).repeat_interleave(torch.tensor([100, 57, 23]))
TWO = (0.025, 0.025)
FIVE = (0.025, 0.025, 0.1, 0.1, 0.1)


def counts(mask, y=LABELS):
    return torch.bincount(y[mask], minlength=int(y.max()) + 1).tolist()


def test_fractions_are_rounded_down_to_at_least_one():
    train, validation, test = split_by_fraction(LABELS, TWO, 0)
    assert counts(train) == counts(validation) == [2, 1, 1]
    assert counts(test) == [96, 55, 21]
    assert [counts(part) for part in split_by_fraction(LABELS, FIVE, 0)[2:5]] == [[10, 5, 2]] * 3


def test_fractions_are_exact_decimals():
    """0.29 * 100 is 28.999999999999996."""
    part, rest = split_by_fraction(torch.zeros(100, dtype=torch.long), (0.29,), 0)
    assert (int(part.sum()), int(rest.sum())) == (29, 71)


def test_counts_are_the_same_in_every_class():
    train, test = split_by_count(LABELS, 5, 0)
    assert counts(train) == [5, 5, 5]
    assert counts(test) == [95, 52, 18]
    assert counts(split_by_count(LABELS, 23, 0)[1]) == [77, 34, 0]


@given(
    y=st.lists(st.integers(-1, 3), min_size=1, max_size=80).map(lambda few: torch.tensor(few + [0, 1, 2, 3] * 5)),
    seed=st.integers(0, 2**63 - 1),
)
@pytest.mark.parametrize("split", [lambda y, s: split_by_fraction(y, FIVE, s), lambda y, s: split_by_count(y, 5, s)])
def test_parts_partition_the_labelled_nodes(split, y, seed):
    masks = split(y, seed)
    assert all(mask.dtype == torch.bool and mask.shape == y.shape for mask in masks)
    assert torch.equal(torch.stack(masks).sum(0), (y >= 0).long())
    assert all(torch.equal(a, b) for a, b in zip(masks, split(y, seed), strict=True))


def test_further_fractions_do_not_change_the_first():
    for seed in range(3):
        plain, dynamic = split_by_fraction(LABELS, TWO, seed), split_by_fraction(LABELS, FIVE, seed)
        assert torch.equal(plain[0], dynamic[0])
        assert torch.equal(plain[1], dynamic[1])
        assert torch.equal(plain[2], torch.stack(dynamic[2:]).any(0))


def test_seeds_differ_and_global_generator_is_untouched():
    before = torch.random.get_rng_state()
    found = [split_by_fraction(LABELS, TWO, seed)[0] for seed in range(10)]
    assert len({tuple(mask.tolist()) for mask in found}) == 10
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(split_by_fraction(LABELS, TWO, 0)[0], found[0])


def test_splits_are_stable_across_versions():
    """One generator visits the classes in order: written out once more, without the library."""
    generator = torch.Generator().manual_seed(7)
    expected = torch.zeros(len(LABELS), dtype=torch.bool)
    for label, size in enumerate([2, 1, 1]):
        members = (label == LABELS).nonzero().flatten()
        expected[members[torch.randperm(len(members), generator=generator)[:size]]] = True
    assert torch.equal(split_by_fraction(LABELS, TWO, 7)[0], expected)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.0, 0.1), (-0.1,), (1.5,)])
def test_fractions_must_leave_a_remainder(shares):
    with pytest.raises(ValueError, match=r"`fractions` must be positive and sum to less than 1, got \("):
        split_by_fraction(LABELS, shares, 0)


def test_classes_that_are_too_small_are_reported():
    with pytest.raises(
        ValueError, match="`y` must have a node of every class for every fraction, got 1 of class 1 for 2"
    ):
        split_by_fraction(torch.tensor([0, 0, 0, 1]), TWO, 0)
    with pytest.raises(ValueError, match="`per_class` must be at most 23, the size of class 2, got 24"):
        split_by_count(LABELS, 24, 0)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None, True, 2**63])
def test_seeds_must_be_nonnegative_integers(seed):
    with pytest.raises(ValueError, match=r"`seed` must be a whole number from 0.*, got"):
        split_by_fraction(LABELS, TWO, seed)


@pytest.mark.parametrize("y", [torch.zeros(3), torch.zeros(3, 2, dtype=torch.long), torch.zeros(3, dtype=torch.bool)])
def test_labels_must_be_integers(y):
    with pytest.raises(ValueError, match=r"`y` must be the class of each node, integers \[N\], got torch"):
        split_by_count(y, 1, 0)
    with pytest.raises(ValueError, match="`per_class` must be a whole number from 1, got 0"):
        split_by_count(LABELS, 0, 0)


def test_fingerprints_distinguish_splits():
    def data(seed, **more):
        train, validation, test = split_by_fraction(LABELS, TWO, seed)
        return SimpleNamespace(train_mask=train, val_mask=validation, test_mask=test, y=LABELS, **more)

    prints = [split_fingerprint(data(seed)) for seed in range(10)]
    assert len(set(prints)) == 10
    assert all(len(found) == 12 and int(found, 16) >= 0 for found in prints)
    assert split_fingerprint(data(3)) == prints[3]
    assert split_fingerprint(data(0, new_mask=torch.zeros(len(LABELS), 3, dtype=torch.bool))) != prints[0]
    swapped = data(0)
    swapped.train_mask, swapped.val_mask = swapped.val_mask, swapped.train_mask
    assert split_fingerprint(swapped) != prints[0]
    hidden = data(0)
    hidden.y = -hidden.y
    assert split_fingerprint(hidden) == prints[0]
    with pytest.raises(ValueError, match=r"`data` must have one of train_mask, .* got none"):
        split_fingerprint(SimpleNamespace(y=LABELS))
