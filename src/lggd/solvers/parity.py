"""The evolution as in the paper's code: torchdiffeq over gathers and scatters. For comparison, not for speed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lggd.kernels import reference
from lggd.solvers.cauchy import CauchyProblem
from lggd.solvers.scheme import TorchDiffEq


def odeint(problem: CauchyProblem, ends: tuple[float, ...], scheme: TorchDiffEq) -> tuple[Tensor, int]:
    """Outputs `[T, N, K]` at the times `ends`, and the number of evaluations of the right-hand side."""
    try:
        import torchdiffeq
    except ImportError as error:
        raise ImportError("`scheme=TorchDiffEq()` needs the package torchdiffeq: pip install torchdiffeq") from error
    field, evaluations = problem.field, 0

    def rate(t: Tensor, f: Tensor) -> Tensor:
        nonlocal evaluations
        evaluations += 1
        slope = 1 - reference.by_column(field.rho, f.shape[1]) * reference.norm(field, f)
        return slope if field.boundary_mask is None else slope.masked_fill(field.boundary_mask, 0)

    times = torch.tensor((0.0, *ends), dtype=problem.start.dtype, device=problem.start.device)
    options: dict[str, Any] = {"rtol": scheme.rtol, "atol": scheme.atol, "method": scheme.method}
    if scheme.step is not None:
        options["options"] = {"step_size": scheme.step}
    if scheme.adjoint:
        parameters = (field.rho, field.root_weight)
        options["adjoint_params"] = tuple(x for x in parameters if x is not None and x.requires_grad)
    solve = torchdiffeq.odeint_adjoint if scheme.adjoint else torchdiffeq.odeint
    outputs: Tensor = solve(rate, problem.start, times, **options)
    return outputs[1:], evaluations
