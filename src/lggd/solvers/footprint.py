"""How much memory an evolution takes, known before it runs."""

from __future__ import annotations

import math

import torch

from lggd.graph import Graph
from lggd.kernels import idle_columns
from lggd.memory import Memory
from lggd.solvers.adjoint import Plan
from lggd.solvers.scheme import FixedStep

REMEDY = "Use fewer columns at a time, float32, or checkpoints=True where gradients are wanted."


def evolution_memory(
    graph: Graph, columns: int, scheme: FixedStep, outputs: int, gradient_steps: int, dtype: torch.dtype
) -> Memory:
    """What `evolve` holds at its peak: with `gradient_steps`, on the way back through that many steps."""
    tableau, stages = scheme.tableau, len(scheme.tableau.weights)
    state = state_bytes(graph, columns, dtype)
    # The start as given and by row, the states of a step, and the outputs by row and by node.
    parts = {"graph": graph_bytes(graph), "states": (stages + 2 + 2 * outputs) * state}
    if gradient_steps:
        # On the way back every stage leaves what it pulled, and the cotangent and its parts take as much again.
        kept = kept_states(Plan(tableau, (gradient_steps,), (1.0,)), state, graph.device)
        parts["kept for gradients"] = (kept + stages + 2) * state
    return Memory(parts, graph.device)


def kept_states(plan: Plan, state: int, device: torch.device) -> int:
    """How many states of so many bytes are kept at most for the way back through all steps of the plan."""
    stages = len(plan.tableau.weights)
    plan = plan.within_memory(state, device)
    if plan.stages:
        return plan.steps * stages
    return math.ceil(plan.steps / plan.every) + (plan.every if plan.every > 1 else 0) + stages


def state_bytes(graph: Graph, columns: int, dtype: torch.dtype) -> int:
    """A state of so many columns, with those that are carried idly."""
    return graph.num_nodes * (columns + idle_columns(graph.device, columns)) * dtype.itemsize


def graph_bytes(graph: Graph) -> int:
    """The rows of the graph."""
    weights = graph.num_edges * graph.dtype.itemsize if graph.is_weighted else 0
    return 8 * (graph.num_nodes + 1) + 4 * graph.num_edges + weights
