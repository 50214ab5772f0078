"""Graphs on disk in several blocks: the same bits as in memory, and pages that leave memory again."""

import math

import numpy as np
import pytest
import torch

import lggd
from lggd._kernels import backend_for
from lggd._system import memory
from lggd.equation import Field
from lggd.errors import NotEnoughMemoryError
from lggd.graph import csr as rows
from lggd.solvers.iterative import FastIterative

CPU = torch.device("cpu")


def random_graph(weighted, directed=False):
    generator = np.random.default_rng(3)
    ends = generator.integers(0, 300, (2, 1500))
    ends = ends[:, ends[0] != ends[1]]
    weight = generator.uniform(0.01, 1, ends.shape[1]).astype(np.float32) if weighted else None
    return lggd.Graph.from_edges(
        ends, weight, num_nodes=300, directed=directed, symmetrize=None if directed else "max", dtype=torch.float32
    )


@pytest.fixture
def several_blocks(monkeypatch):
    monkeypatch.setattr(rows, "EDGES_PER_BLOCK", 300)
    releases = []
    release = memory.MappedArrays.release

    def counted(self):
        releases.append(1)
        release(self)

    monkeypatch.setattr(memory.MappedArrays, "release", counted)
    return releases


def opened(graph, folder):
    graph.save(folder / "graph")
    return lggd.Graph.open(folder / "graph")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1, math.inf])
def test_norms_and_gradients_in_blocks_have_the_same_bits(tmp_path, several_blocks, weighted, p):
    graph = random_graph(weighted)
    stored = opened(graph, tmp_path)
    f, rho = torch.rand(300, 4, generator=torch.Generator().manual_seed(1)), torch.ones(300, 1)
    found = []
    for each in (graph, stored):
        field = Field(each.csr, p, rho, each.csr.root_weight_as(torch.float32))
        norm = backend_for(CPU).norm(field, f)
        found.append((norm, backend_for(CPU).vjp(field, f, [norm], [1.0], False, False)[0], field.cfl_number()))
    assert len(stored.csr.row_ranges()) > 3
    assert len(several_blocks) > 3
    for expected, value in zip(*found, strict=True):
        assert torch.equal(expected, value)


@pytest.mark.parametrize("weighted", [False, True])
def test_evolutions_and_distances_in_blocks_have_the_same_bits(tmp_path, several_blocks, weighted):
    graph = random_graph(weighted)
    stored = opened(graph, tmp_path)
    one, other = (lggd.evolve(each, [[0], [5]], times=(0.5, 1.0)).value for each in (graph, stored))
    assert torch.equal(one, other)
    for options in ({"p": 1}, {"p": math.inf}, {"p": 1, "solver": FastIterative()}):
        one, other = (lggd.distance(each, [[0], [5]], **options) for each in (graph, stored))
        assert torch.equal(one.value, other.value)
        assert other.statistics.residual < 1e-5


def test_lengths_on_disk_are_not_kept(tmp_path, several_blocks):
    graph = random_graph(weighted=True)
    stored = opened(graph, tmp_path)
    lggd.distance(stored, [0], p=math.inf)
    assert "length" not in vars(stored.csr)
    assert stored.csr.length_range == pytest.approx(graph.csr.length_range, rel=1e-15)


def test_a_watcher_gives_pages_back_while_a_front_marches(tmp_path, several_blocks, monkeypatch):
    monkeypatch.setattr(memory, "MAX_RESIDENT", -(2**40))  # always too many
    monkeypatch.setattr(memory, "SECONDS_PER_LOOK", 0.001)
    csr = opened(random_graph(False), tmp_path).csr
    with csr.bounded():
        before = len(several_blocks)
        for _ in range(1000):
            if len(several_blocks) > before + 3:
                break
            torch.rand(10_000).sort()
    assert len(several_blocks) > before + 3


def test_transposing_a_directed_graph_on_disk_beyond_memory_is_refused(tmp_path, monkeypatch):
    graph = random_graph(False, directed=True)
    stored = opened(graph, tmp_path)
    expected = lggd.distance(graph, [0], p=1).value
    assert torch.equal(lggd.distance(stored, [0], p=1).value, expected)
    again = lggd.Graph.open(tmp_path / "graph")
    monkeypatch.setattr("lggd._system.memory.free_memory", lambda device: 100)
    with pytest.raises(NotEnoughMemoryError, match=r"by column in memory takes about .* are free"):
        lggd.distance(again, [0], p=1)
