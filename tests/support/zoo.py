"""Tiny graphs with their exact distances, random ones, and the checks that solvers must pass.

Checks take the solver as an argument, so that `test_planted_bugs.py` can run each of them on a wrong one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from lggd import Dijkstra, Evolution, FastIterative, FastMarching, Graph, distance, equation
from support.oracles import dense_distance

inf = math.inf
P = (1, 1.5, 2, 3, inf)
F64 = torch.float64


def solvers_for(p: float) -> list[Any]:
    return [FastMarching(), FastIterative()] + [Dijkstra()] * math.isinf(p)


def f64(values: Any) -> Tensor:
    return torch.as_tensor(values, dtype=F64)


# -- Instances: a graph, a boundary, an exponent and a potential ------------------------------------------------------


@dataclass(frozen=True)
class Instance:
    """A problem in plain Python. Through the edge (i, j), f(i) depends on f(j), and f(j) on f(i) if undirected."""

    num_nodes: int
    edges: tuple[tuple[int, int], ...]
    weight: tuple[float, ...]
    sources: tuple[int, ...]
    p: float = 1
    potential: tuple[float, ...] | None = None
    directed: bool = False

    @property
    def graph(self) -> Graph:
        return Graph.from_edges(
            list(self.edges), list(self.weight), num_nodes=self.num_nodes, directed=self.directed, dtype=F64,
            symmetrize=None if self.directed else "max", unbounded=True,
        )  # fmt: skip

    @property
    def rho(self) -> Tensor:
        return torch.ones(self.num_nodes, dtype=F64) if self.potential is None else f64(self.potential)

    @property
    def dense(self) -> np.ndarray:
        """w `[N, N]`, 0 where there is no edge."""
        w = np.zeros((self.num_nodes, self.num_nodes))
        for (i, j), value in zip(self.edges, self.weight, strict=True):
            w[i, j] = max(w[i, j], value)
        return w if self.directed else np.maximum(w, w.T)

    @property
    def reachable(self) -> list[bool]:
        """Which nodes can reach the boundary."""
        w, seen = self.dense, set(self.sources)
        while more := {i for i in range(self.num_nodes) if i not in seen and any(w[i, j] > 0 for j in seen)}:
            seen |= more
        return [i in seen for i in range(self.num_nodes)]

    def permuted(self, to: Sequence[int]) -> Instance:
        """The same with node i renamed to[i]."""
        back = np.argsort(to)
        rho = None if self.potential is None else tuple(self.potential[i] for i in back)
        edges = tuple((to[i], to[j]) for i, j in self.edges)
        return replace(self, edges=edges, sources=tuple(to[i] for i in self.sources), potential=rho)


def solve(instance: Instance, solver: Any, sources: Any = None) -> Tensor:
    """The distance `[N]` that `solver` finds."""
    sources = list(instance.sources) if sources is None else sources
    potential = None if instance.potential is None else f64(instance.potential)
    return distance(instance.graph, sources, p=instance.p, potential=potential, solver=solver).value


@st.composite
def instances(
    draw: st.DrawFn,
    p: Sequence[float] = P,
    directed: bool | None = None,
    most_nodes: int = 8,
    least_weight: float = 0.01,
) -> Instance:
    """Random ones: weighted or not, disconnected, with isolated nodes, of a single node, directed."""
    n = draw(st.integers(1, most_nodes))
    node = st.integers(0, n - 1)
    pairs = st.tuples(node, node).filter(lambda pair: pair[0] != pair[1])
    edges = draw(st.lists(pairs, max_size=3 * n, unique=True)) if n > 1 else []
    weights = st.lists(st.floats(least_weight, 1), min_size=len(edges), max_size=len(edges))
    potential = st.lists(st.floats(0.2, 3), min_size=n, max_size=n).map(tuple)
    return Instance(
        n,
        tuple(edges),
        tuple(draw(weights | st.just([1.0] * len(edges)))),
        tuple(draw(st.lists(node, min_size=1, max_size=n, unique=True))),
        draw(st.sampled_from(p)),
        draw(st.none() | potential),
        draw(st.booleans()) if directed is None else directed,
    )


# -- Cases: instances with exact answers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A problem with its answer for each p in `ps`, derived by hand."""

    name: str
    problem: Instance
    answer: Callable[[float], list[float]]
    ps: tuple[float, ...] = P


def shared(m: float, p: float) -> float:
    """The rise above m equally low neighbours: m · t^p = 1."""
    return m ** (-1 / p)


def norm(values: Sequence[float], p: float) -> float:
    return max(values) if math.isinf(p) else sum(v**p for v in values) ** (1 / p)


