"""Graphs of points and pixels."""

import math
import warnings

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import lggd
from lggd import Graph
from lggd.errors import InputWarning
from support.graphs import dense, same

# -- from_points --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 3, 20])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_points_are_joined_where_either_is_a_nearest_neighbour(dimension, as_tensor):
    points = np.random.default_rng(dimension).normal(size=(80, dimension))
    apart = cdist(points, points)
    np.fill_diagonal(apart, np.inf)
    expected = np.zeros((80, 80), bool)
    np.put_along_axis(expected, np.argsort(apart, 1)[:, :4], True, 1)
    graph = Graph.from_points(torch.from_numpy(points) if as_tensor else points, k=4)
    assert np.array_equal(dense(graph) > 0, expected | expected.T)


@pytest.mark.parametrize("dimension", [1, 2, 3, 20])
def test_epsilon_joins_all_points_within_it(dimension):
    points = np.random.default_rng(dimension).normal(size=(80, dimension))
    apart = cdist(points, points)
    epsilon = float(np.quantile(apart, 0.2))
    graph = Graph.from_points(points, epsilon=epsilon)
    assert np.array_equal(dense(graph) > 0, (apart <= epsilon) & ~np.eye(80, dtype=bool))
    assert not graph.is_weighted


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernel_maps_lengths_to_weights(dtype):
    points = np.random.default_rng(0).random((50, 2)).astype(dtype)
    graph = Graph.from_points(points, k=5, kernel=lambda length: np.exp(-(length**2)))
    expected = np.exp(-(cdist(points, points) ** 2))
    joined = dense(graph) > 0
    assert graph.dtype == torch.from_numpy(points).dtype
    np.testing.assert_allclose(dense(graph)[joined], expected[joined], rtol=1e-5)


@pytest.mark.parametrize("dimension", [1, 2, 20])
def test_duplicate_points_are_neighbours_but_not_of_themselves(dimension):
    points = np.zeros((9, dimension))
    points[6:] = np.arange(1, 4)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = Graph.from_points(points, k=2)
    joined = dense(graph) > 0
    assert (joined.sum(1) >= 2).all()
    assert (joined[:6, :6].sum(1) >= 2).all()
    assert Graph.from_points(points, epsilon=0.5).num_edges == 6 * 5


def test_points_of_integers_and_points_on_a_line():
    graph = Graph.from_points([[3], [1], [0]], k=1)
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_one_point_has_no_neighbours():
    assert Graph.from_points([[0.5, 0.5]], epsilon=1.0).num_edges == 0
    assert Graph.from_points([[0.5, 0.5]], k=1).num_edges == 0


# -- from_grid ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("form", [np.asarray, torch.from_numpy, np.ndarray.tolist])
def test_pixels_of_a_mask_are_joined_to_adjacent_ones(connectivity, form):
    mask = np.random.default_rng(0).random((9, 13)) < 0.7
    place = np.argwhere(mask)
    step = np.abs(place[:, None] - place[None])
    expected = np.where(step.sum(2) == 1, 1.0, 0.0)
    if connectivity == 8:
        expected[(step == 1).all(2)] = 0.5
    assert np.array_equal(dense(Graph.from_grid(form(mask), connectivity=connectivity)), expected)


def test_an_image_is_the_mask_of_its_dark_half():
    image = np.array([[10, 250, 130], [0, 255, 127]], np.uint8)
    dark = Graph.from_grid(image)
    assert same(dark, Graph.from_grid(image < 128))
    assert dark.num_nodes == 3
    assert same(dark, Graph.from_grid(image / 255))


@pytest.mark.parametrize("numbers", [int, float, np.uint8])
def test_a_mask_of_zeros_and_ones_is_read_as_an_image_and_reported(numbers):
    mask = np.array([[1, 1], [1, 0]], numbers)
    with pytest.warns(InputWarning, match="Pass mask == 0 if you mean these, or mask == 1 if the nodes are the ones"):
        graph = Graph.from_grid(mask)
    assert same(graph, Graph.from_grid(mask == 0))
    assert Graph.from_grid(mask == 1).num_nodes == 3


def test_diagonal_steps_are_root_two_long():
    graph = Graph.from_grid(np.ones((3, 3), bool), connectivity=8)
    corner = lggd.distance(graph, [0], p=math.inf).value[8]
    assert float(corner) == pytest.approx(2 * math.sqrt(2))


def test_a_single_pixel():
    assert repr(Graph.from_grid([[False, True]])) == "Graph(nodes=1, edges=0)"
