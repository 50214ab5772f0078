"""Learning on a CUDA device: what it learns on the CPU, but for rounding. Skipped, visibly, where there is none."""

import copy

import pytest
import torch

import lggd
from lggd import (
    GAT,
    GCN,
    GGD,
    LGGD,
    MLP,
    ChebNet,
    JKNet,
    LearnedEdgeWeights,
    LearnedPotential,
    LGGDClassifier,
    Optimization,
    PropagatedMLP,
)
from lggd.scales import Standardize
from support.small_data import Averages, Perceptron, blocks, changed, same

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

TIMES = (1.0, 2.0)
FEW = Optimization(lr=0.01, weight_decay=0.002, epochs=4, patience=None)
CLOSE = {"rtol": 5e-3, "atol": 5e-4}


def learned(**settings):
    return LGGD(**{"times": TIMES, "optimization": FEW, "initial": MLP((8,), dropout=0.0), **settings})


MODELS = {
    "GGD": lambda: GGD(TIMES),
    "GGD, p=2": lambda: GGD(TIMES, p=2.0, initial_value=20.0, scale=Standardize(), cross_fit=2),
    "LGGD": lambda: learned(initial=PropagatedMLP((8,), dropout=0.0)),
    "MLP": lambda: learned(cross_fit=2),
    "learned potential": lambda: learned(potential=LearnedPotential()),
    "learned weights": lambda: learned(potential=LearnedEdgeWeights()),
    "one model": lambda: learned(per_time=False, concat=True),
    "module": lambda: learned(initial=Perceptron(dropout=0.0)),
}
DROPPING = {
    "MLP": lambda: learned(initial=MLP((8,), dropout=0.5)),
    "input dropout": lambda: learned(initial=MLP((8,), dropout=0.5, input_dropout=0.5)),
    "propagated": lambda: learned(initial=PropagatedMLP((8,), dropout=0.5)),
    "module": lambda: learned(initial=Perceptron()),
    "release": lambda: LGGD.release(times=TIMES, optimization=FEW),
}


def on_device(data):
    return copy.copy(data).to("cuda")


@pytest.fixture(params=["plain", "weighted", "sparse"])
def data(request):
    return blocks(weighted=request.param == "weighted", sparse=request.param == "sparse", lonely=1)


@pytest.mark.parametrize("name", MODELS)
def test_fitting_there_is_fitting_here(name, data):
    if name == "module" and data.x.is_sparse:
        data = changed(data, x=data.x.to_dense())
    here = MODELS[name]().fit(data)
    found = MODELS[name]().fit_transform(on_device(data)).x
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), here.transform(data).x, **CLOSE)


@pytest.mark.parametrize("name", MODELS)
def test_what_was_learned_there_gives_the_same_features_here(name, tmp_path):
    data = blocks(lonely=1)
    there = MODELS[name]().fit(on_device(data))
    there.save(tmp_path / "model")
    modules = {"initial": there.initial} if name == "module" else {}
    here = lggd.load_model(tmp_path / "model", **modules)
    torch.testing.assert_close(there.features(on_device(data)).cpu(), here.features(data), **CLOSE)


# The module is of layers that take no sparse node features.
@pytest.mark.parametrize(
    ("name", "sparse"),
    [*((name, False) for name in DROPPING), *((name, True) for name in DROPPING if name != "module")],
)
def test_dropout_runs_there_and_is_repeatable(name, sparse):
    data = on_device(blocks(sparse=sparse))
    before = torch.get_rng_state(), torch.cuda.get_rng_state()
    one, other = (DROPPING[name]().fit(data) for _ in range(2))
    assert torch.isfinite(one.features(data)).all()
    torch.testing.assert_close(one.features(data), other.features(data), **CLOSE)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(torch.cuda.get_rng_state(), before[1])


@pytest.mark.parametrize("name", MODELS)
def test_labels_are_added_there(name):
    data = on_device(blocks())
    model = MODELS[name]().fit(data)
    before = model.features(data)
    for nodes, labels in (([30, 31], [0, 1]), (data.val_mask, data.y[data.val_mask])):
        larger = copy.copy(model)
        larger.labels_ = model.labels_.clone()
        larger.labels_[torch.as_tensor(nodes, device="cuda")] = torch.as_tensor(labels, device="cuda")
        model.add_labels(nodes, labels)
        assert torch.equal(model.labels_, larger.labels_)
        torch.testing.assert_close(model.features(data), larger.features(data))
    assert not torch.equal(model.features(data), before)


@pytest.mark.parametrize(
    "backbone",
    [GCN(hidden=8), GAT(hidden=4), ChebNet(hidden=8), JKNet(hidden=6), Averages(7), None],
    ids=lambda b: type(b).__name__,
)
def test_a_classifier_fitted_there_answers_there_and_loads_here(backbone, tmp_path):
    data = on_device(blocks())
    model = LGGDClassifier(learned(), backbone, Optimization(epochs=10)).fit(data)
    state = {} if model.module_ is None else {name: x.clone() for name, x in model.module_.state_dict().items()}
    model.add_labels([30, 31], [0, 1])
    assert same(state, {} if model.module_ is None else model.module_.state_dict())
    assert model.predict().device.type == "cuda"
    assert 0 <= model.score(data) <= 1
    model.save(tmp_path / "model")
    own = {"backbone": Averages(7)} if isinstance(backbone, Averages) else {}
    loaded = LGGDClassifier.load(tmp_path / "model", **own)
    torch.testing.assert_close(loaded.predict_proba(), model.predict_proba().cpu(), **CLOSE)


def test_a_classifier_learns_there():
    data = on_device(blocks(each=20, labelled=4, validated=4, seed=1))
    assert LGGDClassifier().fit(data).score(data) > 0.9
