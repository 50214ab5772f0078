"""Kernels against their definitions: integrals, distances and positive semidefinite matrices."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import dblquad

from lggd import InputError
from lggd.closed_form.adjacency import Adjacency, Propagation
from lggd.filters import PPR, HighPass, Hops
from lggd.kernels import (
    INTERCEPT,
    ArcCosine,
    ChosenKernel,
    FilterKernel,
    Gaussian,
    Linear,
    MixtureKernel,
    filter_kernels,
)
from support.dense_kernels import dense_mixture, dense_weights
from support.small_data import blocks, random

KERNELS = (Linear(), ArcCosine(), Gaussian(0.3), Gaussian(2.0))


def rectified(cosine):
    """2 E[max(0, a·w) max(0, b·w)] over Gaussian w in the plane of a and b: a layer of rectified units."""
    angle = math.acos(cosine)

    def integrand(r, t):  # polar coordinates: the radius gives ∫ r³ exp(−r²/2) dr = 2
        return max(0, math.cos(t)) * max(0, math.cos(t - angle)) * r**3 * math.exp(-r * r / 2) / (2 * math.pi)

    low, high = angle - math.pi / 2, math.pi / 2  # where both are positive
    return 2 * dblquad(integrand, low, high, 0, 12)[0]


@pytest.mark.parametrize("cosine", [-1.0, -0.7, 0.0, 0.3, 0.9, 1.0])
def test_the_arc_cosine_kernel_is_a_layer_of_infinitely_many_rectified_units(cosine):
    assert float(ArcCosine()(torch.tensor(cosine).double())) == pytest.approx(rectified(cosine), abs=1e-7)


@given(seed=st.integers(0, 999), width=st.floats(0.05, 5))
def test_the_gaussian_kernel_is_that_of_the_distance(seed, width):
    a, b = torch.nn.functional.normalize(torch.randn(2, 6, 4, generator=random(seed), dtype=torch.float64), dim=2)
    expected = torch.exp(-(a - b).square().sum(1) / (2 * width))
    torch.testing.assert_close(Gaussian(width)((a * b).sum(1)), expected)


def test_the_linear_kernel_is_the_cosine():
    cosine = torch.linspace(-1, 1, 5)
    assert torch.equal(Linear()(cosine), cosine)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_rounding_beyond_1_gives_finite_values(kernel):
    found = kernel(torch.tensor([1 + 1e-6, -1 - 1e-6]))
    assert bool(found.isfinite().all())
    assert float(found[0]) == pytest.approx(1, abs=1e-4)


def mixture(members, data=None):
    data = blocks(lonely=2) if data is None else data
    filters = list(dict.fromkeys(filter for member in members for filter in member.kernel.filters))
    adjacency = Adjacency(data.edge_index, None, data.num_nodes)
    graph = Propagation(data.x, adjacency, filters)
    other = Propagation(data.x[:, :3].contiguous(), adjacency, filters)
    return MixtureKernel({"x": graph, "other": other}, members)


FILTERS = ((Hops(0),), (Hops(1, False),), (HighPass(), PPR(0.1)), (Hops(0), Hops(1), Hops(2, False)))
MEMBERS = [ChosenKernel(name, kernel) for name in ("x", "other") for kernel in filter_kernels(FILTERS, KERNELS)]


@given(members=st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=5))
def test_a_mixture_is_positive_semidefinite_and_the_mean_of_its_members(members):
    kernel = mixture(members)
    points = kernel.points()
    gram = kernel.between(points, points)
    torch.testing.assert_close(gram, gram.t())
    assert float(torch.linalg.eigvalsh(gram.double()).min()) > -1e-4
    alone = [mixture([member]) for member in members]
    mean = sum(one.between(one.points(), one.points()) for one in alone) / len(alone)
    torch.testing.assert_close(gram, mean)


def test_a_member_is_the_kernel_of_the_mean_cosine_and_an_intercept():
    filters = (Hops(0), PPR(0.1))
    kernel = mixture([ChosenKernel("x", FilterKernel(filters, Gaussian(0.5)))])
    blocks = [kernel.graphs["x"].block(filter).numpy().astype(float) for filter in filters]
    cosine = sum(block @ block.T for block in blocks) / 2
    nodes = torch.tensor([3, 0, 7])
    found = kernel.between(kernel.points(nodes), kernel.points())
    np.testing.assert_allclose(found, np.exp((cosine[nodes] - 1) / 0.5) + INTERCEPT, atol=1e-5)
    assert kernel.num_nodes == 36


WEIGHTED = st.builds(
    ChosenKernel,
    st.sampled_from(["x", "other"]),
    st.builds(FilterKernel, st.sampled_from(FILTERS), st.sampled_from((*KERNELS, Linear(unit=False)))),
    st.floats(0.05, 1),
)


@given(members=st.lists(WEIGHTED, min_size=1, max_size=5))
def test_a_weighted_mixture_is_that_of_dense_matrices(members):
    data = blocks(lonely=2)
    kernel, x, weights = mixture(members), data.x.double().numpy(), dense_weights(data)
    expected = dense_mixture({"x": (weights, x), "other": (weights, x[:, :3])}, members)
    found = kernel.between(kernel.points(), kernel.points())
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert float(torch.linalg.eigvalsh(found.double()).min()) > -1e-4
    nodes = torch.tensor([7, 0, 35])
    torch.testing.assert_close(kernel.between(kernel.points(nodes), kernel.points()), found[nodes])


def test_one_filter_may_be_used_with_and_without_its_lengths():
    members = [ChosenKernel("x", FilterKernel((Hops(1),), Linear(unit))) for unit in (True, False)]
    kernel = mixture(members)
    assert len(kernel.points()) == 2
    diagonals = [mixture([member]).between(*[mixture([member]).points()] * 2).diagonal() for member in members]
    torch.testing.assert_close(diagonals[0], torch.full((36,), 1 + INTERCEPT))
    assert float(diagonals[1].std()) > 0.1
    assert float(diagonals[1].mean()) == pytest.approx(1 + INTERCEPT, rel=1e-5)


def test_a_mixture_does_not_change_when_all_weights_do():
    members = [ChosenKernel("x", one.kernel, weight) for one, weight in zip(MEMBERS, (1, 0.5, 0.1), strict=False)]
    one, other = (mixture([ChosenKernel(m.graph, m.kernel, scale * m.weight) for m in members]) for scale in (1, 0.25))
    torch.testing.assert_close(one.between(one.points(), one.points()), other.between(other.points(), other.points()))


@pytest.mark.parametrize("unit", [0, None, "no"])
def test_unit_is_true_or_false(unit):
    with pytest.raises(InputError, match="`unit`"):
        Linear(unit)


def test_every_kernel_comes_with_every_set_of_filters():
    found = filter_kernels(FILTERS, KERNELS)
    assert len(set(found)) == len(found) == len(FILTERS) * len(KERNELS)


@pytest.mark.parametrize(
    ("filters", "kernel", "argument"),
    [
        ((), Linear(), "filters"),
        ([Hops(1)], Linear(), "filters"),
        (Hops(1), Linear(), "filters"),
        ((Linear(),), Linear(), "filters"),
        ((Hops(1),), Hops(1), "kernel"),
        ((Hops(1),), "linear", "kernel"),
    ],
)
def test_wrong_kernels_are_refused(filters, kernel, argument):
    with pytest.raises(InputError) as caught:
        FilterKernel(filters, kernel)
    assert caught.value.argument == argument


@pytest.mark.parametrize("width", [0, -1, math.inf, math.nan, "wide"])
def test_the_width_of_a_gaussian_is_positive(width):
    with pytest.raises(InputError, match="`width` must be positive"):
        Gaussian(width)
