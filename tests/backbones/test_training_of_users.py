"""Users' modules as backbones."""

import copy

import pytest
import torch
from torch import nn

from lggd.backbones import build_seeded
from lggd.errors import InputError
from lggd.training.engine import train
from support.backbone_cases import (
    CLASSES,
    FEATURES,
    Own,
    Plain,
    exported,
    features,
    initialised,
    own_lazy,
    present,
    same,
    sbm_learner,
    undirected,
)


class Named(Own):
    def forward(self, x, edge_index, size=None, *, edge_weight=None):
        self.given.append(edge_weight)
        return self.linear(x)


class Third(Own):
    def forward(self, x, edge_index, weights=None):
        self.given.append(weights)
        return self.linear(x)


class ThirdNeeded(Own):
    def forward(self, x, edge_index, w):
        self.given.append(w)
        return self.linear(x)


class ThirdElse(Own):
    def forward(self, x, edge_index, size=None):
        self.given.append(size)
        return self.linear(x)


@pytest.mark.parametrize("own", [Plain, Named, Third, ThirdNeeded, ThirdElse])
def test_edge_weights_reach_user_modules_as_declared(own):
    module, x, edge_index = build_seeded(own(), FEATURES, CLASSES, seed=0), features(), undirected()
    weight = torch.ones(edge_index.shape[1])
    assert module(x, edge_index, weight).shape == (20, CLASSES)
    assert module(x, edge_index).shape == (20, CLASSES)
    expected = {Plain: [], ThirdElse: [None, None]}.get(own, [weight, None])
    assert all(given is wanted for given, wanted in zip(module.module.given, expected, strict=True))


def test_user_modules_are_copied_with_their_parameters():
    own = Plain()
    module = initialised(own)
    assert same(module.module.state_dict(), own.state_dict())
    assert module.module is not own
    assert module.module.linear.weight is not own.linear.weight


def test_user_modules_are_never_trained_themselves():
    own = Plain(2)
    before = copy.deepcopy(own.state_dict())
    learner, _ = sbm_learner(own)
    train(learner, "backbone")
    assert same(own.state_dict(), before)
    assert own.training
    assert all(parameter.grad is None for parameter in own.parameters())
    assert not same(exported(learner)[0].module.state_dict(), before)


def test_lazy_modules_get_their_parameters_from_the_seed():
    own = own_lazy()
    (one, _), (two, _), (other, _) = (sbm_learner(own, seed=seed) for seed in (0, 0, 1))
    assert same(present(one), present(two))
    assert not same(present(one), present(other))
    assert train(one, "backbone") == train(two, "backbone")
    assert any(nn.parameter.is_lazy(parameter) for parameter in own.parameters())


def test_torchs_own_lazy_layers():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.LazyLinear(2)

        def forward(self, x, edge_index):
            return self.linear(x)

    learner, _ = sbm_learner(Lazy())
    assert len(train(learner, "backbone")["train_loss"]) > 1


@pytest.mark.parametrize("width", [CLASSES - 1, CLASSES + 1])
def test_a_wrong_output_width_is_rejected(width):
    module = build_seeded(Plain(width), FEATURES, CLASSES, seed=0)
    with pytest.raises(
        ValueError, match=rf"`backbone` must return logits \[20, 3\].* Plain returned \[20, {width}\].*to 3"
    ):
        module(features(), undirected())


def test_an_output_that_is_no_tensor_is_rejected():
    class Talkative(Plain):
        def forward(self, x, edge_index):
            return self.linear(x), None

    with pytest.raises(ValueError, match="Talkative returned a tuple"):
        build_seeded(Talkative(), FEATURES, CLASSES, seed=0)(features(), undirected())


def test_a_module_without_parameters_is_refused_by_its_own_name():
    class Same(nn.Module):
        def forward(self, x, edge_index):
            return x[:, :CLASSES]

    with pytest.raises(InputError, match="`backbone` must have parameters that require gradients, but Same has none"):
        sbm_learner(Same())
