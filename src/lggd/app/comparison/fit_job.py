"""The job of a comparison: fits one method to one split with a share of its labels, and measures it.

A line of results has accuracy, F1, calibration, time and memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from lggd._system.memory import release_memory
from lggd.app.comparison import runner
from lggd.app.comparison.candidates import describe_model
from lggd.app.comparison.jobs import Job, JobOptions
from lggd.app.comparison.label_splits import visible_to_methods
from lggd.app.comparison.results import Line
from lggd.app.comparison.settings import Setting
from lggd.app.runs.methods import Method, installed_versions
from lggd.datasets.by_name import split_fingerprint
from lggd.errors import InputError
from lggd.progress import Callback
from lggd.validation import check_finite

EXPERIMENT, SEARCHES = "comparison", "searches"
ERROR = "error"  # the key of a line that says why there is no measurement
BINS = 10  # of equal width, for the probability of the predicted class
PROBABILITY_TOLERANCE = 1e-3
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # what Linux's documentation of /proc calls resetting the peak resident set size


@dataclass(frozen=True, eq=False)
class FitJob(Job):
    """A method on a split. `problem` is the fingerprint of the graph, `data` has the masks of the split.

    A method that fails yields a line with the reason, which counts until the next command.
    """

    method: Method
    data: Any
    problem: str
    labels: int | float
    split: int
    share: float = 1.0
    trials: int = 0
    experiment: str = EXPERIMENT

    IDENTITY: ClassVar = (
        "problem", "method", "settings", "version", "labels", "split", "split_hash", "share", "trials", "seed",
        "device",
    )  # fmt: skip
    CELL: ClassVar = IDENTITY

    @property
    def title(self) -> str:
        share = "" if self.share == 1 else f", {self.share:.0%} of the labels"
        return f"{self.method.title}, split {self.split}{share}"

    @property
    def group(self) -> str:
        amount = f"{self.labels!r}/{self.share:g}/{self.trials}"
        return f"{self.problem}/{self.method.name}/{amount}/{self.split}"

    def identities(self, options: JobOptions) -> list[Line]:
        try:
            settings = describe_model(self.method.model(options.seed + self.split))
        except Exception as error:  # of a plug-in, which must not stop the others; the job reports it
            settings = f"{type(error).__name__}: {error}"
        return [
            {
                "problem": self.problem, "method": self.method.name, "title": self.method.title,
                "settings": settings, "version": installed_versions()["lggd"],
                "labels": self.labels, "split": self.split, "split_hash": split_fingerprint(self.data),
                "share": self.share, "trials": self.trials,
                "seed": options.seed, "device": options.device, "train": int(self.data.train_mask.sum()),
                "validation": int(self.data.val_mask.sum()), "test": int(self.data.test_mask.sum()),
            }
        ]  # fmt: skip

    def is_final(self, line: Line) -> bool:
        return ERROR not in line  # the caller may have mended the method since

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        meter = Meter(self.data.y.device)
        try:
            found = self._measure(options, missing[0], meter)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            found = {ERROR: describe_error(error), "where": f"{last.filename}:{last.lineno}"}
        if ERROR in found:
            release_memory()  # after the except clause, so that the traceback keeps no tensors alive
        yield missing[0] | found | runner.run_metadata(options.device, meter.seconds)

    def _measure(self, options: JobOptions, identity: Line, meter: Meter) -> Line:
        """Fits the method to what it may see, and compares its predictions with the rest."""
        seen, seed = visible_to_methods(self.data), options.seed + self.split
        chosen: dict[str, Setting] = {}
        more: Line = {}
        if self.trials:
            file = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in self.method.name)
            kind = hashlib.sha256(f"{identity['settings']} {identity['version']}".encode()).hexdigest()[:8]
            journal = options.results.folder / SEARCHES / f"{file}-{kind}.journal"
            name = f"{self.group}/{options.device}/{seed}"
            chosen, validation = choose_settings(self.method, seed, seen, self.trials, journal, name)
            more = {"chosen": chosen, "chosen_by": validation}
        model = self.method.model(seed)
        if chosen:
            model.set_params(**chosen)
        with meter:
            found = model.fit(seen).predict_proba()
        probabilities = read_probabilities(self.method.name, found, self.data)
        costs = {"cpu_seconds": meter.cpu_seconds, "memory": meter.memory}
        return evaluate(probabilities, self.data.y, self.data.test_mask) | costs | more


def describe_error(error: Exception) -> str:
    """The kind and the message of an error on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def choose_settings(
    method: Method, seed: int, data: Any, trials: int, journal: Path, name: str
) -> tuple[dict[str, Setting], float | None]:
    """Returns the settings with the highest validation accuracy of `trials` fits, and it; `data` has no test labels."""
    from lggd.app.comparison import search  # needs Optuna

    def validation(settings: dict[str, Setting], _: Any) -> list[float]:
        found = method.model(seed).set_params(**settings).fit(data).predict_proba()
        return [evaluate(read_probabilities(method.name, found, data), data.y, data.val_mask)["accuracy"]]

    return search.choose_settings(method.model(seed), validation, trials, journal, name, seed)


