"""Kernels of nodes, functions of the cosine or the inner product of their filtered features; and mixtures of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from lggd.errors import InputError
from lggd.filters import PPR, Filter, Hops
from lggd.validation import check_instance, check_real

__all__ = ["ArcCosine", "FilterKernel", "Gaussian", "Linear"]

# Added to kernels: a constant feature with a coefficient of its own, which is the intercept.
INTERCEPT = 1.0
# Numbers of a kernel matrix that are computed at once on a CPU.
CACHED_ENTRIES = 2**18


@dataclass(frozen=True)
class Linear:
    """k = c: ridge regression on the features themselves.

    Parameters
    ----------
    unit : bool
        Whether features are scaled to unit length. If not, they keep their lengths, which depend on the number of the
        neighbours and on how similar they are; only their mean square is scaled to 1.

    Examples
    --------
    >>> import torch
    >>> Linear()(torch.tensor([0.5]))
    tensor([0.5000])
    """

    unit: bool = True

    def __post_init__(self) -> None:
        check_instance("unit", self.unit, bool, "True or False")

    def __call__(self, cosine: Tensor) -> Tensor:
        """The kernel at these cosines."""
        return cosine


@dataclass(frozen=True)
class ArcCosine:
    """k = (√(1 − c²) + (π − arccos c) c) / π (Cho and Saul, 2009): an infinitely wide layer of rectified units.

    Examples
    --------
    >>> import torch
    >>> ArcCosine()(torch.tensor([1.0]))
    tensor([1.])
    """

    unit: ClassVar[bool] = True

    def __call__(self, cosine: Tensor) -> Tensor:
        """The kernel at these cosines."""
        c = cosine.clamp(-1, 1)
        return ((1 - c * c).sqrt() + (math.pi - c.acos()) * c) / math.pi


@dataclass(frozen=True)
class Gaussian:
    """k = exp((c − 1) / width): the Gaussian kernel, as ‖a − b‖² = 2 − 2c for unit vectors.

    Parameters
    ----------
    width : float
        The variance of the Gaussian.

    Examples
    --------
    >>> import torch
    >>> Gaussian(width=0.5)(torch.tensor([1.0]))
    tensor([1.])
    """

    unit: ClassVar[bool] = True
    width: float = 0.3

    def __post_init__(self) -> None:
        check_real("width", self.width, 0, math.inf, closed="neither", rule="be positive")

    def __call__(self, cosine: Tensor) -> Tensor:
        """The kernel at these cosines."""
        return ((cosine - 1) / self.width).exp()


Kernel = Linear | ArcCosine | Gaussian


@dataclass(frozen=True)
class FilterKernel:
    """A kernel of nodes: `kernel` of the mean cosine of their features under several filters.

    With `Linear(unit=False)`, it is the mean inner product.

    Parameters
    ----------
    filters : tuple of Hops, HighPass, PPR or Heat
        How features are averaged over the graph.
    kernel : Linear, ArcCosine or Gaussian
        The function of the cosine.

    Examples
    --------
    >>> from lggd.filters import PPR, Hops
    >>> FilterKernel((Hops(2), PPR(0.1)), Linear()).kernel
    Linear(unit=True)
    """

    filters: tuple[Filter, ...]
    kernel: Kernel

    def __post_init__(self) -> None:
        check_instance("filters", self.filters, tuple, "a tuple such as (Hops(0), Hops(2))")
        if not self.filters:
            raise InputError("filters", "not be empty", "()", "Use (Hops(0),) for the node features themselves.")
        for filter in self.filters:
            check_instance("filters", filter, Filter, "filters such as Hops(2), HighPass() or PPR(0.1)")
        check_instance("kernel", self.kernel, Kernel, "a kernel such as Linear(), ArcCosine() or Gaussian()")


def filter_kernels(filters: Sequence[tuple[Filter, ...]], kernels: Sequence[Kernel]) -> tuple[FilterKernel, ...]:
    """Every kernel with every set of filters."""
    return tuple(FilterKernel(each, kernel) for each in filters for kernel in kernels)


# The kernels that the closed form chooses from by default.
_SHAPES = (Linear(), ArcCosine(), Gaussian(0.3))
_LOOPLESS: tuple[Filter, ...] = (Hops(0), Hops(1, False), Hops(2, False))
_FOUR_HOPS: tuple[Filter, ...] = (Hops(0), Hops(1), Hops(2), Hops(4))
# Of node features: near neighbourhoods, together with x or not. Lengths depend on degrees, which matter where
# neighbours belong to other classes.
KERNELS = (
    *filter_kernels(((Hops(2),), _FOUR_HOPS), _SHAPES),
    *filter_kernels((_LOOPLESS,), _SHAPES[:2]),
    *filter_kernels(((Hops(2),), _LOOPLESS), (Linear(unit=False),)),
)
# With more principal directions: what averaging has not made smooth.
WIDE_KERNELS = filter_kernels(((Hops(0),), (Hops(2),), _FOUR_HOPS), _SHAPES[1:])
FAR_KERNELS = (
    *filter_kernels(((PPR(0.1),), (PPR(0.05),), (PPR(0.02),), (Hops(16),)), _SHAPES[:2]),
    *filter_kernels(((PPR(0.05),), (PPR(0.02),)), _SHAPES[2:]),
)
# On graphs with changed edge weights: averages over many neighbours, near and far.
REWEIGHTED_KERNELS = filter_kernels(((Hops(2),), _FOUR_HOPS), _SHAPES[:2])
FAR_REWEIGHTED_KERNELS = filter_kernels(((PPR(0.05),),), _SHAPES[:2])
# Of rows of the adjacency: wide neighbourhoods.
TOPOLOGY_KERNELS = filter_kernels(((PPR(0.02),),), _SHAPES[:2])
# Whether to look far is decided by comparing these.
FARTHER, NEARER = filter_kernels(((Hops(4),),), _SHAPES), filter_kernels(((Hops(2),),), _SHAPES)
# Few kernels, for graphs on which each filter is a pass over many millions of edges; see `KernelRidge.large`.
LARGE: dict[str, Any] = {
    "kernels": filter_kernels(((Hops(2),), (Hops(0), Hops(1), Hops(2))), (Linear(), ArcCosine())),
    "far_kernels": (),
    "wide_kernels": (),
    "topology_kernels": (),
    "agreement": None,
    "max_kernels": 2,
    "widths": (128,),
    "inducing": 256,
    "growth": 2.0,
}


@dataclass(frozen=True)
class ChosenKernel:
    """One kernel of a mixture, on one of several graphs that differ in node features or edge weights."""

    graph: str
    kernel: FilterKernel
    weight: float = 1.0


class NodeFeatures(Protocol):
    """Filtered features of nodes: in memory, on disk, or on the blocks of a cluster."""

    @property
    def num_nodes(self) -> int: ...

    def rows(self, filter: Filter, nodes: Tensor | None, unit: bool = True) -> Tensor:
        """The filtered features of these nodes, or of all, `[n, D]`: of unit length, or of mean square length 1."""


class MixtureKernel:
    """The weighted mean of several kernels of nodes, and an intercept.

    Parameters
    ----------
    graphs : mapping of str to NodeFeatures
        The node features on each graph.
    kernels : sequence of ChosenKernel
        The kernels to average.
    """

    def __init__(self, graphs: Mapping[str, NodeFeatures], kernels: Sequence[ChosenKernel]) -> None:
        self.graphs, self.kernels = graphs, kernels

    @property
    def num_nodes(self) -> int:
        return self.graphs[self.kernels[0].graph].num_nodes

    def points(self, nodes: Tensor | None = None) -> list[Tensor]:
        """The features of these nodes, or of all, under each filter of the mixture, `[n, D]` each."""
        return [self.graphs[graph].rows(filter, nodes, unit) for graph, filter, unit in self._filters()]

    def between(self, rows: Sequence[Tensor], columns: Sequence[Tensor]) -> Tensor:
        """The kernel between points, `[R, C]`."""
        kernel = rows[0].new_empty(len(rows[0]), len(columns[0]))
        # In parts that stay in the cache of a CPU; a GPU computes all at once.
        size = len(kernel) if kernel.is_cuda else CACHED_ENTRIES // max(1, kernel.shape[1])
        transposed = [block.t() for block in columns]
        for start in range(0, len(kernel), max(1, size)):
            part = slice(start, start + max(1, size))
            kernel[part] = self._part([block[part] for block in rows], transposed)
        return kernel

    def diagonal(self, points: Sequence[Tensor]) -> Tensor:
        """The kernel of every point with itself, float64 `[n]`."""
        chunks = zip(*(torch.split(block, 256) for block in points), strict=True)
        return torch.cat([self.between(chunk, chunk).diagonal() for chunk in chunks]).double()

    def _part(self, rows: Sequence[Tensor], columns: Sequence[Tensor]) -> Tensor:
        products = {key: one @ other for key, one, other in zip(self._filters(), rows, columns, strict=True)}
        total = torch.full((len(rows[0]), columns[0].shape[1]), INTERCEPT, dtype=rows[0].dtype, device=rows[0].device)
        weights = sum(chosen.weight for chosen in self.kernels)
        for chosen in self.kernels:
            kernel = chosen.kernel.kernel
            parts = [products[chosen.graph, filter, kernel.unit] for filter in chosen.kernel.filters]
            mean = parts[0] if len(parts) == 1 else torch.stack(parts).mean(0)
            total.add_(kernel(mean), alpha=chosen.weight / weights)
        return total

    def _filters(self) -> list[tuple[str, Filter, bool]]:
        keys = ((k.graph, filter, k.kernel.kernel.unit) for k in self.kernels for filter in k.kernel.filters)
        return list(dict.fromkeys(keys))
