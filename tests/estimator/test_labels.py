"""The labels that may be seen: how they are read, held out and added to."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from lggd.estimator import labels as reading
from lggd.estimator.labels import ENOUGH_TO_HOLD_OUT, Labels, merge_labels
from small_data import blocks, changed, garbled, random


def data_of(y, **masks):
    y = torch.as_tensor(y)
    return Data(y=y, num_nodes=len(y), **{name: torch.tensor(mask) for name, mask in masks.items()})


def same(one, other):
    tensors = torch.equal(one.train, other.train) and torch.equal(one.validation, other.validation)
    return tensors and (one.num_classes, one.held_out) == (other.num_classes, other.held_out)


# -- Reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_unlabelled_nodes_are_minus_one(dtype):
    labels = Labels.read(data_of(torch.tensor([0, -1, 2, 1, -1], dtype=dtype)))
    assert labels.train.tolist() == [0, -1, 2, 1, -1]
    assert labels.train.dtype == torch.int64
    assert labels.validation.tolist() == [-1] * 5
    assert (labels.num_classes, labels.held_out, labels.has_validation) == (3, False, False)


def test_masks_say_what_may_be_seen():
    masks = {"train_mask": [True, True, False, False], "val_mask": [False, False, True, False]}
    labels = Labels.read(data_of([0, 1, 1, 7], **masks))
    assert (labels.train.tolist(), labels.validation.tolist()) == ([0, 1, -1, -1], [-1, -1, 1, -1])
    assert labels.num_classes == 2
    assert labels.has_validation


def test_a_masked_node_without_a_label_is_no_label():
    labels = Labels.read(
        data_of([0, -1, -1, 3], train_mask=[True, True, False, False], val_mask=[False, False, True, False])
    )
    assert (labels.train.tolist(), labels.has_validation) == ([0, -1, -1, -1], False)


def check_hidden_labels(data):
    expected = Labels.read(data)
    for seed in range(5):
        assert same(Labels.read(garbled(data, seed)), expected)
    hidden = (~(data.train_mask | data.val_mask)).nonzero().squeeze(1)
    y = data.y.clone()
    y[hidden] = y[hidden[torch.randperm(len(hidden), generator=random())]]
    assert same(Labels.read(changed(data, y=y)), expected)
    without = changed(data, test_mask=None)
    assert same(Labels.read(without), expected)


def test_hidden_labels_are_never_read():
    check_hidden_labels(blocks())
    check_hidden_labels(changed(blocks(), y=blocks().y.clamp(max=1)))


@pytest.mark.parametrize("mistake", ["counts classes of all", "learns from all"])
def test_the_check_on_hidden_labels_catches_a_look_at_them(mistake, monkeypatch):
    right = Labels.read

    def peeking(data):
        labels = right(data)
        if mistake == "counts classes of all":
            return Labels(labels.train, labels.validation, int(data.y.max()) + 1)
        return Labels(data.y, labels.validation, labels.num_classes)

    monkeypatch.setattr(Labels, "read", peeking)
    with pytest.raises(AssertionError):
        check_hidden_labels(blocks())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 2, -1], "class 1"),
        ([1, 1, -1], "class 0"),
        ([-1, -1], "at least one"),
        ([0, -2, 1], "-2 at the train node 1"),
    ],
)
def test_classes_are_numbered_without_gaps(y, message):
    with pytest.raises(ValueError, match=rf"`data.y`.*{message}"):
        Labels.read(data_of(y))


def test_validation_labels_need_classes_that_are_learned():
    masks = {"train_mask": [True, True, False, False], "val_mask": [False, False, True, True]}
    with pytest.raises(ValueError, match=r"`data.y`.*class 2 at node 3"):
        Labels.read(data_of([0, 1, 1, 2], **masks))
    with pytest.raises(ValueError, match=r"`data.y`.*-3 at the validation node 2"):
        Labels.read(data_of([0, 1, -3, 1], **masks))


def test_masks_must_not_overlap():
    masks = {"train_mask": [True, True, False], "val_mask": [False, True, True]}
    with pytest.raises(ValueError, match=r"`data.val_mask`.*node 1"):
        Labels.read(data_of([0, 1, 1], **masks))


def test_validation_needs_something_to_learn_from():
    with pytest.raises(ValueError, match=r"`data.val_mask`.*train_mask"):
        Labels.read(data_of([0, 1, 1], val_mask=[False, True, True]))
    with pytest.raises(ValueError, match=r"`data.y`.*at least one training node"):
        Labels.read(data_of([0, 1, 1], train_mask=[False] * 3, val_mask=[True] * 3))


@pytest.mark.parametrize("y", [[0.0, 1.0], [True, False]])
def test_labels_are_whole_numbers(y):
    with pytest.raises(TypeError, match=r"`data.y`.*whole numbers"):
        Labels.read(data_of(y))


@pytest.mark.parametrize("y", [None, [0, 1], np.array([0, 1])])
def test_labels_are_a_tensor(y):
    with pytest.raises(TypeError, match=r"`data.y`"):
        Labels.read(Data(y=y, num_nodes=2))


@pytest.mark.parametrize("shape", [(3,), (2, 1), (), (2, 2)])
def test_labels_are_one_a_node(shape):
    with pytest.raises(ValueError, match=r"`data.y`.*\[2\]"):
        Labels.read(Data(y=torch.zeros(shape, dtype=torch.int64), num_nodes=2))


@pytest.mark.parametrize("name", ["train_mask", "val_mask"])
@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(3, 10, dtype=torch.bool),
        torch.ones(2, dtype=torch.bool),
        torch.ones(3),
        torch.tensor([0, 1, 2]),
        [True] * 3,
    ],
)
def test_masks_are_one_bool_a_node(name, mask):
    masks = {"train_mask": torch.tensor([True, False, False]), name: mask}
    with pytest.raises(ValueError, match=rf"`data.{name}`.*mask.*\[3\]"):
        Labels.read(Data(y=torch.tensor([0, 0, 0]), num_nodes=3, **masks))


@pytest.mark.parametrize("many", [10**15, 2**61])
def test_a_class_of_any_size_is_refused_without_counting_up_to_it(many):
    with pytest.raises(ValueError, match=r"`data.y`"):
        Labels.read(data_of([0, 1, many]))


def test_reading_changes_nothing():
    data = blocks()
    before = data.y.clone()
    labels = Labels.read(data)
    labels.train[0] = 1
    assert torch.equal(data.y, before)


# -- Holding out -------------------------------------------------------------------------------------------------------


def plenty(counts=(20, 30, 41), seed=0):
    y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    y = torch.cat([y, torch.full((7,), -1)])
    return Labels.read(data_of(y[torch.randperm(len(y), generator=random(seed))]))


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_a_share_of_each_class_is_held_out(share):
    labels = plenty()
    boundary_mask = labels.hold_out(share, random())
    assert boundary_mask.held_out
    assert boundary_mask.num_classes == 3
    for k, count in enumerate((20, 30, 41)):
        assert int((boundary_mask.validation == k).sum()) == int(share * count)
        assert int((boundary_mask.train == k).sum()) == count - int(share * count)
    assert not bool(((boundary_mask.train >= 0) & (boundary_mask.validation >= 0)).any())
    assert torch.equal(torch.maximum(boundary_mask.train, boundary_mask.validation), labels.train)


def test_a_small_share_holds_out_one_of_each():
    boundary_mask = plenty().hold_out(0.01, random())
    assert [int((boundary_mask.validation == k).sum()) for k in range(3)] == [1, 1, 1]


def test_nothing_is_held_out_where_a_class_has_few_labels():
    assert ENOUGH_TO_HOLD_OUT == 20
    few = plenty((19, 100, 100))
    assert few.hold_out(0.2, random()) is few
    assert plenty((20, 100, 100)).hold_out(0.2, random()).held_out


def test_nothing_is_held_out_where_validation_was_given_or_nothing_asked():
    labels = plenty()
    given = Labels(
        labels.train.masked_fill(torch.arange(98) == 0, -1), labels.train.masked_fill(torch.arange(98) > 0, -1), 3
    )
    given.validation[0] = 0
    assert given.hold_out(0.2, random()) is given
    assert labels.hold_out(0.0, random()) is labels


def test_holding_out_depends_on_the_generator_alone():
    labels = plenty()
    before = labels.train.clone()
    one, again, other = (labels.hold_out(0.2, random(seed)) for seed in (0, 0, 1))
    assert same(one, again)
    assert not same(one, other)
    assert torch.equal(labels.train, before)


# -- Adding ------------------------------------------------------------------------------------------------------------

KNOWN = torch.tensor([0, -1, 2, -1, 1, -1])


@pytest.mark.parametrize(
    ("nodes", "labels"),
    [
        ([1, 5], [2, 0]),
        (torch.tensor([1, 5]), torch.tensor([2, 0])),
        (np.array([1, 5]), np.array([2, 0])),
        (torch.tensor([5, 1], dtype=torch.int32), torch.tensor([0, 2], dtype=torch.uint8)),
        (torch.tensor([False, True, False, False, False, True]), [2, 0]),
        (np.array([False, True, False, False, False, True]), [2, 0]),
        ([1, 1, 5, 0], [2, 2, 0, 0]),
    ],
)
def test_labels_are_added_by_number_or_mask(nodes, labels):
    before = KNOWN.clone()
    merged = merge_labels(KNOWN, nodes, labels, 3)
    assert merged.tolist() == [0, 2, 2, -1, 1, 0]
    assert merged.dtype == torch.int64
    assert torch.equal(KNOWN, before)


def test_one_label_for_all():
    assert merge_labels(KNOWN, [1, 3], 1, 3).tolist() == [0, 1, 2, 1, 1, -1]
    assert merge_labels(KNOWN, 3, 0, 3).tolist() == [0, -1, 2, 0, 1, -1]


@pytest.mark.parametrize(
    ("nodes", "labels"), [([], []), (torch.zeros(6, dtype=torch.bool), []), (torch.zeros(6, dtype=torch.bool), 1)]
)
def test_no_labels_change_nothing(nodes, labels):
    assert merge_labels(KNOWN, nodes, labels, 3).tolist() == KNOWN.tolist()


def test_what_is_known_may_be_said_again():
    assert merge_labels(KNOWN, [0, 2, 1], [0, 2, 1], 3).tolist() == [0, 1, 2, -1, 1, -1]


@pytest.mark.parametrize(
    ("nodes", "labels", "message"),
    [
        ([0], [1], "`labels`.*node 0 has two labels: 1 and 0"),
        ([1, 1], [0, 2], "`labels`.*node 1 has two labels"),
        ([1, 0], [1, 2], "`labels`.*node 0 has two labels: 2 and 0"),
        ([1], [3], r"`labels`.*0\.\.2, got 3"),
        ([1], [-1], r"`labels`.*0\.\.2, got -1"),
        ([6], [0], r"`nodes`.*0\.\.5, got 6"),
        ([-1], [0], r"`nodes`.*0\.\.5, got -1"),
        ([1, 3], [0, 1, 2], "`labels`.*2 nodes, got 3"),
        ([True, False], [0], r"`nodes`.*\[6\].*\[2\]"),
    ],
)
def test_wrong_labels_are_refused(nodes, labels, message):
    before = KNOWN.clone()
    with pytest.raises(ValueError, match=message):
        merge_labels(KNOWN, nodes, labels, 3)
    assert torch.equal(KNOWN, before)


@pytest.mark.parametrize(
    ("nodes", "labels"),
    [([1.0], [0]), ([1], [0.0]), ([1], [True]), (["one"], [0]), ([1], ["red"]), ([None], [0])],
)
def test_labels_and_nodes_are_whole_numbers(nodes, labels):
    with pytest.raises(TypeError, match="`nodes` and `labels` must be whole numbers"):
        merge_labels(KNOWN, nodes, labels, 3)


def check_contradiction():
    with pytest.raises(ValueError, match="two labels"):
        merge_labels(KNOWN, [0], [1], 3)


def test_the_check_on_contradictions_catches_an_overwrite(monkeypatch):
    check_contradiction()

    def overwrite(known, nodes, labels, num_classes):
        merged = known.clone()
        merged[torch.as_tensor(nodes)] = torch.as_tensor(labels)
        return merged

    monkeypatch.setitem(globals(), "merge_labels", overwrite)
    with pytest.raises(pytest.fail.Exception):
        check_contradiction()


def test_the_number_that_means_unlabelled_is_the_one_in_the_documentation():
    assert reading.UNLABELLED == -1
