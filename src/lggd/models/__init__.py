"""Models that predict the classes of nodes from a few labels."""

from lggd.estimator import load_model
from lggd.models.classifier import LGGDClassifier
from lggd.models.plus import Ensemble, LGGDPlus, SelfTraining
from lggd.models.readout import BackboneReadout, MeanReadout, NearestClass, WeightedReadout

__all__ = [
    "BackboneReadout", "Ensemble", "LGGDClassifier", "LGGDPlus", "MeanReadout", "NearestClass", "SelfTraining",
    "WeightedReadout", "load_model",
]  # fmt: skip
