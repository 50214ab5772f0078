"""What learned distances are compared with, all under one contract. See `Baseline`."""

from lggd.baselines.baseline import Baseline
from lggd.baselines.dropedge import DropEdge
from lggd.baselines.gaug_m import GAugM
from lggd.baselines.gaug_o import GAugO
from lggd.baselines.gdc import GDC, PPR, Heat
from lggd.baselines.goal import GOAL
from lggd.baselines.goal_complement import Complement
from lggd.baselines.gprgnn import GPRGNN
from lggd.baselines.graphmix import GraphMix
from lggd.baselines.mixup import MixUp

__all__ = [
    "GDC",
    "GOAL",
    "GPRGNN",
    "PPR",
    "Baseline",
    "Complement",
    "DropEdge",
    "GAugM",
    "GAugO",
    "GraphMix",
    "Heat",
    "MixUp",
]
