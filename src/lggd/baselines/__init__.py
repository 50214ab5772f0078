"""The methods that LGGD is compared with. All are a `Member`; those that are trained are a `Baseline`."""

from lggd.baselines.baseline import Baseline
from lggd.baselines.label_propagation import LabelPropagation
from lggd.baselines.rewiring import GDC, DropEdge

__all__ = ["GDC", "Baseline", "DropEdge", "LabelPropagation"]
