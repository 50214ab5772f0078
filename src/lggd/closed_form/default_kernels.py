"""The kernels that the closed form chooses from unless told otherwise."""

from __future__ import annotations

from typing import Any

from lggd.closed_form.filters import Filter, Hops
from lggd.closed_form.kernels import ArcCosine, Gaussian, Linear, filter_kernels
from lggd.diffusion import PPR

_SHAPES = (Linear(), ArcCosine(), Gaussian(0.3))
_LOOPLESS: tuple[Filter, ...] = (Hops(0), Hops(1, False), Hops(2, False))
_FOUR_HOPS: tuple[Filter, ...] = (Hops(0), Hops(1), Hops(2), Hops(4))
# Of node features: near neighbourhoods, together with x or not. Lengths tell degrees apart, which matter where
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
    "far": (),
    "wide": (),
    "topology": (),
    "agreement": None,
    "members": 2,
    "widths": (128,),
    "inducing": 256,
    "growth": 2.0,
}
