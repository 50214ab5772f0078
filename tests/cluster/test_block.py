"""Blocks without Ray: their exchange by hand gives the bits of one machine."""

import pytest
import torch

import lggd
from lggd.cluster.evolution import EvolutionProgram
from lggd.cluster.team import BlockRows, split_rows
from lggd.graph.stored_graph import StoredGraph
from support.cluster_cases import LocalTeam, random_graph, random_start


@pytest.mark.parametrize(
    ("scheme", "p"), [(lggd.RK4(), 1), (lggd.SSPRK3(), 2), (lggd.Euler(), 3.5), (lggd.Euler(), float("inf"))]
)
def test_blocks_give_the_bits_of_one_machine(tmp_path, scheme, p):
    graph, columns = random_graph(), 3
    start, sources = random_start(graph, columns), [[0, 5], [399], [17]]
    graph.save(tmp_path / "g")
    expected = lggd.evolve(graph, sources, start=start, times=(0.5,), p=p, scheme=scheme)
    stored = StoredGraph.open(tmp_path / "g")
    bounds = split_rows(stored.csr.indptr.numpy(), 3)
    team = LocalTeam(tmp_path / "g", bounds)

    def program_of(block, _):
        first, last = bounds[block : block + 2]
        own = [[node - first for node in nodes if first <= node < last] for nodes in sources]
        own = [torch.tensor(nodes, dtype=torch.int64).numpy() for nodes in own]
        return EvolutionProgram, (p, scheme.tableau, start[first:last].numpy(), None, own, columns, "float32")

    team.prepare(program_of)
    steps = expected.statistics.steps
    team.run([0.5 / steps] * steps, len(scheme.tableau.weights))
    assert torch.equal(torch.cat(team.call("output")), expected.value[0])


def test_rows_are_split_by_edges(tmp_path):
    graph = random_graph()
    bounds = split_rows(graph.csr.indptr.numpy(), 4)
    edges = graph.csr.indptr[bounds].diff()
    assert bounds[0] == 0
    assert bounds[-1] == graph.num_nodes
    assert edges.max() < 1.3 * edges.min()


def test_a_block_reads_its_rows_in_their_order(tmp_path):
    graph = random_graph()
    graph.save(tmp_path / "g")
    rows = BlockRows.cut(StoredGraph.open(tmp_path / "g"), 100, 250)
    numbers = torch.cat([torch.arange(100, 250), torch.from_numpy(rows.halo)])
    begin, end = graph.csr.indptr[100], graph.csr.indptr[250]
    assert torch.equal(numbers[rows.csr.indices.long()], graph.csr.indices[begin:end].long())
    assert not ((rows.halo >= 100) & (rows.halo < 250)).any()
