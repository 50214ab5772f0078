"""Memory estimates of learning distances, known before training starts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lggd.graph import Graph
from lggd.learning.flow import Flow
from lggd.learning.networks import MLP, PropagatedMLP
from lggd.learning.node_features import SPARSE_BELOW, check_node_features
from lggd.learning.parameters import Equation
from lggd.memory import Memory
from lggd.solvers.plan import check_times, graph_bytes, saved_states, state_bytes

if TYPE_CHECKING:
    from lggd.features.lggd import LGGD

REMEDY = (
    "Fit fewer models together, or use smaller networks, fewer times, or larger steps in time; "
    "per_time=False learns one network for all times."
)
# Fraction of the free memory that a pass may take, and number of problems from which the memory of one is estimated.
USABLE, MANY = 0.7, 16
UNLIMITED = 2**62
FLOAT = 4
# Bytes of an entry of a sparse matrix: value and column, both again in the transpose, and the original position.
SPARSE_ENTRY = 2 * (4 + 8) + 8
# Bytes of an entry of Â while it is built: its indices as read, with self-loops and sorted (16 each), the sorting key
# and the order (8 each), and its value twice.
ADJACENCY_ENTRY = 3 * 16 + 2 * 8 + 2 * 4
# A parameter, its best value, its gradient and Adam's two moments.
COPIES_OF_PARAMETERS = 5
# Coefficients also in the shapes of the equation, for the problems still running at each time, and their gradients.
COPIES_OF_COEFFICIENTS = COPIES_OF_PARAMETERS + 8


def training_memory(data: Any, graph: Graph, model: LGGD, num_classes: int, problems: int) -> Memory:
    """The peak memory of learning this many problems of a model."""
    x = check_node_features(data)
    parameters, hidden = _network(x, model, num_classes)
    # A GPU works on all networks at once: their weights are arranged for one product, and so are the gradients.
    on_gpu = graph.device.type == "cuda"
    parts = {
        "graph": graph_bytes(graph),
        "node features": _node_features(x, graph, model),
        "networks": (COPIES_OF_PARAMETERS + (3 if on_gpu else 0)) * problems * parameters * FLOAT,
        "hidden layers": problems * _layers(graph, model, hidden, num_classes),
        "input dropout": _input_dropout(x, graph, model, problems),
        "coefficients": _coefficients(graph, model, problems),
        "evolution": _evolution(graph, model, problems * num_classes),
    }
    return Memory(parts, graph.device)


def fitting_problems(data: Any, graph: Graph, model: LGGD, num_classes: int) -> int:
    """The number of problems that fit into the free memory of the device; unlimited where that is unknown."""
    single, several = (training_memory(data, graph, model, num_classes, problems) for problems in (1, 1 + MANY))
    if single.free is None:
        return UNLIMITED
    return max(1, 1 + int((single.free * USABLE - single.total) / max(1, several.total - single.total) * MANY))


def _network(x: Tensor, model: LGGD, num_classes: int) -> tuple[int, tuple[int, ...]]:
    """The number of parameters of a network, and the sizes of its hidden layers."""
    initial = model.initial
    if isinstance(initial, nn.Module):
        known = (p for p in initial.parameters() if not nn.parameter.is_lazy(p))
        return sum(p.numel() for p in known), ()
    sizes = (_blocks(initial) * (x.shape[1] + initial.zeros), *initial.hidden, num_classes)
    return sum((a + 1) * b for a, b in pairwise(sizes)), initial.hidden


def _blocks(initial: MLP | PropagatedMLP) -> int:
    return initial.num_blocks if isinstance(initial, PropagatedMLP) else 1


def _node_features(x: Tensor, graph: Graph, model: LGGD) -> int:
    initial, dense = model.initial, x.shape[0] * x.shape[1] * FLOAT
    if isinstance(initial, nn.Module):
        return dense
    adjacency = (graph.num_edges + graph.num_nodes) * ADJACENCY_ENTRY if isinstance(initial, PropagatedMLP) else 0
    on_gpu = graph.device.type == "cuda"
    dense_pagerank = on_gpu and isinstance(initial, PropagatedMLP) and initial.pagerank is not None
    if _is_sparse(x) and not dense_pagerank:
        return _nonzero(x) * SPARSE_ENTRY + adjacency
    return _blocks(initial) * dense + adjacency


def _is_sparse(x: Tensor) -> bool:
    """Whether node features are stored in compressed rows."""
    return x.layout != torch.strided or _nonzero(x) < SPARSE_BELOW * x.numel()


def _nonzero(x: Tensor) -> int:
    return int(x.count_nonzero()) if x.layout == torch.strided else int(x._nnz())


def _layers(graph: Graph, model: LGGD, hidden: tuple[int, ...], num_classes: int) -> int:
    """The output of each layer and one byte for its dropout; on a GPU also its gradients, in three shapes.

    A CPU evaluates the networks one by one, and needs the gradients of only one at a time.
    """
    on_gpu = graph.device.type == "cuda"
    per_node = sum(hidden) * ((4 * FLOAT + 2) if on_gpu else (FLOAT + 1)) + num_classes * 4 * FLOAT
    if on_gpu and hidden and isinstance(model.initial, PropagatedMLP):
        per_node += model.initial.num_blocks * hidden[0] * FLOAT
    return graph.num_nodes * per_node


def _input_dropout(x: Tensor, graph: Graph, model: LGGD, problems: int) -> int:
    """One byte per entry of x, and the entries after dropout: on a CPU of one network at a time.

    Sparse entries are stored twice, also transposed. A GPU needs another byte for the mask.
    """
    if not isinstance(model.initial, MLP) or not model.initial.input_dropout:
        return 0
    entries, dropped = (_nonzero(x), 2 * FLOAT) if _is_sparse(x) else (x.numel(), FLOAT)
    if graph.device.type == "cuda":
        return problems * entries * (2 + dropped)
    return entries * (problems + dropped)


def _coefficients(graph: Graph, model: LGGD, problems: int) -> int:
    """Learned potentials and weights, the coefficients that the equation computes from them, and their gradients."""
    equation = Equation(graph, model.potential, [torch.Generator(graph.device)])
    return COPIES_OF_COEFFICIENTS * problems * sum(theta.value.numel() for theta in equation.parameters()) * FLOAT


def _evolution(graph: Graph, model: LGGD, columns: int) -> int:
    """The states of a step, those saved for the backward pass and those in it, and outputs with their gradients."""
    state, times = state_bytes(graph, columns, torch.float32), check_times(model.times)
    equation = Equation(graph, model.potential, [torch.Generator(graph.device)])
    flow = Flow(graph, equation, times, [range(len(times))], model.p, model.scheme)
    stages = len(model.scheme.tableau.weights)
    return (saved_states(flow.plan, state, graph.device) + 2 * stages + 8) * state
