"""Runs a method: fits it to all splits of a dataset, scores it, and builds the line for the results file."""

from __future__ import annotations

import datetime
import math
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from lggd.comparison.configs import Setting, Settings
from lggd.comparison.methods import Method
from lggd.comparison.protocol import load_splits, with_normalized_features, without_test_labels
from lggd.comparison.templates import NORMALIZATION, build, complete_settings
from lggd.estimator import NodeClassifier
from lggd.models.batching import fit_together
from lggd.runs.run import installed_versions
from lggd.training.engine import Callback

CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Scores:
    """Accuracies (%) on each split, and the total time in seconds."""

    val: list[float]
    test: list[float]
    seconds: float


def measure(
    method: Method,
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
    """Fits the method with these settings to all splits of a dataset side by side, and scores it.

    The model of split s has the seed `seed + s`. With `hide_test`, test labels are removed before the training and
    `test` is empty, as a search requires.
    """
    datas = load_splits(dataset, splits, device=device, root=root)
    if hide_test:
        datas = without_test_labels(datas)
    start = time.perf_counter()
    models = fit_method(method, settings, datas, [seed + split for split in splits], backbone, callback)
    scores = score_models(models, datas, start)
    return replace(scores, test=[]) if hide_test else scores


def fit_method(
    method: Method, settings: Settings, datas: list[Any], seeds: list[int], backbone: str, callback: Callback | None
) -> list[NodeClassifier]:
    normalization = str(complete_settings(method.template, settings, backbone)[NORMALIZATION])
    models = [build(method.template, settings, backbone, seed) for seed in seeds]
    return fit_together(models, with_normalized_features(datas, normalization), callback=callback)


def score_models(models: Sequence[Any], datas: Sequence[Any], start: float) -> Scores:
    """Returns the accuracies of fitted models on their data, and the seconds since `start`, a `time.perf_counter()`."""
    predicted = [model.predict() for model in models]
    if predicted[0].is_cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    hits = [classes == data.y for classes, data in zip(predicted, datas, strict=True)]
    val, test = (
        [100 * int((hit & data[mask]).sum()) / int(data[mask].sum()) for hit, data in zip(hits, datas, strict=True)]
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


def run_metadata(device: str, seconds: float) -> dict[str, Any]:
    versions = installed_versions()
    with suppress(PackageNotFoundError):
        versions["triton"] = version("triton")
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"seconds": seconds, "device": device, "machine": machine(device), "versions": versions, "when": when}


def machine(device: str) -> dict[str, str | int]:
    """Returns the CPU and the number of usable cores; for CUDA also the GPU and the precision of matrix products."""
    info = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    models = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    cpu = models[0] if models else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not device.startswith("cuda"):
        return {"cpu": cpu, "cores": cores}
    products = {"highest": "float32", "high": "TF32"}.get(torch.get_float32_matmul_precision(), "bfloat16")
    return {"cpu": cpu, "cores": cores, "gpu": torch.cuda.get_device_name(device), "products": products}


def json_setting(value: Setting) -> Setting:
    """Returns a setting for JSON, which has no infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
