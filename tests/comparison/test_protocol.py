"""Splits of datasets: what they share, their masks, and normalized features."""

from __future__ import annotations

import pytest
import torch

from lggd.comparison.protocol import load_splits, normalize_rows, with_normalized_features
from lggd.errors import InputError


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
    other = with_normalized_features(load_splits("karate", [0], device="cpu"), "sum")[0]
    assert int(other.y.sum()) > 0


def test_features_are_normalized_by_rows() -> None:
    x = torch.tensor([[3.0, -4.0], [0.0, 0.0]])
    assert normalize_rows(x, "raw") is x
    assert torch.allclose(normalize_rows(x, "sum"), torch.tensor([[3 / 7, -4 / 7], [0, 0]]))
    assert torch.allclose(normalize_rows(x, "length"), torch.tensor([[0.6, -0.8], [0, 0]]))
    with pytest.raises(InputError, match="`normalization`"):
        normalize_rows(x, "other")
