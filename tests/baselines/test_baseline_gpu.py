"""Every baseline on a CUDA device."""

import copy

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data

from lggd import Optimization
from lggd.baselines import GDC, LabelPropagation
from reproduction.baselines import CorrectAndSmooth, GAugM, GAugO, ScikitNetwork
from support.baseline_cases import CASES, every_case, needs_cuda
from support.small_data import blocks, changed, garbled, splits

pytestmark = [pytest.mark.gpu, needs_cuda]


@pytest.fixture
def make(name):
    return CASES[name].make


def on_gpu(data):
    return copy.copy(data).to("cuda")


@every_case
def test_reaches_the_accuracy_of_the_cpu(name, make):
    """On 201 nodes, with epochs enough to be recorded and replayed."""
    data = splits(2, each=67, labelled=12, validated=20, inside=0.15, outside=0.02, noise=0.3)
    settings = {"optimization": Optimization(weight_decay=5e-4, epochs=150), **CASES[name].accurate}
    for seed, one in enumerate(data):
        model, other = (make(seed=seed, **settings).fit(each) for each in (one, on_gpu(one)))
        assert isinstance(other.probabilities_, Tensor)
        assert other.probabilities_.is_cuda
        assert other.probabilities_.isfinite().all()
        accuracy = other.score(on_gpu(one))
        assert accuracy == pytest.approx(model.score(one), abs=0.1)
        assert accuracy > 0.6


@every_case
def test_is_deterministic_and_ignores_hidden_labels(name, make):
    data = blocks(lonely=1)
    first = make().fit(on_gpu(data)).probabilities_
    assert torch.equal(first, make().fit(on_gpu(data)).probabilities_)
    assert torch.equal(first, make().fit(on_gpu(garbled(data))).probabilities_)


@every_case
def test_recorded_epochs_equal_others(name, make, monkeypatch):
    data = on_gpu(blocks(lonely=2))
    recorded = make().fit(data).probabilities_
    monkeypatch.setattr("lggd.training.cuda_graph.WARM_UP", 10**9)
    torch.testing.assert_close(make().fit(data).probabilities_, recorded, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", [GDC, GAugM, GAugO])
def test_twenty_thousand_nodes_fit(kind):
    size = 20_000
    ends = torch.randint(size, (2, 44_000), generator=torch.Generator().manual_seed(0))
    y = torch.arange(size) % 3
    x = functional.one_hot(y, 3).float() + 0.1
    data = Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], 1), y=y, train_mask=y.cumsum(0) < 500)
    data = changed(data, val_mask=~data.train_mask).cuda()
    settings = {
        GDC: {"k": 8},
        GAugM: {"remove": 0.2, "add": 0.3, "predictor_epochs": 10},
        GAugO: {"alpha": 0.5, "pretrain_predictor": 5, "pretrain_classifier": 5},
    }
    torch.cuda.reset_peak_memory_stats()
    model = kind(**settings[kind], optimization=Optimization(epochs=12, patience=None)).fit(data)
    assert model.probabilities_.isfinite().all()
    assert torch.cuda.max_memory_allocated() < 12 * 2**30


@pytest.mark.parametrize("kind", [LabelPropagation, CorrectAndSmooth, ScikitNetwork])
def test_predictions_without_training_are_those_of_the_cpu(kind):
    if kind is ScikitNetwork:
        pytest.importorskip("sknetwork", reason="scikit-network is not installed")
    build = {CorrectAndSmooth: lambda: CorrectAndSmooth(LabelPropagation())}.get(kind, kind)
    data = blocks(weighted=True, lonely=1)
    on_cpu, other = build().fit(data), build().fit(on_gpu(data))
    for _ in range(2):
        assert other.predict_proba().is_cuda
        torch.testing.assert_close(other.predict_proba().cpu(), on_cpu.predict_proba())
        for model in (on_cpu, other):
            model.add_labels([20, 22], [0, 1])
