"""Memory estimates of learning distances, known before training starts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from lggd._system.memory import Memory
from lggd.graph import Graph
from lggd.graph.edge_list import check_node_features
from lggd.graph.sparse import SPARSE_BELOW
from lggd.learning.flow import Equation, Flow
from lggd.learning.networks import MLP, PropagatedMLP
from lggd.solvers.scheme import check_times, graph_bytes, saved_states, state_bytes

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
    x, initial, on_gpu = check_node_features(data), model.initial, graph.device.type == "cuda"
    nonzero = int(x.count_nonzero()) if x.layout == torch.strided else int(x._nnz())
    sparse = x.layout != torch.strided or nonzero < SPARSE_BELOW * x.numel()
    hidden: tuple[int, ...] = ()
    blocks, node_features, input_dropout = 1, x.numel() * FLOAT, 0
    if isinstance(initial, nn.Module):
        parameters = sum(p.numel() for p in initial.parameters() if not nn.parameter.is_lazy(p))
    else:
        hidden, propagated = initial.hidden, isinstance(initial, PropagatedMLP)
        blocks = initial.num_blocks if isinstance(initial, PropagatedMLP) else 1
        sizes = (blocks * (x.shape[1] + initial.zeros), *hidden, num_classes)
        parameters = sum((a + 1) * b for a, b in pairwise(sizes))
        dense_pagerank = on_gpu and isinstance(initial, PropagatedMLP) and initial.pagerank is not None
        node_features = nonzero * SPARSE_ENTRY if sparse and not dense_pagerank else blocks * node_features
        node_features += (graph.num_edges + graph.num_nodes) * ADJACENCY_ENTRY * propagated
    # The output of each layer and one byte for its dropout; on a GPU also its gradients, in three shapes. A CPU
    # evaluates the networks one by one, and needs the gradients of only one at a time.
    per_node = sum(hidden) * ((4 * FLOAT + 2) if on_gpu else (FLOAT + 1)) + num_classes * 4 * FLOAT
    if on_gpu and hidden and isinstance(initial, PropagatedMLP):
        per_node += blocks * hidden[0] * FLOAT
    if isinstance(initial, MLP) and initial.input_dropout:
        # One byte per entry of x, and the entries after dropout: on a CPU of one network at a time. Sparse entries are
        # stored twice, also transposed. A GPU needs another byte for the mask.
        entries, dropped = (nonzero, 2 * FLOAT) if sparse else (x.numel(), FLOAT)
        input_dropout = entries * (problems * (2 + dropped) if on_gpu else problems + dropped)
    # Learned potentials and weights, the coefficients that the equation computes from them, and their gradients.
    equation = Equation(graph, model.potential, [torch.Generator(graph.device)])
    learned = sum(theta.value.numel() for theta in equation.parameters())
    # The states of a step, those saved for the backward pass and those in it, and outputs with their gradients.
    state, times = state_bytes(graph, problems * num_classes, torch.float32), check_times(model.times)
    flow = Flow(equation, times, [range(len(times))], model.p, model.scheme)
    states = saved_states(flow.plan, state, graph.device) + 2 * len(model.scheme.tableau.weights) + 8
    parts = {
        "graph": graph_bytes(graph),
        "node features": node_features,
        # A GPU works on all networks at once: their weights are arranged for one product, and so are the gradients.
        "networks": (COPIES_OF_PARAMETERS + (3 if on_gpu else 0)) * problems * parameters * FLOAT,
        "hidden layers": problems * graph.num_nodes * per_node,
        "input dropout": input_dropout,
        "coefficients": COPIES_OF_COEFFICIENTS * problems * learned * FLOAT,
        "evolution": states * state,
    }
    return Memory(parts, graph.device)


def fitting_problems(data: Any, graph: Graph, model: LGGD, num_classes: int) -> int:
    """The number of problems that fit into the free memory of the device; unlimited where that is unknown."""
    single, several = (training_memory(data, graph, model, num_classes, problems) for problems in (1, 1 + MANY))
    if single.free is None:
        return UNLIMITED
    return max(1, 1 + int((single.free * USABLE - single.total) / max(1, several.total - single.total) * MANY))
