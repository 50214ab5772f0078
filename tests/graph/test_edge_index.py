"""Edges of PyG data: read, checked and replaced."""

import pytest
import torch

from lggd.graph.edge_index import check_edges, check_symmetric, read_edges, with_edges
from small_data import blocks, changed


def test_weights_come_from_edge_weight_or_edge_attr():
    data = blocks(weighted=True)
    assert read_edges(data, 36)[1] is data.edge_weight
    renamed = changed(changed(data, edge_weight=None), edge_attr=data.edge_weight)
    assert read_edges(renamed, 36)[1] is data.edge_weight
    assert read_edges(blocks(), 36)[1] is None


@pytest.mark.parametrize(
    ("edge_index", "edge_weight", "message"),
    [
        (torch.zeros(3, 4, dtype=torch.int64), None, r"`edge_index` must be int64 \[2, E\], got torch.int64 \[3, 4\]"),
        (torch.zeros(2, 4), None, r"`edge_index` must be int64 \[2, E\], got torch.float32 \[2, 4\]"),
        (torch.tensor([[0], [5]]), None, "`edge_index` must contain node ids from 0 to 4, got 5"),
        (torch.tensor([[-1], [0]]), None, "`edge_index` must contain node ids from 0 to 4, got -1"),
        (
            torch.tensor([[0], [1]]),
            torch.ones(2),
            r"`edge_weight` must have shape \[1\], one weight per edge, got \[2\]",
        ),
    ],
)
def test_invalid_edges_raise(edge_index, edge_weight, message):
    with pytest.raises(ValueError, match=message):
        check_edges(edge_index, edge_weight, num_nodes=5)


def test_symmetric_edges():
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])
    check_symmetric(edges, None, 3)
    check_symmetric(edges, torch.tensor([1.0, 1.0, 0.5, 0.5, 2.0]), 3)
    # The weights of duplicate edges are summed.
    check_symmetric(torch.tensor([[0, 0, 1], [1, 1, 0]]), torch.tensor([1.0, 2.0, 3.0]), 2)
    for index, weight in ((edges[:, 1:], None), (edges, torch.tensor([1.0, 2.0, 0.5, 0.5, 2.0]))):
        with pytest.raises(ValueError, match="both directions"):
            check_symmetric(index, weight, 3)


def test_replaced_edges_leave_the_data_unchanged():
    data = changed(blocks(weighted=True), edge_attr=torch.zeros(3))
    before, edges = data.edge_index, torch.tensor([[0], [1]])
    other = with_edges(data, edges, None)
    assert other.edge_index is edges
    assert other.edge_weight is None
    assert other.edge_attr is None
    assert other.x is data.x
    assert data.edge_index is before
    assert data.edge_weight is not None
    assert with_edges(data, edges, torch.ones(1)).edge_weight.tolist() == [1.0]
