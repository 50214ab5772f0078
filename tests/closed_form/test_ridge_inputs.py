"""What the closed form reads from data: weighted edges, node features, rows of the adjacency; principal axes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import normalize

from lggd import EdgeAgreement, InputError
from lggd.closed_form import kernel_ridge
from lggd.closed_form import ridge_inputs as module
from lggd.closed_form.ridge_inputs import (
    FEATURE_BOUNDS,
    MIN_AGREEMENT,
    Moments,
    class_agreement,
    edge_cosines,
    edge_products,
    principal_axes,
    relative_agreement,
)
from lggd.filters import Hops
from lggd.inputs import NodeData
from lggd.kernels import FilterKernel, Linear
from support.small_data import blocks, changed, random

KERNELS = (FilterKernel((Hops(0),), Linear()), FilterKernel((Hops(0), Hops(2)), Linear()))


def inputs_of(data, *settings, **axes):
    return kernel_ridge.read_inputs(NodeData.read(data), *settings, **axes)


def test_projected_features_have_the_products_of_the_features():
    data = blocks()
    inputs = inputs_of(data, (128, 512), seed=0)
    assert inputs.widths == [6]  # there are no more
    block = inputs.graph("x", KERNELS).block(Hops(0))
    unit = normalize(data.x)
    torch.testing.assert_close(block @ block.t(), unit @ unit.t(), atol=1e-5, rtol=0)


def test_rows_of_the_adjacency_have_the_products_of_neighbourhoods():
    data = blocks(weighted=True)
    block = inputs_of(data, (128,), seed=0).graph("topology", KERNELS).block(Hops(0))
    adjacency = np.zeros((36, 36))
    adjacency[tuple(data.edge_index.numpy())] = data.edge_weight
    unit = adjacency / np.maximum(np.linalg.norm(adjacency, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(block @ block.t(), unit @ unit.T, atol=1e-5)


def test_without_features_x_are_the_rows_of_the_adjacency():
    data = changed(blocks(), x=None)
    inputs = inputs_of(data, (8, 128), seed=0)
    assert not inputs.has_features
    assert inputs.widths == [8, 36]
    graph = inputs.graph("wide", KERNELS)
    assert torch.equal(graph.block(Hops(2)), inputs.graph("topology", KERNELS).block(Hops(2)))
    assert inputs.graph("x", KERNELS).x.shape == (36, 8)


@pytest.mark.parametrize("convert", [lambda x: x.double(), lambda x: x.to_sparse_coo(), lambda x: x.to_sparse_csr()])
def test_features_of_any_kind_are_the_same_features(convert):
    data = blocks()
    expected = inputs_of(data, (128,), 0).graph("x", KERNELS).block(Hops(2))
    found = inputs_of(changed(data, x=convert(data.x)), (128,), 0).graph("x", KERNELS).block(Hops(2))
    torch.testing.assert_close(found @ found.t(), expected @ expected.t(), atol=1e-5, rtol=0)


def test_given_axes_are_used_again(monkeypatch):
    monkeypatch.setattr(module, "MAX_EXACT_COLUMNS", 0)  # random, as for wide x
    data = blocks()
    first = inputs_of(data, (4,), seed=0)
    again = inputs_of(data, (4,), seed=99, axes=first.axes)
    assert torch.equal(again.graph("x", KERNELS).x, first.graph("x", KERNELS).x)
    assert not torch.equal(inputs_of(data, (4,), seed=99).graph("x", KERNELS).x, first.graph("x", KERNELS).x)


def test_weights_by_agreement_multiply_the_given_ones():
    data = blocks(weighted=True)
    given = inputs_of(data, (128,), 0).feature_agreement()[0]
    plain = inputs_of(changed(data, edge_weight=None), (128,), 0).feature_agreement()[0]
    torch.testing.assert_close(given, plain * data.edge_weight)


def test_the_graph_uses_the_given_weights_or_others():
    data = blocks(weighted=True)
    inputs = inputs_of(data, (128,), 0)
    other = torch.ones_like(data.edge_weight)
    assert torch.equal(inputs.graph("x", KERNELS).adjacency.edge_weight, data.edge_weight)
    assert inputs.graph("agreement 0", KERNELS, other).adjacency.edge_weight is other


def test_a_directed_graph_is_refused():
    data = blocks()
    with pytest.raises(InputError, match="both directions") as caught:
        inputs_of(changed(data, edge_index=data.edge_index[:, 1:]), (128,), 0)
    assert "edge_index" in caught.value.argument


# -- edge weights by agreement -------------------------------------------------------------------------------------


def feature_agreement(x, edge_index):
    cosine = edge_cosines(x, edge_index)
    return relative_agreement(cosine, float(cosine.mean()))


@given(seed=st.integers(0, 999))
def test_weights_by_features_are_cosines_relative_to_their_mean(seed):
    data = blocks(seed=seed, noise=0.3)
    x = data.x.numpy().astype(float)
    i, j = data.edge_index.numpy()
    cosine = (x[i] * x[j]).sum(1) / np.linalg.norm(x[i], axis=1) / np.linalg.norm(x[j], axis=1)
    expected = np.clip(cosine / cosine.mean(), *FEATURE_BOUNDS)
    np.testing.assert_allclose(feature_agreement(data.x, data.edge_index), expected, rtol=1e-4)


@given(seed=st.integers(0, 999))
def test_weights_by_classes_are_probabilities_of_the_same_class(seed):
    data = blocks(seed=seed)
    p = torch.softmax(4 * torch.randn(36, 3, generator=random(seed)), dim=1)
    weight = class_agreement(p, data.edge_index)
    for e in range(0, data.edge_index.shape[1], 17):
        i, j = data.edge_index[:, e].tolist()
        expected = max(MIN_AGREEMENT, sum(float(p[i, k] * p[j, k]) for k in range(3)))
        assert float(weight[e]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("weigh", [feature_agreement, class_agreement])
def test_weights_are_the_same_in_both_directions_to_the_bit(weigh):
    data = blocks()
    values = torch.rand(36, 6, generator=random())
    there, back = weigh(values, data.edge_index), weigh(values, data.edge_index.flip(0))
    assert torch.equal(there, back)
    assert bool((there > 0).all())


@pytest.mark.parametrize("x", [torch.zeros(36, 2), torch.cat([torch.ones(18, 1), -torch.ones(18, 1)])])
def test_features_without_a_common_direction_weigh_nothing(x):
    edge_index = torch.stack([torch.arange(18), torch.arange(18, 36)])
    assert torch.equal(feature_agreement(x, edge_index), torch.ones(18))


def test_a_graph_without_edges_has_no_weights():
    none = torch.empty(2, 0, dtype=torch.int64)
    assert feature_agreement(torch.ones(3, 2), none).shape == (0,)
    assert class_agreement(torch.ones(3, 2), none).shape == (0,)


def test_products_in_parts_are_products_at_once(monkeypatch):
    data, seen = blocks(), []
    expected, split = edge_products(data.x, data.edge_index), torch.split
    monkeypatch.setattr(module, "MAX_ENTRIES", 60)
    monkeypatch.setattr(torch, "split", lambda *a: seen.append(a[1]) or split(*a))
    assert torch.equal(edge_products(data.x, data.edge_index), expected)
    assert seen == [10]


@pytest.mark.parametrize("rounds", [-1, 1.5, None, True])
def test_wrong_rounds_are_refused(rounds):
    with pytest.raises(InputError, match="`rounds`"):
        EdgeAgreement(rounds)


# -- principal directions -----------------------------------------------------------------------------------------


@pytest.fixture
def max_exact_columns(request, monkeypatch):
    monkeypatch.setattr(module, "MAX_EXACT_COLUMNS", request.param)


def decaying(rows, columns, seed=0):
    """A matrix whose singular values fall by half each time."""
    draws = np.random.default_rng(seed)
    left = np.linalg.qr(draws.normal(size=(rows, rows)))[0]
    right = np.linalg.qr(draws.normal(size=(columns, columns)))[0]
    count = min(rows, columns)
    return torch.tensor((left[:, :count] * 0.5 ** np.arange(count)) @ right[:count], dtype=torch.float32)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("shape", "width"), [((30, 12), 12), ((30, 12), 40), ((30, 12), 5), ((8, 25), 25), ((8, 25), 6)]
)
@pytest.mark.parametrize("max_exact_columns", [0, 1000], indirect=True)
def test_principal_axes_span_the_subspace_of_the_svd(shape, width, sparse, max_exact_columns):
    x = decaying(*shape)
    axes = principal_axes(Moments(x.to_sparse_coo() if sparse else x), width, random())
    count = min(width, *shape)
    assert axes.shape == (shape[1], count)
    torch.testing.assert_close(axes.t() @ axes, torch.eye(count), atol=1e-4, rtol=0)
    leading = min(count, 4)  # smaller singular values are lost in rounding
    _, values, right = np.linalg.svd(x.numpy())
    overlap = np.abs(right[:leading] @ axes[:, :leading].numpy())
    np.testing.assert_allclose(overlap, np.eye(leading), atol=0.02)
    lengths = (x @ axes).norm(dim=0)[:leading]
    np.testing.assert_allclose(lengths.numpy(), values[:leading], rtol=1e-3)


@pytest.mark.parametrize("max_exact_columns", [0], indirect=True)
def test_principal_axes_depend_on_the_generator_alone(max_exact_columns):
    x = decaying(20, 30)
    one, again = (principal_axes(Moments(x), 4, random(3)) for _ in range(2))
    assert torch.equal(one, again)
