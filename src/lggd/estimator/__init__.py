"""The common parts of all models: interface, labels, settings and files."""

from lggd.estimator.member import VALIDATION, Member
from lggd.estimator.settings import saveable
from lggd.estimator.storage import check_shape, load_model, with_prefix
from lggd.training.engine import without_prefix

__all__ = [
    "VALIDATION", "Member", "check_shape", "load_model", "saveable", "with_prefix", "without_prefix",
]  # fmt: skip
