"""Distances, shortest paths and depth: the solution of the eikonal equation and its applications."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lggd.equation import Boundary, NodeSet, Potential, Sources
from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.results import Depth, Solution
from lggd.solvers.dijkstra import Dijkstra
from lggd.solvers.eikonal_problem import EikonalProblem, Solver
from lggd.solvers.marching import FastMarching

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

# Number of candidates for the median that `depth` draws by default, and of distances that it solves for at once.
NUM_CANDIDATES = 50
COLUMNS_PER_BATCH = 32


def distance(
    graph: Graph, sources: Sources, *, p: float = 1, potential: Potential | None = None, solver: Solver | None = None
) -> Solution:
    """The generalized geodesic distance: ρ‖∇⁻f‖_p = 1 off the sources, f = 0 on them (paper, Eq. 7).

    Not differentiable; see `evolve`.

    Parameters
    ----------
    graph : Graph
    sources : node ids, mask [N], mask [N, K] or list of K sets
        The nodes from which distances are measured. On a directed graph f(i) is the length of a walk from i along the
        edges to a source; for walks from a source to i, build the graph from the reversed edges.
    p : float
        The exponent, in [1, inf]: 1 is the most robust, `math.inf` the shortest path.
    potential : Tensor [N] or [N, K], or callable, optional
        ρ, or a function of the graph such as `DegreePotential(-1)`; None is 1.
    solver : Solver, optional
        None uses `Dijkstra()` for p = inf and `FastMarching()` otherwise.

    Returns
    -------
    Solution
        With `value` [N] for one set of sources and [N, K] for a list of sets, float64; inf where no source can be
        reached.

    Examples
    --------
    >>> path = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> distance(path, [0], p=math.inf).value.tolist()
    [0.0, 1.0, 2.0]
    """
    problem = EikonalProblem.read(graph, sources, p, potential)
    if solver is None:
        solver = Dijkstra() if math.isinf(problem.p) else FastMarching()
    if isinstance(solver, type) or not hasattr(solver, "solve"):
        raise InputTypeError("solver", "be a solver such as FastMarching()", repr(solver))
    return solver.solve(problem)


def shortest_path(
    graph: Graph, solution: Solution | Float[Tensor, "*t n"] | Float[Tensor, "*t n k"], target: int, *, column: int = 0
) -> Int64[Tensor, " l"]:
    """The geodesic from the boundary to `target`, found by steepest descent along √w(f(i) − f(j)).

    For p = ∞ its length is the distance itself. On a directed graph the edges lead from the target to the boundary, so
    that they point backwards along the result.

    Parameters
    ----------
    graph : Graph
    solution : Solution or Tensor [N], [N, K] or [T, N, K]
        From `distance` on the same graph, or from `evolve` close to the steady state (its last time is used).
    target : int
        A node that can reach the boundary.
    column : int
        Which of K boundaries.

    Returns
    -------
    Tensor [L]
        Node ids from the boundary to the target.

    Examples
    --------
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
    try:
        target = operator.index(target)
    except TypeError:
        raise InputTypeError("target", "be a node id", repr(target)) from None
    if not 0 <= target < graph.num_nodes:
        raise InputError("target", f"name a node 0..{graph.num_nodes - 1}", target)
    if not math.isfinite(float(f[target])):
        but, remedy = "no path joins node {0} and a source", "Choose another target."
        raise InputError("target", "be reachable", but=but, remedy=remedy, nodes=[target])
    layout = graph.layout()
    csr, height = layout.csr, layout.into_rows(f)
    row = int(layout.rows_of(torch.tensor(target)))
    rows = [row]
    while height[row] > 0:
        span = slice(int(csr.indptr[row]), int(csr.indptr[row + 1]))
        neighbours = csr.indices[span].long()
        slope = height[row] - height[neighbours]
        if csr.weight is not None:
            slope = slope * csr.weight[span].to(slope.dtype).sqrt()
        if len(slope) == 0 or not float(slope.max()) > 0:
            lowest, clause = int(layout.nodes_of(torch.tensor(row))), "node {0} is lower than all its neighbours"
            raise InputError("solution", "be a distance", but=clause, remedy="Use distance().", nodes=[lowest])
        row = int(neighbours[int(slope.argmax())])
        rows.append(row)
    return layout.nodes_of(torch.tensor(rows[::-1], device=graph.device))


def depth(
    graph: Graph, *, p: float = 1, potential: Potential | None = None, candidates: NodeSet | None = None,
    generator: torch.Generator | None = None,
) -> Depth:  # fmt: skip
    """The p-eikonal data depth of Calder and Ettehad: closeness to the median, the node closest to all others.

    Parameters
    ----------
    graph, p, potential
        As in `distance`.
    candidates : node ids or mask [N], optional
        The nodes that may be the median, at the cost of one distance each; None draws 50 from the largest component.
    generator : torch.Generator, optional
        Draws the candidates; None has seed 0.

    Returns
    -------
    Depth

    Examples
    --------
    >>> path = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> depth(path, candidates=[0, 1, 2]).median
    1
    """
    if candidates is None:
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        sizes = torch.bincount(graph.components)
        members = (graph.components == sizes.argmax()).nonzero().flatten().cpu()
        chosen = members[torch.randperm(len(members), generator=generator)[:NUM_CANDIDATES]].sort().values
    else:
        nodes = Boundary.read(candidates, graph.num_nodes, "candidates")
        if not nodes.single:
            raise InputError("candidates", "be one set of nodes", f"{len(nodes.columns)} sets", "Merge them.")
        chosen = torch.from_numpy(nodes.columns[0])
    totals, reach = [], []
    for batch in torch.split(chosen, COLUMNS_PER_BATCH):
        values = distance(graph, [[int(node)] for node in batch], p=p, potential=potential).value
        reach.append(torch.isfinite(values).sum(0))
        totals.append(values.masked_fill(torch.isinf(values), 0).sum(0))
    within_reach = torch.cat(reach)
    mean_distance = torch.cat(totals) / within_reach
    # A node that few others reach is close to all of them, which does not make it central.
    eligible = mean_distance.masked_fill(within_reach < within_reach.max(), math.inf)
    median = int(chosen[int(eligible.argmin())])
    value = distance(graph, [median], p=p, potential=potential).value
    reached = torch.isfinite(value)
    farthest = float(value[reached].max()) or 1.0
    return Depth(torch.where(reached, 1 - value / farthest, torch.zeros_like(value)), median, chosen, mean_distance)
