"""How distances become features: each formula, fitted once."""

import math

import pytest
import torch

from lggd.scales import MaxScale, SoftmaxScale, Standardize, Unscaled
from support.small_data import random, same

SCALES = [Unscaled(), MaxScale(), Standardize(), SoftmaxScale(), SoftmaxScale(0.3), SoftmaxScale(None)]
every_scale = pytest.mark.parametrize("scale", SCALES, ids=repr)


def distances(seed=0, nodes=20, times=3, classes=4):
    return torch.rand(nodes, times, classes, generator=random(seed)) * torch.arange(1, times + 1).view(1, -1, 1)


def test_unscaled_is_what_it_was():
    f = distances()
    assert Unscaled().fit(f) == {}
    assert torch.equal(Unscaled().apply(f, {}), f)


def test_max_scale_divides_each_column_by_its_largest():
    f = distances()
    scaled = MaxScale().apply(f, MaxScale().fit(f))
    for t in range(3):
        for k in range(4):
            torch.testing.assert_close(scaled[:, t, k], f[:, t, k] / max(f[:, t, k].tolist()))


def test_standardize_gives_mean_0_and_deviation_1():
    f = distances()
    scaled = Standardize().apply(f, Standardize().fit(f)).double()
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3, 4, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(scaled.square().mean(0), torch.ones(3, 4, dtype=torch.float64), atol=1e-5, rtol=0)
    column = f[:, 1, 2].double()
    torch.testing.assert_close(
        scaled[:, 1, 2], (column - column.mean()) / column.std(correction=0), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("temperature", [1.0, 0.3, None])
def test_softmax_scale_compares_classes_at_each_time(temperature):
    f, scale = distances(), SoftmaxScale(temperature)
    scaled = scale.apply(f, scale.fit(f))
    for t in range(3):
        if temperature is None:
            about = f[:, t] - f[:, t].mean(1, keepdim=True)
            fitted = float(about.square().mean().sqrt())
        else:
            fitted = temperature
        near = torch.exp(-f[:, t] / fitted)
        torch.testing.assert_close(scaled[:, t], near / near.sum(1, keepdim=True))
    torch.testing.assert_close(scaled.sum(2), torch.ones(20, 3))


@every_scale
def test_a_scale_is_fitted_once_and_used_again(scale):
    f, other = distances(0), distances(1) * 5
    fitted = scale.fit(f)
    before = {name: value.clone() for name, value in fitted.items()}
    later = scale.apply(other, fitted)
    assert same(before, fitted)
    if not isinstance(scale, Unscaled) and scale not in (SoftmaxScale(), SoftmaxScale(0.3)):
        assert not torch.allclose(later, scale.apply(other, scale.fit(other)))
    state = {name: torch.from_numpy(value.numpy().copy()) for name, value in fitted.items()}
    assert torch.equal(scale.apply(other, state), later)


@every_scale
def test_a_scale_changes_neither_its_input_nor_the_order_of_nodes(scale):
    f = distances()
    before, order = f.clone(), torch.randperm(20, generator=random(2))
    fitted = scale.fit(f)
    scaled = scale.apply(f, fitted)
    assert torch.equal(f, before)
    assert scaled.shape == f.shape
    assert torch.equal(scale.apply(f[order], fitted), scaled[order])


@every_scale
@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 7.3, 123.456, 1e6, 1e6 + 5])
@pytest.mark.parametrize("nodes", [1, 36])
def test_a_column_that_is_constant_becomes_a_constant(scale, value, nodes):
    f = torch.full((nodes, 2, 3), value)
    scaled = scale.apply(f, scale.fit(f))
    assert torch.isfinite(scaled).all()
    expected = {Unscaled: float(f[0, 0, 0]), MaxScale: float(value > 0), Standardize: 0.0, SoftmaxScale: 1 / 3}[
        type(scale)
    ]
    torch.testing.assert_close(scaled, torch.full_like(scaled, expected), atol=1e-3, rtol=0)
    assert bool((scaled == scaled[:1]).all())


@every_scale
def test_a_single_class_is_finite(scale):
    f = distances(classes=1)
    assert torch.isfinite(scale.apply(f, scale.fit(f))).all()


@every_scale
def test_nodes_far_out_do_not_spoil_the_others(scale):
    f = distances()
    f[0] = 1e6
    assert torch.isfinite(scale.apply(f, scale.fit(f))).all()


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_a_temperature_is_positive(temperature):
    with pytest.raises(ValueError, match="`temperature`"):
        SoftmaxScale(temperature)


@pytest.mark.parametrize("mistake", ["over times", "over nodes", "nearer is less"])
def test_the_check_on_the_softmax_catches_a_wrong_one(mistake, monkeypatch):
    wrong = {
        "over times": lambda self, f, fitted: torch.softmax(-f / fitted["temperature"], dim=1),
        "over nodes": lambda self, f, fitted: torch.softmax(-f / fitted["temperature"], dim=0),
        "nearer is less": lambda self, f, fitted: torch.softmax(f / fitted["temperature"], dim=2),
    }
    monkeypatch.setattr(SoftmaxScale, "apply", wrong[mistake])
    with pytest.raises(AssertionError):
        test_softmax_scale_compares_classes_at_each_time(1.0)
