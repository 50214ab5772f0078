"""Connected components, numbered as SciPy numbers them."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

import lggd
from lggd.graph import csr as rows


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("edges", [0, 20, 60, 200])
def test_components_agree_with_scipy(edges, directed):
    ends = np.random.default_rng(edges).integers(0, 80, (2, edges))
    ends = ends[:, ends[0] != ends[1]]
    graph = lggd.Graph.from_edges(ends, num_nodes=80, directed=directed, symmetrize=None if directed else "max")
    matrix = sp.coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(80, 80))
    expected = connected_components(matrix, directed=directed, connection="weak")[1]
    assert graph.components.tolist() == expected.tolist()


def test_components_of_a_graph_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "EDGES_PER_BLOCK", 7)
    graph = lggd.Graph.from_edges([(0, 3), (1, 4), (4, 6), (6, 7), (2, 3)], num_nodes=9, symmetrize="max")
    graph.save(tmp_path / "graph")
    opened = lggd.Graph.open(tmp_path / "graph")
    assert len(opened.csr.row_blocks()) > 1
    assert torch.equal(opened.components, graph.components)
    assert graph.components.tolist() == [0, 1, 0, 0, 1, 2, 1, 1, 3]
