"""Node features from distances to the labelled nodes: GGD, which learns nothing, LGGD, trained or in closed form."""

from lggd.features.distance_features import DistanceFeatures
from lggd.features.evolved_kernel_ridge import EvolvedKernelRidge
from lggd.features.ggd import GGD
from lggd.features.lggd import LGGD

__all__ = ["GGD", "LGGD", "DistanceFeatures", "EvolvedKernelRidge"]
