"""What every model has in common: its labels, its contract, its files, and how many are fitted together."""

from lggd.estimator.batching import fit_together
from lggd.estimator.estimator import NodeClassifier
from lggd.estimator.storage import load_model

__all__ = ["NodeClassifier", "fit_together", "load_model"]
