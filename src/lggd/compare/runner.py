"""A cell of a table: one method on all splits of a dataset, measured and recorded."""

from __future__ import annotations

import datetime
import hashlib
import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd.compare.machine import machine, versions
from lggd.compare.methods import Model, build, completed
from lggd.compare.row import Row, Setting
from lggd.compare.splits import load_splits, with_contents, without_test_labels
from lggd.data.splits import fingerprint
from lggd.estimator import fit_together
from lggd.training.progress import Callback

# What makes a measurement this one and no other. Absent from most lines: `additions` and `variant`.
IDENTITY = ("experiment", "row", "dataset", "backbone", "config", "splits", "seed", "additions", "variant")
# What makes lines rivals for one place in a table, of which the report counts the last.
PLACE = tuple(name for name in IDENTITY if name not in ("config", "seed"))
DIGITS = 12


@dataclass(frozen=True)
class Measured:
    """What came out: accuracies in per cent and the hash of the split, each a list over the splits; seconds in all."""

    val: list[float]
    test: list[float]
    split_hashes: list[str]
    seconds: float


def measure(
    row: Row,
    settings: Mapping[str, Setting],
    dataset: str,
    splits: Sequence[int],
    device: str = "cpu",
    backbone: str = "gcn",
    seed: int = 0,
    root: str | Path | None = None,
    callback: Callback | None = None,
    hide_test: bool = False,
) -> Measured:
    """Fits the row's method with these settings to all splits at once, and says how often it is right.

    The model of split s has the seed `seed + s`. `settings` are all that there are: `row.settings_for(dataset)`, or
    what a search tries. With `hide_test` the labels of test nodes are gone before anything is learned, and `test` is
    empty: what a search must be judged by.
    """
    datas = load_splits(dataset, splits, device=device, root=root)
    if hide_test:
        datas = without_test_labels(datas)
    began = time.perf_counter()
    models = fitted(row, settings, datas, splits, backbone, seed, callback)
    found = ask(models, datas, began)
    return replace(found, test=[]) if hide_test else found


def fitted(
    row: Row,
    settings: Mapping[str, Setting],
    datas: Sequence[Any],
    splits: Sequence[int],
    backbone: str,
    seed: int,
    callback: Callback | None,
) -> list[Model]:
    """A fitted model a split."""
    contents = str(completed(row.method, settings, backbone)["contents"])
    models = [build(row.method, settings, backbone, seed + split) for split in splits]
    return fit_together(models, with_contents(datas, contents), callback=callback)


def ask(models: Sequence[Any], datas: Sequence[Any], began: float) -> Measured:
    """What fitted models answer on their data, and the seconds since `began`, a `time.perf_counter()`."""
    predicted = [model.predict() for model in models]
    if predicted[0].is_cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    pairs = list(zip(predicted, datas, strict=True))
    return Measured(
        val=[percent_right(one, data.y, data.val_mask) for one, data in pairs],
        test=[percent_right(one, data.y, data.test_mask) for one, data in pairs],
        split_hashes=[fingerprint(data) for data in datas],
        seconds=seconds,
    )


def percent_right(predicted: Tensor, truth: Tensor, mask: Tensor) -> float:
    """How many of the nodes in the mask have the class that was predicted, in per cent.

    >>> percent_right(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), torch.tensor([True, True, False]))
    50.0
    """
    right: Tensor = (predicted == truth)[mask]
    return 100 * int(right.sum()) / len(right)


def identity(
    experiment: str,
    row: Row,
    settings: Mapping[str, Setting],
    dataset: str,
    split_hashes: Sequence[str],
    backbone: str = "gcn",
    seed: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """The first part of a line: what was measured, with every setting spelt out."""
    config = completed(row.method, settings, backbone)
    return {
        "experiment": experiment,
        "row": row.number,
        "name": row.name,
        "slug": row.slug,
        **more,
        "dataset": dataset,
        "backbone": backbone,
        "config": {name: _as_json(config[name]) for name in sorted(config)},
        "seed": seed,
        "split_hash": hashlib.sha256(" ".join(split_hashes).encode()).hexdigest()[:DIGITS],
        "splits": list(split_hashes),
    }


def line_of(identity: Mapping[str, Any], measured: Measured, device: str) -> dict[str, Any]:
    """A whole line: what was measured, what came out, and where."""
    return {
        **identity,
        "val": measured.val,
        "test": measured.test,
        "mean": statistics.fmean(measured.test),
        "sd": _deviation(measured.test),
        "val_mean": statistics.fmean(measured.val),
        "val_sd": _deviation(measured.val),
        **circumstances(device, measured.seconds),
    }


def circumstances(device: str, seconds: float) -> dict[str, Any]:
    """Where and when something was measured, and how long it took."""
    return {
        "seconds": seconds,
        "device": device,
        "machine": machine(device),
        "versions": versions(),
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def finished(lines: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The last of the lines that measured the same already; None where there is none."""
    same = [line for line in lines if _agree(line, wanted, IDENTITY)]
    return dict(same[-1]) if same else None


def is_overtaken(lines: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any]) -> bool:
    """Whether a later line has its place, which was measured with other settings or another seed."""
    rivals = [line for line in lines if _agree(line, wanted, PLACE)]
    return bool(rivals) and not _agree(rivals[-1], wanted, IDENTITY)


def _agree(line: Mapping[str, Any], wanted: Mapping[str, Any], names: Iterable[str]) -> bool:
    return all(line.get(name) == wanted.get(name) for name in names)


def _deviation(values: Sequence[float]) -> float:
    """The standard deviation of the sample; 0 where there is but one value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _as_json(value: Setting) -> Setting:
    """JSON knows no infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
