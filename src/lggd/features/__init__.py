"""Node features from distances to the labelled nodes: GGD, which learns nothing, and LGGD, which is trained."""

from lggd.features.distance_features import DistanceFeatures
from lggd.features.ggd import GGD
from lggd.features.lggd import LGGD

__all__ = ["GGD", "LGGD", "DistanceFeatures"]
