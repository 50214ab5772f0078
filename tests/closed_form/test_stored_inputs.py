"""The closed form from disk: the same choices and, up to rounding, the same predictions as in memory."""

import copy

import pytest
import torch

import lggd
from lggd.closed_form import adjacency, kernel_ridge, ridge, ridge_inputs, stored_inputs
from lggd.closed_form.stored_inputs import StoredInputs
from lggd.graph import csr as rows
from lggd.graph.sparse import normalized_adjacency
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.kernels import KERNELS
from support.real_data import REAL_DATA, needs_real_data


def noisy_classes(nodes=600, seed=0):
    """A homophilous graph of three classes with noisy features and weights, and 60 labels."""
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (nodes,), generator=generator)
    ends = torch.randint(nodes, (2, 12 * nodes), generator=generator)
    keep = (y[ends[0]] == y[ends[1]]) | (torch.rand(ends.shape[1], generator=generator) < 0.2)
    weight = torch.rand(int(keep.sum()), generator=generator) * 0.9 + 0.1
    graph = lggd.Graph.from_edges(
        ends[:, keep & (ends[0] != ends[1])],
        weight[(ends[0] != ends[1])[keep]],
        num_nodes=nodes,
        symmetrize="max",
        dtype=torch.float32,
    )
    x = torch.randn(nodes, 20, generator=generator) + torch.eye(3, 20)[y] * 0.7
    train = torch.zeros(nodes, dtype=torch.bool)
    train[torch.randperm(nodes, generator=generator)[:60]] = True
    return Data(x=x, edge_index=graph.edge_index, edge_weight=graph.weight, y=torch.where(train, y, -1)), y


def on_disk(data, folder):
    graph = lggd.Graph.from_pyg(data, dtype=torch.float32)
    graph.save(folder / "graph", x=getattr(data, "x", None), y=data.y)
    return lggd.load(folder / "graph")


@pytest.fixture
def streaming(monkeypatch):
    """Small graphs are streamed too, in many blocks."""
    monkeypatch.setattr(kernel_ridge, "MAX_EDGES_IN_MEMORY", 0)
    for module in (adjacency, ridge_inputs, stored_inputs):
        monkeypatch.setattr(module, "ROWS_PER_BLOCK", 100)
    monkeypatch.setattr(ridge, "NODES_PER_BLOCK", 70)
    monkeypatch.setattr(rows, "EDGES_PER_BLOCK", 1000)
    monkeypatch.setattr("lggd._system.memory.MIN_ON_DISK", 1)


