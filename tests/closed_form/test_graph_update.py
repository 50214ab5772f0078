"""Nodes and edges that arrive at a fitted model: the answer is that of a model restored on the new graph."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import pad
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

import lggd
from lggd.closed_form import EdgeAgreement, KernelRidge, kernel_ridge, ridge, selection
from lggd.closed_form.ridge import ExactSystem, InducedSystem
from lggd.closed_form.ridge_inputs import FEATURE_BOUNDS, MIN_AGREEMENT
from lggd.filters import PPR, Heat, HighPass, Hops
from lggd.kernels import FilterKernel, Gaussian, Linear, MixtureKernel
from support.dense_kernels import dense_mixture, dense_weights

# Every kind of filter, alone and mixed.
FILTERS = ((Hops(0),), (Hops(1, False),), (Hops(2), PPR(0.1)), (HighPass(), Hops(3, False)), (PPR(0.05),), (Heat(2.0),))
KERNELS = tuple(FilterKernel(filters, kernel) for filters in FILTERS for kernel in (Linear(), Gaussian(0.5)))
LENGTHS = tuple(FilterKernel(filters, Linear(unit=False)) for filters in FILTERS)
TOPOLOGY = (FilterKernel((PPR(0.1),), Linear()), FilterKernel((Hops(4),), Linear()))
FAR = (FilterKernel((PPR(0.02),), Linear()),)
KINDS = ("nodes", "edges", "removal")


def random_graph(seed: int, features: int | None = 5, nodes: int = 20, weighted: bool = False) -> Data:
    """A random graph with two labels for each of three classes; some nodes may be isolated."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(nodes, (2, 2 * nodes), generator=generator)
    edges = to_undirected(pairs[:, pairs[0] != pairs[1]], num_nodes=nodes)
    y = torch.full((nodes,), -1)
    y[torch.randperm(nodes, generator=generator)[:6]] = torch.arange(6) % 3
    data = Data(edge_index=edges, y=y, num_nodes=nodes)
    if features is not None:
        data.x = torch.randn(nodes, features, generator=generator) + 0.5
    if weighted:
        weight = torch.rand(nodes, nodes, generator=generator) + 0.1
        data.edge_weight = (weight + weight.t())[edges[0], edges[1]]
    return data


def fitted(data: Data, **changes) -> KernelRidge:
    more = {"far_kernels": FAR, "wide_kernels": (), "topology_kernels": TOPOLOGY}
    options = {"kernels": (*KERNELS, *LENGTHS), **more, **changes}
    return KernelRidge(**options).fit(data)


def restored(model: KernelRidge, data: Data | None = None, state=None) -> KernelRidge:
    """A fresh model with the same settings, which filters and solves everything."""
    fresh = copy.copy(model)
    fresh._start(model.data_ if data is None else data, model.num_classes_)
    fresh.labels_ = (
        model.labels_ if data is None else pad(model.labels_, (0, data.num_nodes - len(model.labels_)), value=-1)
    )
    fresh._restore(fresh.data_, model._state() if state is None else state)
    return fresh


