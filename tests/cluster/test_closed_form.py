"""The closed form by blocks, without Ray: the features of one machine, and the same settings and probabilities."""

import copy

import pytest
import torch

import lggd
from lggd.closed_form import ridge, ridge_inputs
from lggd.closed_form.adjacency import chebyshev_sums, series_of
from lggd.errors import InputError
from lggd.filters import PPR, HighPass, Hops
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.kernels import FilterKernel, Linear
from support.cluster_cases import random_graph, use_local_team
from support.small_data import blocks

FILTERS = (Hops(0), Hops(1), Hops(4), HighPass(), PPR(0.1), Hops(2, self_loops=False))


@pytest.mark.parametrize("weighted", [False, True])
def test_features_have_the_bits_of_one_machine(tmp_path, monkeypatch, weighted):
    graph = random_graph(weighted=weighted)
    x = torch.randn(graph.num_nodes, 8, generator=torch.Generator().manual_seed(0))
    graph.save(tmp_path / "g", x=x)
    use_local_team(monkeypatch)
    found = dict(zip(FILTERS, lggd.cluster.propagate(tmp_path / "g", filters=FILTERS), strict=True))
    for self_loops in (True, False):
        matrix = StreamedMatrix.normalized_adjacency(lggd.Graph.open(tmp_path / "g").csr, self_loops)
        series = series_of(FILTERS, self_loops)
        for filter, expected in zip(series, chebyshev_sums(matrix, x, list(series.values())), strict=True):
            if weighted:  # degrees are rounded when they are stored
                torch.testing.assert_close(found[filter], expected)
            else:
                assert torch.equal(found[filter], expected), filter


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    data = blocks(each=70, labelled=15, validated=0, inside=0.06, outside=0.006, noise=1.5)
    folder = tmp_path_factory.mktemp("classes") / "g"
    lggd.Graph.from_pyg(data).save(folder, x=data.x, y=torch.where(data.train_mask, data.y, -1))
    return data, folder


MODEL = lggd.KernelRidge(agreement=None, topology_kernels=())


@pytest.mark.parametrize(
    ("nodes", "inducing", "width"),
    [(10_000, 512, 512), (100, 512, 512), (100, 20, 5)],
    ids=["exact", "dual", "primal"],
)
def test_equal_to_one_machine(classes, monkeypatch, nodes, inducing, width):
    data, folder = classes
    monkeypatch.setattr(ridge, "MAX_EXACT_NODES", nodes)
    monkeypatch.setattr(ridge_inputs.RidgeInputs, "max_inducing", inducing)
    model = lggd.KernelRidge(agreement=None, topology_kernels=(), inducing=inducing, widths=(3, width))
    use_local_team(monkeypatch)
    found = lggd.cluster.solve(folder, model=model)
    assert not hasattr(model, "labels_")  # a copy is fitted
    expected = model.fit(data)
    assert [chosen.kernel for chosen in found.kernels_] == [chosen.kernel for chosen in expected.kernels_]
    assert found.ridge_ == expected.ridge_
    assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-4)
    assert found.loss_ == pytest.approx(expected.loss_, rel=1e-4)
    torch.testing.assert_close(found.predict_proba(), expected.predict_proba(), atol=2e-3, rtol=1e-2)


def test_the_model_answers_everything_on_this_machine(classes, monkeypatch, tmp_path):
    data, folder = classes
    use_local_team(monkeypatch)
    found, expected = lggd.cluster.solve(folder, model=MODEL), copy.copy(MODEL).fit(data)
    assert found.metadata_ == {"cluster": {"losses": 0}}
    found.save(tmp_path / "model")
    loaded = lggd.load_model(tmp_path / "model")
    new = (found.labels_ < 0).nonzero().squeeze(1)[:3]
    for model in (found, loaded, expected):
        model.add_labels(new, data.y[new])
    for model in (found, loaded):
        for answer in ("predict_proba", "leave_one_out_proba", "variance"):
            one, other = getattr(model, answer)(), getattr(expected, answer)()
            torch.testing.assert_close(one, other, atol=2e-3, rtol=1e-2)
    grown = (found.labels_ < 0).nonzero().squeeze(1)[:30]  # settings are chosen again
    torch.testing.assert_close(
        *(model.add_labels(grown, data.y[grown]).predict_proba() for model in (found, expected)), atol=2e-3, rtol=1e-2
    )


def test_kernels_of_relative_lengths(classes, monkeypatch):
    data, folder = classes
    kernel = FilterKernel((Hops(0), Hops(2)), Linear(unit=False))
    model = lggd.KernelRidge(kernels=(kernel,), far_kernels=(), wide_kernels=(), topology_kernels=(), agreement=None)
    use_local_team(monkeypatch)
    found = lggd.cluster.solve(folder, model=model)
    torch.testing.assert_close(found.predict_proba(), model.fit(data).predict_proba(), atol=1e-3, rtol=1e-2)


def test_wide_features_are_projected_by_subspace_iteration(tmp_path, monkeypatch):
    data = lggd.load("karate")
    data.x = torch.rand(data.num_nodes, 1100, generator=torch.Generator().manual_seed(1))
    lggd.Graph.from_pyg(data).save(tmp_path / "g", x=data.x, y=torch.where(data.train_mask, data.y, -1))
    model = lggd.KernelRidge(agreement=None, topology_kernels=(), wide_kernels=(), far_kernels=(), widths=(16,))
    use_local_team(monkeypatch)
    found = lggd.cluster.solve(tmp_path / "g", model=model)
    torch.testing.assert_close(found.predict_proba(), model.fit(data).predict_proba(), atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize(
    ("model", "labels", "message"),
    [
        (lggd.KernelRidge(), None, r"`model.agreement` must be None on a cluster"),
        (lggd.KernelRidge(agreement=None), None, r"`model.topology_kernels` must be \(\) on a cluster"),
        (MODEL, torch.zeros(210, dtype=torch.int64), "`labels` must name at least two classes, got 1"),
        (MODEL, torch.zeros(5), "`labels` must be an int64 tensor"),
    ],
)
def test_what_a_cluster_cannot_solve(classes, monkeypatch, model, labels, message):
    use_local_team(monkeypatch)
    with pytest.raises(InputError, match=message):
        lggd.cluster.solve(classes[1], labels, model)


def test_a_graph_without_features(tmp_path, monkeypatch):
    random_graph().save(tmp_path / "g")
    use_local_team(monkeypatch)
    with pytest.raises(InputError, match=r"have node features x, got none\. Build it with node features"):
        lggd.cluster.solve(tmp_path / "g")
    with pytest.raises(InputError, match=r"`x` must be a floating-point tensor \[400, D\]"):
        lggd.cluster.propagate(tmp_path / "g", torch.zeros(3, 2))
