"""The jobs of the paper: cells of its tables, labels that are added in steps, and figures."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from matplotlib.figure import Figure

from lggd.comparison import runner
from lggd.comparison.configs import Settings
from lggd.comparison.jobs import Job, JobOptions
from lggd.comparison.methods import Method
from lggd.comparison.protocol import load_splits
from lggd.comparison.results import Line
from lggd.comparison.runner import measure
from lggd.comparison.templates import build, complete_settings
from lggd.data.splits import fingerprint
from lggd.errors import InputError
from lggd.estimator import NodeClassifier
from lggd.estimator.passes import error_context
from lggd.paper.figures import save
from lggd.paper.measurements import ADDITIONS, RETRAINED
from lggd.training.engine import Callback

DOTS_PER_INCH = 80  # keeps figures of 80,000 points small enough to be committed
HASH_LENGTH = 12
# Most lines have no `additions` and no `variant`.
CELL = ("experiment", "row", "dataset", "backbone", "splits", "additions", "variant")
IDENTITY = (*CELL, "config", "seed")


class _PaperJob(Job):
    CELL: ClassVar = CELL
    IDENTITY: ClassVar = IDENTITY


@dataclass(frozen=True)
class _RowJob(_PaperJob):
    experiment: str
    row: Method
    settings: Settings
    dataset: str

    def _load(self, options: JobOptions, dynamic: bool = False) -> list[Any]:
        splits = range(options.splits)
        return load_splits(self.dataset, splits, device=options.device, root=options.root, dynamic=dynamic)

    def _build(self, options: JobOptions, backbone: str = "gcn", *files: Path) -> NodeClassifier:
        """Builds the model. Errors in its settings name the job and the files of the settings."""
        names = ", ".join(map(str, (*self.row.files_for(self.dataset), *files)))
        with error_context(f"{self.title} ({names})" if names else self.title):
            return build(self.row.template, self.settings, backbone, options.seed)

    def _identity(self, row: Method, datas: Sequence[Any], seed: int, backbone: str = "gcn", **more: Any) -> Line:
        """The first part of a line: what is measured, with all settings."""
        config = complete_settings(row.template, self.settings, backbone)
        hashes = [fingerprint(data) for data in datas]
        return {
            "experiment": self.experiment, "row": row.number, "name": row.name, "slug": row.slug, **more,
            "dataset": self.dataset, "backbone": backbone,
            "config": {name: runner.json_setting(config[name]) for name in sorted(config)}, "seed": seed,
            "split_hash": hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:HASH_LENGTH], "splits": hashes,
        }  # fmt: skip


@dataclass(frozen=True)
class CellJob(_RowJob):
    """A cell of a table: one row on one dataset. `variant` is the name of an ablation defined in `file`."""

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
        self._build(options, self.backbone, *([] if self.file is None else [self.file]))
        more = {} if self.variant is None else {"variant": self.variant}
        return [self._identity(self.row, self._load(options), options.seed, self.backbone, **more)]

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        what, where = (self.row, self.settings, self.dataset), (options.device, self.backbone, options.seed)
        scores = measure(*what, range(options.splits), *where, options.root, callback)
        yield runner.result_line(missing[0], scores, options.device)


@dataclass(frozen=True)
class NewLabelsJob(_RowJob):
    """A row on a dataset to which labels are added in three steps, with one line per step.

    Without `retrained`, the model is fitted once and labels are added with `add_labels`; `seconds` include this and the
    predictions. With it, the model is fitted again for every step, with the new labels in its training set.
    """

    retrained: bool

    @property
    def title(self) -> str:
        return f"{self._named_row.name} on {self.dataset}"

    def identities(self, options: JobOptions) -> list[Line]:
        if not self._build(options).accepts_labels and not self.retrained:
            raise InputError("rows", "accept labels without training", but=f"{self.row.name} cannot", remedy="Omit it.")
        line = self._identity(self._named_row, self._load(options, dynamic=True), options.seed, additions=0)
        return [line | {"additions": additions} for additions in ADDITIONS]

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        wanted = {int(line["additions"]): line for line in missing}
        datas, models = self._load(options, dynamic=True), []
        for additions in wanted if self.retrained else ADDITIONS:
            start = time.perf_counter()
            if self.retrained or additions == 0:
                extended = [data.clone("train_mask") for data in datas]
                for data in extended:
                    data.train_mask |= data.new_mask[:, :additions].any(1)
                seeds = [options.seed + split for split in range(options.splits)]
                models = runner.fit_method(self.row, self.settings, extended, seeds, "gcn", callback)
            else:
                for model, data in zip(models, datas, strict=True):
                    new = data.new_mask[:, additions - 1]
                    model.add_labels(new, data.y[new])  # type: ignore[union-attr]
            scores = runner.score_models(models, datas, start)
            if additions in wanted:
                yield runner.result_line(wanted[additions], scores, options.device)

    @property
    def _named_row(self) -> Method:
        """The row with its number and name in results."""
        number, name = f"{self.row.number} {RETRAINED}", f"{self.row.name}, {RETRAINED}"
        return replace(self.row, number=number, name=name) if self.retrained else self.row


@dataclass(frozen=True)
class FigureJob(_PaperJob):
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
        path = options.results.folder / self._file
        path.parent.mkdir(parents=True, exist_ok=True)
        save(figure, path, DOTS_PER_INCH)
        metadata = runner.run_metadata("cpu", time.perf_counter() - start)
        yield {**missing[0], **numbers, "figure": self._file, **metadata}

    def has_outputs(self, options: JobOptions) -> bool:
        return (options.results.folder / self._file).is_file()

    @property
    def _file(self) -> str:
        return f"figures/{self.experiment}.png"