def read_probabilities(name: str, found: Any, data: Any) -> Tensor:
    """Returns what a model predicts as float64 `[N, K]`; a model may know fewer classes, but not fewer nodes."""
    num_nodes, num_classes = data.num_nodes, int(data.y.max()) + 1
    probabilities = torch.as_tensor(found).detach().double().to(data.y.device)
    if probabilities.dim() != 2 or len(probabilities) != num_nodes or not 0 < probabilities.shape[1] <= num_classes:
        rule = f"predict probabilities [{num_nodes}, {num_classes}], one row per node and one column per class"
        raise InputError(name, rule, list(probabilities.shape))
    return check_finite(f"the probabilities of {name}", probabilities, "Look for a division by 0 in the model.")


def evaluate(probabilities: Tensor, y: Tensor, mask: Tensor) -> dict[str, Any]:
    """Returns accuracy and macro F1 (%) over the nodes of a mask, and calibration bins, as in a line of results.

    A bin is (number of nodes, sum of the probabilities of the predicted classes, number of correct predictions); there
    are none if rows do not sum to 1.

    >>> evaluate(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0]), torch.tensor([True, True]))["accuracy"]
    50.0
    """
    certainty, predicted = (each[mask] for each in probabilities.max(1))
    correct = predicted == y[mask]
    sums_to_one = bool(((probabilities.sum(1) - 1).abs() < PROBABILITY_TOLERANCE).all())
    return {
        "accuracy": 100 * int(correct.sum()) / len(correct),
        "macro_f1": _macro_f1(predicted, y[mask]),
        "bins": _bins(certainty, correct) if sums_to_one else None,
    }


def _macro_f1(predicted: Tensor, truth: Tensor) -> float:
    """The mean F1 (%) over the classes of these nodes."""
    scores = []
    for label in torch.unique(truth).tolist():
        hits = int(((predicted == label) & (truth == label)).sum())
        scores.append(2 * hits / int((predicted == label).sum() + (truth == label).sum()))
    return 100 * math.fsum(scores) / len(scores)


def _bins(certainty: Tensor, correct: Tensor) -> list[list[float]]:
    number = (certainty * BINS).long().clamp(0, BINS - 1)
    sums = [torch.bincount(number, weights, BINS) for weights in (None, certainty, correct.double())]
    return [[round(float(value), 6) for value in values] for values in zip(*sums, strict=True)]


def merge_bins(bins: Sequence[Sequence[Sequence[float]]]) -> list[tuple[float, float, float]]:
    """Adds the bins of several splits."""
    return [tuple(map(math.fsum, zip(*parts, strict=True))) for parts in zip(*bins, strict=True)]  # type: ignore[misc]


def calibration_error(bins: Sequence[Sequence[float]]) -> float:
    """Returns the expected calibration error: |accuracy − mean probability| (points), averaged over nodes.

    >>> calibration_error([(10, 9.5, 9), (10, 6.0, 7)])
    7.5
    """
    total = math.fsum(count for count, *_ in bins)
    return round(100 * math.fsum(abs(correct - certainty) for _, certainty, correct in bins) / total, 6)


@dataclass
class Meter:
    """Measures seconds, CPU seconds and the growth of memory (bytes, None where unknown) in a `with` block."""

    device: torch.device
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory: int | None = None

    def __enter__(self) -> Meter:
        self._before = self._reset_peak()
        self._start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.seconds = time.perf_counter() - self._start[0]
        self.cpu_seconds = time.process_time() - self._start[1]
        peak = self._peak()
        self.memory = None if peak is None or self._before is None else max(0, peak - self._before)

    def _reset_peak(self) -> int | None:
        """Frees memory of earlier fits; returns what is in use. The peak is counted from now on."""
        release_memory()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return torch.cuda.memory_allocated(self.device)
        with suppress(OSError, AttributeError):  # only GNU's C library has it: memory kept for later counts as in use
            ctypes.CDLL(None).malloc_trim(0)
        try:
            CLEAR.write_text(RESET_PEAK)
        except OSError:  # another system than Linux, or a restricted one
            return None
        return _status("VmRSS")

    def _peak(self) -> int | None:
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else _status("VmHWM")


def _status(name: str) -> int | None:
    """An entry of /proc/self/status in bytes; its lines are like "VmHWM:   24049952 kB"."""
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(found[0]) * 1024 if found else None