def _case(
    name: str, n: int, edges: Sequence[tuple[int, int]], sources: Sequence[int], answer: Callable[[float], list[float]],
    weight: Sequence[float] | None = None, potential: Sequence[float] | None = None, ps: tuple[float, ...] = P,
    directed: bool = False,
) -> Case:  # fmt: skip
    w = tuple(weight or [1.0] * len(edges))
    rho = None if potential is None else tuple(potential)
    return Case(name, Instance(n, tuple(edges), w, tuple(sources), 1, rho, directed), answer, ps)


def _cases() -> list[Case]:
    chain = [(k, k + 1) for k in range(5)]
    w6, rho6 = (0.25, 1.0, 0.0625, 0.5, 0.81), (9.0, 2.0, 0.5, 1.0, 3.0, 0.1)
    steps = [1 / (r * math.sqrt(w)) for r, w in zip(rho6[1:], w6, strict=True)]
    spokes, roots = [(0, k) for k in range(1, 5)], (1.0, 0.5, 0.25, 0.8)
    squares = [s * s for s in roots]
    ring = [(k, (k + 1) % 8) for k in range(8)]
    odd_ring = [(k, (k + 1) % 7) for k in range(7)]
    tree = [((k - 1) // 2, k) for k in range(1, 15)]
    level = [int(math.log2(k + 1)) for k in range(15)]
    complete = list(itertools.combinations(range(6), 2))
    bipartite = [(a, 3 + b) for a in range(3) for b in range(4)]
    # A grid of 3 rows and 4 columns, row by row.
    grid = [(4 * r + c, 4 * r + c + 1) for r in range(3) for c in range(3)]
    grid += [(4 * r + c, 4 * r + c + 4) for r in range(2) for c in range(4)]
    wheel = [(0, k) for k in range(1, 6)] + [(k, k % 5 + 1) for k in range(1, 6)]
    # Node 2 sees the boundary through a long edge and node 1 through a short one: Σ_j (√w_j (t − u_j))₊^p = 1.
    shadow = {1: 8 / 5, 2: 32 / 17, inf: 2.0}
    return [
        # Each node of a path or a tree has one lower neighbour, and p plays no role.
        _case("path", 6, chain, [0], lambda p: [0, 1, 2, 3, 4, 5]),
        _case("path_inside", 6, chain, [2], lambda p: [2, 1, 0, 1, 2, 3]),
        _case("weighted_path", 6, chain, [0], lambda p: [0, *np.cumsum(steps)], w6, rho6),
        _case("tree_root", 15, tree, [0], lambda p: [float(d) for d in level]),
        # Fronts that meet on a node share the work; fronts that meet on an edge do not see each other.
        _case("path_both_ends", 5, chain[:4], [0, 4], lambda p: [0, 1, 1 + shared(2, p), 1, 0]),
        _case("path_both_ends_even", 6, chain, [0, 5], lambda p: [0, 1, 2, 2, 1, 0]),
        _case("cycle_even", 8, ring, [0], lambda p: [0, 1, 2, 3, 3 + shared(2, p), 3, 2, 1]),
        _case("cycle_odd", 7, odd_ring, [0], lambda p: [0, 1, 2, 3, 3, 2, 1]),
        _case("star_leaves", 5, spokes, [1, 2, 3, 4], lambda p: [shared(4, p), 0, 0, 0, 0]),
        _case("star_centre", 5, spokes, [0], lambda p: [0, 1, 1, 1, 1]),
        _case("star_one_leaf", 5, spokes, [3], lambda p: [1, 2, 2, 0, 2]),
        _case(
            "weighted_star_leaves", 5, spokes, [1, 2, 3, 4], lambda p: [1 / (0.7 * norm(roots, p)), 0, 0, 0, 0],
            squares, (0.7, 1, 2, 3, 4),
        ),
        _case("weighted_star_centre", 5, spokes, [0], lambda p: [0, *(1 / s for s in roots)], squares),
        _case(
            "tree_leaves", 15, tree, range(7, 15), lambda p: [(3 - d) * shared(2, p) for d in level]
        ),
        _case("complete", 6, complete, [4], lambda p: [1, 1, 1, 1, 0, 1]),
        _case("complete_three", 6, complete, [0, 2, 4], lambda p: [0, shared(3, p)] * 3),
        _case("bipartite_side", 7, bipartite, [0, 1, 2], lambda p: [0] * 3 + [shared(3, p)] * 4),
        _case("bipartite_node", 7, bipartite, [0], lambda p: [0] + [1 + shared(4, p)] * 2 + [1] * 4),
        _case("wheel_hub", 6, wheel, [0], lambda p: [0] + [1] * 5),
        _case("wheel_rim", 6, wheel, [1, 2, 3, 4, 5], lambda p: [shared(5, p)] + [0] * 5),
        _case("grid_row", 12, grid, [0, 1, 2, 3], lambda p: [0] * 4 + [1] * 4 + [2] * 4),
        _case("grid_corner", 12, grid, [0], lambda p: [0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5], ps=(inf,)),
        # (1, 2) sees 2 above it and 1 + 2^(−1/p) beside it.
        _case(
            "ladder", 6, [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)], [0],
            lambda p: [0, 1, 2, 1, 1.5, 2.25] if p == 1 else
            [0, 1, 2, 1, 1 + math.sqrt(0.5), 1.5 + math.sqrt(0.125) + math.sqrt((4 * math.sqrt(0.5) + 1) / 8)],
            ps=(1, 2),
        ),
        _case("shadow", 3, [(0, 1), (0, 2), (1, 2)], [0], lambda p: [0, 1, shadow[p]], (1, 1 / 16, 1), ps=(1, 2, inf)),
        # Unreachable nodes are at distance inf.
        _case("two_components", 6, [(0, 1), (1, 2), (3, 4), (4, 5)], [1], lambda p: [1, 0, 1, inf, inf, inf]),
        _case("isolated", 3, [(0, 1)], [0], lambda p: [0, 1, inf]),
        _case("isolated_source", 3, [(0, 1)], [2], lambda p: [inf, inf, 0]),
        _case("one_node", 1, [], [0], lambda p: [0]),
        _case("no_edges", 3, [], [0, 2], lambda p: [0, inf, 0]),
        _case("all_sources", 6, complete, range(6), lambda p: [0] * 6),
        # With arrows, i sees j only along (i, j).
        _case("arrows_towards", 4, [(1, 0), (2, 1), (3, 2)], [0], lambda p: [0, 1, 2, 3], directed=True),
        _case("arrows_away", 4, [(0, 1), (1, 2), (2, 3)], [0], lambda p: [0, inf, inf, inf], directed=True),
        _case("arrows_around", 4, [(0, 1), (1, 2), (2, 3), (3, 0)], [0], lambda p: [0, 3, 2, 1], directed=True),
        _case(
            "one_way_and_back", 3, [(0, 1), (1, 0), (1, 2), (2, 1)], [0], lambda p: [0, 2, 2 + 1 / 0.3],
            (0.01, 0.25, 0.16, 0.09), directed=True,
        ),
        _case(
            "arrows_into_leaves", 5, spokes, [1, 2, 3, 4], lambda p: [1 / norm(roots, p), 0, 0, 0, 0], squares,
            directed=True,
        ),
    ]  # fmt: skip


CASES = _cases()


def case(name: str, p: float = 1) -> Instance:
    """The problem of a case, with its p set."""
    return replace(next(c.problem for c in CASES if c.name == name), p=p)


# -- Checks: each raises AssertionError at what it is made to catch ----------------------------------------------------


def assert_close(found: Tensor, expected: Any, rtol: float = 1e-11, atol: float = 1e-12) -> None:
    expected = torch.as_tensor(expected, dtype=found.dtype)
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


def assert_at_most(low: Tensor, high: Tensor) -> None:
    """low ≤ high but for rounding; inf ≤ inf."""
    ok = (low <= high * (1 + 1e-11) + 1e-12) | torch.isinf(high)
    assert bool(ok.all()), f"{low.tolist()} is not below {high.tolist()}"


def check_answer(known: Case, p: float, solver: Any) -> None:
    assert_close(solve(replace(known.problem, p=p), solver), known.answer(p))


def check_equation(instance: Instance, solver: Any) -> None:
    """ρ‖∇⁻f‖_p = 1 off the boundary, by the library's plain operators."""
    f = solve(instance, solver)
    off = equation.residual(instance.graph, f, instance.p, instance.rho)
    off[list(instance.sources)] = 0
    assert float(off[torch.isfinite(f)].abs().max()) < 1e-9, off


def check_boundary(instance: Instance, solver: Any) -> None:
    """0 there, to the last bit, and nowhere else."""
    zero = (solve(instance, solver) == 0).nonzero().flatten()
    assert zero.tolist() == sorted(instance.sources)


def check_reach(instance: Instance, solver: Any) -> None:
    """Finite exactly where the boundary can be reached."""
    assert torch.isfinite(solve(instance, solver)).tolist() == instance.reachable


def check_oracle(instance: Instance, solver: Any) -> None:
    expected = dense_distance(instance.dense, instance.sources, instance.p, instance.rho.numpy())
    assert_close(solve(instance, solver), expected, rtol=1e-10)


def check_weight_scaling(instance: Instance, solver: Any, c: float = 3.0) -> None:
    """w → c²w gives f/c."""
    scaled = replace(instance, weight=tuple(c * c * w for w in instance.weight))
    assert_close(c * solve(scaled, solver), solve(instance, solver), rtol=1e-10)


def check_potential_scaling(instance: Instance, solver: Any, c: float = 3.0) -> None:
    """ρ → cρ gives f/c."""
    scaled = replace(instance, potential=tuple((c * instance.rho).tolist()))
    assert_close(c * solve(scaled, solver), solve(instance, solver), rtol=1e-10)


def check_more_boundary(instance: Instance, solver: Any, node: int = 0) -> None:
    more = replace(instance, sources=tuple({*instance.sources, node}))
    assert_at_most(solve(more, solver), solve(instance, solver))


def check_larger_potential(instance: Instance, solver: Any, node: int = 0, factor: float = 2.0) -> None:
    rho = instance.rho
    rho[node] *= factor
    assert_at_most(solve(replace(instance, potential=tuple(rho.tolist())), solver), solve(instance, solver))


def check_larger_weight(instance: Instance, solver: Any, edge: int = 0, factor: float = 2.0) -> None:
    weight = list(instance.weight)
    weight[edge] *= factor
    assert_at_most(solve(replace(instance, weight=tuple(weight)), solver), solve(instance, solver))


def check_permutation(instance: Instance, solver: Any, to: Sequence[int] | None = None) -> None:
    """Renaming nodes renames their distances."""
    to = list(range(instance.num_nodes))[::-1] if to is None else to
    assert_close(solve(instance.permuted(to), solver)[to], solve(instance, solver))


def check_rises_with_p(instance: Instance, solver: Any) -> None:
    """‖·‖_p falls as p grows, so a solution for p lies below that for any larger one."""
    found = [solve(replace(instance, p=p), solver) for p in P]
    for low, high in itertools.pairwise(found):
        assert_at_most(low, high)


def check_columns(instance: Instance, solver: Any) -> None:
    """K boundaries at once, with a potential each, give the bits of K solves."""
    sources = [list(instance.sources), [0], list(range(instance.num_nodes))[-2:]]
    rho = torch.stack([instance.rho, 2 * instance.rho, instance.rho + 1], 1)
    together = distance(instance.graph, sources, p=instance.p, potential=rho, solver=solver).value
    for k, nodes in enumerate(sources):
        alone = distance(instance.graph, nodes, p=instance.p, potential=rho[:, k], solver=solver).value
        assert torch.equal(together[:, k], alone), (k, together[:, k], alone)


def check_same_bits(run: Callable[[], Tensor]) -> None:
    first = run()
    for _ in range(3):
        assert torch.equal(run(), first)


def check_never_undershoots(instance: Instance, scheme: Any, rise: Tensor | None = None, steps: int = 20) -> None:
    """From 10⁶, or from the distance plus `rise`, no node ever falls below the distance it converges to."""
    exact = solve(instance, None)
    reached = torch.isfinite(exact)
    start = torch.full_like(exact, 1e6) if rise is None else exact.nan_to_num(posinf=1e6) + rise
    evolution = Evolution(
        instance.graph, list(instance.sources), start=start, p=instance.p, potential=instance.rho, scheme=scheme
    )
    size = min(evolution.step_size, 1.0)  # without edges no step is too large
    for n in range(steps):
        below = (exact - evolution.step(size).state[:, 0])[reached]
        # 10⁶ itself is known to 10⁻¹⁰ only.
        assert float((below - 1e-8 * (1 + exact[reached])).max()) < 0, (
            f"step {n + 1} went {float(below.max()):g} below the distance"
        )


def check_order(errors: Sequence[float], order: int) -> None:
    """Errors at steps halved each time fall by 2^order."""
    rates = [math.log2(a / b) for a, b in itertools.pairwise(errors)]
    assert all(abs(rate - order) < 0.2 for rate in rates), rates


def check_gradient(function: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Against finite differences; tight enough for one part in ten thousand.

    Of a sum in which every entry of the output counts, and counts differently: one pass back instead of one an entry.
    """

    def weighted_sum(*given: Tensor) -> Tensor:
        f = function(*given)
        return (f * torch.linspace(1, 2, f.numel(), dtype=f.dtype).view_as(f)).sum()

    passed = torch.autograd.gradcheck(weighted_sum, inputs, eps=1e-6, atol=1e-8, rtol=1e-6, raise_exception=False)
    assert passed, "the gradient is not that of the function"
