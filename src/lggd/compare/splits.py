"""Datasets as experiments want them: all splits of one at once, on the device, with one graph and one x in common."""

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
from lggd.errors import InputError

# So many datasets stay in memory, so that rows of a table do not read them anew.
REMEMBERED = 8


def load_splits(
    dataset: str, splits: Sequence[int], *, device: str, root: str | Path | None = None, dynamic: bool = False
) -> list[Any]:
    """A PyG Data a split, which have `x` and `edge_index` in common, each with a train, a val and a test_mask.

    The embedded datasets come without validation nodes: 5 test nodes of every class become that, drawn by the split.
    """
    folder = None if root is None else str(root)
    return [copy.copy(data) for data in _loaded(dataset, tuple(splits), device, folder, dynamic)]


def with_contents(datas: Sequence[Any], contents: str) -> list[Any]:
    """Copies whose x has rows as they are ("raw"), divided by their sum ("sum") or by their length ("length").

    Rows of zeros stay. All copies have one x in common.
    """
    x = scaled(datas[0].x, contents)
    changed = [copy.copy(data) for data in datas]
    for data in changed:
        data.x = x
    return changed


def without_test_labels(datas: Sequence[Any]) -> list[Any]:
    """Copies in which the class of every test node is -1, unknown."""
    changed = [copy.copy(data) for data in datas]
    for data in changed:
        data.y = torch.where(data.test_mask, -1, data.y)
    return changed


def scaled(x: Tensor, contents: str) -> Tensor:
    """Rows of x `[N, F]` divided as `contents` says.

    >>> scaled(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), "sum")
    tensor([[0.2500, 0.7500],
            [0.0000, 0.0000]])
    """
    if contents == "raw":
        return x
    if contents not in ("sum", "length"):
        raise InputError("contents", "be raw, sum or length", repr(contents))
    # Where entries have both signs, their sum may be 0 though they are not.
    size = x.abs().sum(1, keepdim=True) if contents == "sum" else x.norm(dim=1, keepdim=True)
    return x / torch.where(size > 0, size, 1.0)


@lru_cache(maxsize=REMEMBERED)
def _loaded(dataset: str, splits: tuple[int, ...], device: str, root: str | None, dynamic: bool) -> list[Any]:
    datas = [_with_validation(load(dataset, split=split, dynamic=dynamic, root=root), split) for split in splits]
    datas = [data.to(device) for data in datas]
    for data in datas[1:]:
        data.x, data.edge_index, data.y = datas[0].x, datas[0].edge_index, datas[0].y
    return datas


def _with_validation(data: Any, split: int) -> Any:
    if getattr(data, "val_mask", None) is None:
        hidden = torch.where(data.test_mask, data.y, -1)
        data.val_mask, data.test_mask = by_count(hidden, LABELS_PER_CLASS, split)
    return data
