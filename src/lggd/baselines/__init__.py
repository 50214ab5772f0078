"""The methods that LGGD is compared with. All share the interface of `Baseline`."""

from lggd.baselines.baseline import Baseline
from lggd.baselines.complement_graph import Complement
from lggd.baselines.dropedge import DropEdge
from lggd.baselines.gaug import GAugM, GAugO
from lggd.baselines.gdc import GDC
from lggd.baselines.goal import GOAL
from lggd.baselines.gprgnn import GPRGNN
from lggd.baselines.graphmix import GraphMix
from lggd.baselines.mixup import MixUp
from lggd.diffusion import PPR, Heat

__all__ = [
    "GDC", "GOAL", "GPRGNN", "PPR", "Baseline", "Complement", "DropEdge", "GAugM", "GAugO", "GraphMix", "Heat", "MixUp",
]  # fmt: skip
