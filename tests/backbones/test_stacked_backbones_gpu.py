"""Many backbones at once on a CUDA device."""

import dataclasses

import pytest
import torch

from lggd.training import cuda_graph, engine
from lggd.training import problems as dropout
from lggd.training.engine import train
from support.backbone_cases import on_gpu
from support.stacked_cases import (
    OURS,
    DrawTheSame,
    check_alone,
    every_backbone,
    every_kind,
    made,
    problems,
)

# Sums in another order: on a GPU they are cut according to the size of the whole.
CLOSE_ON_GPU = {"rtol": 5e-3, "atol": 5e-4}


class TestCuda:
    pytestmark = on_gpu

    @every_kind
    def test_problems_are_trained_as_if_alone(self, backbone, monkeypatch):
        recordings, record = [], cuda_graph.CUDAGraphStep._capture
        counted = lambda self, generators: recordings.append(self) or record(self, generators)  # noqa: E731
        monkeypatch.setattr(cuda_graph.CUDAGraphStep, "_capture", counted)
        monkeypatch.setattr(engine, "EPOCHS_WITHOUT_VALIDATION", 9)
        together, history = check_alone(backbone, "cuda", CLOSE_ON_GPU)
        assert len(history["train_loss one"]) > cuda_graph.WARM_UP + 2
        assert (together._graph in recordings) == (backbone in OURS)

    @every_backbone
    def test_shared_random_numbers_would_be_caught(self, backbone, monkeypatch):
        monkeypatch.setattr(dropout, "draw_keep_mask", DrawTheSame())
        with pytest.raises(AssertionError):
            check_alone(backbone, "cuda", CLOSE_ON_GPU)

    @every_backbone
    def test_recorded_epochs_equal_unrecorded_ones(self, backbone, monkeypatch):
        recorded = made(backbone, device="cuda")
        history = train(recorded, "backbone")
        monkeypatch.setattr(cuda_graph, "WARM_UP", 1000)
        plain = made(backbone, device="cuda")
        for name, values in train(plain, "backbone").items():
            assert history[name] == pytest.approx(values, rel=1e-3, abs=1e-4)
        assert recorded.best_epoch == plain.best_epoch
        # What was drawn is the same to the bit.
        for q in range(3):
            states = [engine.trainable.generators[q].get_state() for engine in (recorded, plain)]
            assert torch.equal(*states)

    @every_backbone
    def test_without_dropout_results_equal_the_cpu(self, backbone):
        backbone = dataclasses.replace(backbone, dropout=0.0)
        histories = [train(made(backbone, device=device), "backbone") for device in ("cpu", "cuda")]
        for name, values in histories[0].items():
            if name.startswith("train_loss"):
                assert histories[1][name][:5] == pytest.approx(values[:5], rel=5e-3, abs=5e-4)

    @every_kind
    def test_shared_features_equal_repeated_features(self, backbone):
        x = problems()[0][0]
        shared, repeated = (made(backbone, x=each, device="cuda") for each in (x, x.expand(3, *x.shape)))
        one, other = train(shared, "backbone"), train(repeated, "backbone")
        for name, values in one.items():
            assert other[name][:6] == pytest.approx(values[:6], rel=5e-3, abs=5e-4)
