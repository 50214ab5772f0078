"""Distances, geodesics and depth: the steady state of the equation and what people do with it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from lggd.equation.boundary import Boundary, NodeSet, Sources
from lggd.equation.potential import Potential
from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.solvers.dijkstra import Dijkstra
from lggd.solvers.iterative import FastIterative
from lggd.solvers.marching import FastMarching
from lggd.solvers.problem import Problem, Solver
from lggd.solvers.solution import Solution, Statistics, Status

# How many nodes `depth` tries as the median unless told, and how many distances it holds in memory at once.
DRAWN_CANDIDATES = 50
COLUMNS_AT_A_TIME = 32


def distance(
    graph: Graph, sources: Sources, *, p: float = 1, potential: Potential | None = None, solver: Solver | None = None
) -> Solution:
    """The generalized geodesic distance: ρ‖∇⁻f‖_p = 1 off the sources, f = 0 on them (paper, Eq. 7).

    `sources` is a set of nodes (ids or a mask), and `.value` is `[N]`; or a list of K sets, and it is `[N, K]`. Nodes
    that cannot reach a source are at inf. p = 1 is the robust one, p = ∞ the shortest path. Values are float64.

    `solver=None` takes `Dijkstra()` for p = ∞ and `FastMarching()` otherwise. It is not differentiable: `evolve` is.

    >>> path = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> distance(path, [0], p=math.inf).value.tolist()
    [0.0, 1.0, 2.0]
    """
    began = time.perf_counter()
    problem = Problem.read(graph, sources, p, potential)
    if solver is None:
        solver = Dijkstra() if math.isinf(problem.p) else FastMarching()
    if isinstance(solver, type) or not hasattr(solver, "solve"):
        raise InputTypeError("solver", "be a solver such as FastMarching()", repr(solver))
    by_row, sweeps = solver.solve(problem)
    value = problem.layout.to_nodes(by_row).to(graph.device)
    status = Status.EXACT if bool(torch.isfinite(by_row).all()) else Status.UNREACHABLE
    if isinstance(solver, FastIterative) and sweeps is not None and sweeps > solver.max_sweeps:
        status = Status.NOT_CONVERGED
    statistics = Statistics(
        method=type(solver).__name__,
        seconds=time.perf_counter() - began,
        steps=sweeps,
        _residual=lambda: problem.residual(by_row),
    )
    return Solution(value.squeeze(1) if problem.single else value, status, statistics)


def shortest_path(graph: Graph, solution: Solution | Tensor, target: int, *, column: int = 0) -> Tensor:
    """The geodesic to `target`: node ids from the boundary to it, walking down the steepest slope √w(f(i) − f(j)).

    For p = ∞ its length is the distance itself. `solution` comes from `distance` on the same graph, or from `evolve`
    close to its steady state (its last time is read); `column` picks one of K boundaries.

    >>> path = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> shortest_path(path, distance(path, [0], p=math.inf), 2).tolist()
    [0, 1, 2]
    """
    value = solution.value if isinstance(solution, Solution) else solution
    if not isinstance(value, Tensor):
        raise InputTypeError("solution", "be a Solution or a tensor", type(value).__name__, "Use distance().")
    value = value[-1] if value.dim() == 3 else value
    if value.dim() not in (1, 2) or len(value) != graph.num_nodes:
        raise InputError("solution", f"belong to this graph of {graph.num_nodes} nodes", list(value.shape))
    if value.dim() == 2 and not 0 <= column < value.shape[1]:
        raise InputError("column", f"lie in 0..{value.shape[1] - 1}", column)
    f = value if value.dim() == 1 else value[:, column]
    if not hasattr(target, "__index__"):
        raise InputTypeError("target", "be a node id", repr(target))
    if not 0 <= target < graph.num_nodes:
        raise InputError("target", f"name a node 0..{graph.num_nodes - 1}", target)
    if not math.isfinite(float(f[target])):
        raise InputError(
            "target", "be reachable", but=f"node {target} has no way to the boundary", remedy="Pick another one."
        )
    layout = graph.layout()
    csr, heights = layout.csr, layout.into_rows(f)
    at = target if layout.rank is None else int(layout.rank[target])
    rows = [at]
    while heights[at] > 0:
        span = slice(int(csr.indptr[at]), int(csr.indptr[at + 1]))
        neighbours = csr.indices[span].long()
        slope = heights[at] - heights[neighbours]
        if csr.weight is not None:
            slope = slope * csr.weight[span].to(slope.dtype).sqrt()
        if len(slope) == 0 or not float(slope.max()) > 0:
            node = at if layout.order is None else int(layout.order[at])
            raise InputError(
                "solution",
                "be a distance",
                but=f"node {node} is lower than all its neighbours",
                remedy="Use distance().",
            )
        at = int(neighbours[int(slope.argmax())])
        rows.append(at)
    walked = torch.tensor(rows[::-1], device=graph.device)
    return walked if layout.order is None else layout.order[walked]


@dataclass(frozen=True, eq=False)
class Depth:
    """How central each node is. `value [N]` is 1 at the median and 0 at the nodes farthest from it or out of its reach.

    `median` is the candidate with the smallest mean distance to the nodes it reaches, among those that reach the most;
    `mean_distance` has one for each of `candidates`.
    """

    value: Tensor
    median: int
    candidates: Tensor
    mean_distance: Tensor


def depth(
    graph: Graph,
    *,
    p: float = 1,
    potential: Potential | None = None,
    candidates: NodeSet | None = None,
    generator: torch.Generator | None = None,
) -> Depth:
    """p-eikonal data depth (Calder and Ettehad): find the median by its distances; depth is nearness to it.

    `candidates` are the nodes that may be the median; None draws 50 from the largest component, with `generator`.
    One distance a candidate is solved, many at a time.

    >>> path = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> depth(path, candidates=[0, 1, 2]).median
    1
    """
    if candidates is None:
        sizes = torch.bincount(graph.components)
        members = (graph.components == sizes.argmax()).nonzero().flatten().cpu()
        chosen = members[torch.randperm(len(members), generator=generator)[:DRAWN_CANDIDATES]].sort().values
    else:
        read = Boundary.read(candidates, graph.num_nodes, "candidates")
        if not read.single:
            raise InputError("candidates", "be one set of nodes", f"{len(read.columns)} sets", "Join them.")
        chosen = torch.from_numpy(read.columns[0])
    means, reach = [], []
    for batch in torch.split(chosen, COLUMNS_AT_A_TIME):
        found = distance(graph, [[int(node)] for node in batch], p=p, potential=potential).value
        reached = torch.isfinite(found)
        means.append(found.masked_fill(~reached, 0).sum(0) / reached.sum(0))
        reach.append(reached.sum(0))
    mean_distance, within_reach = torch.cat(means), torch.cat(reach)
    # A node that reaches few others is near all of them; that does not make it central.
    eligible = mean_distance.masked_fill(within_reach < within_reach.max(), math.inf)
    median = int(chosen[int(eligible.argmin())])
    away = distance(graph, [median], p=p, potential=potential).value
    reached = torch.isfinite(away)
    farthest = float(away[reached].max()) or 1.0
    return Depth(torch.where(reached, 1 - away / farthest, torch.zeros_like(away)), median, chosen, mean_distance)
