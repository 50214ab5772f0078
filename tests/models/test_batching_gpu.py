"""Many models in one pass on a CUDA device. Skipped, visibly, where there is none."""

import copy

import pytest
import torch

from lggd import MLP, fit_together
from lggd.training.cuda_graph import WARM_UP
from support.batches import CLASSIFIERS, DATA, DIVIDED, FEATURES, FEW, SOME, check_as_if_alone, stages

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CLOSE = {"rtol": 5e-3, "atol": 1e-3}


def on_gpu():
    return [copy.copy(data).to("cuda") for data in DATA]


def test_epochs_are_replayed():
    assert min(FEW.epochs, SOME.epochs) > WARM_UP + 2


@pytest.mark.parametrize("name", FEATURES)
def test_features_fitted_together_are_as_if_alone(name):
    check_as_if_alone(FEATURES[name], on_gpu(), CLOSE)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_fitted_together_are_as_if_alone(name):
    check_as_if_alone(CLASSIFIERS[name], on_gpu(), CLOSE)


@pytest.mark.parametrize("name", DIVIDED)
def test_models_of_several_passes_are_as_if_alone(name):
    check_as_if_alone(DIVIDED[name][0], on_gpu(), CLOSE)
    assert stages(DIVIDED[name][0](), on_gpu()) == stages(DIVIDED[name][0](), DATA)


@pytest.mark.parametrize(
    "name", ["splits", "release", "one model for all times", "rates and decays", "epochs and patience"]
)
def test_a_pass_gives_the_same_as_on_the_cpu(name):
    def models():
        made = FEATURES[name]()
        for model in made:
            model.initial = MLP((8,), dropout=0.0)  # devices draw different dropout masks
        return made

    for model, other, data in zip(fit_together(models(), on_gpu()), fit_together(models(), DATA), DATA, strict=True):
        found = model.features(copy.copy(data).to("cuda"))
        torch.testing.assert_close(found.cpu(), other.features(data), rtol=5e-3, atol=5e-4)
