"""Models: from a graph with a few labels to predictions. Importing them makes every kind of saved model known."""

import lggd.baselines as _baselines  # noqa: F401 (registers what a saved model may be)
from lggd.estimator.storage import load_model
from lggd.models.batching import fit_together
from lggd.models.classifier import LGGDClassifier
from lggd.models.ensemble import Ensemble
from lggd.models.plus import LGGDPlus
from lggd.models.readout import BackboneReadout, MeanReadout, NearestClass
from lggd.models.self_training import SelfTraining

__all__ = [
    "BackboneReadout",
    "Ensemble",
    "LGGDClassifier",
    "LGGDPlus",
    "MeanReadout",
    "NearestClass",
    "SelfTraining",
    "fit_together",
    "load_model",
]
