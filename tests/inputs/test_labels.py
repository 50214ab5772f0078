"""The labels that a model may see: how they are read, held out and added to."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from lggd.errors import InputError, InputTypeError
from lggd.inputs.labels import MIN_TO_HOLD_OUT, UNLABELLED, LabelConflictError, Labels, accuracy, merge_labels
from support.small_data import blocks, changed, garbled, random


def data_of(y, **masks):
    y = torch.as_tensor(y)
    return Data(y=y, num_nodes=len(y), **{name: torch.tensor(mask) for name, mask in masks.items()})


def has_validation(labels):
    return bool((labels.validation >= 0).any())


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
    assert (labels.num_classes, labels.held_out, has_validation(labels)) == (3, False, False)


def test_classes_in_a_column_are_refused_with_a_remedy():
    with pytest.raises(InputError, match=r"one class per node, got \[3, 1\]\. Use y.squeeze\(1\)\."):
        Labels.read(data_of([[0], [1], [1]]))


def test_masks_select_the_labels_that_may_be_seen():
    masks = {"train_mask": [True, True, False, False], "val_mask": [False, False, True, False]}
    labels = Labels.read(data_of([0, 1, 1, 7], **masks))
    assert (labels.train.tolist(), labels.validation.tolist()) == ([0, 1, -1, -1], [-1, -1, 1, -1])
    assert labels.num_classes == 2
    assert has_validation(labels)


def test_a_masked_node_without_a_label_is_no_label():
    labels = Labels.read(
        data_of([0, -1, -1, 3], train_mask=[True, True, False, False], val_mask=[False, False, True, False])
    )
    assert (labels.train.tolist(), has_validation(labels)) == ([0, -1, -1, -1], False)


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


@pytest.mark.parametrize("mistake", ["counts classes of all", "trains on all"])
def test_the_check_on_hidden_labels_catches_a_leak(mistake, monkeypatch):
    read = Labels.read

    def leak(data):
        labels = read(data)
        if mistake == "counts classes of all":
            return Labels(labels.train, labels.validation, int(data.y.max()) + 1)
        return Labels(data.y, labels.validation, labels.num_classes)

    monkeypatch.setattr(Labels, "read", leak)
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
    with pytest.raises(InputError, match=rf"`data.y`.*{message}"):
        Labels.read(data_of(y))


def test_validation_labels_need_classes_with_training_labels():
    masks = {"train_mask": [True, True, False, False], "val_mask": [False, False, True, True]}
    with pytest.raises(InputError, match=r"`data.y`.*class 2 at node 3"):
        Labels.read(data_of([0, 1, 1, 2], **masks))
    with pytest.raises(InputError, match=r"`data.y`.*-3 at the validation node 2"):
        Labels.read(data_of([0, 1, -3, 1], **masks))


def test_masks_must_not_overlap():
    masks = {"train_mask": [True, True, False], "val_mask": [False, True, True]}
    with pytest.raises(InputError, match=r"`data.val_mask`.*node 1"):
        Labels.read(data_of([0, 1, 1], **masks))


def test_validation_nodes_need_training_nodes():
    with pytest.raises(InputError, match=r"`data.val_mask`.*train_mask"):
        Labels.read(data_of([0, 1, 1], val_mask=[False, True, True]))
    with pytest.raises(InputError, match=r"`data.train_mask` must contain a node with a label in `data.y`, got none"):
        Labels.read(data_of([0, 1, 1], train_mask=[False] * 3, val_mask=[True] * 3))


@pytest.mark.parametrize("y", [[0.0, 1.0], [True, False]])
def test_labels_are_whole_numbers(y):
    with pytest.raises(InputTypeError, match=r"`data.y`.*whole numbers"):
        Labels.read(data_of(y))


@pytest.mark.parametrize("y", [None, [0, 1], np.array([0, 1])])
def test_labels_are_a_tensor(y):
    with pytest.raises(InputTypeError, match=r"`data.y`"):
        Labels.read(Data(y=y, num_nodes=2))


@pytest.mark.parametrize("shape", [(3,), (2, 1), (), (2, 2)])
def test_there_is_one_label_per_node(shape):
    with pytest.raises(InputError, match=r"`data.y`.*\[2\]"):
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
def test_masks_hold_one_bool_per_node(name, mask):
    masks = {"train_mask": torch.tensor([True, False, False]), name: mask}
    with pytest.raises(InputError, match=rf"`data.{name}`.*mask.*\[3\]"):
        Labels.read(Data(y=torch.tensor([0, 0, 0]), num_nodes=3, **masks))


def test_the_remedy_of_a_mask_is_for_its_mistake():
    for mask, remedy in ((torch.ones(3, 10).bool(), "select one"), (torch.ones(3), "Use a tensor of True and False")):
        with pytest.raises(InputError, match=remedy):
            Labels.read(Data(y=torch.tensor([0, 0, 0]), num_nodes=3, train_mask=mask))


@pytest.mark.parametrize("many", [10**15, 2**61])
def test_a_class_of_any_size_is_refused_without_counting_up_to_it(many):
    with pytest.raises(InputError, match=r"`data.y`"):
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


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5])
def test_a_fraction_of_each_class_is_held_out(fraction):
    labels = plenty()
    split = labels.hold_out(fraction, random())
    assert split.held_out
    assert split.num_classes == 3
    for k, count in enumerate((20, 30, 41)):
        assert int((split.validation == k).sum()) == int(fraction * count)
        assert int((split.train == k).sum()) == count - int(fraction * count)
    assert not bool(((split.train >= 0) & (split.validation >= 0)).any())
    assert torch.equal(torch.maximum(split.train, split.validation), labels.train)


def test_a_small_fraction_holds_out_one_of_each():
    split = plenty().hold_out(0.01, random())
    assert [int((split.validation == k).sum()) for k in range(3)] == [1, 1, 1]


def test_nothing_is_held_out_where_a_class_has_few_labels():
    assert MIN_TO_HOLD_OUT == 20
    few = plenty((19, 100, 100))
    assert few.hold_out(0.2, random()) is few
    assert plenty((20, 100, 100)).hold_out(0.2, random()).held_out


def test_nothing_is_held_out_where_validation_nodes_are_given_or_the_fraction_is_0():
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


def test_a_single_node_and_label_need_no_list():
    assert merge_labels(KNOWN, 3, 0, 3).tolist() == [0, -1, 2, 0, 1, -1]


@pytest.mark.parametrize(
    ("nodes", "labels"), [([], []), (torch.zeros(6, dtype=torch.bool), []), (np.zeros(6, dtype=bool), np.empty(0))]
)
def test_no_labels_change_nothing(nodes, labels):
    assert merge_labels(KNOWN, nodes, labels, 3).tolist() == KNOWN.tolist()


def test_known_labels_may_be_repeated():
    assert merge_labels(KNOWN, [0, 2, 1], [0, 2, 1], 3).tolist() == [0, 1, 2, -1, 1, -1]


@pytest.mark.parametrize(
    ("nodes", "labels", "message"),
    [
        ([0], [1], "`labels`.*node 0 has two labels: 1 and 0"),
        ([1, 1], [0, 2], "`labels`.*node 1 has two labels"),
        ([1, 0], [1, 2], "`labels`.*node 0 has two labels: 2 and 0"),
        ([1], [3], r"`labels`.*0\.\.2, got 3\. A new class needs a new fit"),
        ([1], [-1], r"`labels`.*0\.\.2, got -1\. Use remove_labels"),
        ([6], [0], r"`nodes`.*0\.\.5, got 6"),
        ([-1], [0], r"`nodes`.*0\.\.5, got -1"),
        ([1, 3], [0, 1, 2], "`labels` must have 2 entries, one class each, got 3"),
        ([1, 3], 1, "`labels` must have 2 entries, one class each, got 1"),
        (torch.zeros(6, dtype=torch.bool), 1, "`labels` must have 0 entries, one class each, got 1"),
        ([True, False], [0], r"`nodes`.*\[6\].*\[2\]"),
    ],
)
def test_wrong_labels_are_refused(nodes, labels, message):
    before = KNOWN.clone()
    with pytest.raises(InputError, match=message):
        merge_labels(KNOWN, nodes, labels, 3)
    assert torch.equal(KNOWN, before)


@pytest.mark.parametrize(
    ("nodes", "labels", "argument"),
    [
        ([1.0], [0], "nodes"),
        ([1], [0.0], "labels"),
        ([1], [True], "labels"),
        (["one"], [0], "nodes"),
        ([1], ["red"], "labels"),
        ([None], [0], "nodes"),
    ],
)
def test_labels_and_nodes_are_whole_numbers(nodes, labels, argument):
    with pytest.raises(InputTypeError, match=f"`{argument}` must be whole numbers"):
        merge_labels(KNOWN, nodes, labels, 3)


def test_a_conflict_names_the_node_and_both_labels():
    with pytest.raises(LabelConflictError) as caught:
        merge_labels(KNOWN, [1, 4], [1, 2], 3)
    assert (caught.value.node, caught.value.label, caught.value.known) == (4, 2, 1)


def check_conflict():
    with pytest.raises(InputError, match="two labels"):
        merge_labels(KNOWN, [0], [1], 3)


def test_the_check_on_conflicts_catches_an_overwrite(monkeypatch):
    check_conflict()

    def overwrite(known, nodes, labels, num_classes):
        merged = known.clone()
        merged[torch.as_tensor(nodes)] = torch.as_tensor(labels)
        return merged

    monkeypatch.setitem(globals(), "merge_labels", overwrite)
    with pytest.raises(pytest.fail.Exception):
        check_conflict()


def test_unlabelled_is_minus_one_as_documented():
    assert UNLABELLED == -1


# -- Accuracy ----------------------------------------------------------------------------------------------------------


def test_the_accuracy_is_over_the_mask_or_the_test_nodes_or_the_unknown_labels():
    data, predicted = blocks(), blocks().y.clone()
    predicted[::2] = (predicted[::2] + 1) % 3
    known = torch.where(data.train_mask, data.y, -1)
    correct = (predicted == data.y).float()
    assert accuracy(predicted, data, data.val_mask, known) == pytest.approx(float(correct[data.val_mask].mean()))
    assert accuracy(predicted, data, None, known) == pytest.approx(float(correct[data.test_mask].mean()))
    assert accuracy(predicted, data, data.val_mask.tolist(), known) == accuracy(predicted, data, data.val_mask, known)
    without = changed(data, test_mask=None)
    assert accuracy(predicted, without, None, known) == pytest.approx(float(correct[~data.train_mask].mean()))
    y = data.y.clone()
    y[data.test_mask.nonzero()[:3, 0]] = -1
    partly = accuracy(predicted, changed(data, y=y), None, known)
    assert partly == pytest.approx(float(correct[data.test_mask & (y >= 0)].mean()))


def test_the_accuracy_needs_labels_and_a_mask_that_fits():
    data = blocks()
    for other, mask, argument in (
        (data, torch.zeros(36, dtype=torch.bool), "mask"),
        (changed(data, y=torch.full_like(data.y, -1)), None, "mask"),
        (data, torch.ones(5, dtype=torch.bool), "mask"),
        (data, torch.ones(36), "mask"),
        (data, "test", "mask"),
        (changed(data, y=None), None, "data.y"),
    ):
        with pytest.raises(InputError) as caught:
            accuracy(data.y, other, mask, data.y)
        assert caught.value.argument == argument
    with pytest.raises(InputError, match=r"with a label in `data.y`, got none\. Pass `mask` to score labelled nodes\."):
        accuracy(data.y, changed(data, test_mask=None), None, data.y)
