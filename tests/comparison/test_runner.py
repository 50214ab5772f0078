"""The runner: all splits side by side give what each gives alone, and a search sees no test labels."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import lggd
from lggd.comparison import runner
from lggd.comparison.methods import Method
from lggd.comparison.protocol import load_splits
from lggd.comparison.runner import measure

GCN = Method("01", "GCN", "Backbone", "gcn", {"max_epochs": 4})


def test_splits_side_by_side_are_fitted_as_alone() -> None:
    found = measure(GCN, {**GCN.settings, "contents": "sum"}, "karate", [0, 1], seed=3)
    for split, data in enumerate(load_splits("karate", [0, 1], device="cpu")):
        model = lggd.LGGDClassifier(None, lggd.GCN(), lggd.Optimization(epochs=4), seed=3 + split).fit(data)
        assert found.test[split] == pytest.approx(100 * model.score(data))
        assert found.val[split] == pytest.approx(100 * model.score(data, data.val_mask))


def test_node_features_are_normalized_before_any_method_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    original = runner.fit_together
    monkeypatch.setattr(
        runner, "fit_together", lambda models, datas, **more: original(models, seen.append(datas) or datas)
    )
    measure(GCN, {**GCN.settings, "contents": "length"}, "moons", [0, 1])
    (datas,) = seen
    assert datas[0].x is datas[1].x
    assert torch.allclose(datas[0].x.norm(dim=1), torch.ones(len(datas[0].x)))


def test_a_search_sees_no_test_labels() -> None:
    visible, hidden = (measure(GCN, GCN.settings, "karate", [0, 1], hide_test=hide) for hide in (False, True))
    assert hidden.val == visible.val
    assert hidden.test == []
