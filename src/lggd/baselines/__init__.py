"""The methods that LGGD is compared with. All are a `Member`; those that are trained are a `Baseline`."""

from lggd.baselines.baseline import Baseline
from lggd.baselines.decoupled import APPNP, GPRGNN, SGC, MLPClassifier
from lggd.baselines.label_propagation import AutoScale, CorrectAndSmooth, FixedScale, LabelPropagation
from lggd.baselines.rewiring import GDC, DropEdge
from lggd.baselines.scikit_network import Diffusion, MajorityVote, NearestNeighbours, PageRank, ScikitNetwork

__all__ = [
    "APPNP", "GDC", "GPRGNN", "SGC", "AutoScale", "Baseline", "CorrectAndSmooth", "Diffusion", "DropEdge",
    "FixedScale", "LabelPropagation", "MLPClassifier", "MajorityVote", "NearestNeighbours", "PageRank",
    "ScikitNetwork",
]  # fmt: skip
