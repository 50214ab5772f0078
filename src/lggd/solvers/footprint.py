"""Memory estimates of an evolution, known before it runs."""

from __future__ import annotations

import math

import torch

from lggd.graph import Graph
from lggd.kernels import idle_columns
from lggd.memory import Memory
from lggd.solvers.plan import Plan
from lggd.solvers.scheme import FixedStep

REMEDY = "Use fewer columns at a time, float32, or checkpoints=True where gradients are needed."


def evolution_memory(
    graph: Graph, columns: int, scheme: FixedStep, outputs: int, gradient_steps: int, dtype: torch.dtype
) -> Memory:
    """The peak memory of `evolve`; with `gradient_steps`, that of the backward pass through that many steps."""
    tableau, stages = scheme.tableau, len(scheme.tableau.weights)
    state = state_bytes(graph, columns, dtype)
    # The start by node and by row, the states of a step, and the outputs by row and by node.
    parts = {"graph": graph_bytes(graph), "states": (stages + 2 + 2 * outputs) * state}
    if gradient_steps:
        # In the backward pass every stage has a cotangent, and the cotangent of the state takes as much again.
        saved = saved_states(Plan(tableau, (gradient_steps,), (1.0,)), state, graph.device)
        parts["saved for gradients"] = (saved + stages + 2) * state
    return Memory(parts, graph.device)


def saved_states(plan: Plan, state: int, device: torch.device) -> int:
    """The maximum number of states of `state` bytes that the plan saves for the backward pass."""
    stages, plan = len(plan.tableau.weights), plan.within_memory(state, device)
    if plan.save_stages:
        return plan.evaluations
    every = plan.checkpoint_every
    return math.ceil(plan.steps / every) + (every if every > 1 else 0) + stages


def state_bytes(graph: Graph, columns: int, dtype: torch.dtype) -> int:
    """The bytes of a state, including its idle columns."""
    return graph.num_nodes * (columns + idle_columns(graph.device, columns)) * dtype.itemsize


def graph_bytes(graph: Graph) -> int:
    """The bytes of the rows of the graph."""
    weights = graph.num_edges * graph.dtype.itemsize if graph.is_weighted else 0
    return 8 * (graph.num_nodes + 1) + 4 * graph.num_edges + weights
