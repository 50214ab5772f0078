"""What blocks compute: steps of the evolution, and Chebyshev series of Â.  Both exchange halos and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd.cluster.rows import BlockRows
from lggd.kernels import cpu
from lggd.solvers.adjoint import Stepper
from lggd.solvers.plan import PaddedState
from lggd.solvers.scheme import Tableau

Array = NDArray[Any]


class EvolutionProgram:
    """Steps of ∂f/∂t = 1 − ρ‖∇⁻f‖_p on the rows of a block; a unit of work is the size of a step.

    Parameters
    ----------
    rows : BlockRows
    p : float
    tableau : Tableau
    start : NDArray or float
        f(·, 0) of the own nodes, `[n, K]`; or one number for all nodes off the boundary.
    rho : NDArray or None
        ρ of the own nodes, `[n, 1]` or `[n, K]`; None is 1.
    boundary : list of NDArray or None
        For each column, the own nodes on the boundary, by their numbers in the block.
    columns : int
    dtype : str
        float32 or float64.
    """

    def __init__(
        self, rows: BlockRows, p: float, tableau: Tableau, start: Array | float, rho: Array | None,
        boundary: Sequence[Array] | None, columns: int, dtype: str,
    ) -> None:  # fmt: skip
        self.rows = rows
        kind = getattr(torch, dtype)
        state = torch.zeros(rows.size, columns, dtype=kind)
        state[: rows.owned] = torch.as_tensor(np.array(start), dtype=kind)
        mask = None
        if boundary is not None:
            mask = torch.zeros(rows.owned, columns, dtype=torch.bool)
            for column, nodes in enumerate(boundary):
                mask[torch.from_numpy(np.array(nodes)), column] = True
            state[: rows.owned].masked_fill_(mask, 0)
        potential = torch.ones(rows.owned, 1, dtype=kind) if rho is None else torch.from_numpy(np.array(rho)).to(kind)
        root = rows.root_weight(kind)
        padded = PaddedState.build(
            rows.csr, p, state.unsqueeze(1), potential, None if root is None else root.unsqueeze(1),
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

    def state(self) -> list[Array]:
        return [self._state[: self.rows.owned].numpy().copy()]

    def load(self, state: Sequence[Array]) -> None:
        self._state.numpy()[: self.rows.owned] = state[0]

    def output(self) -> Array:
        """f of the own nodes, `[n, K]`."""
        return self._state[: self.rows.owned, : self._columns].numpy().copy()
