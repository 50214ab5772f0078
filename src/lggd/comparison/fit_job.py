"""The job of a comparison: one method, fitted to one split with a share of its labels, as one line of results."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lggd.comparison import runner, tuning
from lggd.comparison.candidates import Candidate, describe_model
from lggd.comparison.configs import Setting
from lggd.comparison.evaluation import Meter, evaluate, read_probabilities
from lggd.comparison.jobs import Job, JobOptions
from lggd.comparison.label_splits import visible_to_methods
from lggd.comparison.results import Line
from lggd.data.splits import fingerprint
from lggd.system.memory import release_memory
from lggd.training.engine import Callback

EXPERIMENT, SEARCHES = "comparison", "searches"
ERROR = "error"  # the key of a line that says why there is no measurement


@dataclass(frozen=True, eq=False)
class FitJob(Job):
    """A method on a split. `problem` is the fingerprint of the graph, `data` has the masks of the split.

    A method that fails yields a line with the reason, which counts until the next command.
    """

    candidate: Candidate
    data: Any
    problem: str
    labels: int | float
    split: int
    share: float = 1.0
    trials: int = 0
    experiment: str = EXPERIMENT

    IDENTITY: ClassVar = (
        "problem", "method", "settings", "labels", "split", "split_hash", "share", "trials", "seed", "device",
    )  # fmt: skip
    CELL: ClassVar = IDENTITY

    @property
    def title(self) -> str:
        share = "" if self.share == 1 else f", {self.share:.0%} of the labels"
        return f"{self.candidate.title}, split {self.split}{share}"

    @property
    def group(self) -> str:
        amount = f"{self.labels!r}/{self.share:g}/{self.trials}"
        return f"{self.problem}/{self.candidate.name}/{amount}/{self.split}"

    def identities(self, options: JobOptions) -> list[Line]:
        try:
            settings = describe_model(self.candidate.model(options.seed + self.split))
        except Exception as error:  # of a plug-in, which must not stop the others; the job reports it
            settings = f"{type(error).__name__}: {error}"
        return [
            {
                "problem": self.problem, "method": self.candidate.name, "title": self.candidate.title,
                "settings": settings, "labels": self.labels, "split": self.split,
                "split_hash": fingerprint(self.data), "share": self.share, "trials": self.trials,
                "seed": options.seed, "device": options.device, "train": int(self.data.train_mask.sum()),
                "validation": int(self.data.val_mask.sum()), "test": int(self.data.test_mask.sum()),
            }
        ]  # fmt: skip

    def is_final(self, line: Line) -> bool:
        return ERROR not in line  # the caller may have mended the method since

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        meter = Meter(self.data.y.device)
        try:
            found = self._measure(options, meter)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            found = {
                ERROR: " ".join(f"{type(error).__name__}: {error}".split()),
                "where": f"{last.filename}:{last.lineno}",
            }
        release_memory()  # after the except clause, so that the traceback keeps no tensors alive
        yield missing[0] | found | runner.run_metadata(options.device, meter.seconds)

    def _measure(self, options: JobOptions, meter: Meter) -> Line:
        """Fits the method to what it may see, and compares its predictions with the rest."""
        seen, seed = visible_to_methods(self.data), options.seed + self.split
        chosen: dict[str, Setting] = {}
        validation = None
        if self.trials:
            journal = options.results.folder / SEARCHES / f"{_file_name(self.candidate.name)}.journal"
            chosen, validation = tuning.choose_settings(
                self.candidate, seed, seen, self.trials, journal, f"{self.group}/{options.device}/{seed}"
            )
        model = self.candidate.model(seed)
        if chosen:
            model.set_params(**chosen)
        with meter:
            found = model.fit(seen).predict_proba()
        shape = self.data.num_nodes, int(self.data.y.max()) + 1
        probabilities = read_probabilities(self.candidate.name, found, *shape, self.data.y.device)
        more = {"chosen": chosen, "chosen_by": validation} if self.trials else {}
        costs = {"cpu_seconds": meter.cpu_seconds, "memory": meter.memory}
        return evaluate(probabilities, self.data.y, self.data.test_mask) | costs | more


def _file_name(name: str) -> Path:
    return Path("".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name))
