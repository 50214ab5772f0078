"""Shortest paths and depth: the uses of distances."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from lggd import Graph, depth, distance, evolve, shortest_path
from lggd.errors import InputError
from lggd.results import Solution
from support import zoo


def lines(n: int) -> Graph:
    return Graph.from_edges([(k, k + 1) for k in range(n - 1)], symmetrize="max", dtype=zoo.F64)


def length(instance: zoo.Instance, nodes: list[int]) -> float:
    """Of the path from the last node to the first: f(i) = f(j) + 1/(ρ(i)√w(i, j)) up each edge."""
    w, rho = instance.dense, instance.rho
    return sum(1 / (float(rho[i]) * math.sqrt(w[i, j])) for j, i in itertools.pairwise(nodes))


# -- Shortest paths ----------------------------------------------------------------------------------------------------


@given(zoo.instances(), st.data())
def test_geodesic_walks_down_along_edges_from_the_target_to_the_boundary(instance, data):
    target = data.draw(st.sampled_from([i for i, reached in enumerate(instance.reachable) if reached]))
    f = zoo.solve(instance, None)
    nodes = shortest_path(instance.graph, f, target).tolist()
    assert nodes[-1] == target
    assert nodes[0] in instance.sources
    assert not set(nodes[1:]) & set(instance.sources)
    w = instance.dense
    for lower, upper in itertools.pairwise(nodes):
        assert w[upper, lower] > 0
        assert f[lower] < f[upper]


@given(zoo.instances(p=[zoo.inf]), st.data())
def test_its_length_is_the_distance_where_p_is_infinite(instance, data):
    target = data.draw(st.sampled_from([i for i, reached in enumerate(instance.reachable) if reached]))
    f = zoo.solve(instance, None)
    nodes = shortest_path(instance.graph, f, target).tolist()
    assert length(instance, nodes) == pytest.approx(float(f[target]), rel=1e-12, abs=1e-12)


@given(zoo.instances(p=[1, 2, 3]), st.data())
def test_its_length_is_no_less_than_the_distance(instance, data):
    target = data.draw(st.sampled_from([i for i, reached in enumerate(instance.reachable) if reached]))
    f = zoo.solve(instance, None)
    nodes = shortest_path(instance.graph, f, target).tolist()
    assert length(instance, nodes) >= float(f[target]) * (1 - 1e-12)


@given(zoo.instances(), st.data())
def test_a_node_out_of_reach_has_no_geodesic(instance, data):
    lost = [i for i, reached in enumerate(instance.reachable) if not reached]
    assume(lost)
    target = data.draw(st.sampled_from(lost))
    with pytest.raises(ValueError, match=f"no path joins node {target} and a source"):
        shortest_path(instance.graph, zoo.solve(instance, None), target)


def test_column_picks_the_boundary():
    graph = lines(7)
    solution = distance(graph, [[0], [6]])
    assert shortest_path(graph, solution, 2).tolist() == [0, 1, 2]
    assert shortest_path(graph, solution, 2, column=1).tolist() == [6, 5, 4, 3, 2]


def test_shortest_path_accepts_an_evolution_near_the_steady_state():
    graph = lines(5)
    solution = evolve(graph, [0], times=(1, 50), initial_value=10)
    assert isinstance(solution, Solution)
    assert shortest_path(graph, solution, 4).tolist() == [0, 1, 2, 3, 4]


def test_a_source_is_its_own_geodesic():
    assert shortest_path(lines(3), distance(lines(3), [1]), 1).tolist() == [1]


def test_morton_order_does_not_change_paths():
    points = torch.rand(200, 2, generator=torch.Generator().manual_seed(0), dtype=zoo.F64)
    graph = Graph.from_points(points, k=6, kernel=lambda d: (0.01 / (0.01 + d)) ** 2)
    solution = distance(graph, [5], p=zoo.inf)
    target = int(solution.value.argmax())
    nodes = shortest_path(graph, solution, target)
    w = graph.to_scipy().toarray()[nodes[1:], nodes[:-1]]
    assert (int(nodes[0]), int(nodes[-1])) == (5, target)
    assert float((1 / np.sqrt(w)).sum()) == pytest.approx(float(solution.value[target]))


def test_solution_of_another_graph_is_refused():
    with pytest.raises(ValueError, match="must belong to this graph of 3 nodes"):
        shortest_path(lines(3), distance(lines(4), [0]), 1)


@pytest.mark.parametrize("target", [-1, 3])
def test_target_outside_the_graph_is_refused(target):
    with pytest.raises(ValueError, match=r"`target` must name a node 0\.\.2"):
        shortest_path(lines(3), distance(lines(3), [0]), target)


@pytest.mark.parametrize("target", ["1", 1.0, torch.tensor(1.0), torch.tensor([1, 2])])
def test_a_target_that_is_no_node_id_is_refused(target):
    with pytest.raises(TypeError, match="`target` must be a node id"):
        shortest_path(lines(3), distance(lines(3), [0]), target)


def test_a_target_may_be_an_integer_tensor():
    assert shortest_path(lines(3), distance(lines(3), [0]), torch.tensor(2)).tolist() == [0, 1, 2]


def test_a_tensor_that_is_no_distance_is_refused():
    with pytest.raises(InputError, match="node 1 is lower than all its neighbours") as refused:
        shortest_path(lines(3), torch.tensor([2.0, 1.0, 2.0]), 2)
    assert "node ben is lower" in str(refused.value.replace(nodes=["ben"]))


# -- Depth -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", zoo.P)
def test_the_median_of_a_path_is_its_middle(p):
    found = depth(lines(9), p=p, candidates=range(9))
    assert found.median == 4
    zoo.assert_close(found.value, [0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0])
    # Along a path p plays no role: the mean of the hops to all nine nodes.
    zoo.assert_close(found.mean_distance, [sum(abs(a - b) for b in range(9)) / 9 for a in range(9)])


@pytest.mark.parametrize("p", zoo.P)
def test_the_median_of_a_grid_is_its_middle(p):
    graph = Graph.from_grid(np.ones((7, 9), bool))
    found = depth(graph, p=p, candidates=range(63))
    assert found.median == 3 * 9 + 4
    assert int(found.value.argmax()) == found.median
    corners = found.value[[0, 8, 54, 62]]
    zoo.assert_close(corners, [0.0] * 4)


def test_the_deepest_is_one_and_the_farthest_is_zero():
    points = torch.rand(150, 2, generator=torch.Generator().manual_seed(0))
    found = depth(Graph.from_points(points, k=8), candidates=range(150))
    assert float(found.value[found.median]) == 1
    assert float(found.value.max()) == 1
    assert float(found.value.min()) == 0
    assert found.median == int(found.mean_distance.argmin())


@pytest.mark.parametrize("p", zoo.P)
def test_an_outlier_does_not_move_the_median(p):
    grid = Graph.from_grid(np.ones((7, 9), bool), dtype=zoo.F64)
    edges = torch.cat([grid.edge_index, torch.tensor([[62], [63]])], 1)
    # A node more, a hundred units out from the corner: farther than all others together.
    weight = torch.cat([grid.weight, zoo.f64([1e-4])])
    found = depth(Graph.from_edges(edges, weight, symmetrize="max"), p=p, candidates=range(64))
    assert found.median == 3 * 9 + 4
    assert found.value.argsort()[0] == 63


def test_the_median_is_sought_in_the_largest_component():
    graph = Graph.from_edges([(0, 1), (2, 3), (3, 4), (4, 5), (5, 6)], num_nodes=8, symmetrize="max")
    found = depth(graph)
    assert found.candidates.tolist() == [2, 3, 4, 5, 6]
    assert found.median == 4
    zoo.assert_close(found.value, [0, 0, 0, 0.5, 1, 0.5, 0, 0])


def test_candidates_are_drawn_with_the_generator():
    graph = lines(400)
    first, again, other = (depth(graph, generator=torch.Generator().manual_seed(seed)).candidates for seed in (1, 1, 2))
    assert len(first) == len(set(first.tolist())) == 50
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_only_candidates_may_be_the_median():
    found = depth(lines(9), candidates=[7, 1, 2])
    assert found.candidates.tolist() == [1, 2, 7]
    assert found.median == 2
    assert found.mean_distance.shape == (3,)


def test_potential_moves_the_median():
    # Slow ground on the right is far from everywhere, so the centre of all distances moves into it.
    rho = torch.where(torch.arange(9) > 5, 0.1, 1.0)
    assert depth(lines(9), candidates=range(9), potential=rho).median > 4


def test_depth_of_a_single_node():
    found = depth(Graph.from_edges([], num_nodes=1))
    assert (found.median, found.value.tolist(), found.mean_distance.tolist()) == (0, [1.0], [0.0])
