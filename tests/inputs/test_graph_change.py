"""Changes of a graph: what they do to the data, and what is refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.utils import to_dense_adj

import lggd
from lggd.closed_form import KernelRidge
from lggd.errors import InputError
from lggd.inputs import NodeData
from lggd.inputs.graph_change import new_edges, new_nodes, removed_edges

NONE = torch.empty(2, 0, dtype=torch.int64)


def path(weighted: bool = False, features: bool = True) -> NodeData:
    """0 - 1 - 2 - 3."""
    return NodeData(
        x=torch.arange(8.0).view(4, 2) if features else None,
        edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]),
        edge_weight=torch.tensor([0.5, 0.5, 1.0, 1.0, 2.0, 2.0]) if weighted else None,
        num_nodes=4,
    )


def dense(data: NodeData) -> torch.Tensor:
    return to_dense_adj(data.edge_index, edge_attr=data.edge_weight, max_num_nodes=data.num_nodes)[0]


def test_new_nodes_come_last_with_edges_in_both_directions():
    data = path(weighted=True)
    before = copy.deepcopy(data)
    change = new_nodes(data, [[9, 9], [8, 8]], [[4, 0], [0, 5]], [0.25, 0.75])
    adjacency = torch.zeros(6, 6)
    adjacency[:4, :4] = dense(before)
    adjacency[4, 0] = adjacency[0, 4] = 0.25
    adjacency[5, 0] = adjacency[0, 5] = 0.75
    torch.testing.assert_close(dense(change.nodes), adjacency)
    assert change.nodes.x.tolist() == [*before.x.tolist(), [9, 9], [8, 8]]
    assert change.touched.tolist() == [0, 4, 5]
    assert (change.num_new_nodes, change.num_nodes) == (2, 6)
    assert change.grow_labels(torch.tensor([1, 0, -1, 1])).tolist() == [1, 0, -1, 1, -1, -1]
    assert change.new_edges.tolist() == [[4, 0, 0, 5], [0, 5, 4, 0]]
    assert data.equals(before)


def test_an_edge_may_be_given_in_both_directions():
    once, twice = new_edges(path(), [[0], [3]]), new_edges(path(), [[0, 3], [3, 0]])
    assert torch.equal(dense(once.nodes), dense(twice.nodes))
    assert once.touched.tolist() == [0, 3]


def test_weights_make_a_graph_weighted():
    change = new_edges(path(), torch.tensor([[0], [2]], dtype=torch.int32), [0.5])
    assert change.nodes.edge_weight.tolist() == [1] * 6 + [0.5] * 2


def test_nodes_without_features_are_those_of_the_edges():
    assert new_nodes(path(features=False), None, [[5], [0]]).num_new_nodes == 2
    assert new_nodes(path(features=False), np.empty((3, 0)), NONE).num_nodes == 7


@given(st.sets(st.integers(0, 2)))
def test_removed_edges_are_gone_and_the_others_stay(chosen):
    data = path(weighted=True)
    edges = torch.tensor([[k, k + 1] for k in sorted(chosen)], dtype=torch.int64).reshape(-1, 2).t()
    change = removed_edges(data, edges)
    expected = dense(data)
    for k in chosen:
        expected[k, k + 1] = expected[k + 1, k] = 0
    torch.testing.assert_close(dense(change.nodes), expected)
    assert torch.equal(change.carry(torch.arange(6), torch.empty(0)), torch.arange(6)[change.kept])
    assert torch.equal(new_edges(change.nodes, NONE).nodes.edge_weight, change.nodes.edge_weight)


WRONG_EDGES = [
    ([[0], [9]], "must contain node ids from 0 to 3, got 9"),
    ([[-1], [0]], "must contain node ids from 0 to 3, got -1"),
    ([[0.5], [1.0]], "must be whole numbers"),
    ([["a"], ["b"]], "must be whole numbers, got <U1"),
    (None, "must be whole numbers, got None"),
    ([[0, 1], [2]], "must have rows of equal length"),
    ([[0, 1, 2]], "must have shape [2, E], got [1, 3]"),
    ([[0, 0], [3, 3]], "must name each edge once, but (0, 3) is in it twice"),
]


@pytest.mark.parametrize(("edges", "message"), [
    *WRONG_EDGES,
    ([[1], [1]], "must join different nodes, got a self-loop at node 1"),
    ([[2], [1]], "must contain new edges, but the graph has one between the nodes 2 and 1"),
])  # fmt: skip
def test_edges_that_cannot_be_added(edges, message):
    with pytest.raises(InputError, match="edge_index") as caught:
        new_edges(path(), edges)
    assert message in str(caught.value)


@pytest.mark.parametrize(("edges", "message"), [
    *[case for case in WRONG_EDGES if case[0] != [[0, 0], [3, 3]]],
    ([[0], [2]], "must contain edges of the graph, but there is none between the nodes 0 and 2"),
    ([[0, 0], [1, 1]], "must name each edge once, but (0, 1) is in it twice"),
])  # fmt: skip
def test_edges_that_cannot_be_removed(edges, message):
    with pytest.raises(InputError) as caught:
        removed_edges(path(), edges)
    assert message in str(caught.value)


@pytest.mark.parametrize(("weight", "message"), [
    (None, "`edge_weight` must contain one weight per edge, because the edges of the graph have weights, got None"),
    (["heavy", "light"], "`edge_weight` must be numbers, got <U5"),
    ([1.0, 2.0, 3.0], "`edge_weight` must have shape [2], one weight per edge, got [3]"),
    ([1.0, float("nan")], "`edge_weight` must be 0 or above and finite, got nan on edge (3, 0)"),
    ([-1.0, -1.0], "`edge_weight` must be 0 or above and finite, got -1 on edge (0, 3)"),
    ([1.0, 2.0], "`edge_weight` must be equal in both directions, but those of the edges (3, 0) and (0, 3) differ"),
])  # fmt: skip
def test_weights_that_do_not_fit(weight, message):
    with pytest.raises(InputError) as caught:
        new_edges(path(weighted=True), [[0, 3], [3, 0]], weight)
    assert message in str(caught.value)


@pytest.mark.parametrize(("x", "message"), [
    ([[1.0, 2.0, 3.0]], "`x` must have shape [M, 2], one row of node features for each new node, got [1, 3]"),
    ([1.0, 2.0], "`x` must have shape [M, 2], one row of node features for each new node, got [2]"),
    ([[1.0, float("nan")]], "`x` must be finite, got nan at row 0, column 1"),
    (np.empty((0, 2)), "`x` must have a row for each new node, got none"),
    ([["a", "b"]], "`x` must be numbers"),
    (None, "`x` must be numbers, got None"),
])  # fmt: skip
def test_features_that_do_not_fit(x, message):
    with pytest.raises(InputError) as caught:
        new_nodes(path(), x, NONE)
    assert message in str(caught.value)


def test_features_of_a_graph_without_features():
    with pytest.raises(InputError, match="`x` must be None, because the graph has no node features"):
        new_nodes(path(features=False), [[1.0]], NONE)
    with pytest.raises(InputError, match="must name a new node, 4 or above"):
        new_nodes(path(features=False), None, [[0], [2]])


@pytest.mark.parametrize("call", [
    lambda model: model.add_nodes([[1.0]], NONE),
    lambda model: model.add_nodes(torch.ones(1, 2), [[34], [36]]),
    lambda model: model.add_edges([[0], [1]]),
    lambda model: model.remove_edges([[0], [9]]),
])  # fmt: skip
def test_a_failed_call_changes_nothing(call):
    data = lggd.load("karate")
    data.x = torch.randn(34, 2, generator=torch.Generator().manual_seed(0))
    model = KernelRidge().fit(data)
    before, inputs = model.predict_proba(), model.data_
    with pytest.raises(InputError):
        call(model)
    assert torch.equal(model.predict_proba(), before)
    assert model.data_ is inputs


def test_other_models_name_the_remedy():
    model = lggd.GGD().fit(lggd.load("karate"))
    assert not model.accepts_nodes
    message = "`model` must accept nodes and edges without training, got GGD. Fit again"
    for call in (lambda: model.add_nodes(None, [[34], [0]]), lambda: model.add_edges([[0], [9]])):
        with pytest.raises(InputError, match=message):
            call()