def assert_equal_models(one, other):
    assert [(m.graph, m.kernel) for m in one.kernels_] == [(m.graph, m.kernel) for m in other.kernels_]
    assert one.ridge_ == other.ridge_
    assert one.inverse_temperature_ == pytest.approx(other.inverse_temperature_, rel=1e-3)
    torch.testing.assert_close(one.predict_proba(), other.predict_proba(), rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_streamed_products_are_those_of_the_matrix(tmp_path, streaming, self_loops, weighted):
    data, _ = noisy_classes()
    if not weighted:
        data.edge_weight = None
    csr, x = on_disk(data, tmp_path).graph.csr, torch.randn(600, 7)
    expected = normalized_adjacency(data.edge_index, data.edge_weight, 600, self_loops=self_loops)
    found = StreamedMatrix.normalized_adjacency(csr, self_loops)
    assert len(csr.row_ranges()) > 3
    torch.testing.assert_close(found(x), expected(x), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.scaled(-2)(x), -2 * expected(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test_kernel_ridge_from_disk_agrees(tmp_path, streaming, monkeypatch, exact):
    if not exact:
        monkeypatch.setattr("lggd.closed_form.ridge.MAX_EXACT_NODES", 10)
    data, y = noisy_classes()
    model = lggd.KernelRidge(
        kernels=KERNELS, far_kernels=(), wide_kernels=(), topology_kernels=(), agreement=None, inducing=100
    )
    stored = on_disk(data, tmp_path)
    one, other = copy.copy(model).fit(data), copy.copy(model).fit(stored)
    assert isinstance(other.solution_.inputs, StoredInputs)
    assert_equal_models(one, other)
    torch.testing.assert_close(one.leave_one_out_proba(), other.leave_one_out_proba(), rtol=2e-3, atol=2e-4)
    torch.testing.assert_close(one.variance(), other.variance(), rtol=1e-2, atol=1e-3)
    new = (stored.y < 0).nonzero().squeeze(1)[:9]
    one.add_labels(new, y[new])
    other.add_labels(new, y[new])
    assert_equal_models(one, other)


def test_small_graphs_on_disk_use_everything_that_graphs_in_memory_do(tmp_path):
    data, _ = noisy_classes()
    one, other = lggd.KernelRidge().fit(data), lggd.KernelRidge().fit(on_disk(data, tmp_path))
    assert_equal_models(one, other)


def test_far_kernels_and_graphs_without_features(tmp_path, streaming):
    data, _ = noisy_classes(1200)
    data.num_nodes = 1200
    del data.x
    model = lggd.KernelRidge(agreement=None)
    one, other = copy.copy(model).fit(data), copy.copy(model).fit(on_disk(data, tmp_path))
    assert float((one.predict() == other.predict()).float().mean()) > 0.97


def test_large_settings_learn(tmp_path, streaming):
    data, y = noisy_classes()
    model = lggd.KernelRidge.large().fit(on_disk(data, tmp_path))
    assert float((model.predict() == y).float().mean()) > 0.8
    assert model.kernels_[0].kernel in lggd.KernelRidge.large().kernels


def test_distances_and_the_classifier_from_disk(tmp_path, streaming):
    data, y = noisy_classes()
    stored = on_disk(data, tmp_path)
    ridge = lggd.KernelRidge.large(inducing=100)
    for model in (
        lggd.GGD(times=(1, 2)),
        lggd.EvolvedKernelRidge(initial=ridge),
        lggd.LGGDClassifier(lggd.EvolvedKernelRidge(initial=ridge), None),
    ):
        one, other = copy.copy(model).fit(data), copy.copy(model).fit(stored)
        torch.testing.assert_close(one.predict_proba(), other.predict_proba(), rtol=1e-2, atol=1e-3)
        new = (stored.y < 0).nonzero().squeeze(1)[:5]
        one.add_labels(new, y[new])
        other.add_labels(new, y[new])
        torch.testing.assert_close(one.predict_proba(), other.predict_proba(), rtol=1e-2, atol=1e-3)


def test_networks_say_that_they_need_the_edges(tmp_path):
    data, _ = noisy_classes()
    stored = on_disk(data, tmp_path)
    for model in (lggd.LGGDClassifier(), lggd.LGGD()):
        with pytest.raises(lggd.InputError, match=r"which takes .*, or use KernelRidge"):
            model.fit(stored)
    with pytest.raises(lggd.InputError, match="a graph in memory to accept nodes"):
        lggd.KernelRidge.large().fit(stored).add_edges([[0], [1]])


def test_a_saved_model_refers_to_its_graph(tmp_path, streaming):
    data, _ = noisy_classes()
    model = lggd.KernelRidge.large(inducing=100).fit(on_disk(data, tmp_path))
    model.save(tmp_path / "model")
    assert (tmp_path / "model" / "graph.safetensors").stat().st_size < 1000
    loaded = lggd.load_model(tmp_path / "model")
    assert torch.equal(loaded.predict_proba(), model.predict_proba())
    (tmp_path / "graph").rename(tmp_path / "moved")
    with pytest.raises(lggd.InputError, match="be the graph of the saved model, but there is none"):
        lggd.load_model(tmp_path / "model")
    lggd.Graph.from_pyg(data).save(tmp_path / "graph", y=data.y)
    with pytest.raises(lggd.InputError, match="it has changed"):
        lggd.load_model(tmp_path / "model")


def test_directed_graphs_are_refused(tmp_path):
    lggd.Graph.from_edges([(0, 1)], directed=True).save(tmp_path / "graph", y=torch.tensor([0, 1]))
    with pytest.raises(lggd.InputError, match="have no directions"):
        lggd.KernelRidge().fit(lggd.load(tmp_path / "graph"))


@needs_real_data
def test_a_real_graph_from_disk_agrees(tmp_path, streaming):
    data = lggd.load("photo", root=REAL_DATA)
    data.y = torch.where(data.train_mask, data.y, -1)
    for mask in ("train_mask", "val_mask", "test_mask"):
        del data[mask]
    model = lggd.KernelRidge(agreement=None, topology_kernels=(), inducing=600)
    one, other = copy.copy(model).fit(data), copy.copy(model).fit(on_disk(data, tmp_path))
    assert_equal_models(one, other)
