"""The evolution of many problems at once: columns of one state, each as far as it needs to go."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from lggd.graph import Graph
from lggd.kernels import Field, idle_columns
from lggd.learning.parameters import Equation
from lggd.operators import check_p
from lggd.solvers.adjoint import Evolve, Plan, run
from lggd.solvers.evolution import check_times, make_plan
from lggd.solvers.scheme import FixedStep, choose_step

# An evolution reads the edges some hundred times: more than enough for reordering to pay.
PASSES = 100
# The most bytes that weights may take for the sake of speed.
WORTH_SPREADING = 2**28


class Flow:
    """∂f/∂t = 1 − ρ‖∇⁻f‖_p for Q problems of K columns each, read off at the times that each problem asks for.

    `horizons[q]` are increasing indices into `times`, equally many for every problem, and some problem needs the last
    time. A problem leaves the state at its last one.
    The step depends on what the equation can become, not on what it has become: it is the same at all epochs, and the
    same for a problem on its own.
    """

    def __init__(
        self,
        graph: Graph,
        equation: Equation,
        times: Sequence[float],
        horizons: Sequence[Sequence[int]],
        p: float,
        scheme: FixedStep,
    ) -> None:
        self.graph, self.layout, self.p = graph, graph.layout(PASSES), check_p(p)
        self.horizons = [list(h) for h in horizons]
        largest_rho, largest_root = equation.limits()
        bound = self._field(largest_rho, largest_root, None, mirrored=True).steepness().max()
        self.step, self.may_overshoot = choose_step(scheme, self.p, float(bound))
        self.plan = make_plan(scheme, check_times(times), self.step, checkpoints=False)

    @property
    def evaluations(self) -> int:
        """Passes over the edges of a solve."""
        return self.plan.steps * len(self.plan.tableau.weights)

    def __call__(self, equation: Equation, start: Tensor, held: Tensor | None = None) -> Tensor:
        """From `start [N, R·Q, K]`, with 0 held where `held` of that shape, to `[M, N, R·Q, K]` at the M horizons.

        R > 1 solves R variants of the Q problems, with other starts and boundaries, in the same passes over the edges.
        """
        count = len(self.horizons)
        # Those that run longest come first: the columns still running are always the first ones.
        order = sorted(range(start.shape[1]), key=lambda q: -self.horizons[q % count][-1])
        problem = [q % count for q in order]
        if held is not None:
            start = start.masked_fill(held, 0)
            held = self.layout.into_rows(held[:, order])
        state = self.layout.into_rows(start[:, order])
        rho, root = equation.rho(), equation.root_weight()
        rho = self.layout.into_rows(rho if rho.shape[1] == 1 else rho[:, problem])
        if root is not None:
            root = self.layout.edges_into_rows(root if root.shape[1] == 1 else root[:, problem])
        kept = self.plan.within_memory(start.nbytes, start.device)
        outputs: list[list[Tensor]] = [[] for _ in order]
        for k, (steps, size) in enumerate(zip(self.plan.counts, self.plan.sizes, strict=True)):
            running = sum(self.horizons[q][-1] >= k for q in problem)
            plan = Plan(self.plan.tableau, (steps,), (size,), kept.every, kept.stages)
            state = self._advance(plan, state[:, :running], rho, root, held, mirrored=equation.theta_edges is None)
            for place in range(running):
                if k in self.horizons[problem[place]]:
                    outputs[order[place]].append(state[:, place])
        return self.layout.to_nodes(torch.stack([torch.stack(found) for found in outputs], 2), dim=1)

    def _advance(
        self, plan: Plan, state: Tensor, rho: Tensor, root: Tensor | None, held: Tensor | None, mirrored: bool
    ) -> Tensor:
        nodes, problems, classes = state.shape
        rho = self._spread(rho[:, :problems], classes)
        root = None if root is None else self._spread(root[:, :problems], classes)
        columns = problems * classes
        idle, idle_groups = self._idle(problems, classes, [x.shape[1] for x in (rho, root) if x is not None])
        flat = pad(state.reshape(nodes, columns), (0, idle))
        if held is not None:
            held = pad(held[:, :problems].reshape(nodes, columns), (0, idle), value=True).contiguous()
        rho = rho if rho.shape[1] == 1 else pad(rho, (0, idle_groups), value=1.0)
        root = root if root is None or root.shape[1] == 1 else pad(root, (0, idle_groups), value=1.0)
        field = self._field(rho, root, held, mirrored)
        inputs = (flat, rho, root)
        if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
            flat = Evolve.apply(*inputs, field.detached(), plan)[0]  # type: ignore[no-untyped-call]
        else:
            flat = run(field.detached(), plan, flat)[0]
        return flat[:, :columns].view(nodes, problems, classes)

    def _idle(self, problems: int, classes: int, groups: list[int]) -> tuple[int, int]:
        """How many columns to carry along idly, and how many groups of parameters that makes."""
        device, columns = self.graph.device, problems * classes
        if all(count in (1, columns) for count in groups):
            idle = idle_columns(device, columns)
            return idle, idle
        # Where parameters differ by problem, only whole problems can be idle.
        for more in range(4):
            if idle_columns(device, (problems + more) * classes) == 0:
                return more * classes, more
        return 0, 0

    def _spread(self, parameters: Tensor, classes: int) -> Tensor:
        """Parameters that differ by problem, repeated for every column where memory allows: the CPU is faster so."""
        wide = parameters.nbytes * classes
        if parameters.shape[1] == 1 or self.graph.device.type != "cpu" or wide > WORTH_SPREADING:
            return parameters.contiguous()
        return parameters.repeat_interleave(classes, 1)

    def _field(self, rho: Tensor, root: Tensor | None, held: Tensor | None, mirrored: bool) -> Field:
        return Field(self.layout.csr, self.p, rho, root, held, mirrored=mirrored and not self.graph.is_directed)
