"""GDC: how backbones use the diffusion graph."""

import pytest
import torch
from torch_geometric.utils import to_dense_adj

import lggd
from baseline_cases import FEW, networks
from lggd import GAT, GCN, ChebNet
from lggd.backbones import build_seeded
from lggd.baselines import GDC, Heat
from lggd.diffusion import DiffusionGraph
from small_data import blocks


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
