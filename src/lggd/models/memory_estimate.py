"""Estimates of the memory that a computation will need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from lggd._system.memory import Memory
from lggd.errors import InputTypeError
from lggd.estimator import Labels, read_graph
from lggd.features import LGGD, DistanceFeatures, SolvedLGGD
from lggd.features.distance_training import horizons
from lggd.features.training_memory import FLOAT, training_memory
from lggd.graph import Graph
from lggd.models.classifier import LGGDClassifier
from lggd.solvers.scheme import RK4, FixedStep, evolution_memory
from lggd.validation import check_instance, check_int

# Filtered copies of the projected node features that `KernelRidge` compares, about.
FILTERED_COPIES = 40


def estimate_memory(
    graph: Graph | Any, model: LGGDClassifier | DistanceFeatures | None = None, *, models: int = 1, columns: int = 1,
    outputs: int = 1, gradient_steps: int = 0, scheme: FixedStep = RK4(), dtype: torch.dtype = torch.float32,
) -> Memory:  # fmt: skip
    """Estimate the peak memory of an evolution, or of learning distances.

    The estimate is accurate to about a factor of 2 and tends to be too large. Backbones are not included.

    Parameters
    ----------
    graph : Graph or torch_geometric.data.Data
        The graph of an evolution; or, with a `model`, the data with `y` and `x` to fit it to.
    model : LGGD, SolvedLGGD, GGD or LGGDClassifier, optional
    models : int
        Number of such models fitted together.
    columns, outputs : int
        Numbers of columns and of output times of an evolution.
    gradient_steps : int
        Number of time steps if gradients are needed, otherwise 0.
    scheme : Euler, SSPRK3 or RK4
    dtype : torch.dtype
        torch.float32 or torch.float64.

    Returns
    -------
    Memory
        `.total` in bytes, `.parts` by purpose, and whether it `.fits`.

    Examples
    --------
    >>> import lggd
    >>> print(estimate_memory(lggd.Graph.from_grid(torch.ones(100, 100, dtype=torch.bool).numpy()), columns=8))
    about 2.7 MiB (graph 232.8 KiB, states 2.4 MiB)
    """
    for name, count in (("models", models), ("columns", columns), ("outputs", outputs)):
        check_int(name, count, minimum=1)
    check_int("gradient_steps", gradient_steps, minimum=0)
    check_instance("scheme", scheme, FixedStep, "a stepping scheme such as RK4()")
    if dtype not in (torch.float32, torch.float64):
        raise InputTypeError("dtype", "be torch.float32 or torch.float64", dtype)
    if model is None:
        check_instance("graph", graph, Graph, "a lggd.Graph if model is None")
        return evolution_memory(graph, columns, scheme, outputs, gradient_steps, dtype)
    features: Any = model.features if isinstance(model, LGGDClassifier) else model
    check_instance("model", features, DistanceFeatures, "LGGD(), GGD() or a classifier with such features")
    if isinstance(graph, Graph) or not hasattr(graph, "edge_index"):
        raise InputTypeError("graph", "be PyG data with labels if model is not None", type(graph).__name__)
    data, classes = graph, Labels.read(graph).num_classes
    graph = read_graph(data)
    if isinstance(features, LGGD):
        return training_memory(data, graph, features, classes, models * len(horizons(features)))
    memory = evolution_memory(graph, models * classes, features.scheme, len(features.times), 0, torch.float32)
    if isinstance(features, SolvedLGGD):
        columns = min(data.num_features or data.num_nodes, max(features.initial.widths))
        copies = FILTERED_COPIES * data.num_nodes * columns * FLOAT
        return replace(memory, parts={**memory.parts, "node features": copies})
    return memory
