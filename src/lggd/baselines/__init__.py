"""What learned distances are compared with, all under one contract. See `Baseline`."""

from lggd.baselines.baseline import Baseline

__all__ = ["Baseline"]
