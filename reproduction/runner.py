"""Runs rows of a table: fits a method to all splits of a dataset, scores it, and builds lines of results."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

import lggd
from lggd.app.comparison.label_splits import visible_to_methods
from lggd.app.comparison.results import run_metadata
from lggd.datasets.by_name import LABELS_PER_CLASS, split_by_count
from lggd.progress import Callback
from lggd.validation import check_name
from reproduction.methods import CONTENTS, NORMALIZATIONS, Settings, build

CACHED = 8  # number of datasets cached in memory, so that they are read once for all rows of a table


@dataclass(frozen=True)
class Scores:
    """Accuracies (%) on each split, and the total time in seconds. `test` is empty where test labels are hidden."""

    val: list[float]
    test: list[float]
    seconds: float


def load_splits(
    dataset: str, splits: Sequence[int], *, device: str, root: str | Path | None = None, dynamic: bool = False
) -> list[Any]:
    """Loads one PyG Data per split, with train_mask, val_mask and test_mask; all share `x` and `edge_index`.

    The embedded datasets have no validation nodes: 5 test nodes of every class are used, drawn with the split as seed.
    """
    return [copy.copy(data) for data in _loaded(dataset, tuple(splits), device, root, dynamic)]


@lru_cache(maxsize=CACHED)
def _loaded(dataset: str, splits: tuple[int, ...], device: str, root: str | Path | None, dynamic: bool) -> list[Any]:
    datas = [lggd.load(dataset, split=split, dynamic=dynamic, root=root) for split in splits]
    for data, split in zip(datas, splits, strict=True):
        if getattr(data, "val_mask", None) is None:
            test_labels = torch.where(data.test_mask, data.y, -1)
            data.val_mask, data.test_mask = split_by_count(test_labels, LABELS_PER_CLASS, split)
    datas = [data.to(device) for data in datas]
    for data in datas[1:]:
        data.x, data.edge_index, data.y = datas[0].x, datas[0].edge_index, datas[0].y
    return datas


def measure(
    method: str,
    settings: Settings,
    dataset: str,
    splits: Sequence[int],
    device: str = "cpu",
    backbone: str = "gcn",
    seed: int = 0,
    root: str | Path | None = None,
    callback: Callback | None = None,
    hide_test: bool = False,
) -> Scores:
    """Fits the method with these settings to all splits of a dataset, and scores it.

    The model of split s has the seed `seed + s`. With `hide_test`, test labels are removed before the training, as a
    search requires.
    """
    datas = load_splits(dataset, splits, device=device, root=root)
    if hide_test:
        datas = [visible_to_methods(data) for data in datas]
    start = time.perf_counter()
    models = fit_method(method, settings, datas, [seed + split for split in splits], backbone, callback)
    return score_models(models, datas, start)


def fit_method(
    method: str, settings: Settings, datas: list[Any], seeds: list[int], backbone: str, callback: Callback | None
) -> list[Any]:
    x = normalize_rows(datas[0].x, settings.get(CONTENTS, NORMALIZATIONS[0]))  # one for all splits
    return [
        build(method, settings, backbone, seed).fit(copy.copy(data).update({"x": x}), callback=callback)
        for data, seed in zip(datas, seeds, strict=True)
    ]


def normalize_rows(x: Tensor, normalization: str) -> Tensor:
    """Returns x `[N, F]` unchanged ("raw"), or with rows divided by their sum ("sum") or norm ("length")."""
    if check_name("normalization", normalization, NORMALIZATIONS) == "raw":
        return x
    # Entries of both signs may sum to 0, so that absolute values are summed.
    size = x.abs().sum(1, keepdim=True) if normalization == "sum" else x.norm(dim=1, keepdim=True)
    return x / torch.where(size > 0, size, 1.0)


def score_models(models: Sequence[Any], datas: Sequence[Any], start: float) -> Scores:
    """Returns the accuracies of fitted models on their data, and the seconds since `start`, a `time.perf_counter()`."""
    predicted = [model.predict() for model in models]
    if predicted[0].is_cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    hits = [(classes == data.y, data) for classes, data in zip(predicted, datas, strict=True)]
    val, test = (
        [100 * int((hit & data[mask]).sum()) / int(data[mask].sum()) for hit, data in hits if mask in data]
        for mask in ("val_mask", "test_mask")
    )
    return Scores(val, test, seconds)


def result_line(identity: Mapping[str, Any], scores: Scores, device: str) -> dict[str, Any]:
    """Returns a complete line: the identity, the scores and the metadata of the run."""
    deviations = [stdev(values) if len(values) > 1 else 0.0 for values in (scores.test, scores.val)]
    return {
        **identity, "val": scores.val, "test": scores.test, "mean": fmean(scores.test), "sd": deviations[0],
        "val_mean": fmean(scores.val), "val_sd": deviations[1], **run_metadata(device, scores.seconds),
    }  # fmt: skip
