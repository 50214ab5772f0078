"""Jobs: the units of work of an experiment. Each produces one or more lines of results."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from lggd.compare.configs import Setting
from lggd.compare.methods import Method
from lggd.compare.protocol import load_splits
from lggd.compare.results import Results
from lggd.compare.runner import fit_method, identity, measure, result_line, run_metadata, score_models
from lggd.compare.templates import build
from lggd.data.splits import fingerprint
from lggd.errors import InputError, error_context
from lggd.estimator import NodeClassifier
from lggd.paper.figures import save
from lggd.paper.measurements import ADDITIONS, RETRAINED, Line
from lggd.training.progress import Callback

DOTS_PER_INCH = 80  # keeps figures of 80,000 points small enough to be committed


@dataclass(frozen=True)
class JobOptions:
    """Options of all jobs of a command. `splits` is the number of splits, `root` the folder of the datasets."""

    results: Results
    splits: int = 10
    device: str = "cpu"
    seed: int = 0
    root: Path | None = None


class Job(ABC):
    """A unit of work that measures one or more lines of results."""

    experiment: str

    @property
    @abstractmethod
    def title(self) -> str:
        """The display name."""

    @property
    def group(self) -> str:
        """Jobs of one group run in the same process, for example because they share learned distances."""
        return self.title

    @abstractmethod
    def identities(self, options: JobOptions) -> list[Line]:
        """Returns the identity of each line. Reads the data and checks the settings, before long computations start."""

    @abstractmethod
    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        """Yields the lines with the identities in `missing`, each as soon as it is measured."""

    def has_outputs(self, options: JobOptions) -> bool:
        """Returns whether its output files exist, besides lines of results."""
        return True


@dataclass(frozen=True)
class CellJob(Job):
    """A cell of a table: one row on one dataset. `variant` is the name of an ablation defined in `file`."""

    experiment: str
    row: Method
    settings: Mapping[str, Setting]
    dataset: str
    backbone: str = "gcn"
    variant: str | None = None
    file: Path | None = None

    @property
    def title(self) -> str:
        variant = "" if self.variant is None else f", {self.variant}"
        backbone = "" if self.backbone == "gcn" else f" with {self.backbone}"
        return f"{self.row.name}{variant} on {self.dataset}{backbone}"

    @property
    def group(self) -> str:
        return f"{self.row.name} on {self.dataset}"

    def identities(self, options: JobOptions) -> list[Line]:
        files = [*self.row.files_for(self.dataset), *([] if self.file is None else [self.file])]
        _build(self.title, files, self.row, self.settings, self.backbone, options.seed)
        datas = load_splits(self.dataset, range(options.splits), device=options.device, root=options.root)
        hashes = [fingerprint(data) for data in datas]
        more: dict[str, Any] = {} if self.variant is None else {"variant": self.variant}
        what = (self.experiment, self.row, self.settings, self.dataset)
        return [identity(*what, hashes, self.backbone, options.seed, **more)]

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        for line in missing:
            what, where = (self.row, self.settings, self.dataset), (options.device, self.backbone, options.seed)
            scores = measure(*what, range(options.splits), *where, options.root, callback)
            yield result_line(line, scores, options.device)


@dataclass(frozen=True)
class NewLabelsJob(Job):
    """A row on a dataset to which labels are added in three steps, with one line per step.

    Without `retrained`, the model is fitted once and labels are added with `add_labels`; `seconds` include this and the
    predictions. With it, the model is fitted again for every step, with the new labels in its training set.
    """

    experiment: str
    row: Method
    settings: Mapping[str, Setting]
    dataset: str
    retrained: bool

    @property
    def title(self) -> str:
        return f"{self._row.name} on {self.dataset}"

    def identities(self, options: JobOptions) -> list[Line]:
        model = _build(self.title, self.row.files_for(self.dataset), self.row, self.settings, "gcn", options.seed)
        if not self.retrained and not model.accepts_labels:
            raise InputError("rows", "accept labels without training", but=f"{self.row.name} cannot", remedy="Omit it.")
        hashes = [fingerprint(data) for data in self._load(options)]
        what = (self.experiment, self._row, self.settings, self.dataset, hashes)
        return [identity(*what, seed=options.seed, additions=additions) for additions in ADDITIONS]

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        wanted = {int(line["additions"]): line for line in missing}
        datas, models = self._load(options), []
        for additions in wanted if self.retrained else ADDITIONS:
            start = time.perf_counter()
            if self.retrained or additions == 0:
                extended = [data.clone("train_mask") for data in datas]
                for data in extended:
                    data.train_mask |= data.new_mask[:, :additions].any(1)
                seeds = [options.seed + split for split in range(options.splits)]
                models = fit_method(self.row, self.settings, extended, seeds, "gcn", callback)
            else:
                for model, data in zip(models, datas, strict=True):
                    new = data.new_mask[:, additions - 1]
                    model.add_labels(new, data.y[new])  # type: ignore[union-attr]
            scores = score_models(models, datas, start)
            if additions in wanted:
                yield result_line(wanted[additions], scores, options.device)

    def _load(self, options: JobOptions) -> list[Any]:
        return load_splits(self.dataset, range(options.splits), device=options.device, root=options.root, dynamic=True)

    @property
    def _row(self) -> Method:
        """The row with its number and name in results."""
        retrained = replace(self.row, number=f"{self.row.number} {RETRAINED}", name=f"{self.row.name}, {RETRAINED}")
        return retrained if self.retrained else self.row


@dataclass(frozen=True)
class FigureJob(Job):
    """A figure and its numbers, returned by `draw(seed, callback, **config)`."""

    experiment: str
    draw: Callable[..., tuple[Figure, Line]]
    config: Mapping[str, Any]

    @property
    def title(self) -> str:
        return f"Figure: {self.experiment}"

    def identities(self, options: JobOptions) -> list[Line]:
        return [{"experiment": self.experiment, "config": dict(self.config), "seed": options.seed}]

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        start = time.perf_counter()
        figure, numbers = self.draw(options.seed, callback, **self.config)
        path = self._path(options)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(figure, path, DOTS_PER_INCH)
        place = {"figure": path.relative_to(options.results.folder).as_posix()}
        yield {**missing[0], **numbers, **place, **run_metadata("cpu", time.perf_counter() - start)}

    def has_outputs(self, options: JobOptions) -> bool:
        return self._path(options).is_file()

    def _path(self, options: JobOptions) -> Path:
        return options.results.folder / "figures" / f"{self.experiment}.png"


def _build(
    title: str, files: Sequence[Path], row: Method, settings: Mapping[str, Setting], backbone: str, seed: int
) -> NodeClassifier:
    """Builds the model of a job. Errors in its settings name the job and the files of the settings."""
    with error_context(f"{title} ({', '.join(map(str, files))})" if files else title):
        return build(row.template, settings, backbone, seed)
