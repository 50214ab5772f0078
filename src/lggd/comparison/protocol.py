"""The protocol of a comparison: all splits of a dataset on the device, sharing one graph and one x."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd.data.datasets import LABELS_PER_CLASS, load
from lggd.data.splits import by_count
from lggd.validation import check_name

CACHED = 8  # number of datasets cached in memory, so that they are read once for all methods of a table
NORMALIZATIONS = ("raw", "sum", "length")


def load_splits(
    dataset: str, splits: Sequence[int], *, device: str, root: str | Path | None = None, dynamic: bool = False
) -> list[Any]:
    """Loads one PyG Data per split, with train_mask, val_mask and test_mask; all share `x` and `edge_index`.

    The embedded datasets have no validation nodes: 5 test nodes of every class are used, drawn with the split as seed.
    """
    return [copy.copy(data) for data in _loaded(dataset, tuple(splits), device, root, dynamic)]


def with_normalized_features(datas: Sequence[Any], normalization: str) -> list[Any]:
    """Returns copies that share one normalized x."""
    x = normalize_rows(datas[0].x, normalization)
    return [copy.copy(data).update({"x": x}) for data in datas]


def without_test_labels(datas: Sequence[Any]) -> list[Any]:
    """Returns copies in which the class of every test node is -1."""
    return [copy.copy(data).update({"y": torch.where(data.test_mask, -1, data.y)}) for data in datas]


def normalize_rows(x: Tensor, normalization: str) -> Tensor:
    """Returns x `[N, F]` unchanged ("raw"), or with rows divided by their sum ("sum") or norm ("length")."""
    if check_name("normalization", normalization, NORMALIZATIONS) == "raw":
        return x
    # Entries of both signs may sum to 0, so that absolute values are summed.
    size = x.abs().sum(1, keepdim=True) if normalization == "sum" else x.norm(dim=1, keepdim=True)
    return x / torch.where(size > 0, size, 1.0)


@lru_cache(maxsize=CACHED)
def _loaded(dataset: str, splits: tuple[int, ...], device: str, root: str | Path | None, dynamic: bool) -> list[Any]:
    datas = [load(dataset, split=split, dynamic=dynamic, root=root) for split in splits]
    for data, split in zip(datas, splits, strict=True):
        if getattr(data, "val_mask", None) is None:
            test_labels = torch.where(data.test_mask, data.y, -1)
            data.val_mask, data.test_mask = by_count(test_labels, LABELS_PER_CLASS, split)
    datas = [data.to(device) for data in datas]
    for data in datas[1:]:
        data.x, data.edge_index, data.y = datas[0].x, datas[0].edge_index, datas[0].y
    return datas