def assert_same(model: KernelRidge, fresh: KernelRidge, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(model.predict_proba(), fresh.predict_proba(), rtol=0, atol=tolerance)
    torch.testing.assert_close(model.left_out_proba(), fresh.left_out_proba(), rtol=0, atol=tolerance)


def new_edges(model: KernelRidge, generator: torch.Generator, count: int, new: int = 0):
    """Edges that the model lacks, some to new nodes, and their weights if the graph has any."""
    nodes = model.data_.num_nodes + new
    present = torch.eye(nodes, dtype=torch.bool)
    present[model.data_.edge_index[0], model.data_.edge_index[1]] = True
    free = (~present).triu().nonzero()
    if new:
        free = free[free[:, 1] >= nodes - new]
    edges = free[torch.randperm(len(free), generator=generator)[:count]].t()
    weighted = getattr(model.data_, "edge_weight", None) is not None
    return edges, torch.rand(edges.shape[1], generator=generator) + 0.1 if weighted else None


def some_change(model: KernelRidge, kind: str, generator: torch.Generator, count: int) -> None:
    if kind == "nodes":
        features = getattr(model.data_, "x", None)
        x = None if features is None else torch.randn(2, features.shape[1], generator=generator) + 0.5
        model.add_nodes(x, *new_edges(model, generator, count, new=2))
    elif kind == "edges":
        model.add_edges(*new_edges(model, generator, count))
    else:
        known = model.data_.edge_index
        known = known[:, known[0] < known[1]]
        model.remove_edges(known[:, torch.randperm(known.shape[1], generator=generator)[:count]])


@pytest.fixture(autouse=True)
def every_kernel(monkeypatch):
    """All kernels on all graphs are members with different weights, instead of the best."""

    def all_kernels(losses, *_, **__):
        return tuple(replace(member, weight=1 / (1 + k % 4)) for k, member in enumerate(losses))

    monkeypatch.setattr(selection, "best_kernels", all_kernels)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    count=st.integers(1, 5),
    features=st.sampled_from([None, 1, 5]),
    weighted=st.booleans(),
)
def test_any_changes_equal_a_fresh_model_on_the_new_graph(seed, kinds, count, features, weighted):
    model = fitted(random_graph(seed, features, weighted=weighted))
    generator = torch.Generator().manual_seed(seed)
    for kind in kinds:
        some_change(model, kind, generator, count)
    assert_same(model, restored(model))


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), features=st.sampled_from([None, 4]))
def test_settings_from_before_the_arrival_give_the_same_on_the_new_graph(seed, features):
    model = fitted(random_graph(seed, features), agreement=None)
    state, labels = model._state(), model.labels_
    before = copy.copy(model)
    some_change(model, "nodes", torch.Generator().manual_seed(seed), 5)
    if "axes.topology" in state:
        state["axes.topology"] = pad(state["axes.topology"], (0, 0, 0, 2))
    assert_same(model, restored(before, model.data_, state))
    assert torch.equal(model.labels_[:-2], labels)
    assert (model.labels_[-2:] == -1).all()


@pytest.mark.parametrize(("filters", "kind"), [(filters, KINDS[k % 3]) for k, filters in enumerate(FILTERS)], ids=str)
def test_lengths_are_relative_to_their_mean_square_after_a_change(filters, kind):
    # A mean over more nodes: kept from before, it would scale all rows wrongly.
    kernel = FilterKernel(filters, Linear(unit=False))
    options = {"kernels": (kernel,), "far_kernels": (), "wide_kernels": (), "topology_kernels": (), "agreement": None}
    model = KernelRidge(**options).fit(random_graph(11))
    some_change(model, kind, torch.Generator().manual_seed(1), 5)
    graph, weights, x = model.solution_.system.kernel.graphs["x"], dense_weights(model.data_), model.data_.x.double()
    unit = torch.nn.functional.normalize(x).numpy()
    members = model.kernels_
    expected = dense_mixture({"x": (weights, unit)}, members)
    mixture = MixtureKernel({"x": graph}, members)
    np.testing.assert_allclose(mixture.between(mixture.points(), mixture.points()), expected, rtol=1e-3, atol=1e-3)
    for filter in filters:
        assert float(graph.block(filter, unit=False).square().sum(1).mean()) == pytest.approx(1, rel=1e-4)
    assert_same(model, restored(model))


def loaded_without_topology(data, folder, monkeypatch):
    """A loaded model that has compared rows of the adjacency but has no member on them, and the saved one."""
    monkeypatch.setattr(
        selection, "best_kernels", lambda losses, *_, **__: tuple(m for m in losses if m.graph == "x")[:3]
    )
    monkeypatch.setattr(selection, "CLEARLY", 1e9)
    model = fitted(data)
    model.save(folder / "model")
    return model, lggd.load_model(folder / "model")


def test_a_loaded_model_may_look_at_rows_of_the_adjacency_that_no_member_uses(tmp_path, monkeypatch):
    models = loaded_without_topology(random_graph(13), tmp_path, monkeypatch)
    monkeypatch.undo()  # topology may be a member of the next choice
    monkeypatch.setattr(selection, "CLEARLY", 1e9)
    for model in models:
        some_change(model, "nodes", torch.Generator().manual_seed(0), 4)
        model.add_labels([model.data_.num_nodes - 1, model.data_.num_nodes - 2], [0, 1])
        assert "topology" in model.solution_.system.kernel.graphs
    assert models[0].kernels_ == models[1].kernels_
    torch.testing.assert_close(models[0].predict_proba(), models[1].predict_proba(), rtol=0, atol=1e-4)


