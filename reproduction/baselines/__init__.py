"""Other authors' methods that only the tables need; the others are in `lggd.backbones` and `lggd.baselines`."""

from reproduction.baselines.complement_graph import Complement
from reproduction.baselines.correct_and_smooth import AutoScale, CorrectAndSmooth, FixedScale
from reproduction.baselines.gaug import GAugM, GAugO
from reproduction.baselines.goal import GOAL
from reproduction.baselines.mixing import GraphMix, MixUp
from reproduction.baselines.scikit_network import Diffusion, MajorityVote, NearestNeighbours, PageRank, ScikitNetwork

__all__ = [
    "GOAL", "AutoScale", "Complement", "CorrectAndSmooth", "Diffusion", "FixedScale", "GAugM", "GAugO", "GraphMix",
    "MajorityVote", "MixUp", "NearestNeighbours", "PageRank", "ScikitNetwork",
]  # fmt: skip
