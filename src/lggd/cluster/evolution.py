"""The evolution of f on a cluster: its steps on the rows of a block, and the driver of all blocks."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd._kernels import PaddedState, cpu
from lggd.cluster.team import BlockRows, Team, open_graph, run_on_team
from lggd.equation import Boundary, Potential, Sources, check_p, mask_of, read_potential
from lggd.graph import Graph
from lggd.progress import Callback, Progress
from lggd.results import Solution, Statistics, Status
from lggd.solvers.adjoint import Stepper
from lggd.solvers.cauchy import INITIAL_VALUE, CauchyProblem, read_start
from lggd.solvers.scheme import RK4, FixedStep, Plan, Tableau, check_times, choose_step, make_plan
from lggd.validation import check_instance, check_int, check_real

Array = NDArray[Any]


class EvolutionProgram:
    """Steps of ∂f/∂t = 1 − ρ‖∇⁻f‖_p on the rows of a block; a unit of work is the size of a step.

    Parameters
    ----------
    rows : BlockRows
    p : float
    tableau : Tableau
    start : Tensor or float
        f(·, 0) of the own nodes, `[n, K]`; or one number for all nodes off the boundary.
    rho : Tensor or None
        ρ of the own nodes, `[n, 1]` or `[n, K]`; None is 1.
    boundary : list of Tensor or None
        For each column, the own nodes on the boundary, by their numbers in the block.
    columns : int
    dtype : str
        float32 or float64.
    """

    def __init__(
        self, rows: BlockRows, p: float, tableau: Tableau, start: Tensor | float, rho: Tensor | None,
        boundary: Sequence[Tensor] | None, columns: int, dtype: str,
    ) -> None:  # fmt: skip
        self.rows = rows
        kind = getattr(torch, dtype)
        state = torch.zeros(rows.size, columns, dtype=kind)
        state[: rows.owned] = torch.as_tensor(start, dtype=kind)
        mask = None if boundary is None else mask_of(boundary, rows.owned)
        if mask is not None:
            state[: rows.owned].masked_fill_(mask, 0)
        potential = torch.ones(rows.owned, 1, dtype=kind) if rho is None else rho.to(kind)
        padded = PaddedState.build(
            rows.csr, p, state.unsqueeze(1), potential, rows.csr.root_weight_as(kind),
            None if mask is None else mask.unsqueeze(1), symmetric=False,
        )  # fmt: skip
        self._state, self.field, self._columns = padded.state, padded.field, columns
        self._stepper = Stepper(padded.field, tableau, padded.state)

    def cfl_bound(self) -> float:
        """The largest ρ(i)‖√w(i,·)‖_p of the own rows; 0 without any."""
        return self.field.cfl_bound if self.rows.owned else 0.0

    def run(self, units: Sequence[float]) -> Iterator[Tensor]:
        for size in units:
            for y, terms, targets, factors in self._stepper.evaluations(self._state, size):
                yield y
                cpu.stage(self.field, y, terms, targets, factors)

    def output(self) -> Tensor:
        """f of the own nodes, `[n, K]`."""
        return self._state[: self.rows.owned, : self._columns].clone()


@dataclass(frozen=True)
class ClusterStatistics(Statistics):
    """The cost of a solve on a cluster.

    Attributes
    ----------
    blocks : int
        Number of blocks, over all column groups.
    halo : int
        Values of one column that travel between blocks in an evaluation.
    losses : int
        How often the computation began anew because blocks were lost.
    """

    blocks: int = 1
    halo: int = 0
    losses: int = 0


def evolve(
    graph: Graph | str | Path, sources: Sources | None, *, start: Tensor | None = None,
    times: Sequence[float] = (1, 2, 3, 4, 5), p: float = 1, potential: Potential | None = None,
    scheme: FixedStep = RK4(), initial_value: float = INITIAL_VALUE, blocks: int | None = None, column_blocks: int = 1,
    threads: int | None = None, verify: bool = True, callback: Callback | None = None,
) -> Solution:  # fmt: skip
    """`lggd.evolve` on a cluster, without gradients: the same bits, where columns are not split.

    Call it within `lggd.cluster.connect`. Every node needs the graph at the same path. When a node is lost, the
    evolution begins anew on those that are left.

    Parameters
    ----------
    graph : path or Graph
        The folder of a graph, written by `Graph.save` or `lggd graph build`; or a graph opened from one.
    sources, start, times, p, potential, scheme, initial_value
        As in `lggd.evolve`.
    blocks : int, optional
        Number of ranges of rows; None takes one for each node.
    column_blocks : int
        Number of groups that the K columns are split into. Each has its own blocks.
    threads : int, optional
        Threads of a block; None divides the CPUs of a node by its blocks.
    verify : bool
        Whether every block compares the checksums of the graph, which reads it once.
    callback : callable, optional
        Called with a `Progress` of the stage "evolution", from 0 again after a loss.

    Returns
    -------
    Solution
        With `value` [T, N, K] and `ClusterStatistics`.

    Examples
    --------
    >>> import lggd, tempfile
    >>> lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max").save(folder := tempfile.mkdtemp())
    >>> with lggd.cluster.connect():  # doctest: +SKIP
    ...     solution = lggd.cluster.evolve(folder, [0], times=(1.0, 20.0), initial_value=10.0)
    >>> solution.value[-1, :, 0]  # doctest: +SKIP
    tensor([0.0000, 1.0000, 2.0000])
    """
    began = clock.perf_counter()
    opened = open_graph(graph)
    boundary = None if sources is None else Boundary.read(sources, opened.num_nodes)
    if start is None and boundary is not None:
        check_real("initial_value", initial_value, 0, closed="left", rule="be non-negative and finite")
        initial, columns, dtype = None, len(boundary.columns), opened.dtype
    else:
        initial = read_start(opened, boundary, start, initial_value)
        columns, dtype = initial.shape[1], initial.dtype
    rho = None if potential is None else read_potential(potential, opened, columns, dtype)
    p, ends = check_p(p), check_times(times)
    tableau = check_instance("scheme", scheme, FixedStep, "a stepping scheme such as RK4()").tableau
    groups = _split(columns, check_int("column_blocks", column_blocks, 1))

    def work(team: Team) -> tuple[Tensor, Plan, bool, dict[str, int]]:
        def program_of(block: int, group: int) -> tuple[type[Any], Sequence[Any]]:
            rows, part = slice(team.bounds[block], team.bounds[block + 1]), slice(*groups[group])
            begin: Tensor | float = float(initial_value) if initial is None else initial[rows, part]
            own = None if rho is None else rho[rows] if rho.shape[1] == 1 else rho[rows, part]
            nodes = None if boundary is None else [_inside(x, rows) for x in boundary.columns[part]]
            count = part.stop - part.start
            return EvolutionProgram, (p, tableau, begin, own, nodes, count, str(dtype).removeprefix("torch."))

        def report(steps: int) -> None:
            if callback is not None:
                callback(Progress("evolution", done + steps, plan.steps))

        team.prepare(program_of)
        size, may_overshoot = choose_step(scheme, p, max(team.call("cfl_bound")))
        plan, done = make_plan(scheme, ends, size), 0
        value = torch.empty(len(ends), opened.num_nodes, columns, dtype=dtype)
        for k, (count, step) in enumerate(zip(plan.counts, plan.sizes, strict=True)):
            team.run([step] * count, len(tableau.weights), report)
            done += count
            for number, part in enumerate(team.call("output")):
                group, block = divmod(number, team.per_group)
                value[k, team.bounds[block] : team.bounds[block + 1], slice(*groups[group])] = part
        return value, plan, may_overshoot, {"blocks": team.count, "halo": team.halo}

    (value, plan, may_overshoot, facts), losses = run_on_team(
        work, opened, blocks=blocks, groups=len(groups), threads=threads, verify=verify
    )
    if not bool(torch.isfinite(value).all()):
        raise FloatingPointError("The evolution diverged. Use step=None, which stays within the scheme's limit.")

    def residual() -> float:
        problem = CauchyProblem(opened, sources, value[-1], p, potential, None, initial_value)
        return problem.residual(problem.start)

    seconds = clock.perf_counter() - began
    facts |= {"losses": losses}
    statistics = ClusterStatistics(
        type(scheme).__name__, seconds, plan.steps, plan.evaluations, max(plan.sizes), _residual=residual, **facts
    )
    return Solution(value, Status.MAY_OVERSHOOT if may_overshoot else Status.REACHED, statistics)


def _inside(nodes: Array, rows: slice) -> Array:
    """The nodes of a block, by their numbers in it."""
    inside: Array = nodes[(nodes >= rows.start) & (nodes < rows.stop)] - rows.start
    return inside


def _split(columns: int, parts: int) -> list[tuple[int, int]]:
    parts = min(parts, columns)
    return [(columns * k // parts, columns * (k + 1) // parts) for k in range(parts)]
