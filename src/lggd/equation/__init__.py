"""The paper's equation: its boundary, its potential ρ, its operators, and the right-hand side F of the evolution.

Operators are plain torch, the reference for every kernel and solver, not optimised for speed. Each takes one function f
`[N]` or several `[N, C]`; edge values are `[E]` or `[E, C]` along `Graph.edge_index`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.graph.csr import CSR
from lggd.validation import check_entries, check_real

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

# One set of nodes: an id, ids, or a mask [N].
NodeSet = int | Sequence[int] | NDArray[np.generic] | Tensor
# One column or a list of K of them.
Sources = NodeSet | Sequence[NodeSet]
# Per node [N], per node and column [N, K], or computed from the graph.
Potential = Tensor | Callable[[Graph], Tensor]


@dataclass(frozen=True, eq=False)
class Boundary:
    """Sorted, distinct node ids per column. `single` is True for one set, False for a list of sets."""

    columns: tuple[NDArray[np.int64], ...]
    single: bool

    @classmethod
    def read(cls, sources: Any, num_nodes: int, name: str = "sources") -> Boundary:
        """Accepts node ids, a mask `[N]`, a mask `[N, K]`, or a list of K sets; no set may be empty."""
        if isinstance(sources, (Tensor, np.ndarray)):
            array = sources.detach().cpu().numpy() if isinstance(sources, Tensor) else sources
            if array.dtype.kind == "b" and array.ndim == 2 and array.shape[1] > 0:
                columns = [_read_set(array[:, k], num_nodes, f"{name}[:, {k}]") for k in range(array.shape[1])]
                return cls(tuple(columns), single=False)
            return cls((_read_set(array, num_nodes, name),), single=True)
        if isinstance(sources, Iterable) and not isinstance(sources, (str, bytes)):
            sources = list(sources)
            if sources and not all(np.ndim(entry) == 0 for entry in sources):
                columns = [_read_set(entry, num_nodes, f"{name}[{k}]") for k, entry in enumerate(sources)]
                return cls(tuple(columns), single=False)
        return cls((_read_set(sources, num_nodes, name),), single=True)

    def mask(self, num_nodes: int) -> Bool[Tensor, "nodes k"]:
        """True on the boundary of each column, `[N, K]`."""
        return mask_of([torch.from_numpy(nodes) for nodes in self.columns], num_nodes)


def mask_of(columns: Sequence[Tensor], num_nodes: int) -> Bool[Tensor, "nodes k"]:
    """Where the nodes of each column are, bool `[N, K]`."""
    mask = torch.zeros(num_nodes, len(columns), dtype=torch.bool)
    for k, nodes in enumerate(columns):
        mask[nodes, k] = True
    return mask


def _read_set(nodes: Any, num_nodes: int, name: str) -> NDArray[np.int64]:
    array = nodes.detach().cpu().numpy() if isinstance(nodes, Tensor) else np.asarray(nodes)
    array = np.atleast_1d(array)
    if array.dtype.kind == "b":
        if array.shape != (num_nodes,):
            raise InputError(name, f"have shape [{num_nodes}] as a mask", list(array.shape))
        array = np.flatnonzero(array)
    if array.size == 0:
        raise InputError(name, "name at least one node", "none", "Distances are measured from these nodes.")
    if array.ndim != 1 or array.dtype.kind not in "ui":
        value, remedy = f"{array.dtype} of shape {list(array.shape)}", f"Nodes are numbered from 0 to {num_nodes - 1}."
        raise InputTypeError(name, "be node ids or a mask", value, remedy)
    outside = (array < 0) | (array >= num_nodes)
    if outside.any():
        raise InputError(name, f"name nodes 0..{num_nodes - 1}", int(array[outside][0]))
    return np.unique(array).astype(np.int64)


@dataclass(frozen=True)
class DegreePotential:
    """ρ(i) = δ(i)^α (paper, Sec. 2.7), with ρ = 1 on isolated nodes, where it has no effect.

    Parameters
    ----------
    alpha : float
        A negative α lengthens distances through dense regions, α = 0 gives ρ = 1 everywhere.

    Examples
    --------
    >>> DegreePotential(-1.0)(Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")).tolist()
    [1.0, 0.5, 1.0]
    """

    alpha: float

    def __post_init__(self) -> None:
        check_real("alpha", self.alpha, closed="neither", rule="be a finite number")

    def __call__(self, graph: Graph) -> Float[Tensor, " n"]:
        degree = graph.degree
        return torch.where(degree > 0, degree, torch.ones_like(degree)) ** self.alpha


def read_potential(potential: Potential | None, graph: Graph, columns: int, dtype: torch.dtype) -> Float[Tensor, "n g"]:
    """ρ by node, `[N, 1]` or `[N, K]`, on the graph's device; None is ρ = 1."""
    if potential is None:
        return torch.ones(graph.num_nodes, 1, dtype=dtype, device=graph.device)
    value = potential if isinstance(potential, Tensor) else potential(graph) if callable(potential) else None
    if not isinstance(value, Tensor):
        kind = type(potential if value is None else value).__name__
        raise InputTypeError("potential", "be a tensor or return one", kind, "Try DegreePotential(-1).")
    by_column = (value.unsqueeze(1) if value.dim() == 1 else value).to(device=graph.device, dtype=dtype)
    if by_column.shape not in ((graph.num_nodes, 1), (graph.num_nodes, columns)):
        rule = f"have shape [{graph.num_nodes}] or [{graph.num_nodes}, {columns}], one number per node"
        raise InputError("potential", rule, list(value.shape))
    valid = torch.isfinite(by_column) & (by_column > 0)
    check_entries("potential", by_column, valid, "be positive and finite", "node")
    return by_column


def check_p(p: float) -> float:
    """Returns the exponent as a float if it lies in [1, ∞]."""
    if isinstance(p, bool) or not isinstance(p, Real):
        raise InputTypeError("p", "be a number in [1, inf]", repr(p), "Use p=math.inf for shortest paths.")
    if not p >= 1:
        raise InputError("p", "lie in [1, inf]", p, "Use {p} for shortest paths.", hints={"p": "p=math.inf"})
    return float(p)


def difference(graph: Graph, f: Float[Tensor, " n *c"]) -> Float[Tensor, " e *c"]:
    """(d_w f)(i, j) = √w(i, j) · (f(j) − f(i)), Eq. (1)."""
    csr = graph.csr
    rise = f[csr.indices.long()] - f[csr.rows]
    if csr.weight is None:
        return rise
    root = csr.weight.to(f.dtype).sqrt()
    return (root if f.dim() == 1 else root.unsqueeze(1)) * rise


def upwind_difference(graph: Graph, f: Float[Tensor, " n *c"]) -> Float[Tensor, " e *c"]:
    """(d⁻_w f)(i, j) = √w(i, j) · max(f(i) − f(j), 0), Eq. (4)."""
    return (-difference(graph, f)).clamp(min=0)


def upwind_gradient_norm(graph: Graph, f: Float[Tensor, " n *c"], p: float) -> Float[Tensor, " n *c"]:
    """‖∇⁻_w f(i)‖_p, Eq. (6), with the shape of f: the slope down which a front arrived."""
    return p_norm(graph.csr, upwind_difference(graph, f), p)


def residual(
    graph: Graph, f: Float[Tensor, " n *c"], p: float, potential: Float[Tensor, "n *#c"] | float = 1.0
) -> Float[Tensor, " n *c"]:
    """ρ(i)‖∇⁻_w f(i)‖_p − 1, Eq. (7): 0 where f solves the equation, NaN where f is infinite.

    The boundary, where the equation need not hold, is included.
    """
    return (potential * upwind_gradient_norm(graph, f, p) - 1).masked_fill(torch.isinf(f), math.nan)


def p_norm(csr: CSR, nonnegative: Float[Tensor, " e *c"], p: float) -> Float[Tensor, " n *c"]:
    """(Σ_j a(i, j)^p)^(1/p) over the edges of each row; the maximum for p = ∞; 0 for a row without edges."""
    check_p(p)
    if math.isinf(p):
        return _reduce(csr, nonnegative, "max")
    if p == 1:
        return _reduce(csr, nonnegative, "sum")
    # Dividing by the largest entry keeps powers representable for any p; it cancels in exact arithmetic.
    largest = _reduce(csr, nonnegative.detach(), "max")
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    total = _reduce(csr, (nonnegative / scale[csr.rows]) ** p, "sum")
    positive = total > 0
    return torch.where(positive, scale * torch.where(positive, total, torch.ones_like(total)) ** (1 / p), total)


def _reduce(csr: CSR, by_edge: Tensor, reduction: str) -> Tensor:
    if reduction == "sum":
        return torch.segment_reduce(by_edge, "sum", offsets=csr.indptr, initial=0)
    # Not segment_reduce: its gradient counts equal maxima twice.
    index = csr.rows if by_edge.dim() == 1 else csr.rows.unsqueeze(1).expand_as(by_edge)
    return by_edge.new_zeros((csr.num_nodes, *by_edge.shape[1:])).scatter_reduce(0, index, by_edge, "amax")


@dataclass(frozen=True, eq=False)
class Field:
    """F(f) = 1 − ρ‖∇⁻_w f‖_p off the boundary and 0 on it, for C columns at once.

    `rho` is `[N, G]` and `root_weight` (√w) is `[E, G]` or None for unit weights. G divides C: the columns form G equal
    groups of adjacent ones, and each group has its own parameters. `boundary_mask`, `[N, C]` or None, is True on the
    boundary. `symmetric` promises that √w is the same in both directions of an edge. All follow the rows of `csr`.
    """

    csr: CSR
    p: float
    rho: Float[Tensor, "#n g"]
    root_weight: Float[Tensor, "_ h"] | None = None
    boundary_mask: Bool[Tensor, "n c"] | None = None
    symmetric: bool = True

    @cached_property
    def root_weight_by_column(self) -> Float[Tensor, "e h"] | None:
        """√w along the transposed rows, which the adjoint reads."""
        if self.root_weight is None or self.symmetric:
            return self.root_weight
        return self.root_weight.index_select(0, self.csr.column_order.long())

    def detached(self) -> Field:
        """The same field, detached from autograd."""
        root = None if self.root_weight is None else self.root_weight.detach()
        return replace(self, rho=self.rho.detach(), root_weight=root)

    @cached_property
    def cfl_bound(self) -> float:
        """The largest `cfl_number`; its product with the step must stay below a scheme's limits. 0 without edges."""
        return float(self.cfl_number().max())

    def cfl_number(self) -> Float[Tensor, "n g"]:
        """ρ(i)‖√w(i,·)‖_p, `[N, G]`: how much F(i) can change with f (Hölder)."""
        rho = self.rho.detach()
        if self.root_weight is None:
            degree = (self.csr.indptr[1:] - self.csr.indptr[:-1]).to(rho.dtype).unsqueeze(1)
            return rho * torch.where(degree > 0, degree ** (1 / self.p), degree)
        reach = self._reach(self.root_weight.detach())
        groups = max(rho.shape[1], reach.shape[1])
        return rho.repeat_interleave(groups // rho.shape[1], 1) * reach.repeat_interleave(groups // reach.shape[1], 1)

    def _reach(self, root: Float[Tensor, "e h"]) -> Float[Tensor, "n h"]:
        """‖√w(i,·)‖_p, `[N, G]`."""
        csr = self.csr
        if csr.mapped is None:
            return p_norm(csr, root, self.p)
        ends = ((rows, int(csr.indptr[rows[0]]), int(csr.indptr[rows[1]])) for rows in csr.blocks())
        device = csr.indptr.device
        return torch.cat([p_norm(csr.part(*rows), root[begin:end].to(device), self.p) for rows, begin, end in ends])
