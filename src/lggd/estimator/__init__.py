"""The common parts of all models: interface, labels, settings and files."""

from lggd.estimator.estimator import VALIDATION, NodeClassifier
from lggd.estimator.inputs import Labels, check_data, input_tensors, read_graph, same_inputs
from lggd.estimator.settings import saveable
from lggd.estimator.storage import check_shape, load_model, with_prefix
from lggd.training.engine import without_prefix

__all__ = [
    "VALIDATION", "Labels", "NodeClassifier", "check_data", "check_shape", "input_tensors", "load_model", "read_graph",
    "same_inputs", "saveable", "with_prefix", "without_prefix",
]  # fmt: skip
