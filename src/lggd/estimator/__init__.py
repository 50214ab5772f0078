"""The common parts of all models: interface, labels, files, and the division of training into passes."""

from lggd.estimator.estimator import NodeClassifier

__all__ = ["NodeClassifier"]
