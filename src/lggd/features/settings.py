"""All that LGGD can be told, and three ways of telling it: our defaults, the paper's text, the authors' release."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from torch import nn

from lggd.equation.operators import check_p
from lggd.equation.potential import DegreePotential
from lggd.errors import InputError, InputTypeError
from lggd.features.scaling import MaxScale, Scale, SoftmaxScale
from lggd.learning.networks import MLP, FromModule, PropagatedMLP
from lggd.learning.parameters import Coefficients, LearnedEdgeWeights
from lggd.solvers.cauchy import FAR
from lggd.solvers.scheme import RK4, FixedStep
from lggd.training.optimization import Optimization

Horizons = Literal["each", "shared"]
Mode = Literal["replace", "concat"]


@dataclass(frozen=True)
class Settings:
    """What each means is told at `LGGD`."""

    times: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0)
    p: float = 1.0
    potential: Coefficients | None = DegreePotential(-1.0)
    initial: MLP | PropagatedMLP | FromModule = PropagatedMLP()
    horizons: Horizons = "each"
    cross_fit: int = 0
    scale: Scale = SoftmaxScale()
    reachable: bool = True
    cap: float = FAR
    mode: Mode = "replace"
    scheme: FixedStep = RK4()
    optimization: Optimization = Optimization(lr=0.01, weight_decay=0.002, epochs=150, patience=None)
    validation: float = 0.2

    def __post_init__(self) -> None:
        for name, allowed in (("horizons", get_args(Horizons)), ("mode", get_args(Mode))):
            if getattr(self, name) not in allowed:
                raise InputError(name, f"be {' or '.join(map(repr, allowed))}", repr(getattr(self, name)))
        if (
            isinstance(self.cross_fit, bool)
            or not isinstance(self.cross_fit, int)
            or self.cross_fit < 0
            or self.cross_fit == 1
        ):
            raise InputError("cross_fit", "be 0 (none) or at least 2 folds", repr(self.cross_fit))
        if not self.cap > 0:
            raise InputError("cap", "be positive", self.cap, "Use math.inf for none.")
        if not 0 <= self.validation < 1:
            raise InputError("validation", "be a share in [0, 1)", self.validation)
        if not isinstance(self.scale, Scale):
            raise InputTypeError("scale", "be one such as MaxScale()", repr(self.scale))
        check_p(self.p)


# The paper leaves α, the step, the sizes of the MLP, dropout and weight decay to a search on validation; here they are
# those of the release. The step may exceed what is stable on graphs with large degrees, as theirs does.
_PAPER = Settings(
    potential=DegreePotential(-0.5),
    initial=MLP(hidden=(512, 128), dropout=0.5),
    horizons="shared",
    cross_fit=0,
    scale=MaxScale(),
    reachable=False,
    cap=math.inf,
    scheme=RK4(step=0.1, force=True),
    optimization=Optimization(lr=0.01, weight_decay=0.005, epochs=150, patience=None),
)
_RELEASE = replace(_PAPER, potential=LearnedEdgeWeights(DegreePotential(-0.5)), horizons="each")
PRESETS = {"default": Settings(), "paper": _PAPER, "release": _RELEASE}


def read_initial(initial: object) -> MLP | PropagatedMLP | FromModule:
    """A choice of networks; a module of the user's is wrapped into one."""
    if isinstance(initial, nn.Module):
        return FromModule(initial)
    if isinstance(initial, (MLP, PropagatedMLP, FromModule)):
        return initial
    raise InputTypeError("initial", "be MLP(), PropagatedMLP() or a torch module", repr(initial))
