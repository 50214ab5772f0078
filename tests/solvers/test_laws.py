"""What must hold on every graph, for every p, by every solver. Graphs are drawn at random."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from lggd import Dijkstra, FastIterative, FastMarching, Graph, distance, evolve
from support import zoo

any_solver = st.sampled_from([FastMarching(), FastIterative()])


@given(zoo.instances(), any_solver)
def test_solution_satisfies_the_equation(instance, solver):
    zoo.check_equation(instance, solver)


@given(zoo.instances(), any_solver)
def test_zero_on_the_boundary_and_nowhere_else(instance, solver):
    zoo.check_boundary(instance, solver)


@given(zoo.instances(), any_solver)
def test_infinite_exactly_where_the_boundary_is_unreachable(instance, solver):
    zoo.check_reach(instance, solver)


@given(zoo.instances(directed=False), any_solver)
def test_undirected_agrees_with_the_dense_oracle(instance, solver):
    zoo.check_oracle(instance, solver)


@given(zoo.instances(directed=True), any_solver)
def test_directed_agrees_with_the_dense_oracle(instance, solver):
    zoo.check_oracle(instance, solver)


@given(zoo.instances(p=[zoo.inf]))
def test_dijkstra_agrees_with_the_dense_oracle(instance):
    zoo.check_oracle(instance, Dijkstra())


@given(zoo.instances(most_nodes=14))
def test_solvers_agree_with_each_other(instance):
    first, *others = (zoo.solve(instance, solver) for solver in zoo.solvers_for(instance.p))
    for other in others:
        zoo.assert_close(other, first)


@given(zoo.instances(), any_solver, st.floats(0.1, 10))
def test_weights_times_c_squared_divide_the_distance_by_c(instance, solver, c):
    zoo.check_weight_scaling(instance, solver, c)


@given(zoo.instances(), any_solver, st.floats(0.1, 10))
def test_potential_times_c_divides_the_distance_by_c(instance, solver, c):
    zoo.check_potential_scaling(instance, solver, c)


@given(zoo.instances(), any_solver, st.data())
def test_more_boundary_never_raises_a_distance(instance, solver, data):
    zoo.check_more_boundary(instance, solver, data.draw(st.integers(0, instance.num_nodes - 1)))


@given(zoo.instances(), any_solver, st.data(), st.floats(1, 10))
def test_larger_potential_never_raises_a_distance(instance, solver, data, factor):
    zoo.check_larger_potential(instance, solver, data.draw(st.integers(0, instance.num_nodes - 1)), factor)


@given(zoo.instances(), any_solver, st.data(), st.floats(1, 10))
def test_larger_weight_never_raises_a_distance(instance, solver, data, factor):
    assume(instance.edges)
    zoo.check_larger_weight(instance, solver, data.draw(st.integers(0, len(instance.edges) - 1)), factor)


@given(zoo.instances(), any_solver, st.data())
def test_renaming_nodes_renames_their_distances(instance, solver, data):
    zoo.check_permutation(instance, solver, data.draw(st.permutations(range(instance.num_nodes))))


@given(zoo.instances(), any_solver)
def test_distance_never_falls_as_p_grows(instance, solver):
    zoo.check_rises_with_p(instance, solver)


@given(zoo.instances())
def test_large_p_comes_close_to_the_shortest_path(instance):
    # ‖·‖_∞ ≥ N^(−1/p) ‖·‖_p over at most N neighbours, so f_p ≥ N^(−1/p) f_∞ ≥ (1 − ln(N)/p) f_∞.
    shortest = distance(instance.graph, list(instance.sources), p=zoo.inf, potential=instance.rho).value
    near = distance(instance.graph, list(instance.sources), p=200.0, potential=instance.rho).value
    zoo.assert_at_most(near, shortest)
    zoo.assert_at_most(shortest * (1 - torch.tensor(float(instance.num_nodes)).log() / 200), near)


@given(zoo.instances(), any_solver)
def test_columns_with_their_own_potentials_are_independent(instance, solver):
    zoo.check_columns(instance, solver)


@given(zoo.instances(p=[zoo.inf]))
def test_columns_of_dijkstra_are_independent(instance):
    zoo.check_columns(instance, Dijkstra())


@given(zoo.instances())
def test_a_mask_and_a_list_name_the_same_boundary(instance):
    mask = torch.zeros(instance.num_nodes, dtype=torch.bool)
    mask[list(instance.sources)] = True
    expected = zoo.solve(instance, None)
    assert torch.equal(zoo.solve(instance, None, mask), expected)
    assert torch.equal(zoo.solve(instance, None, mask.unsqueeze(1)), expected.unsqueeze(1))


@given(zoo.instances(), st.data())
def test_a_disjoint_union_keeps_the_distances_of_its_parts(instance, data):
    other = data.draw(zoo.instances(p=[instance.p], directed=instance.directed))
    n = instance.num_nodes
    both = zoo.Instance(
        n + other.num_nodes,
        instance.edges + tuple((n + i, n + j) for i, j in other.edges),
        instance.weight + other.weight,
        instance.sources + tuple(n + i for i in other.sources),
        instance.p,
        tuple(instance.rho.tolist() + other.rho.tolist()),
        instance.directed,
    )
    expected = torch.cat([zoo.solve(instance, None), zoo.solve(other, None)])
    zoo.assert_close(zoo.solve(both, None), expected)


@pytest.fixture(scope="module")
def busy() -> tuple[Graph, list[list[int]], torch.Tensor]:
    """Large enough to keep several threads at work: points of the square, joined to their eight nearest."""
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(1500, 2, generator=generator)
    graph = Graph.from_points(points, k=8, kernel=lambda d: 1 / (1 + 10 * d))
    return graph, [[k, 100 + k] for k in range(6)], 0.5 + torch.rand(1500, 6, generator=generator)


@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("p", [1, 1.5, 2, zoo.inf])
@pytest.mark.parametrize("solver", [FastMarching(), FastIterative()], ids=lambda s: type(s).__name__)
def test_distances_are_bitwise_reproducible(busy, p, solver):
    graph, sources, rho = busy
    zoo.check_same_bits(lambda: distance(graph, sources, p=p, potential=rho, solver=solver).value)


@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("p", [1, 1.5, 2, zoo.inf])
@pytest.mark.parametrize("columns", [1, 6])
def test_evolutions_and_gradients_are_bitwise_reproducible(busy, p, columns):
    graph, sources, rho = busy
    weight = graph.weight

    def run() -> torch.Tensor:
        learned = [x.clone().requires_grad_() for x in (rho[:, :columns], weight)]
        f = evolve(graph, sources[:columns], times=(0.1, 0.2), p=p, potential=learned[0], weight=learned[1]).value
        f.square().mean().backward()
        return torch.cat([f.detach().flatten(), *(x.grad.flatten() for x in learned)])

    zoo.check_same_bits(run)
