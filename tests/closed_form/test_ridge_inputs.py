"""What the closed form reads from data: edges, node features, and rows of the adjacency."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from lggd import FilterKernel, Hops, InputError, Linear
from lggd.closed_form import filters
from lggd.closed_form.ridge_inputs import RidgeInputs
from small_data import blocks, changed

KERNELS = (FilterKernel((Hops(0),), Linear()), FilterKernel((Hops(0), Hops(2)), Linear()))


def test_projected_features_have_the_products_of_the_features():
    data = blocks()
    inputs = RidgeInputs(data, (128, 512), seed=0)
    assert inputs.widths == [6]  # there are no more
    block = inputs.graph(KERNELS, 6).block(Hops(0))
    unit = normalize(data.x)
    torch.testing.assert_close(block @ block.t(), unit @ unit.t(), atol=1e-5, rtol=0)


def test_rows_of_the_adjacency_have_the_products_of_neighbourhoods():
    data = blocks(weighted=True)
    block = RidgeInputs(data, (128,), seed=0).topology(KERNELS).block(Hops(0))
    adjacency = np.zeros((36, 36))
    adjacency[tuple(data.edge_index.numpy())] = data.edge_weight
    unit = adjacency / np.maximum(np.linalg.norm(adjacency, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(block @ block.t(), unit @ unit.T, atol=1e-5)


def test_without_features_x_are_the_rows_of_the_adjacency():
    data = changed(blocks(), x=None)
    inputs = RidgeInputs(data, (8, 128), seed=0)
    assert not inputs.has_features
    assert inputs.widths == [8, 36]
    graph = inputs.graph(KERNELS, 36)
    assert torch.equal(graph.block(Hops(2)), inputs.topology(KERNELS).block(Hops(2)))
    assert inputs.graph(KERNELS, 8).x.shape == (36, 8)


@pytest.mark.parametrize("convert", [lambda x: x.double(), lambda x: x.to_sparse_coo(), lambda x: x.to_sparse_csr()])
def test_features_of_any_kind_are_the_same_features(convert):
    data = blocks()
    expected = RidgeInputs(data, (128,), 0).graph(KERNELS, 6).block(Hops(2))
    found = RidgeInputs(changed(data, x=convert(data.x)), (128,), 0).graph(KERNELS, 6).block(Hops(2))
    torch.testing.assert_close(found @ found.t(), expected @ expected.t(), atol=1e-5, rtol=0)


def test_given_axes_are_used_again(monkeypatch):
    monkeypatch.setattr(filters, "MOST_EXACT_COLUMNS", 0)  # random, as for wide x
    data = blocks()
    first = RidgeInputs(data, (4,), seed=0)
    again = RidgeInputs(data, (4,), seed=99, axes=first.axes)
    assert torch.equal(again.graph(KERNELS, 4).x, first.graph(KERNELS, 4).x)
    assert not torch.equal(RidgeInputs(data, (4,), seed=99).graph(KERNELS, 4).x, first.graph(KERNELS, 4).x)


def test_weights_by_agreement_multiply_the_given_ones():
    data = blocks(weighted=True)
    given = RidgeInputs(data, (128,), 0).feature_agreement()
    plain = RidgeInputs(changed(data, edge_weight=None), (128,), 0).feature_agreement()
    torch.testing.assert_close(given, plain * data.edge_weight)


def test_the_graph_uses_the_given_weights_or_others():
    data = blocks(weighted=True)
    inputs = RidgeInputs(data, (128,), 0)
    other = torch.ones_like(data.edge_weight)
    assert torch.equal(inputs.graph(KERNELS, 6).edge_weight, data.edge_weight)
    assert inputs.graph(KERNELS, 6, other).edge_weight is other


def test_a_directed_graph_is_refused():
    data = blocks()
    with pytest.raises(InputError, match="both directions") as caught:
        RidgeInputs(changed(data, edge_index=data.edge_index[:, 1:]), (128,), 0)
    assert "edge_index" in caught.value.argument
