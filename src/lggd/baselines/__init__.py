"""The methods that LGGD is compared with. All are a `Member`; those that are trained are a `Baseline`."""

from lggd.baselines.baseline import Baseline
from lggd.baselines.complement_graph import Complement
from lggd.baselines.decoupled import APPNP, GPRGNN, SGC, MLPClassifier
from lggd.baselines.gaug import GAugM, GAugO
from lggd.baselines.goal import GOAL
from lggd.baselines.label_propagation import AutoScale, CorrectAndSmooth, FixedScale, LabelPropagation
from lggd.baselines.mixing import GraphMix, MixUp
from lggd.baselines.rewiring import GDC, DropEdge
from lggd.baselines.scikit_network import Diffusion, MajorityVote, NearestNeighbours, PageRank, ScikitNetwork
from lggd.diffusion import PPR, Heat

__all__ = [
    "APPNP", "GDC", "GOAL", "GPRGNN", "PPR", "SGC", "AutoScale", "Baseline", "Complement", "CorrectAndSmooth",
    "Diffusion", "DropEdge", "FixedScale", "GAugM", "GAugO", "GraphMix", "Heat", "LabelPropagation", "MLPClassifier",
    "MajorityVote", "MixUp", "NearestNeighbours", "PageRank", "ScikitNetwork",
]  # fmt: skip
