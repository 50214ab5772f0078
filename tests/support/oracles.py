"""Slow solvers that are independent of the library, to compare it with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from torch import Tensor

from lggd import Evolution, Graph

inf = math.inf


def exact_distance(w: np.ndarray, sources: Sequence[int], rho: np.ndarray, digits: int = 60) -> dict[int, Decimal]:
    """The distance for p = 2 of all nodes that reach a source, by marching with so many decimal digits."""
    with localcontext() as context:
        context.prec = digits
        weight = [[Decimal(float(x)) for x in row] for row in w]
        final = dict.fromkeys(sources, Decimal(0))
        while True:
            front = {}
            for i in set(range(len(w))) - set(final):
                total = first = second = Decimal(0)
                for u, v in sorted((final[j], weight[i][j]) for j in final if weight[i][j] > 0):
                    if i in front and u >= front[i]:
                        break
                    total, first, second = total + v, first + v * u, second + v * u * u
                    # The larger root of Σ v (t − u)² = 1/ρ².
                    rest = second - 1 / Decimal(float(rho[i])) ** 2
                    front[i] = (first + (first * first - total * rest).sqrt()) / total
            if not front:
                return final
            nearest = min(front, key=lambda i: front[i])
            final[nearest] = front[nearest]


def dense_distance(w: np.ndarray, sources: Sequence[int], p: float, rho: np.ndarray) -> np.ndarray:
    """Bisects ρ(i)‖√w(i,·)(t − u)₊‖_p = 1 at all nodes at once, N times over: each time one more node is final."""
    root, n = np.sqrt(w), len(w)
    u = np.full(n, inf)
    u[list(sources)] = 0

    def slope(t: np.ndarray) -> np.ndarray:
        difference = root * np.clip(
            np.where(np.isfinite(u)[None, :], t[:, None] - np.where(np.isfinite(u), u, 0), 0), 0, None
        )
        return rho * (difference.max(1) if math.isinf(p) else (difference**p).sum(1) ** (1 / p))

    for _ in range(n):
        with np.errstate(divide="ignore", invalid="ignore"):
            high = np.where(root > 0, u[None, :] + 1 / (rho[:, None] * root), inf).min(1)
        reached = np.isfinite(high)
        high[~reached] = 1.0
        low = np.zeros(n)
        for _ in range(60):
            middle = (low + high) / 2
            above = slope(middle) >= 1
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        following = np.where(reached, high, inf)
        following[list(sources)] = 0
        u = following
    return u


def plain_rate(
    edge_index: Tensor, f: Tensor, p: float, rho: Tensor, root: Tensor, boundary_mask: Tensor | None
) -> Tensor:
    """1 − ρ‖∇⁻f‖_p by gathers and scatters, for autograd; f is `[N, K]`, ρ `[N, 1|K]`, √w `[E, 1|K]`."""
    i, j = edge_index
    difference = root * (f[i] - f[j]).clamp(min=0)
    if math.isinf(p):
        index = i.unsqueeze(1).expand_as(difference)
        total = torch.zeros_like(f).scatter_reduce(0, index, difference, "amax")
    else:
        total = torch.zeros_like(f).index_add(0, i, difference**p)
        total = torch.where(total > 0, torch.where(total > 0, total, 1) ** (1 / p), 0)
    rate = 1 - rho * total
    return rate if boundary_mask is None else rate.masked_fill(boundary_mask, 0)


def plain_step(scheme: str, rate: Callable[[Tensor], Tensor], y: Tensor, h: float) -> Tensor:
    """One step of each scheme as textbooks write it."""
    if scheme == "Euler":
        return y + h * rate(y)
    if scheme == "SSPRK3":
        y1 = y + h * rate(y)
        y2 = 3 / 4 * y + 1 / 4 * (y1 + h * rate(y1))
        return 1 / 3 * y + 2 / 3 * (y2 + h * rate(y2))
    k1 = rate(y)
    k2 = rate(y + h * k1 / 3)
    k3 = rate(y + h * (k2 - k1 / 3))
    k4 = rate(y + h * (k1 - k2 + k3))
    return y + h / 8 * k1 + 3 * h / 8 * k2 + 3 * h / 8 * k3 + h / 8 * k4


def plain_problem(
    graph: Graph, sources: Sequence[Sequence[int]] | None, start: Tensor, p: float, potential: Tensor | None,
    weight: Tensor | None,
) -> tuple[Tensor, Callable[..., Tensor], tuple[Tensor, Tensor]]:  # fmt: skip
    """The start `[N, K]` with 0 on the boundary, its rate as a function of f, and ρ and √w, in node order."""
    start, boundary_mask = start.view(len(start), -1), None
    if sources is not None:
        boundary_mask = torch.zeros(start.shape, dtype=torch.bool)
        for k, nodes in enumerate(sources):
            boundary_mask[list(nodes), k] = True
        start = start.masked_fill(boundary_mask, 0)
    rho = torch.ones_like(start[:, :1]) if potential is None else potential
    root = (graph.weight.to(start.dtype) if weight is None else weight).sqrt()
    rho, root = (x.unsqueeze(1) if x.dim() == 1 else x for x in (rho, root))
    edge_index = graph.edge_index
    return start, lambda f: plain_rate(edge_index, f, p, rho, root, boundary_mask), (rho, root)


def plain_evolve(
    graph: Graph, sources: Sequence[Sequence[int]] | None, start: Tensor, p: float, scheme: str, step: float,
    steps: int, potential: Tensor | None = None, weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """f `[N, K]` after so many steps, in node order and by autograd alone."""
    f, rate, _ = plain_problem(graph, sources, start, p, potential, weight)
    for _ in range(steps):
        f = plain_step(scheme, rate, f, step)
    return f


def torchdiffeq_evolve(
    graph: Graph, sources: Sequence[Sequence[int]] | None, *, start: Tensor, times: Sequence[float], step: float,
    p: float = 1, potential: Tensor | None = None, weight: Tensor | None = None, adjoint: bool = False,
) -> Tensor:  # fmt: skip
    """f `[T, N, K]` by torchdiffeq's rk4; `adjoint` gives gradients by its continuous adjoint."""
    torchdiffeq = pytest.importorskip("torchdiffeq")
    start, rate, coefficients = plain_problem(graph, sources, start, p, potential, weight)
    given: dict[str, object] = {"method": "rk4", "options": {"step_size": step}}
    if adjoint:
        given["adjoint_params"] = tuple(x for x in coefficients if x.requires_grad)
    solve = torchdiffeq.odeint_adjoint if adjoint else torchdiffeq.odeint
    return solve(lambda t, f: rate(f), start, torch.tensor((0.0, *times), dtype=start.dtype), **given)[1:]


def steady_state(evolution: Evolution, tol: float) -> Tensor:
    """The state `[N, K]` where the residual is at most `tol` or rounding; inf where no source can be reached."""
    problem = evolution.problem
    reachable = problem.layout.to_nodes(problem.reachable)
    rounding = 4 * torch.finfo(evolution.state.dtype).eps * problem.field.cfl_bound
    for _ in range(10_000):
        state = evolution.state
        if evolution.residual <= max(tol, rounding * float(state.masked_fill(~reachable, 0).max())):
            return state.masked_fill(~reachable, inf)
        for _ in range(8):
            evolution.step(1.0 if math.isinf(evolution.step_size) else None)
    raise AssertionError(f"the residual is still {evolution.residual:g} at time {evolution.time:g}")
