"""How much memory something will take, before it is tried."""

from __future__ import annotations

from typing import Any

import torch

from lggd.errors import InputError, InputTypeError
from lggd.estimator.labels import Labels
from lggd.features import GGD, LGGD
from lggd.features.footprint import learning_memory
from lggd.graph import Graph
from lggd.memory import Memory
from lggd.models.classifier import LGGDClassifier
from lggd.solvers.footprint import evolution_memory
from lggd.solvers.scheme import RK4, FixedStep


def estimate_memory(
    graph: Graph | Any,
    model: LGGDClassifier | LGGD | GGD | None = None,
    *,
    models: int = 1,
    columns: int = 1,
    outputs: int = 1,
    gradient_steps: int = 0,
    scheme: FixedStep = RK4(),
    dtype: torch.dtype = torch.float32,
) -> Memory:
    """The memory at the peak of an evolution, or of learning: `.total` bytes, `.parts` by what they are for, `.fits`.

    - `estimate_memory(graph, columns=10, outputs=5)`: `evolve` with 10 columns and 5 times; `gradient_steps` is the
      number of steps where gradients are wanted.
    - `estimate_memory(data, LGGD(), models=10)`: fitting ten such models together, on PyG data with `y` and `x`.

    It is an estimate: sound to about a factor of 2, larger rather than smaller, for the graph's device. What a backbone
    takes is not in it.

    >>> import lggd
    >>> print(estimate_memory(lggd.Graph.from_grid(torch.ones(100, 100, dtype=torch.bool).numpy()), columns=8))
    about 2.7 MiB (graph 232.8 KiB, states 2.4 MiB)
    """
    for name, count, least in (
        ("models", models, 1), ("columns", columns, 1), ("outputs", outputs, 1), ("gradient_steps", gradient_steps, 0)
    ):  # fmt: skip
        if isinstance(count, bool) or not isinstance(count, int) or count < least:
            raise InputError(name, f"be a whole number from {least}", repr(count))
    if not isinstance(scheme, FixedStep):
        raise InputTypeError("scheme", "be a stepping scheme such as RK4()", repr(scheme))
    if dtype not in (torch.float32, torch.float64):
        raise InputTypeError("dtype", "be torch.float32 or torch.float64", dtype)
    if model is None:
        if not isinstance(graph, Graph):
            raise InputTypeError("graph", "be a lggd.Graph where no model is given", type(graph).__name__)
        return evolution_memory(graph, columns, scheme, outputs, gradient_steps, dtype)
    features = model.features if isinstance(model, LGGDClassifier) else model
    if not isinstance(features, (LGGD, GGD)):
        raise InputTypeError("model", "be LGGD(), GGD() or a classifier with such features", repr(model))
    if isinstance(graph, Graph) or not hasattr(graph, "edge_index"):
        raise InputTypeError("graph", "be PyG data with labels where a model is given", type(graph).__name__)
    data, classes = graph, Labels.read(graph).num_classes
    graph, settings = Graph.from_pyg(data, dtype=torch.float32), features.settings
    if isinstance(features, GGD):
        return evolution_memory(graph, models * classes, settings.scheme, len(settings.times), 0, torch.float32)
    problems = models * (1 if settings.horizons == "shared" else len(settings.times))
    return learning_memory(data, graph, settings, classes, problems)
