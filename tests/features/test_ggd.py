"""GGD: distances from the topology alone, also as a transform that is never fitted."""

import math

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import Compose

from lggd import GGD
from lggd.errors import InputError, InputTypeError
from lggd.scales import Unscaled
from support.small_data import blocks, changed
from support.small_features import make
from support.small_models import TIMES, is_fitted


def test_distances_on_a_path():
    data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), y=torch.tensor([0, -1, 1]), num_nodes=3)
    model = GGD(times=(50,), cross_fit=0, scale=Unscaled(), initial_value=10.0, potential=None).fit(data)
    torch.testing.assert_close(
        model.features(data), torch.tensor([[0.0, 2, 1], [1, 1, 1], [2, 0, 1]]), atol=1e-4, rtol=0
    )


def test_an_unfitted_ggd_is_a_transform_that_stays_unfitted(data):
    transform = GGD(TIMES)
    assert torch.equal(transform(data).x, GGD(TIMES).fit_transform(data).x)
    assert not is_fitted(transform)
    other = blocks(each=9, seed=3)
    assert torch.equal(Compose([transform])(other).x, GGD(TIMES).fit_transform(other).x)


def test_a_fitted_ggd_keeps_its_labels(data, fitted):
    other = changed(data, y=data.y.flip(0))
    assert torch.equal(fitted("GGD")(other).x, fitted("GGD").transform(data).x)


def test_node_features_are_not_needed(data, fitted):
    without = changed(data, x=None)
    assert torch.equal(GGD(TIMES).fit(without).features(without), fitted("GGD").features(data))


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_distances_start_at_a_finite_value(value, data):
    with pytest.raises(InputError, match="`initial_value`"):
        GGD(initial_value=value).fit(data)


@pytest.mark.parametrize("label", [-2, 5, 2**61])
def test_labels_out_of_range_are_refused(label, data):
    y = data.y.clone()
    y[0] = label
    with pytest.raises(InputError, match=r"`data.y`"):
        GGD().fit(changed(data, y=y))


@pytest.mark.parametrize("thing", [None, 3, "data", torch.ones(3)])
def test_other_objects_than_data_are_refused(thing):
    with pytest.raises(InputTypeError, match="`data"):
        GGD().fit(thing)


def test_nothing_is_learned(fitted):
    assert fitted("GGD").history_ == {}
    data = changed(blocks(), train_mask=None, val_mask=None)
    assert torch.equal(make("GGD").fit(data).labels_, data.y)  # none is held out
