"""The runner: the data that splits share, their models, and no test labels in a search."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import lggd
from lggd.errors import InputError
from reproduction.runner import load_splits, measure, normalize_rows

FEW = {"optimization__epochs": 4}


def test_every_split_is_fitted_with_its_seed() -> None:
    found = measure("gcn", {**FEW, "contents": "sum"}, "karate", [0, 1], seed=3)
    for split, data in enumerate(load_splits("karate", [0, 1], device="cpu")):
        model = lggd.LGGDClassifier(None, lggd.GCN(), lggd.Optimization(epochs=4), seed=3 + split).fit(data)
        assert found.test[split] == pytest.approx(100 * model.score(data))
        assert found.val[split] == pytest.approx(100 * model.score(data, data.val_mask))


def test_node_features_are_normalized_before_any_method_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    datas: list[Any] = []
    original = lggd.LGGDClassifier.fit
    monkeypatch.setattr(
        lggd.LGGDClassifier, "fit", lambda self, data, **more: original(self, datas.append(data) or data, **more)
    )
    measure("gcn", {**FEW, "contents": "length"}, "moons", [0, 1])
    assert datas[0].x is datas[1].x
    assert torch.allclose(datas[0].x.norm(dim=1), torch.ones(len(datas[0].x)))


def test_a_search_sees_no_test_labels() -> None:
    visible, hidden = (measure("gcn", FEW, "karate", [0, 1], hide_test=hide) for hide in (False, True))
    assert hidden.val == visible.val
    assert hidden.test == []


def test_splits_share_graph_and_features_and_have_three_masks() -> None:
    datas = load_splits("karate", [0, 1, 2], device="cpu")
    assert all(data.x is datas[0].x and data.edge_index is datas[0].edge_index for data in datas)
    for data in datas:
        masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
        assert bool((masks.sum(0) == 1).all())
        assert masks[:2].sum(1).tolist() == [10, 10]
    assert not torch.equal(datas[0].val_mask, datas[1].val_mask)


def test_changing_loaded_data_does_not_change_the_cache() -> None:
    data = load_splits("karate", [0], device="cpu")[0]
    data.y = torch.zeros(34)
    assert int(load_splits("karate", [0], device="cpu")[0].y.sum()) > 0


def test_features_are_normalized_by_rows() -> None:
    x = torch.tensor([[3.0, -4.0], [0.0, 0.0]])
    assert normalize_rows(x, "raw") is x
    assert torch.allclose(normalize_rows(x, "sum"), torch.tensor([[3 / 7, -4 / 7], [0, 0]]))
    assert torch.allclose(normalize_rows(x, "length"), torch.tensor([[0.6, -0.8], [0, 0]]))
    with pytest.raises(InputError, match="`normalization`"):
        normalize_rows(x, "other")
