"""Graphs in a folder: written, opened, and refused where a file is not what the manifest says."""

import json

import numpy as np
import pytest
import torch

import lggd
from lggd.errors import InputError
from lggd.graph import csr as rows
from lggd.graph.stored_graph import MANIFEST, StoredGraph, writing_graph


@pytest.fixture
def graph():
    points = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    near = lggd.Graph.from_points(points, k=4, kernel=lambda length: np.exp(-length))
    # Points are stored in another order in memory, in which sums are rounded differently.
    return lggd.Graph.from_edges(near.edge_index, near.weight)


@pytest.fixture
def folder(graph, tmp_path):
    graph.save(tmp_path / "graph", x=torch.rand(60, 3), y=torch.arange(60) % 2, ids=[f"n{k}" for k in range(60)])
    return tmp_path / "graph"


@pytest.mark.parametrize("p", [1, 2, 3, float("inf")])
def test_an_opened_graph_gives_the_same_bits(graph, folder, p):
    opened = lggd.Graph.open(folder)
    assert torch.equal(lggd.distance(graph, [[0], [5, 7]], p=p).value, lggd.distance(opened, [[0], [5, 7]], p=p).value)
    assert torch.equal(graph.edge_index, opened.edge_index)
    assert torch.equal(graph.weight, opened.weight)
    assert torch.equal(graph.degree, opened.degree)


def test_evolutions_on_an_opened_graph_agree(graph, folder):
    expected, found = (lggd.evolve(each, [0], times=(0.5, 1.0)).value for each in (graph, lggd.Graph.open(folder)))
    assert torch.equal(found, expected)


def test_features_labels_and_ids_come_back(folder):
    stored = lggd.Graph.open(folder).stored
    assert stored.x.shape == (60, 3)
    assert stored.y.tolist() == [k % 2 for k in range(60)]
    assert stored.ids().to_pylist()[:2] == ["n0", "n1"]
    assert repr(lggd.Graph.open(folder)).endswith("weighted, on disk)")


def test_a_graph_without_edges_and_a_directed_one(tmp_path):
    lggd.Graph.from_edges([], num_nodes=3).save(tmp_path / "none")
    assert lggd.Graph.open(tmp_path / "none").num_edges == 0
    lggd.Graph.from_edges([(0, 1)], directed=True).save(tmp_path / "one")
    assert lggd.Graph.open(tmp_path / "one").is_directed


def test_row_ranges_cover_all_rows_once(folder, monkeypatch):
    monkeypatch.setattr(rows, "EDGES_PER_BLOCK", 20)
    csr = lggd.Graph.open(folder).csr
    blocks = csr.row_ranges()
    assert len(blocks) > 5
    assert [first for first, _ in blocks] == [0, *(last for _, last in blocks[:-1])]
    assert blocks[-1][1] == csr.num_nodes
    largest = int(csr.indptr.diff().max())
    assert all(int(csr.indptr[last] - csr.indptr[first]) <= 20 + largest for first, last in blocks)


def test_released_pages_are_read_again(folder):
    opened = lggd.Graph.open(folder)
    before = opened.edge_index.clone()
    opened.csr.mapped.release()
    assert torch.equal(lggd.Graph.open(folder).edge_index, before)


def test_writing_to_an_opened_graph_leaves_the_files_alone(folder):
    lggd.Graph.open(folder).stored.x[0] = 7
    assert not bool((lggd.Graph.open(folder).stored.x[0] == 7).any())


def test_a_write_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(InputError), writing_graph(tmp_path / "graph") as writer:
        writer.finish(directed=False)
    assert list(tmp_path.iterdir()) == []


def truncate(folder):
    path = folder / "indices.npy"
    path.write_bytes(path.read_bytes()[:-4])


def flip(folder):
    path = folder / "weight.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def edit(folder, **changes):
    path = folder / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "have .* bytes, but it has"),
        (flip, "match its checksum"),
        (lambda folder: (folder / "degree.npy").unlink(), "there is none"),
        (lambda folder: edit(folder, version=2), "format version 1, got 2"),
        (lambda folder: edit(folder, format="other"), "have the format"),
        (lambda folder: edit(folder, nodes=61), r"have shape \[62\]|have shape \[61\]"),
        (lambda folder: (folder / MANIFEST).write_text("{"), "be JSON"),
        (lambda folder: (folder / MANIFEST).unlink(), "lggd graph build"),
    ],
)
def test_damaged_folders_are_refused(folder, damage, message):
    damage(folder)
    with pytest.raises(InputError, match=message):
        lggd.Graph.open(folder)


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        StoredGraph.open(tmp_path / "nowhere")


def test_features_labels_and_ids_are_checked_before_a_graph_is_replaced(graph, folder):
    for wrong, message in (
        ({"x": torch.rand(59, 3)}, r"`x` must have shape \[60, F\], one row per node, got \[59, 3\]"),
        ({"x": torch.rand(60, 3) * 1j}, "`x` must be real numbers"),
        ({"y": torch.zeros(59).long()}, r"`y` must be a class number for each of 60 nodes, got torch\.int64 \[59\]"),
        ({"y": torch.zeros(60)}, r"`y` must be a class number .* -1 means unlabelled"),
        ({"ids": ["one"]}, "`ids` must contain one value per node, 60 in all, got 1"),
    ):
        with pytest.raises(InputError, match=message):
            graph.save(folder, **wrong)
        assert lggd.Graph.open(folder).stored.x.shape == (60, 3)


def test_features_and_labels_of_other_types_are_converted(graph, folder):
    x, y = torch.rand(60, 3).double(), torch.arange(60) % 2
    graph.save(folder, x=x.to_sparse(), y=y.int())
    stored = lggd.Graph.open(folder).stored
    assert torch.equal(stored.x, x.float())
    assert torch.equal(stored.y, y)


def test_only_graphs_are_replaced(graph, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.png").write_text("")
    with pytest.raises(InputError, match="other files"):
        graph.save(tmp_path / "photos")
