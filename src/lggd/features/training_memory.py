"""How much memory learning distances takes, known before it starts."""

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
from lggd.solvers.footprint import graph_bytes, saved_states, state_bytes
from lggd.solvers.plan import check_times

if TYPE_CHECKING:
    from lggd.features.lggd import LGGD

REMEDY = (
    "Fit fewer models together, or use smaller networks, fewer times, or larger steps in time; "
    "per_time=False learns one network for all times."
)
# How much of the free memory a pass may fill by the estimate, and how many more problems tell what one of them takes.
USABLE, MANY = 0.7, 16
UNLIMITED = 2**62
FLOAT = 4
# An entry of a sparse matrix: its value and its column, both also in the transposed one, and where it was before.
SPARSE_ENTRY = 2 * (4 + 8) + 8
# An entry of Â while that is built: its place as given, with loops and sorted (16 bytes each), the sorting key and the
# order (8 each), and its value twice.
ADJACENCY_ENTRY = 3 * 16 + 2 * 8 + 2 * 4
# A parameter, its best value, its gradient and Adam's two moments.
COPIES_OF_PARAMETERS = 5
# Coefficients also in the shapes that the equation needs them in, at each time those still running, and the gradients.
COPIES_OF_COEFFICIENTS = COPIES_OF_PARAMETERS + 8


def training_memory(data: Any, graph: Graph, model: LGGD, num_classes: int, problems: int) -> Memory:
    """What learning so many problems of a model holds at its peak."""
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
    """How many problems the device has memory for now, by the estimate; no limit where its memory is unknown."""
    one, many = (training_memory(data, graph, model, num_classes, problems) for problems in (1, 1 + MANY))
    if one.free is None:
        return UNLIMITED
    return max(1, 1 + int((one.free * USABLE - one.total) / max(1, many.total - one.total) * MANY))


def _network(x: Tensor, model: LGGD, num_classes: int) -> tuple[int, tuple[int, ...]]:
    """The number of parameters of a network, and its hidden layers."""
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
    """Whether node features are kept in compressed rows."""
    return x.layout != torch.strided or _nonzero(x) < SPARSE_BELOW * x.numel()


def _nonzero(x: Tensor) -> int:
    return int(x.count_nonzero()) if x.layout == torch.strided else int(x._nnz())


def _layers(graph: Graph, model: LGGD, hidden: tuple[int, ...], num_classes: int) -> int:
    """The output of each layer and one byte for its dropout; on a GPU its gradients too, in three shapes.

    A CPU goes through the networks one by one and needs the gradients of one at a time.
    """
    on_gpu = graph.device.type == "cuda"
    each = sum(hidden) * ((4 * FLOAT + 2) if on_gpu else (FLOAT + 1)) + num_classes * 4 * FLOAT
    if on_gpu and hidden and isinstance(model.initial, PropagatedMLP):
        each += model.initial.num_blocks * hidden[0] * FLOAT
    return graph.num_nodes * each


def _input_dropout(x: Tensor, graph: Graph, model: LGGD, problems: int) -> int:
    """One byte per entry of x, and the entries that are left: on a CPU of one network at a time.

    Sparse entries are there twice, the second time transposed. A GPU has another byte, whether an entry is kept.
    """
    if not isinstance(model.initial, MLP) or not model.initial.input_dropout:
        return 0
    entries, left = (_nonzero(x), 2 * FLOAT) if _is_sparse(x) else (x.numel(), FLOAT)
    if graph.device.type == "cuda":
        return problems * entries * (2 + left)
    return entries * (problems + left)


def _coefficients(graph: Graph, model: LGGD, problems: int) -> int:
    """Learned potentials and weights, with what the equation computes from them and the gradients of that."""
    equation = Equation(graph, model.potential, [torch.Generator(graph.device)])
    return COPIES_OF_COEFFICIENTS * problems * sum(one.value.numel() for one in equation.parameters()) * FLOAT


def _evolution(graph: Graph, model: LGGD, columns: int) -> int:
    """The states of a step, those kept for the backward pass and those in it, and outputs with their gradients."""
    state, times = state_bytes(graph, columns, torch.float32), check_times(model.times)
    equation = Equation(graph, model.potential, [torch.Generator(graph.device)])
    flow = Flow(graph, equation, times, [range(len(times))], model.p, model.scheme)
    stages = len(model.scheme.tableau.weights)
    return (saved_states(flow.plan, state, graph.device) + 2 * stages + 8) * state
