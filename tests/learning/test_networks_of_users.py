"""Users' modules behind φ₀."""

import copy

import pytest
import torch
from torch import nn

from lggd import LGGD, Graph, InputError, Optimization
from lggd.inputs import NodeData
from lggd.learning.networks import FromModule
from lggd.training.engine import train
from support.distance_cases import (
    INITIALS,
    Neighbours,
    generators,
    learner_of,
    scripted,
)
from support.small_data import CLASSES


@pytest.mark.parametrize("name", ["untidy", "edges"])
def test_a_users_module_is_trained_in_copies(name, data):
    module = INITIALS[name].module
    before = copy.deepcopy(module)
    learner = learner_of(data, INITIALS[name])
    history = train(learner, "stage")
    assert all(values[0] != values[-1] for values in history.values())
    assert [type(one) for one in module.modules()] == [type(one) for one in before.modules()]
    for (_, a), (_, b) in zip(module.named_parameters(), before.named_parameters(), strict=True):
        assert nn.parameter.is_lazy(a) == nn.parameter.is_lazy(b)
        assert nn.parameter.is_lazy(a) or torch.equal(a, b)
    assert module.training == before.training


def test_a_module_is_called_with_edges_if_it_takes_them(data):
    graph = Graph.from_pyg(data, dtype=torch.float32)
    choice = INITIALS["edges"]
    features = choice.node_features(NodeData.read(data), graph)
    answer = choice.networks(features, CLASSES, generators(2))(features, training=False)
    torch.testing.assert_close(answer[:, 1], choice.module.eval()(data.x, graph.edge_index))


class Optional(nn.Linear):
    def forward(self, x, scale=2.0):
        return super().forward(x) * scale


class Keyword(nn.Linear):
    def forward(self, x, edge_index=None):
        assert edge_index is not None
        return super().forward(x)


@pytest.mark.parametrize(("kind", "takes"), [(nn.Linear, False), (Optional, False), (Keyword, True)])
def test_other_arguments_keep_their_defaults(kind, takes, data):
    choice = FromModule(kind(6, CLASSES))
    features = choice.node_features(NodeData.read(data), Graph.from_pyg(data, dtype=torch.float32))
    networks = choice.networks(features, CLASSES, generators(1))
    given = (data.x, data.edge_index) if takes else (data.x,)
    torch.testing.assert_close(networks(features, training=False)[:, 0], choice.module(*given))


def test_running_statistics_belong_to_the_best_state(data):
    learner = learner_of(data, INITIALS["untidy"], horizons=[[0], [1], [2]])
    names = [owned.name for owned in learner.trainable.parameters()]
    assert any("running_mean" in name for name in names)
    snapshots = scripted(learner, [[1.0, 3.0, 3.0], [2.0, 2.0, 1.0], [3.0, 1.0, 2.0]])
    for place, owned in enumerate(learner.trainable.parameters()):
        assert torch.equal(owned.value, snapshots[(0, 2, 1)[owned.owner]][place])
    means = [owned.value for owned in learner.trainable.parameters() if "running_mean" in owned.name]
    assert not torch.equal(means[0], torch.zeros_like(means[0]))
    assert not torch.equal(means[0], means[1])


def test_fitted_models_have_what_a_module_made_in_training(data):
    class Counting(Neighbours):
        def forward(self, x, edge_index):
            if self.training:
                self.register_buffer("epoch", getattr(self, "epoch", torch.tensor(0)) + 1)
            return super().forward(x, edge_index)

    module, quick = Counting(), Optimization(epochs=3, patience=None)
    model = LGGD((1,), initial=module, optimization=quick).fit(data)
    assert 1 <= int(model._state()["module.0.epoch"]) <= 3
    assert not hasattr(module, "epoch")


def test_frozen_parameters_stay(data):
    module = Neighbours()
    module.layer.bias.requires_grad_(False)
    learner = learner_of(data, FromModule(module))
    train(learner, "stage")
    for owned in learner.trainable.parameters():
        assert torch.equal(owned.value, module.layer.bias) == owned.name.endswith("bias")


@pytest.mark.parametrize(
    ("module", "found"), [(nn.LSTM(6, CLASSES), "a tuple"), (nn.Sequential(nn.Linear(6, 3), nn.Flatten(0)), "shape")]
)
def test_outputs_that_are_not_rows_of_nodes_are_refused(module, found, data):
    with pytest.raises(InputError, match=rf"`initial` must return one row per node, \[N, K\], got {found}"):
        LGGD((1,), initial=module).fit(data)


@pytest.mark.parametrize(
    ("module", "edges"), [(nn.Linear(4, CLASSES), ""), (Keyword(4, CLASSES), r" and edges \[2, E\]")]
)
def test_modules_that_cannot_be_called_are_refused_with_the_reason(module, edges, data):
    rule = rf"`initial` must accept node features \[N, 6\]{edges}, but {type(module).__name__}"
    with pytest.raises(InputError, match=f"{rule} raised RuntimeError: .*x6 and 4x"):
        LGGD((1,), initial=module).fit(data)
