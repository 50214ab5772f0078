"""The settings that are searched for any model."""

from __future__ import annotations

from lggd.app.comparison import search
from lggd.app.comparison.candidates import read_candidates
from lggd.app.comparison.search import search_space
from lggd.backbones import APPNP
from lggd.baselines import GDC
from lggd.closed_form import KernelRidge
from lggd.filters import PPR
from lggd.models.classifier import LGGDClassifier
from support.small_data import Averages


def test_spaces_start_with_the_settings_of_the_model() -> None:
    space = search_space(LGGDClassifier(None, APPNP(alpha=0.3)))
    assert space["backbone__alpha"] == (0.3, 0.05, 0.1, 0.2)
    assert space["optimization__weight_decay"][0] == 1e-6
    assert {"kernel__alpha", "backbone__dropout", "optimization__lr", "k"} <= set(search_space(GDC(PPR())))


def test_models_of_the_caller_have_the_same_spaces() -> None:
    module = read_candidates({"mine": Averages(6)})[0].model(0)
    assert set(search_space(module)) == {"optimization__lr", "optimization__weight_decay"}
    assert search_space(KernelRidge()) == search_space(object()) == {}


def test_every_space_names_settings_that_exist() -> None:
    for kind, space in search.SPACES.items():
        assert set(space) <= set(getattr(kind, "__dataclass_fields__", ())), kind
