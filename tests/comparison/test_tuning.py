"""Settings by validation on one split: the spaces, the choice, and how a search continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from comparison_models import Tunable
from lggd.baselines import APPNP, GDC, PPR
from lggd.closed_form import KernelRidge
from lggd.comparison import tuning
from lggd.comparison.candidates import Candidate, read_candidates
from lggd.comparison.label_splits import draw_splits, visible_to_methods
from lggd.comparison.methods import Categorical
from lggd.comparison.tuning import choose_settings, search_space
from small_data import Averages, blocks


def test_spaces_start_with_the_settings_of_the_model() -> None:
    space = search_space(APPNP(alpha=0.3))
    assert isinstance(space["alpha"], Categorical)
    assert space["alpha"].values == (0.3, 0.05, 0.1, 0.2)
    assert space["optimization__weight_decay"].middle == 5e-3
    assert {"kernel__alpha", "backbone__dropout", "optimization__lr", "k"} <= set(search_space(GDC(PPR())))


def test_models_of_the_caller_have_the_same_spaces() -> None:
    module = read_candidates({"mine": Averages(6)})[0].model(0)
    assert set(search_space(module)) == {"optimization__lr", "optimization__weight_decay"}
    assert search_space(object()) == {}


def test_methods_that_choose_themselves_are_not_searched(tmp_path: Path) -> None:
    data = visible_to_methods(draw_splits(blocks(), 3, 1)[0])
    candidate = Candidate("k", "K", KernelRidge)
    assert search_space(KernelRidge()) == {}
    assert choose_settings(candidate, 0, data, 5, tmp_path / "journal", "k") == ({}, None)
    assert not (tmp_path / "journal").exists()


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The weight decay of every fit."""
    seen: list[float] = []
    original = Tunable.fit

    def fit(self: Tunable, data: Any) -> Tunable:
        seen.append(self.optimization.weight_decay)
        return original(self, data)

    monkeypatch.setattr(Tunable, "fit", fit)
    return seen


def test_the_best_by_validation_is_chosen_and_a_killed_search_continues(tmp_path: Path, fits: list[float]) -> None:
    data = visible_to_methods(draw_splits(blocks(), 3, 1)[0])
    candidate, journal = Candidate("t", "T", Tunable), tmp_path / "journal"
    settings, value = choose_settings(candidate, 0, data, 12, journal, "t")
    assert (settings["optimization__weight_decay"], value) == (5e-3, 100)
    assert fits[0] == 1e-6, "the first trial has the default settings"
    count = len(fits)
    assert count <= 9, "repeated settings are not fitted again"
    assert choose_settings(candidate, 0, data, 12, journal, "t") == (settings, value)
    assert len(fits) == count
    with journal.open("a") as file:  # the process was killed while it wrote
        file.write('{"op_code": 4, "worker')
    assert choose_settings(candidate, 0, data, 12, journal, "t") == (settings, value)


def test_a_trial_left_running_by_a_killed_process_is_run_again(tmp_path: Path, fits: list[float]) -> None:
    data = visible_to_methods(draw_splits(blocks(), 3, 1)[0])
    candidate, journal = Candidate("t", "T", Tunable), tmp_path / "journal"

    class Killed(BaseException):
        pass

    def die(*_: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tunable, "fit", die)
        patch.setattr("lggd.comparison.study.SharedStudy.abandon", lambda *_: None)  # no time to give it up
        with pytest.raises(Killed):
            choose_settings(candidate, 0, data, 3, journal, "t")
    assert choose_settings(candidate, 0, data, 3, journal, "t")[1] is not None
    assert fits[0] == 1e-6


def test_settings_do_not_depend_on_test_labels(tmp_path: Path) -> None:
    """Other classes at the test nodes, the same settings; a leak would choose those that are right there."""
    split = draw_splits(blocks(), 3, 1)[0]
    garbled = visible_to_methods(split)
    garbled.y = torch.where(split.test_mask, (split.y + 2) % 3, garbled.y)
    candidate = Candidate("t", "T", Tunable)
    chosen = [
        choose_settings(candidate, 0, data, 6, tmp_path / name, "t")
        for name, data in (("a", visible_to_methods(split)), ("b", garbled))
    ]
    assert chosen[0] == chosen[1]


def test_every_space_names_settings_that_exist() -> None:
    for kind, space in tuning.SPACES.items():
        assert set(space) <= set(getattr(kind, "__dataclass_fields__", ())), kind
