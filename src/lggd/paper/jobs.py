"""What an experiment consists of: jobs that can be done, or found done, one by one."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lggd.compare.methods import Model, build
from lggd.compare.results import Results
from lggd.compare.row import Row, Setting
from lggd.compare.runner import Measured, ask, fitted, identity, line_of, measure
from lggd.compare.splits import load_splits
from lggd.data.splits import fingerprint
from lggd.errors import InputError, error_context
from lggd.training.progress import Callback

ADDITIONS = range(4)


@dataclass(frozen=True)
class Setup:
    """What all jobs of a call have in common. `splits` counts them; `root` is the folder of the datasets."""

    results: Results
    splits: int = 10
    device: str = "cpu"
    seed: int = 0
    root: Path | None = None


class Job(ABC):
    """Some lines of results, to be measured together."""

    experiment: str

    @property
    @abstractmethod
    def title(self) -> str:
        """What people call it."""

    @property
    def family(self) -> str:
        """The same for jobs that one process should do: they have distances in common, or nothing to gain apart."""
        return self.title

    @abstractmethod
    def identities(self, setup: Setup) -> list[dict[str, Any]]:
        """How its lines begin. Asked before anything long starts: reads the data, refuses wrong settings."""

    @abstractmethod
    def lines(
        self, setup: Setup, wanted: Sequence[Mapping[str, Any]], callback: Callback | None
    ) -> Iterator[dict[str, Any]]:
        """The lines that begin as `wanted`, each as soon as it is measured."""

    def has_all(self, setup: Setup) -> bool:
        """Whether what it leaves behind besides lines is there."""
        return True


@dataclass(frozen=True)
class Cell(Job):
    """A row on a dataset: a cell of a table. `settings` are all that there are, `more` is what else its line says.

    `file` is where those settings stand that are in no file of the row's, for errors to name.
    """

    experiment: str
    row: Row
    settings: Mapping[str, Setting]
    dataset: str
    backbone: str = "gcn"
    more: Mapping[str, Any] | None = None
    file: Path | None = None

    @property
    def title(self) -> str:
        named = [self.row.name, *(self.more or {}).values()]
        return f"{', '.join(map(str, named))} on {self.dataset}" + f" with {self.backbone}" * (self.backbone != "gcn")

    @property
    def family(self) -> str:
        return f"{self.row.name} on {self.dataset}"

    def identities(self, setup: Setup) -> list[dict[str, Any]]:
        files = self.row.files_for(self.dataset) + ([] if self.file is None else [self.file])
        checked_model(self.title, files, self.row.method, self.settings, self.backbone, setup.seed)
        datas = load_splits(self.dataset, range(setup.splits), device=setup.device, root=setup.root)
        hashes = [fingerprint(data) for data in datas]
        more = self.more or {}
        return [
            identity(self.experiment, self.row, self.settings, self.dataset, hashes, self.backbone, setup.seed, **more)
        ]

    def lines(
        self, setup: Setup, wanted: Sequence[Mapping[str, Any]], callback: Callback | None
    ) -> Iterator[dict[str, Any]]:
        for one in wanted:
            found = measure(
                self.row,
                self.settings,
                self.dataset,
                range(setup.splits),
                setup.device,
                self.backbone,
                setup.seed,
                setup.root,
                callback,
            )
            yield line_of(one, found, setup.device)


@dataclass(frozen=True)
class NewLabels(Job):
    """A row on a dataset where labels arrive in three steps; a line for each number of `additions` so far.

    Without `retrained`, the model is fitted once and then told of them; `seconds` are then those of telling it and
    asking it again. With it, the method is fitted anew for every step, with the new labels among its training labels.
    """

    experiment: str
    row: Row
    settings: Mapping[str, Setting]
    dataset: str
    retrained: bool

    @property
    def title(self) -> str:
        return f"{self._row.name} on {self.dataset}"

    def identities(self, setup: Setup) -> list[dict[str, Any]]:
        files = self.row.files_for(self.dataset)
        model = checked_model(self.title, files, self.row.method, self.settings, "gcn", setup.seed)
        if not self.retrained and not takes_labels(model):
            raise InputError(
                "rows", "take in labels without training", but=f"{self.row.name} cannot", remedy="Leave it out."
            )
        hashes = [fingerprint(data) for data in self._datas(setup)]
        return [
            identity(
                self.experiment, self._row, self.settings, self.dataset, hashes, seed=setup.seed, additions=additions
            )
            for additions in ADDITIONS
        ]

    def lines(
        self, setup: Setup, wanted: Sequence[Mapping[str, Any]], callback: Callback | None
    ) -> Iterator[dict[str, Any]]:
        steps = {int(one["additions"]): one for one in wanted}
        measured = self._retrained(setup, list(steps), callback) if self.retrained else self._told(setup, callback)
        for additions, found in measured:
            if additions in steps:
                yield line_of(steps[additions], found, setup.device)

    def _told(self, setup: Setup, callback: Callback | None) -> Iterator[tuple[int, Measured]]:
        datas = self._datas(setup)
        began = time.perf_counter()
        models = fitted(self.row, self.settings, datas, range(setup.splits), "gcn", setup.seed, callback)
        for additions in ADDITIONS:
            if additions:
                began = time.perf_counter()
                for model, data in zip(models, datas, strict=True):
                    new = data.new_mask[:, additions - 1]
                    model.add_labels(new, data.y[new])  # type: ignore[union-attr]
            yield additions, ask(models, datas, began)

    def _retrained(
        self, setup: Setup, steps: Sequence[int], callback: Callback | None
    ) -> Iterator[tuple[int, Measured]]:
        datas = self._datas(setup)
        for additions in steps:
            told = [data.clone("train_mask") for data in datas]
            for data in told:
                data.train_mask = data.train_mask | data.new_mask[:, :additions].any(1)
            began = time.perf_counter()
            models = fitted(self.row, self.settings, told, range(setup.splits), "gcn", setup.seed, callback)
            yield additions, ask(models, datas, began)

    def _datas(self, setup: Setup) -> list[Any]:
        return load_splits(self.dataset, range(setup.splits), device=setup.device, root=setup.root, dynamic=True)

    @property
    def _row(self) -> Row:
        """The row as results call it."""
        if not self.retrained:
            return self.row
        return replace(self.row, number=f"{self.row.number} retrained", name=f"{self.row.name}, retrained")


def checked_model(
    title: str, files: Sequence[Path], method: str, settings: Mapping[str, Setting], backbone: str, seed: int
) -> Model:
    """A model as a job will fit it. Where its settings are wrong, the error names the job and where they stand."""
    where = f" ({', '.join(map(str, files))})" if files else ""
    with error_context(f"{title}{where}"):
        return build(method, settings, backbone, seed)


def takes_labels(model: object) -> bool:
    """Whether a model can take in new labels without being trained again."""
    # A backbone alone has the method, but nothing that labels could change.
    return hasattr(model, "add_labels") and getattr(model, "features", model) is not None
