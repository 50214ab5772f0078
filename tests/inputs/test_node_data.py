"""The graph and the node features of PyG data: what is read, when it is checked, equality and tensors to save."""

import pickle

import pytest
import torch

from lggd import Graph
from lggd.errors import InputError, InputTypeError
from lggd.inputs import NodeData
from support.small_data import blocks, changed


def test_labels_are_not_read():
    data = blocks(weighted=True)
    nodes = NodeData.read(data)
    assert NodeData.read(nodes) is nodes
    assert not hasattr(nodes, "y")
    assert sorted(nodes.to_pyg().keys()) == ["edge_index", "edge_weight", "num_nodes", "x"]
    assert (nodes.x is data.x, nodes.edge_index is data.edge_index, nodes.num_edges) == (True, True, data.num_edges)


def test_only_data_are_read():
    with pytest.raises(InputTypeError, match="`data` must be a PyG Data, got int"):
        NodeData.read(3)


@pytest.mark.parametrize("columns", [(), (1,)], ids=str)
def test_weights_may_be_edge_attr(columns):
    data = blocks()
    data.edge_attr = torch.full((data.num_edges, *columns), -1.0)
    nodes = NodeData.read(data)
    assert nodes.edge_weight.shape == (data.num_edges,)
    with pytest.raises(InputError, match=r"^`edge_attr` must be 0 or above and finite, got -1"):
        _ = nodes.edges
    with pytest.raises(InputError, match=r"^`data\.edge_attr` must be positive and finite"):
        _ = nodes.undirected_graph


def test_what_is_not_used_is_not_checked():
    data = blocks()
    nodes = NodeData.read(changed(data, x=data.x * torch.nan, edge_index=data.edge_index + 99))
    with pytest.raises(InputError, match=r"^`data\.x`"):
        _ = nodes.features
    with pytest.raises(InputError, match=r"^`edge_index` must contain node ids"):
        _ = nodes.edges
    one_way = NodeData.read(changed(data, edge_index=data.edge_index[:, data.edge_index[0] < data.edge_index[1]]))
    assert one_way.edges[0] is one_way.edge_index
    with pytest.raises(InputError, match=r"^`data\.edge_index` must be symmetric.*ToUndirected"):
        _ = one_way.undirected_graph
    with pytest.raises(InputTypeError, match="must have an edge_index, got Data without it"):
        _ = NodeData.read(changed(data, edge_index=None)).undirected_graph


def test_what_is_computed_is_kept_but_not_pickled():
    nodes = NodeData.read(blocks())
    assert nodes.undirected_graph is nodes.undirected_graph
    assert nodes.features is nodes.features
    loaded = pickle.loads(pickle.dumps(nodes))
    assert loaded.equals(nodes)
    assert "undirected_graph" not in loaded.__dict__


def test_equal_data_may_be_different_objects():
    def read(**kind):
        return NodeData.read(blocks(**kind))

    assert read(sparse=True).equals(read(sparse=True))
    assert not read().equals(read(weighted=True))
    assert not read().equals(read(seed=1))
    assert not read().equals(read(lonely=1))


@pytest.mark.parametrize("kind", [{}, {"weighted": True}, {"sparse": True}], ids=str)
def test_packed_data_are_unpacked(kind):
    nodes = NodeData.read(blocks(**kind))
    assert NodeData.unpack(nodes.pack()).equals(nodes)


def test_a_graph_on_disk_is_not_packed(tmp_path):
    data = blocks()
    Graph.from_pyg(data).save(tmp_path / "graph", x=data.x)
    graph = Graph.open(tmp_path / "graph")
    nodes = NodeData.read(changed(data, x=graph.stored.x, edge_index=None, graph=graph))
    assert list(nodes.pack()) == ["num_nodes"]
    assert NodeData.unpack(nodes.pack(), graph).equals(nodes)
    assert (nodes.undirected_graph is graph, nodes.num_edges) == (True, data.num_edges)
    assert torch.equal(nodes.edges[0], graph.edge_index)
    with pytest.raises(InputError, match="have its edges in memory for GAT"):
        nodes.check_storage("GAT", needs_edge_index=True)
