"""The same answers on a CUDA device as on the CPU. Skipped, visibly, where there is none."""

import math

import numpy as np
import pytest
import torch

from lggd import RK4, DegreePotential, Evolution, Graph, distance, evolve, shortest_path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SOURCES = [[0, 5], [17], [40, 41]]


@pytest.fixture(params=["points", "weighted", "directed"])
def graph(request):
    random = np.random.default_rng(0)
    if request.param == "points":
        return Graph.from_points(random.random((300, 2)), k=6, dtype=torch.float64)
    edges = random.integers(0, 300, (2, 1500))
    edges = edges[:, edges[0] != edges[1]]
    weight = random.uniform(0.1, 1, edges.shape[1])
    if request.param == "directed":
        return Graph.from_edges(edges, weight, num_nodes=300, directed=True)
    return Graph.from_edges(edges, weight, num_nodes=300, symmetrize="max")


@pytest.mark.parametrize("p", [1, 2, 3.5, math.inf])
def test_distance_is_returned_on_the_device(graph, p):
    on_device = distance(graph.to("cuda"), SOURCES, p=p, potential=DegreePotential(-0.5))
    assert on_device.value.device.type == "cuda"
    on_cpu = distance(graph, SOURCES, p=p, potential=DegreePotential(-0.5))
    torch.testing.assert_close(on_device.value.cpu(), on_cpu.value)
    assert on_device.statistics.residual < 1e-9


@pytest.mark.parametrize("p", [1, 2, 3.5, math.inf])
def test_evolution_and_its_gradient_agree_with_the_cpu(graph, p):
    generator = torch.Generator().manual_seed(1)
    start = torch.rand(graph.num_nodes, 3, dtype=torch.float64, generator=generator)
    weight = torch.rand(graph.num_edges, dtype=torch.float64, generator=generator) * 0.9 + 0.1
    found = {}
    for device in ("cpu", "cuda"):
        leaf = start.clone().to(device).requires_grad_()
        edge = weight.clone().to(device).requires_grad_()
        value = evolve(graph.to(device), SOURCES, start=leaf, weight=edge, p=p, times=(0.3, 0.6), scheme=RK4()).value
        value.square().sum().backward()
        found[device] = [value.detach().cpu(), leaf.grad.cpu(), edge.grad.cpu()]
    for ours, reference in zip(found["cuda"], found["cpu"], strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-9, atol=1e-10)


def test_an_evolution_can_be_stepped_on_the_device(graph):
    evolution = Evolution(graph.to("cuda"), SOURCES, initial_value=10.0).run_until(2.0)
    assert evolution.state.device.type == "cuda"
    torch.testing.assert_close(
        evolution.state.cpu(), Evolution(graph, SOURCES, initial_value=10.0).run_until(2.0).state
    )


def test_shortest_paths_are_found_on_the_device(graph):
    on_device = graph.to("cuda")
    found = distance(on_device, [0], p=math.inf)
    target = int(found.value.isfinite().nonzero()[-1])
    expected = shortest_path(graph, distance(graph, [0], p=math.inf), target)
    assert shortest_path(on_device, found, target).tolist() == expected.tolist()
