"""Many models in one pass on a CUDA device: as if alone there, too. Skipped, visibly, where there is none."""

import copy

import pytest
import torch
from test_together import CLASSIFIERS, DATA, DIVIDED, FEATURES, FEW, SOME, check_as_if_alone, stages

from lggd import MLP, fit_together
from lggd.training.cuda_graph import WARM_UP

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CLOSE = {"rtol": 5e-3, "atol": 1e-3}


def there():
    return [copy.copy(data).to("cuda") for data in DATA]


def test_epochs_are_replayed_there():
    assert min(FEW.epochs, SOME.epochs) > WARM_UP + 2


@pytest.mark.parametrize("name", FEATURES)
def test_features_fitted_together_are_as_if_alone_there(name):
    check_as_if_alone(FEATURES[name], there(), CLOSE)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_fitted_together_are_as_if_alone_there(name):
    check_as_if_alone(CLASSIFIERS[name], there(), CLOSE)


@pytest.mark.parametrize("name", DIVIDED)
def test_so_are_those_of_several_passes_there(name):
    check_as_if_alone(DIVIDED[name][0], there(), CLOSE)
    expected = stages(DIVIDED[name][0](), DATA)
    assert stages(DIVIDED[name][0](), there()) == expected


@pytest.mark.parametrize("name", ["splits", "release", "shared horizons", "rates and decays", "epochs and patience"])
def test_fitted_together_there_is_fitted_together_here(name):
    def models():
        made = FEATURES[name]()
        for model in made:
            model.initial = MLP((8,), dropout=0.0)  # what devices drop is not the same
        return made

    for model, other, data in zip(fit_together(models(), there()), fit_together(models(), DATA), DATA, strict=True):
        found = model.features(copy.copy(data).to("cuda"))
        torch.testing.assert_close(found.cpu(), other.features(data), rtol=5e-3, atol=5e-4)