def test_copies_of_a_model_look_at_rows_of_the_adjacency_of_their_own(monkeypatch):
    monkeypatch.setattr(selection, "CLEARLY", -1e9)
    model = fitted(random_graph(14))
    assert "topology" not in model.solution_.inputs.axes
    other = copy.copy(model)
    monkeypatch.setattr(selection, "CLEARLY", 1e9)
    for each, new in ((model, 2), (other, 1)):
        x = torch.randn(new, 5, generator=torch.Generator().manual_seed(new))
        each.add_nodes(x, torch.stack([torch.arange(20, 20 + new), torch.arange(new)]))
        each.add_labels((each.labels_ < 0).nonzero().squeeze(1)[:4], [0, 1, 2, 0])
        assert len(each.solution_.inputs.axes["topology"]) == 20 + new
        assert_same(each, restored(each))


def test_a_removed_edge_that_returns_changes_nothing():
    model = fitted(random_graph(3), agreement=None)
    before, edges = model.predict_proba(), model.data_.edge_index[:, :3]
    edges = edges.sort(0).values.unique(dim=1)
    model.remove_edges(edges)
    assert (model.predict_proba() - before).abs().max() > 1e-4
    model.add_edges(edges.flip(0))
    torch.testing.assert_close(model.predict_proba(), before, rtol=0, atol=1e-5)


def test_the_data_of_the_caller_stay_and_the_model_grows():
    data = random_graph(1, weighted=True)
    tensors = {name: data[name].clone() for name in ("x", "edge_index", "edge_weight", "y")}
    model = fitted(data)
    held = model.data_
    for _ in range(3):
        some_change(model, "nodes", torch.Generator().manual_seed(0), 3)
    assert all(torch.equal(data[name], value) for name, value in tensors.items())
    assert torch.equal(held.x, tensors["x"])
    assert model.data_.num_nodes == 26
    assert model.predict_proba().shape == (26, 3)
    torch.testing.assert_close(model.predict_proba(model.data_), model.predict_proba())


def test_copies_of_a_model_grow_apart():
    model = fitted(random_graph(1))
    some_change(model, "nodes", torch.Generator().manual_seed(0), 3)
    other = copy.copy(model)
    some_change(model, "nodes", torch.Generator().manual_seed(1), 3)
    kept = model.data_.x.clone()
    some_change(other, "nodes", torch.Generator().manual_seed(2), 3)
    assert torch.equal(model.data_.x, kept)
    assert not torch.equal(model.data_.x, other.data_.x)
    assert_same(other, restored(other))


def test_new_edges_weigh_by_the_rule_of_the_others():
    model = fitted(random_graph(5, weighted=True), agreement=EdgeAgreement(1))
    before, mean = copy.copy(model), model.solution_.choice.mean_cosine
    known = model.predict_proba()
    x = torch.randn(1, 5, generator=torch.Generator().manual_seed(0)) + 0.5
    edges, weight = torch.tensor([[20, 20, 3], [1, 2, 20]]), torch.tensor([0.5, 1.0, 2.0])
    model.add_nodes(x, edges, weight)
    pairs = model.data_.edge_index[:, -6:]
    unit = torch.nn.functional.normalize(model.solution_.inputs._x)
    alike = ((unit[pairs[0]] * unit[pairs[1]]).sum(1) / mean).clamp(*FEATURE_BOUNDS) * weight.repeat(2)
    torch.testing.assert_close(model.solution_.choice.edge_weights["agreement 0"][-6:], alike)
    # The first solution of the definition, by a model in which all new edges weigh by features.
    kept = before.solution_.choice.edge_weights
    state = model._state() | {"edge_weight.agreement 1": torch.cat([kept["agreement 1"], alike])}
    first = restored(before, model.data_, state).predict_proba()
    p = torch.cat([known, first[20:]])
    expected = alike * (p[pairs[0]] * p[pairs[1]]).sum(1).clamp(min=MIN_AGREEMENT)
    torch.testing.assert_close(model.solution_.choice.edge_weights["agreement 1"][-6:], expected, rtol=1e-3, atol=1e-5)
    for name, weights in kept.items():
        assert torch.equal(model.solution_.choice.edge_weights[name][:-6], weights)


