"""The methods that LGGD is compared with. All are a `NodeClassifier`; those that are trained are a `Baseline`."""

from lggd.baselines.appnp import APPNP
from lggd.baselines.baseline import Baseline
from lggd.baselines.complement_graph import Complement
from lggd.baselines.correct_and_smooth import AutoScale, CorrectAndSmooth, FixedScale
from lggd.baselines.dropedge import DropEdge
from lggd.baselines.gaug import GAugM, GAugO
from lggd.baselines.gdc import GDC
from lggd.baselines.goal import GOAL
from lggd.baselines.gprgnn import GPRGNN
from lggd.baselines.graphmix import GraphMix
from lggd.baselines.label_propagation import LabelPropagation
from lggd.baselines.mixup import MixUp
from lggd.baselines.mlp import MLPClassifier
from lggd.baselines.scikit_network import Diffusion, MajorityVote, NearestNeighbours, PageRank, ScikitNetwork
from lggd.baselines.sgc import SGC
from lggd.diffusion import PPR, Heat

__all__ = [
    "APPNP", "GDC", "GOAL", "GPRGNN", "PPR", "SGC", "AutoScale", "Baseline", "Complement", "CorrectAndSmooth",
    "Diffusion", "DropEdge", "FixedScale", "GAugM", "GAugO", "GraphMix", "Heat", "LabelPropagation", "MLPClassifier",
    "MajorityVote", "MixUp", "NearestNeighbours", "PageRank", "ScikitNetwork",
]  # fmt: skip
