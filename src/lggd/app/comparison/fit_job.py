"""The jobs of a comparison: each fits one method to one split with a share of its labels, and measures it.

A line of results has accuracy, F1, calibration and time. Jobs run in this process, in others, or on a cluster.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from filelock import FileLock
from torch import Tensor

from lggd._system.memory import release_memory
from lggd.app.comparison.candidates import describe_model
from lggd.app.comparison.label_splits import visible_to_methods
from lggd.app.comparison.results import Line, Results, run_metadata
from lggd.app.runs.methods import Method, installed_versions
from lggd.cluster.connection import run_tasks
from lggd.datasets.by_name import split_fingerprint
from lggd.errors import InputError
from lggd.progress import Callback, Progress
from lggd.validation import check_finite

if TYPE_CHECKING:
    from torch_geometric.data import Data

EXPERIMENT = "comparison"
LOCK = ".comparison.lock"  # held while jobs run
ERROR = "error"  # the key of a line that says why there is no measurement
BINS = 10  # of equal width, for the probability of the predicted class
PROBABILITY_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class FitJob:
    """A method on a split. `problem` is the fingerprint of the graph, `data` has the masks of the split.

    The model has the seed `seed + split`.
    """

    method: Method
    data: Data
    problem: str
    labels: int | float
    split: int
    share: float = 1.0
    trials: int = 0
    seed: int = 0

    IDENTITY: ClassVar = (
        "problem", "method", "settings", "version", "labels", "split", "split_hash", "share", "trials", "seed",
        "device",
    )  # fmt: skip

    @property
    def title(self) -> str:
        share = "" if self.share == 1 else f", {self.share:.0%} of the labels"
        return f"{self.method.title}, split {self.split}{share}"

    def identity(self) -> Line:
        """The part of its line that is known before: `IDENTITY` and numbers of labels."""
        try:
            settings = describe_model(self.method.model(self.seed + self.split))
        except Exception as error:  # of a plug-in, which must not stop the others; its line reports it
            settings = describe_error(error)
        return {
            "problem": self.problem, "method": self.method.name, "title": self.method.title,
            "settings": settings, "version": installed_versions()["lggd"],
            "labels": self.labels, "split": self.split, "split_hash": split_fingerprint(self.data),
            "share": self.share, "trials": self.trials, "seed": self.seed, "device": str(self.data.y.device),
            "train": int(self.data.train_mask.sum()), "validation": int(self.data.val_mask.sum()),
            "test": int(self.data.test_mask.sum()),
        }  # fmt: skip

    def line(self) -> Line:
        """Its line of results; of a method that fails one with the reason, and the next run tries it again."""
        start = time.perf_counter()
        try:
            measured = self._measure()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            seconds = time.perf_counter() - start
            measured = {"seconds": seconds, ERROR: describe_error(error), "where": f"{last.filename}:{last.lineno}"}
        if ERROR in measured:
            release_memory()  # after the except clause, so that the traceback keeps no tensors alive
        return self.identity() | measured | run_metadata(str(self.data.y.device), measured["seconds"])

    def _measure(self) -> Line:
        """Fits the method to what it may see, and compares its predictions with the rest."""
        seen, seed = visible_to_methods(self.data), self.seed + self.split
        model = self.method.model(seed)
        line: Line = {}
        if self.trials:
            chosen, validation = choose_settings(self.method, seed, seen, self.trials)
            line = {"chosen": chosen, "chosen_by": validation}
            if chosen:
                model.set_params(**chosen)
        release_memory()
        start, cpu_start = time.perf_counter(), time.process_time()
        predicted = model.fit(seen).predict_proba()
        if self.data.y.is_cuda:
            torch.cuda.synchronize(self.data.y.device)
        line |= {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu_start}
        probabilities = read_probabilities(self.method.name, predicted, self.data)
        return evaluate(probabilities, self.data.y, self.data.test_mask) | line


def run_jobs(
    jobs: Sequence[FitJob],
    results: Results,
    *,
    processes: int = 1,
    on_cluster: bool = False,
    callback: Callback | None = None,
) -> tuple[list[Line], dict[int, Exception]]:
    """Returns the lines of all jobs in their order, and the errors of those that have none, by number of the job.

    Lines that exist are not measured again. This process appends the others as they arrive, so that an interruption
    loses nothing; another one with the same folder waits until it is done, and finds them. `on_cluster` is the cluster
    that `lggd.cluster.connect` has connected to: each job runs on one CPU of any node.
    """
    results.prepare()
    lines: dict[int, Line] = {}
    failures: dict[int, Exception] = {}
    with FileLock(results.folder / LOCK):
        known = {_key(line): line for line in results.lines(EXPERIMENT)[0] if ERROR not in line}
        for number, job in enumerate(jobs):
            if (line := known.get(_key(job.identity()))) is not None:
                lines[number] = line
        missing = [number for number in range(len(jobs)) if number not in lines]

        def report(done: int) -> None:
            if callback is not None and done < len(missing):
                callback(Progress(jobs[missing[done]].title, len(jobs) - len(missing) + done, len(jobs)))

        report(0)
        for done, (number, measured) in enumerate(_measured(jobs, missing, processes, on_cluster), 1):
            if isinstance(measured, Exception):
                failures[number] = measured
            else:
                results.append(EXPERIMENT, measured)
                lines[number] = measured
            report(done)
    return [lines[number] for number in sorted(lines)], failures


def _measured(
    jobs: Sequence[FitJob], numbers: Sequence[int], processes: int, on_cluster: bool
) -> Iterator[tuple[int, Line | Exception]]:
    """Yields the number of each job and its line, or why there is none, as they arrive."""
    if on_cluster:
        yield from run_tasks(_line_of, list(jobs), numbers)
    elif processes == 1:
        yield from ((number, jobs[number].line()) for number in numbers)
    else:
        from joblib import Parallel, delayed, parallel_config

        threads = max(1, torch.get_num_threads() // processes)
        with parallel_config("loky", inner_max_num_threads=threads):
            work = Parallel(n_jobs=processes, return_as="generator_unordered")
            yield from work(delayed(_numbered_line)(jobs[number], number) for number in numbers)


def _line_of(jobs: Sequence[FitJob], number: int) -> Line:
    return jobs[number].line()


def _numbered_line(job: FitJob, number: int) -> tuple[int, Line]:
    return number, job.line()


def _key(line: Line) -> tuple[Any, ...]:
    return tuple(line.get(name) for name in FitJob.IDENTITY)


def describe_error(error: Exception) -> str:
    """The kind and the message of an error on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def choose_settings(method: Method, seed: int, data: Data, trials: int) -> tuple[dict[str, Any], float | None]:
    """Returns the settings with the highest validation accuracy of `trials` fits, and that accuracy.

    `data` has no test labels.
    """
    from lggd.app.comparison import search  # trials need Optuna

    def validation(settings: dict[str, Any]) -> float:
        predicted = method.model(seed).set_params(**settings).fit(data).predict_proba()
        scores = evaluate(read_probabilities(method.name, predicted, data), data.y, data.val_mask)
        return float(scores["accuracy"])

    return search.choose_settings(method.model(seed), validation, trials, seed)


