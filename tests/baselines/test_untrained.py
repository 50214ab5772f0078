"""What baselines without training share: labels as rows, and scores as probabilities."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lggd
from lggd.baselines import LabelPropagation
from lggd.baselines.baseline import one_hot, to_probabilities
from lggd.errors import InputError
from support.small_data import blocks, changed, random

MANY = {"each": 26, "labelled": 22, "validated": 0}


@given(labels=st.lists(st.integers(-1, 3), min_size=1, max_size=9))
def test_one_hot_inverts_to_the_labels(labels):
    rows = one_hot(torch.tensor(labels), 4)
    assert rows.dtype == torch.float64
    assert rows.sum(1).tolist() == [float(label >= 0) for label in labels]
    assert all(row.argmax() == label for row, label in zip(rows, labels, strict=True) if label >= 0)


@given(seed=st.integers(0, 99))
def test_probabilities_keep_the_order_of_scores(seed):
    scores = torch.rand(7, 3, generator=random(seed), dtype=torch.float64)
    scores[2] = 0
    found = to_probabilities(scores, torch.tensor([0, 1, 1, -1, 2, -1, 1]))
    torch.testing.assert_close(found.sum(1), torch.ones(7))
    assert found[2].tolist() == pytest.approx([0.2, 0.6, 0.2])
    rest = torch.arange(7) != 2
    assert torch.equal(found.argmax(1)[rest], scores.argmax(1)[rest])


def test_no_label_is_held_out():
    data = changed(blocks(**MANY), val_mask=None, test_mask=None)
    model = LabelPropagation().fit(data)
    assert torch.equal(model.labels_, torch.where(data.train_mask, data.y, -1))
    assert model.history_ == {}


def test_graphs_of_another_size_and_invalid_edges_are_refused():
    model = LabelPropagation().fit(blocks())
    with pytest.raises(InputError, match="`data` must have 36 nodes, as the graph of the fit, got 27"):
        model.predict(blocks(each=9))
    with pytest.raises(InputError, match="`edge_index` must"):
        LabelPropagation().fit(changed(blocks(), edge_index=None))


def test_another_graph_of_the_same_nodes_is_predicted():
    """As by distances: the labels spread over the given edges."""
    data, other = blocks(), blocks(seed=1)
    model = LabelPropagation().fit(data)
    assert torch.equal(model.predict_proba(other), LabelPropagation().fit(other).predict_proba())


@pytest.mark.parametrize("each", [9, 15])
def test_graphs_of_another_size_on_disk_are_refused(each, tmp_path):
    """Their rows would be read and written out of bounds."""
    for name, data in (("fitted", blocks()), ("other", blocks(each=each))):
        graph = lggd.Graph.from_edges(data.edge_index, num_nodes=data.num_nodes)
        graph.save(tmp_path / name, y=torch.where(data.train_mask, data.y, -1))
    fitted, other = (lggd.load(tmp_path / name) for name in ("fitted", "other"))
    model = LabelPropagation().fit(fitted)
    with pytest.raises(InputError, match=f"`data` must have 36 nodes, as the graph of the fit, got {3 * each}"):
        model.predict(other)
