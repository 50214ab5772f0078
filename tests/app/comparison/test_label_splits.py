"""Random splits of any graph: stratified, disjoint, nested, and without test labels for the methods."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import lggd
from lggd.app.comparison import label_splits
from lggd.errors import InputError
from reproduction.runner import load_splits
from support.small_data import blocks, changed

MASKS = ("train_mask", "val_mask", "test_mask")


@pytest.mark.parametrize(("labels", "train", "validation"), [(2, 6, 6), (0.25, 6, 6), (0.6, 18, 6)])
def test_masks_are_disjoint_and_cover_all_labels(labels: int | float, train: int, validation: int) -> None:
    data = blocks(each=12)
    data.y[:3] = -1
    for split in label_splits.draw_splits(data, labels, 3):
        masks = torch.stack([split[name] for name in MASKS])
        assert masks.sum(0).tolist() == (data.y >= 0).long().tolist()
        assert (int(split.train_mask.sum()), int(split.val_mask.sum())) == (train, validation)
        assert set(data.y[split.train_mask].tolist()) == {0, 1, 2}


def test_splits_are_those_of_the_table() -> None:
    data = lggd.load("digits")
    drawn = label_splits.draw_splits(data, label_splits.default_labels(data), 3)
    for mine, known in zip(drawn, load_splits("digits", range(3), device="cpu"), strict=True):
        assert all(torch.equal(mine[name], known[name]) for name in MASKS)
    assert not torch.equal(drawn[0].train_mask, drawn[1].train_mask)


def test_fewer_labels_are_a_subset_with_every_class() -> None:
    (data,) = label_splits.draw_splits(blocks(each=40), 8, 1)
    quarter, half, whole = (label_splits.with_fewer_labels(data, share, seed=3) for share in (0.25, 0.5, 1.0))
    for name, counts in (("train_mask", [6, 12, 24]), ("val_mask", [6, 12, 24])):
        assert [int(each[name].sum()) for each in (quarter, half, whole)] == counts
        assert not bool((quarter[name] & ~half[name]).any() | (half[name] & ~data[name]).any())
    assert torch.equal(quarter.test_mask, data.test_mask)
    assert set(data.y[quarter.train_mask].tolist()) == {0, 1, 2}


def test_shares_without_fewer_labels_are_left_out() -> None:
    one, four = (label_splits.draw_splits(blocks(each=40), labels, 1)[0] for labels in (1, 4))
    assert label_splits.curve_shares(one, (0.25, 0.5)) == []
    assert label_splits.curve_shares(four, (0.5, 0.25)) == [0.25, 0.5]


def test_methods_cannot_see_test_labels() -> None:
    (data,) = label_splits.draw_splits(blocks(), 2, 1)
    seen = label_splits.visible_to_methods(data)
    assert bool((seen.y[data.test_mask] == -1).all())
    assert torch.equal(seen.y[~data.test_mask], data.y[~data.test_mask])
    assert "test_mask" not in seen
    assert bool((data.y >= 0).all()), "the caller's data are unchanged"


def test_the_fingerprint_depends_on_graph_and_labels_but_not_on_masks() -> None:
    data = blocks()
    same, other = changed(data, train_mask=~data.train_mask), changed(data, y=data.y.flip(0))
    prints = [label_splits.problem_fingerprint(each) for each in (data, same, other)]
    assert prints[0] == prints[1] != prints[2]
    assert "train_mask" in data


@pytest.mark.parametrize("labels", [0, -1, 0.0, 1.0, 1.5])
def test_amounts_out_of_range_are_refused(labels: Any) -> None:
    with pytest.raises(InputError, match="`labels` must be a positive number of labels per class, or a fraction"):
        label_splits.check_labels(labels)


@pytest.mark.parametrize("labels", [True, "5", None])
def test_other_types_are_refused(labels: Any) -> None:
    with pytest.raises(TypeError, match="`labels` must be a number of labels per class"):
        label_splits.check_labels(labels)


def test_a_class_with_too_few_labels_is_named() -> None:
    data = changed(blocks(each=12), class_names=["ant", "bee", "cow"])
    with pytest.raises(InputError, match=r"at least 13 labels of every class.*got 12 of class 'ant'.*fewer labels"):
        label_splits.draw_splits(data, 6, 1)
    data.y[data.y == 1] = -1
    data.y[[1, 4]] = 1
    with pytest.raises(
        InputError, match=r"at least 3 labels of every class.*got 2 of class 'bee'.*remove the labels of this class"
    ):
        label_splits.draw_splits(data, 0.5, 1)


def test_one_class_is_refused() -> None:
    with pytest.raises(InputError, match="at least two classes, got 1"):
        label_splits.draw_splits(changed(blocks(), y=torch.zeros(36, dtype=torch.long)), 0.5, 1)


def test_a_share_that_leaves_nothing_to_test_with_is_refused() -> None:
    with pytest.raises(InputError, match=r"`labels` must leave labels to test with, got 0.8"):
        label_splits.draw_splits(blocks(each=5), 0.8, 1)
    assert bool(label_splits.draw_splits(blocks(each=5), 0.6, 1)[0].test_mask.any())