def read_probabilities(name: str, predicted: Any, data: Data) -> Tensor:
    """Returns what a model predicts as float64 `[N, K]`; a model may know fewer classes, but not fewer nodes."""
    num_nodes, num_classes = data.num_nodes, int(data.y.max()) + 1
    probabilities = torch.as_tensor(predicted).detach().double().to(data.y.device)
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
    from sklearn.metrics import f1_score

    certainty, predicted = (each[mask] for each in probabilities.max(1))
    truth, correct = y[mask].cpu(), predicted == y[mask]
    classes = torch.unique(truth).tolist()
    sums_to_one = bool(((probabilities.sum(1) - 1).abs() < PROBABILITY_TOLERANCE).all())
    return {
        "accuracy": 100 * int(correct.sum()) / len(correct),
        "macro_f1": 100 * float(f1_score(truth, predicted.cpu(), labels=classes, average="macro", zero_division=0.0)),
        "bins": _bins(certainty, correct) if sums_to_one else None,
    }


def _bins(certainty: Tensor, correct: Tensor) -> list[list[float]]:
    number = (certainty * BINS).long().clamp(0, BINS - 1)
    sums = [torch.bincount(number, weights, BINS) for weights in (None, certainty, correct.double())]
    return [[round(float(value), 6) for value in values] for values in zip(*sums, strict=True)]


def merge_bins(bins: Sequence[Sequence[Sequence[float]]]) -> list[tuple[float, float, float]]:
    """Adds the bins of several splits."""
    return [tuple(map(math.fsum, zip(*parts, strict=True))) for parts in zip(*bins, strict=True)]  # type: ignore[misc]  # three each


def calibration_error(bins: Sequence[Sequence[float]]) -> float:
    """Returns the expected calibration error: |accuracy − mean probability| (points), averaged over nodes.

    >>> calibration_error([(10, 9.5, 9), (10, 6.0, 7)])
    7.5
    """
    total = math.fsum(count for count, *_ in bins)
    return round(100 * math.fsum(abs(correct - certainty) for _, certainty, correct in bins) / total, 6)
