"""DropEdge and GDC: which edges their backbones see, and how these are normalized."""

import pytest
import torch
from torch_geometric.utils import to_dense_adj

import lggd
from lggd import GAT, GCN, ChebNet, JKNet, LGGDClassifier
from lggd.backbones import build_seeded
from lggd.backbones.convolutions import scaled_laplacian
from lggd.baselines import GDC, DropEdge, rewiring
from lggd.baselines.rewiring import SubsampledMatrix
from lggd.diffusion import DiffusionGraph
from lggd.filters import Heat
from lggd.graph.sparse import normalized_adjacency
from support.baseline_cases import CASES, FEW, check_together, dense_matrix, graph, networks, weighted_or_not
from support.small_data import blocks, changed, random


@weighted_or_not
@pytest.mark.parametrize("backbone", [GCN(hidden=8), JKNet(hidden=4), ChebNet(hidden=8)], ids=repr)
def test_dropping_nothing_is_the_backbone(backbone, weighted):
    data = graph(weighted)
    model = DropEdge(p=0, backbone=backbone, optimization=FEW, seed=6).fit(data)
    plain = LGGDClassifier(features=None, backbone=backbone, optimization=FEW, seed=6).fit(data)
    assert torch.equal(model.probabilities_, plain.predict_proba())
    assert model.history_["training"] == plain.history_["backbone"]


@weighted_or_not
@pytest.mark.parametrize(("laplacian", "reader"), [(False, normalized_adjacency), (True, scaled_laplacian)])
def test_kept_edges_are_normalized_as_by_pyg(laplacian, reader, weighted):
    data = graph(weighted)
    n = data.num_nodes
    data.edge_index[1, 0] = data.edge_index[0, 0]  # a self-loop
    weights = data.get("edge_weight")
    made = SubsampledMatrix(data.edge_index, weights, n, laplacian)
    kept = torch.rand(3, len(made.weight), generator=random(1)) < torch.tensor([[0.0], [0.5], [2.0]])
    loop = data.edge_index[0] == data.edge_index[1]
    for one, entries in zip(kept, made.entries(kept), strict=True):
        is_kept = torch.zeros(n, n, dtype=torch.bool)
        is_kept[made.pattern.columns[one], made.pattern.rows[one]] = True
        chosen = loop | is_kept[data.edge_index[0], data.edge_index[1]]
        expected = reader(data.edge_index[:, chosen], None if weights is None else weights[chosen], n, torch.float32)
        found = dense_matrix(made.pattern.columns, made.pattern.rows, entries, n)
        torch.testing.assert_close(found, expected.csr.to_dense())


def test_fraction_of_dropped_edges():
    made, _ = networks(DropEdge(p=0.99), graph(each=200, inside=0.1), (0, 1))
    dropped = 1 - made.sample_kept().float().mean(1)
    assert dropped.tolist() == pytest.approx([0.99, 0.99], abs=0.003)


def first_loss(model, data):
    """The training loss of the first epoch."""
    made, targets = networks(model, data)
    return made.training_step(targets)


def test_dropping_all_edges_keeps_self_loops():
    data = graph()
    plain = GCN(dropout=0)
    edgeless = changed(data, edge_index=data.edge_index[:, :0], edge_weight=data.edge_weight[:0])
    torch.testing.assert_close(
        first_loss(DropEdge(p=1, backbone=plain), data), first_loss(DropEdge(p=0, backbone=plain), edgeless)
    )


def check_evaluation(data, spoil=lambda made: None):
    """Logits do not depend on p."""
    (all_edges, _), (made, _) = (networks(DropEdge(p=p), data) for p in (0, 0.9))
    spoil(made)
    assert torch.equal(all_edges.logits(), made.logits())


def test_evaluation_uses_all_edges():
    check_evaluation(graph())


def test_check_finds_dropped_edges_in_evaluation():
    def drop(made):
        entries = made.matrix.entries(made.sample_kept())
        made.graph = lambda values: rewiring.multiply_each(values, entries, made.matrix.pattern)

    with pytest.raises(AssertionError):
        check_evaluation(graph(), drop)


def test_edges_are_sampled_once_per_epoch():
    made, targets = networks(DropEdge(p=0.5), graph())
    sampled = []
    sample = made.sample_kept
    made.sample_kept = lambda: sampled.append(sample()) or sampled[-1]
    for _ in range(2):
        made.training_step(targets)
    assert len(sampled) == 2
    assert not torch.equal(*sampled)


def test_contract_finds_samples_shared_between_problems(monkeypatch):
    sample = rewiring.EdgeDropout.sample_kept
    shared = lambda self: sample(self)[:1].expand(len(self.generators), -1).contiguous()  # noqa: E731
    monkeypatch.setattr(rewiring.EdgeDropout, "sample_kept", shared)
    with pytest.raises(AssertionError):
        check_together(CASES["DropEdge"].make)


def test_unsupported_backbones_raise():
    with pytest.raises(TypeError, match=r"`backbone` must be GCN\(\), JKNet\(\) or ChebNet\(\), got GAT"):
        DropEdge(backbone=GAT()).fit(graph())


def test_transform_is_that_of_the_diffusion_graph():
    data = blocks(weighted=True)
    made = GDC(Heat(3.0), k=5, dim=1).transform(data)
    expected = DiffusionGraph(Heat(3.0), neighbours=5, dim=1).transform(data)
    assert torch.equal(made.edge_index, expected.edge_index)
    assert torch.equal(made.edge_weight, expected.edge_weight)


def test_gcn_uses_the_weights_directly():
    data = blocks()
    model = GDC(k=6, backbone=GCN(dropout=0))
    made = model.transform(data)
    stack, _ = networks(model, data, (5,))
    module = build_seeded(GCN(dropout=0), 6, 3, seed=5)
    matrix = to_dense_adj(made.edge_index, edge_attr=made.edge_weight, max_num_nodes=36)[0].t()
    hidden = torch.relu(matrix @ data.x @ module.first.lin.weight.t() + module.first.bias)
    expected = matrix @ hidden @ module.second.lin.weight.t() + module.second.bias
    torch.testing.assert_close(stack.logits()[0], expected)


@pytest.mark.parametrize("backbone", [GAT(), ChebNet()], ids=str)
def test_other_backbones_use_the_graph_as_any_other(backbone):
    data = blocks()
    model = GDC(k=6, backbone=backbone, optimization=FEW)
    plain = lggd.LGGDClassifier(features=None, backbone=backbone, optimization=FEW).fit(model.transform(data))
    assert torch.equal(model.fit(data).probabilities_, plain.predict_proba())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "`k` must be a whole number from 1"),
        ({"dim": 2}, "`dim` must be one of 0, 1"),
        ({"kernel": "ppr"}, "`kernel` must be PPR"),
        ({"backbone": "gcn"}, "`backbone` must be GCN"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        GDC(**settings).fit(blocks())