def test_labels_and_changes_in_turn_and_settings_chosen_again():
    model = fitted(random_graph(2))
    generator = torch.Generator().manual_seed(0)
    for step in range(3):
        some_change(model, "nodes", generator, 4)
        model.add_labels([model.data_.num_nodes - 1], [step % 3])
        some_change(model, "removal", generator, 1)
    assert int((model.labels_ >= 0).sum()) == 9
    assert_same(model, restored(model))


@pytest.mark.parametrize("labels_only", [True, False])
def test_inducing_points_stay(monkeypatch, labels_only, tmp_path):
    monkeypatch.setattr(ridge, "MAX_EXACT_LABELS" if labels_only else "MAX_EXACT_NODES", 2)
    model = fitted(random_graph(4), inducing=8)
    assert isinstance(model.solution_.system, InducedSystem)
    inducing = model.solution_.choice.inducing
    some_change(model, "nodes", torch.Generator().manual_seed(0), 5)
    assert torch.equal(model.solution_.choice.inducing, inducing)
    model.save(tmp_path / "model")
    assert_same(model, lggd.load_model(tmp_path / "model"), 5e-4)


def test_a_change_of_a_loaded_model_equals_that_of_the_saved_one(tmp_path):
    model = fitted(random_graph(6))
    model.save(tmp_path / "model")
    loaded = lggd.load_model(tmp_path / "model")
    for each in (model, loaded):
        some_change(each, "nodes", torch.Generator().manual_seed(0), 4)
    torch.testing.assert_close(model.predict_proba(), loaded.predict_proba(), rtol=0, atol=1e-5)
    loaded.save(tmp_path / "model")
    assert_same(model, lggd.load_model(tmp_path / "model"))


def test_sparse_features_and_isolated_nodes():
    data = random_graph(7)
    dense, sparse = fitted(data), copy.copy(data)
    sparse.x = data.x.to_sparse()
    sparse = fitted(sparse)
    for model in (dense, sparse):
        model.add_nodes(torch.ones(1, 5), torch.empty(2, 0, dtype=torch.int64))
    assert sparse.data_.x.is_sparse
    torch.testing.assert_close(dense.predict_proba(), sparse.predict_proba(), rtol=0, atol=1e-4)
    assert_same(sparse, restored(sparse))


@pytest.mark.parametrize("bug", ["edges", "x"])
def test_planted_bugs_are_found(monkeypatch, bug):
    def changed_wrongly(data, *settings):
        if bug == "edges":
            wrong = {"edge_index": data.edge_index[:, [*range(data.num_edges - 1), 0]].flip(0)}
        else:
            wrong = {"x": torch.cat([data.x[:-1], -data.x[-1:]])}
        return read_inputs(replace(data, **wrong), *settings)

    read_inputs = kernel_ridge.read_inputs
    model = fitted(random_graph(8))
    monkeypatch.setattr(kernel_ridge, "read_inputs", changed_wrongly)
    monkeypatch.setattr(kernel_ridge, "check_symmetric", lambda *_: None)
    some_change(model, "nodes", torch.Generator().manual_seed(0), 5)
    monkeypatch.undo()
    with pytest.raises(AssertionError):
        assert_same(model, restored(model))


def test_a_change_that_fails_changes_nothing(monkeypatch):
    def fail(*_):
        raise RuntimeError("out of memory")

    model = fitted(random_graph(9))
    before = model.solution_, model.labels_, model.data_
    monkeypatch.setattr(ExactSystem, "scores", fail)
    with pytest.raises(RuntimeError):
        some_change(model, "nodes", torch.Generator().manual_seed(0), 5)
    assert all(one is other for one, other in zip(before, (model.solution_, model.labels_, model.data_), strict=True))


def test_only_graphs_of_chosen_kernels_are_filtered_again(monkeypatch):
    monkeypatch.setattr(
        selection, "best_kernels", lambda losses, *_, **__: (next(m for m in losses if m.graph != "x"),)
    )
    model = fitted(random_graph(10))
    for _ in range(3):
        some_change(model, "nodes", torch.Generator().manual_seed(0), 3)
    graphs = model.solution_.system.kernel.graphs
    assert set(graphs) == {"topology"}
    assert all(len(graph.x) == 26 for graph in graphs.values())
    assert_same(model, restored(model))
