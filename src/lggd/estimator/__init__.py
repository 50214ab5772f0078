"""The common parts of all models: interface, labels, files, and the division of training into passes."""

from lggd.estimator.estimator import VALIDATION, NodeClassifier
from lggd.estimator.inputs import Labels, check_data, input_tensors, read_graph, same_inputs
from lggd.estimator.passes import FitSteps, FitTask, TrainingRequest, curves_of, first_equal, fit_tasks, in_parallel
from lggd.estimator.settings import saveable
from lggd.estimator.storage import check_shape, load_model, with_prefix
from lggd.training.engine import without_prefix

__all__ = [
    "VALIDATION", "FitSteps", "FitTask", "Labels", "NodeClassifier", "TrainingRequest", "check_data", "check_shape",
    "curves_of", "first_equal", "fit_tasks", "in_parallel", "input_tensors", "load_model", "read_graph", "same_inputs",
    "saveable", "with_prefix", "without_prefix",
]  # fmt: skip
