"""Kernels of nodes, as functions of the cosine or the inner product of their filtered features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lggd.errors import InputError
from lggd.filters import Filter
from lggd.validation import check_instance, check_real

__all__ = ["ArcCosine", "FilterKernel", "Gaussian", "Linear"]


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
