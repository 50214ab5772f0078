"""How much memory learning takes, known before it starts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from lggd.features.settings import Settings
from lggd.graph import Graph
from lggd.learning.flow import Flow
from lggd.learning.networks import MLP, FromModule, PropagatedMLP
from lggd.learning.node_features import SPARSE_BELOW, check_node_features
from lggd.learning.parameters import Equation, LearnedEdgeWeights, LearnedPotential, LearnedTimeScale
from lggd.memory import Memory
from lggd.solvers.footprint import graph_bytes, saved_states, state_bytes

REMEDY = (
    "Fit fewer models together, or use smaller networks, fewer times, or larger steps in time; "
    'horizons="shared" learns one network for all times.'
)
# How much of the free memory a pass may fill by the estimate, and how many problems tell what each of them takes.
SHARE_TO_USE, MANY = 0.7, 16
FLOAT = 4
# An entry of a sparse matrix: its value and its column, both once more in the transposed one, and where it was before.
SPARSE_ENTRY = 2 * (4 + 8) + 8
# An edge of Â while that is being made: where it lies as given, with loops and sorted (16 bytes each), what it was
# sorted by and its order (8 each), and its value twice.
ENTRY_IN_THE_MAKING = 3 * 16 + 2 * 8 + 2 * 4
# What is learned is held as it is and as it was best, with its gradient and Adam's two moments.
COPIES_OF_LEARNED = 5
# And coefficients in the shapes that the equation needs them in, each time with those still running, and the gradients
# of that.
COPIES_OF_COEFFICIENTS = COPIES_OF_LEARNED + 8


def learning_memory(data: Any, graph: Graph, settings: Settings, num_classes: int, problems: int) -> Memory:
    """What Pipeline 1 holds at its peak for so many problems with these settings."""
    x = check_node_features(data)
    learned, hidden = _network(x, settings, num_classes)
    # A GPU works on all networks at once: their weights are arranged for one product, and so are the gradients.
    on_gpu = graph.device.type == "cuda"
    parts = {
        "graph": graph_bytes(graph),
        "contents": _contents(x, graph, settings),
        "networks": (COPIES_OF_LEARNED + (3 if on_gpu else 0)) * problems * learned * FLOAT,
        "their layers": problems * _layers(graph, settings, hidden, num_classes),
        "what they drop": _dropped(x, graph, settings, problems),
        "coefficients": _coefficients(graph, settings, problems),
        "evolution": _evolution(graph, settings, problems * num_classes),
    }
    return Memory(parts, graph.device)


def problems_that_fit(data: Any, graph: Graph, settings: Settings, num_classes: int) -> int:
    """How many problems the device has memory for now, by the estimate; as many as one likes where it does not tell."""
    one, many = (learning_memory(data, graph, settings, num_classes, problems) for problems in (1, 1 + MANY))
    if one.free is None:
        return 2**62
    return max(1, 1 + int((one.free * SHARE_TO_USE - one.total) / max(1, many.total - one.total) * MANY))


def _network(x: Tensor, settings: Settings, num_classes: int) -> tuple[int, tuple[int, ...]]:
    """How many numbers a network learns, and its hidden layers."""
    initial = settings.initial
    if isinstance(initial, FromModule):
        parameters = (p for p in initial.module.parameters() if not torch.nn.parameter.is_lazy(p))
        return sum(p.numel() for p in parameters), ()
    blocks = initial.num_blocks if isinstance(initial, PropagatedMLP) else 1
    sizes = (blocks * (x.shape[1] + initial.zeros), *initial.hidden, num_classes)
    return sum((a + 1) * b for a, b in pairwise(sizes)), initial.hidden


def _contents(x: Tensor, graph: Graph, settings: Settings) -> int:
    initial, dense = settings.initial, x.shape[0] * x.shape[1] * FLOAT
    if isinstance(initial, FromModule):
        return dense
    adjacency = (graph.num_edges + graph.num_nodes) * ENTRY_IN_THE_MAKING if isinstance(initial, PropagatedMLP) else 0
    if isinstance(initial, PropagatedMLP) and initial.pagerank is not None and graph.device.type == "cuda":
        return initial.num_blocks * dense + adjacency
    if _is_sparse(x):
        return _nonzero(x) * SPARSE_ENTRY + adjacency
    blocks = initial.num_blocks if isinstance(initial, PropagatedMLP) else 1
    return blocks * dense + adjacency


def _is_sparse(x: Tensor) -> bool:
    """Whether contents are kept in compressed rows."""
    return x.layout != torch.strided or _nonzero(x) < SPARSE_BELOW * x.numel()


def _nonzero(x: Tensor) -> int:
    return int(x.count_nonzero()) if x.layout == torch.strided else int(x._nnz())


def _layers(graph: Graph, settings: Settings, hidden: tuple[int, ...], num_classes: int) -> int:
    """What each layer of a network gave, and a byte for what was dropped; on a GPU its gradients too, in three shapes.

    A CPU goes through the networks one by one and needs gradients of one at a time.
    """
    on_gpu = graph.device.type == "cuda"
    each = sum(hidden) * ((4 * FLOAT + 2) if on_gpu else (FLOAT + 1)) + num_classes * 4 * FLOAT
    if on_gpu and hidden and isinstance(settings.initial, PropagatedMLP):
        each += settings.initial.num_blocks * hidden[0] * FLOAT
    return graph.num_nodes * each


def _dropped(x: Tensor, graph: Graph, settings: Settings, problems: int) -> int:
    """A byte for each entry of the contents, and what is left of them: on a CPU of one network at a time.

    Of sparse contents it is there twice, the second time transposed. A GPU has another byte, whether an entry is kept.
    """
    if not isinstance(settings.initial, MLP) or not settings.initial.input_dropout:
        return 0
    entries, left = (_nonzero(x), 2 * FLOAT) if _is_sparse(x) else (x.numel(), FLOAT)
    if graph.device.type == "cuda":
        return problems * entries * (2 + left)
    return entries * (problems + left)


def _coefficients(graph: Graph, settings: Settings, problems: int) -> int:
    """Learned potentials and weights, with what the equation makes of them and the gradients of that."""
    potential, learned = settings.potential, 0
    if isinstance(potential, LearnedEdgeWeights):
        learned += graph.num_edges
        potential = potential.potential
    if isinstance(potential, (LearnedPotential, LearnedTimeScale)):
        learned += graph.num_nodes if isinstance(potential, LearnedPotential) else 1
    return COPIES_OF_COEFFICIENTS * problems * learned * FLOAT


def _evolution(graph: Graph, settings: Settings, columns: int) -> int:
    """The states of a step, those kept for the way back and those on it, and outputs with their gradients."""
    state = state_bytes(graph, columns, torch.float32)
    equation = Equation(graph, settings.potential, [torch.Generator(graph.device)])
    flow = Flow(graph, equation, settings.times, [range(len(settings.times))], settings.p, settings.scheme)
    stages = len(settings.scheme.tableau.weights)
    return (saved_states(flow.plan, state, graph.device) + 2 * stages + 8) * state
