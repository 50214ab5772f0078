"""Node features from distances to the labelled nodes: GGD, which learns nothing, LGGD, trained or in closed form."""

from lggd.features.distance_features import DistanceFeatures
from lggd.features.ggd import GGD
from lggd.features.lggd import LGGD
from lggd.features.solved_lggd import SolvedLGGD

__all__ = ["GGD", "LGGD", "DistanceFeatures", "SolvedLGGD"]
