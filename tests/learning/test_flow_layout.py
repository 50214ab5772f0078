"""A flow on a graph whose nodes are reordered in memory."""

import numpy as np
import torch

from lggd import RK4, DegreePotential, Graph
from lggd.learning.flow import Flow
from lggd.learning.parameters import Equation


def test_step_of_a_reordered_graph_pairs_each_potential_with_its_own_node():
    """With ρ = 1/δ and unit weights ρ‖√w‖₁ is 1 at every node, in any order of the nodes."""
    graph = Graph.from_points(np.random.default_rng(0).random((300, 2)), k=5)
    assert graph.layout().order is not None
    assert len(graph.degree.unique()) > 3
    equation = Equation(graph, DegreePotential(-1.0), [torch.Generator()])
    flow = Flow(graph, equation, (1.0,), [[0]], 1.0, RK4())
    torch.testing.assert_close(flow.step, 1.0, rtol=1e-6, atol=0)
