"""What every model has in common: its labels, its contract, its files, and how its training is divided into passes."""

from lggd.estimator.estimator import NodeClassifier

__all__ = ["NodeClassifier"]
