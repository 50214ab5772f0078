"""One contract for all backbones, and the graphs that they cache."""

import copy
import math
import pickle
from dataclasses import fields, replace

import pytest
import torch
from torch.nn import functional

from lggd._system import memory
from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.backbones.network import Network
from support.backbone_cases import (
    BACKBONES,
    CLASSES,
    every_backbone,
    features,
    initialised,
    no_edges,
    on_gpu,
    random,
    same,
    undirected,
    untidy,
)
from support.small_data import WITHOUT_EFFECT
from support.stacked_cases import Counting


@every_backbone
def test_shape_of_logits(backbone):
    logits = initialised(backbone)(features(), undirected())
    assert logits.shape == (20, CLASSES)
    assert logits.dtype == torch.float32
    assert torch.isfinite(logits).all()


@every_backbone
def test_gradient_reaches_every_parameter(backbone):
    module = initialised(backbone).eval()
    functional.cross_entropy(module(features(), undirected()), torch.arange(20) % CLASSES).backward()
    trained = {name: one.grad for name, one in module.named_parameters() if one.requires_grad}
    missed = {name for name, grad in trained.items() if grad is None or not grad.any()}
    assert missed <= {WITHOUT_EFFECT}


@every_backbone
def test_evaluation_is_deterministic_and_training_is_not(backbone):
    module, x, edge_index = initialised(backbone), features(), undirected()
    module.eval()
    assert torch.equal(module(x, edge_index), module(x, edge_index))
    module.train()
    with torch.random.fork_rng([]):
        assert not torch.equal(module(x, edge_index), module(x, edge_index))


@every_backbone
def test_without_dropout_training_equals_evaluation(backbone):
    rates = [field.name for field in fields(backbone) if field.name.endswith("dropout")]
    module = initialised(replace(backbone, **dict.fromkeys(rates, 0.0)))
    x, edge_index = features(), undirected()
    assert torch.equal(module.train()(x, edge_index), module.eval()(x, edge_index))


@every_backbone
def test_permuting_nodes_permutes_logits(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    order = torch.randperm(20, generator=random(4))
    moved = module(x[order], order.argsort()[edge_index])
    torch.testing.assert_close(moved, module(x, edge_index)[order], atol=1e-6, rtol=1e-5)


@every_backbone
def test_order_of_edges_does_not_matter(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    order = torch.randperm(edge_index.shape[1], generator=random(4))
    assert torch.equal(module(x, edge_index[:, order]), module(x, edge_index))


@every_backbone
@pytest.mark.parametrize("num_nodes", [1, 4])
def test_nodes_without_edges(backbone, num_nodes):
    module, x = initialised(backbone).eval(), features(num_nodes)
    logits = module(x, no_edges)
    assert torch.isfinite(logits).all()
    logits.sum().backward()
    alone = [module(x[node : node + 1], no_edges) for node in range(num_nodes)]
    torch.testing.assert_close(logits, torch.cat(alone), atol=1e-6, rtol=1e-5)


@every_backbone
def test_an_isolated_node_does_not_depend_on_others(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    before = module(x, edge_index)
    x[:18] += 1
    after = module(x, edge_index)
    torch.testing.assert_close(before[18:], after[18:])
    assert not torch.allclose(before[edge_index[0]], after[edge_index[0]])


@every_backbone
def test_initial_parameters_depend_on_the_seed(backbone):
    one, two, other = (initialised(backbone, seed).state_dict() for seed in (0, 0, 1))
    assert same(one, two)
    assert not same(one, other)
    drawn = [initialised(backbone, random(5)).state_dict() for _ in range(2)]
    assert same(*drawn)


@every_backbone
def test_edge_weights_matter_except_in_attention(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    weight = torch.rand(edge_index.shape[1], generator=random(6)) + 0.1
    logits, weighted = module(x, edge_index), module(x, edge_index, weight)
    assert torch.equal(logits, weighted) == isinstance(backbone, GAT)
    torch.testing.assert_close(module(x, edge_index, torch.ones_like(weight)), logits)
    torch.testing.assert_close(module(x, edge_index, weight.double()), weighted)


@every_backbone
def test_double_precision(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    single = module(x, edge_index)
    torch.testing.assert_close(module.double()(x.double(), edge_index).float(), single, atol=1e-6, rtol=1e-5)


@every_backbone
def test_choices_are_frozen_and_equal_by_value(backbone):
    with pytest.raises(AttributeError):
        backbone.hidden = 5
    assert copy.deepcopy(backbone) == backbone
    assert hash(copy.deepcopy(backbone)) == hash(backbone)


def test_products_emit_no_warnings(recwarn):
    for backbone in BACKBONES:
        initialised(backbone)(features(), undirected()).sum().backward()
    assert [str(warning.message) for warning in recwarn] == []


@every_backbone
def test_a_graph_is_read_once(backbone):
    module, x, one, other = initialised(backbone), features(), undirected(), undirected(seed=8)
    counting = Counting(module)
    for edge_index in (one, other, one, other):
        module(x, edge_index)
        module(x + 1, edge_index)
    assert counting.times == 2
    for seed in range(5):
        module(x, undirected(seed=seed))
    assert counting.times == 7
    module(x, one)  # two graphs are kept, the others are read again
    assert counting.times == 8


def check_never_stale(backbone):
    """A graph that is changed in any way is seen as changed."""
    module, fresh = initialised(backbone).eval(), initialised(backbone).eval()
    x, edge_index = features(), undirected()
    weight = torch.rand(edge_index.shape[1], generator=random(9)) + 0.1

    def check(*inputs):
        found, expected = module(*inputs), fresh.double()(*(each.double() if each.is_floating_point() else each
                                                            for each in map(torch.clone, inputs)))  # fmt: skip
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)

    check(x, edge_index)
    check(x, edge_index.flip(1))
    check(x, undirected(seed=10)[:, : edge_index.shape[1]])
    edge_index[:, :6] = edge_index[:, :6] * 7 % 18
    check(x, edge_index)
    check(torch.cat([x, x]), edge_index)
    check(x, edge_index, weight)
    weight[:9] *= 5
    check(x, edge_index, weight)
    check(x, edge_index, weight.flip(0))
    check(x, edge_index)
    module.double()
    check(x.double(), edge_index)


@every_backbone
def test_a_cached_graph_is_never_stale(backbone):
    check_never_stale(backbone)


@pytest.mark.parametrize("forgotten", ["version", "shape and dtype", "identity"])
def test_a_stale_graph_would_be_caught(monkeypatch, forgotten):
    def equal(self, other):
        shapes, versions = (
            [
                [of(one, state) for one, state in zip(key.tensors, key.state, strict=True) if state]
                for key in (self, other)
            ]
            for of in (lambda one, state: one.shape, lambda one, state: state[0])
        )
        if forgotten == "identity":
            return shapes[0] == shapes[1] and versions[0] == versions[1]
        same_tensors = all(mine is its for mine, its in zip(self.tensors, other.tensors, strict=True))
        return same_tensors and (forgotten == "version" or versions[0] == versions[1])

    identity = type(memory.identity_key(torch.ones(1)))
    monkeypatch.setattr(identity, "__eq__", equal)
    monkeypatch.setattr(identity, "__hash__", lambda self: 0)
    if forgotten == "shape and dtype":
        key = memory.identity_key
        monkeypatch.setattr(Network, "_graph", lambda self, x, *edges: self._graphs(
            key(*edges), lambda: self.read_graph(x, *edges)))  # fmt: skip
    with pytest.raises((AssertionError, RuntimeError)):
        check_never_stale(GCN())


@every_backbone
def test_the_cached_graph_is_neither_copied_nor_saved(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    names, logits = set(module.state_dict()), module(x, edge_index)
    assert set(module.state_dict()) == names == {name for name, _ in module.named_parameters()}
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        counting = Counting(twin)
        assert torch.equal(twin(x, edge_index), logits)
        assert counting.times == 1


@every_backbone
def test_inference_mode_leaves_no_trace(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    with torch.inference_mode():
        inferred = module(x, edge_index)
        assert torch.equal(module(x, edge_index.clone()), inferred)
    logits = module(x, edge_index)
    logits.sum().backward()
    assert torch.equal(logits, inferred)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: GCN(hidden=0), "hidden"),
        (lambda: GCN(hidden=1.5), "hidden"),
        (lambda: GAT(heads=True), "heads"),
        (lambda: ChebNet(terms=0), "terms"),
        (lambda: JKNet(lstm_layers=-1), "lstm_layers"),
        (lambda: JKNet(hidden=1, lstm_layers=1), "hidden"),
        (lambda: GCN(dropout=1.0), "dropout"),
        (lambda: GAT(dropout=-0.1), "dropout"),
        (lambda: ChebNet(dropout=math.nan), "dropout"),
        (lambda: JKNet(dropout="half"), "dropout"),
        (lambda: GCN().build(0, 3), "in_channels"),
        (lambda: GAT().build(3, 0), "num_classes"),
    ],
)
def test_invalid_settings_are_rejected(make, name):
    with pytest.raises(ValueError, match=f"`{name}`.* must .*got"):
        make()


@every_backbone
@pytest.mark.parametrize(
    ("edge_index", "edge_weight", "message"),
    [
        (torch.tensor([[0, 20], [1, 0]]), None, "`edge_index` must contain node ids from 0 to 19, got 20"),
        (torch.tensor([[0, 1], [1, -1]]), None, "`edge_index` must contain node ids from 0 to 19, got -1"),
        (torch.tensor([[0, 1]]), None, r"`edge_index` must be int64 \[2, E\]"),
        (torch.tensor([[0.0], [1.0]]), None, r"`edge_index` must be int64 \[2, E\]"),
    ],
)
def test_invalid_edges_are_rejected(backbone, edge_index, edge_weight, message):
    with pytest.raises(ValueError, match=message):
        initialised(backbone)(features(), edge_index, edge_weight)


class TestCuda:
    pytestmark = on_gpu

    @every_backbone
    def test_logits_and_gradients_equal_the_cpu(self, backbone):
        edge_index, weight = untidy()
        found = []
        for device in ("cpu", "cuda"):
            module = initialised(backbone).double().eval().to(device)
            logits = module(features(12, torch.float64).to(device), edge_index.to(device), weight.to(device))
            logits.square().sum().backward()
            found.append([each.cpu() for each in (logits.detach(), *(one.grad for one in module.parameters()))])
        torch.testing.assert_close(*found, atol=1e-10, rtol=1e-10)

    @every_backbone
    def test_a_module_may_change_devices(self, backbone):
        module, x, edge_index = initialised(backbone).eval(), features(), undirected()
        before = module(x, edge_index)
        moved = module.cuda()(x.cuda(), edge_index.cuda())
        torch.testing.assert_close(moved.cpu(), before, atol=1e-4, rtol=1e-4)
        assert torch.equal(module.cpu()(x, edge_index), before)
