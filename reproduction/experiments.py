"""The experiments of the paper and their jobs: cells of its tables, labels that are added in steps, and figures."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from matplotlib.figure import Figure

from lggd.app.comparison.results import Line, run_metadata
from lggd.datasets.by_name import PAPER, split_fingerprint
from lggd.errors import InputError
from lggd.estimator.settings import to_plain
from lggd.progress import Callback
from lggd.validation import check_name
from reproduction import runner
from reproduction.figures import BACKBONE_ROWS, draw_geodesic, draw_robustness, save
from reproduction.geodesic import DRAGON, geodesic, read_image
from reproduction.jobs import Job, JobOptions
from reproduction.measurements import ADDITIONS, RETRAINED
from reproduction.methods import CONTENTS, NORMALIZATIONS, Settings, build, errors_about, supports_backbone
from reproduction.robustness import robustness
from reproduction.rows import Row, check_keys, configs_folder, load_rows, read_table, read_toml, select_rows
from reproduction.runner import load_splits, measure

BACKBONES = ("gat", "chebnet", "jknet")
# The nearest class does not depend on the backbone; trained LGGD+ always uses both readouts here.
BACKBONE_SETTINGS = {"lggd-plus-trained": {"readout": {"part": "readout"}}}
DYNAMIC_DATASETS, DYNAMIC_ROWS, RETRAINED_ROWS = ("cora", "citeseer", "pubmed"), ("09", "14"), ("01", "09")
ABLATION_FILE = "ablation.toml"
# With `quick`, everything is measured within minutes, and results are in separate files.
QUICK_SUFFIX, QUICK_ROWS, QUICK_DATASETS = "-quick", ("01", "07", "08", "09", "11", "14"), ("cora",)
ROBUSTNESS = {"points": 20_000, "epsilon": 0.05, "extra_edges": [10, 100, 1000], "draws": 5}
GEODESIC = {"shape": "dragon", "p": "inf"}
QUICK_ROBUSTNESS = ROBUSTNESS | {"points": 2000, "epsilon": 0.15, "draws": 1}
DOTS_PER_INCH = 80  # keeps figures of 80,000 points small enough to be committed
HASH_LENGTH = 12
T = TypeVar("T", Row, str)


class _PaperJob(Job):
    # Most lines have no `additions` and no `variant`.
    CELL: ClassVar = ("experiment", "row", "dataset", "backbone", "splits", "additions", "variant")
    IDENTITY: ClassVar = (*CELL, "config", "seed")


@dataclass(frozen=True)
class _RowJob(_PaperJob):
    experiment: str
    row: Row
    settings: Settings
    dataset: str

    def _load(self, options: JobOptions, dynamic: bool = False) -> list[Any]:
        splits = range(options.splits)
        return load_splits(self.dataset, splits, device=options.device, root=options.root, dynamic=dynamic)

    def _build(self, options: JobOptions, backbone: str = "gcn", *files: Path) -> Any:
        """Builds the model. Errors in its settings name the job and the files of the settings."""
        names = ", ".join(map(str, (*self.row.files_for(self.dataset), *files)))
        with errors_about(f"{self.title} ({names})" if names else self.title):
            return build(self.row.method, self.settings, backbone, options.seed)

    def _identity(
        self, row: Row, model: Any, datas: Sequence[Any], seed: int, backbone: str = "gcn", **more: Any
    ) -> Line:
        """The first part of a line: the measurement, with all settings of its model."""
        config = {CONTENTS: self.settings.get(CONTENTS, NORMALIZATIONS[0]), "model": to_plain(model, "model")}
        hashes = [split_fingerprint(data) for data in datas]
        return {
            "experiment": self.experiment, "row": row.number, "name": row.name, "slug": row.slug, **more,
            "dataset": self.dataset, "backbone": backbone,
            "config": config, "seed": seed,
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
        model = self._build(options, self.backbone, *([] if self.file is None else [self.file]))
        more = {} if self.variant is None else {"variant": self.variant}
        return [self._identity(self.row, model, self._load(options), options.seed, self.backbone, **more)]

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        scores = measure(
            self.row.method, self.settings, self.dataset, range(options.splits), options.device, self.backbone,
            options.seed, options.root, callback,
        )  # fmt: skip
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
        model = self._build(options)
        if not model.accepts_labels and not self.retrained:
            raise InputError("rows", "accept labels without training", but=f"{self.row.name} cannot", remedy="Omit it.")
        line = self._identity(self._named_row, model, self._load(options, dynamic=True), options.seed, additions=0)
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
                models = runner.fit_method(self.row.method, self.settings, extended, seeds, "gcn", callback)
            else:
                for model, data in zip(models, datas, strict=True):
                    new = data.new_mask[:, additions - 1]
                    model.add_labels(new, data.y[new])
            scores = runner.score_models(models, datas, start)
            if additions in wanted:
                yield runner.result_line(wanted[additions], scores, options.device)

    @property
    def _named_row(self) -> Row:
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
        metadata = run_metadata("cpu", time.perf_counter() - start)
        yield {**missing[0], **numbers, "figure": self._file, **metadata}

    def has_outputs(self, options: JobOptions) -> bool:
        return (options.results.folder / self._file).is_file()

    @property
    def _file(self) -> str:
        return f"figures/{self.experiment}.png"


@dataclass(frozen=True)
class Selection:
    """The part of an experiment to run; what it does not support raises, or is omitted with `skip_unsupported`."""

    rows: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    configs: Path | None = None
    quick: bool = False
    skip_unsupported: bool = False

    def load_rows(self, default: Collection[str] = ()) -> list[Row]:
        rows = load_rows(self.configs)
        usual = [row for row in rows if not default or row.number in default]
        return select_rows(rows, self.rows) if self.rows else usual

    def dataset_names(self, default: Sequence[str] = tuple(PAPER)) -> list[str]:
        return [name.lower() for name in self.datasets] or list(QUICK_DATASETS if self.quick else default)

    def supported(self, argument: str, values: Sequence[T], accepts: Callable[[T], bool], rule: str) -> list[T]:
        rejected = [value.name if isinstance(value, Row) else value for value in values if not accepts(value)]
        if rejected and not self.skip_unsupported:
            raise InputError(argument, rule, ", ".join(rejected), "Omit it.")
        return [value for value in values if accepts(value)]


def plan(experiment: str, selection: Selection = Selection()) -> list[Job]:
    """Returns the jobs of one of `EXPERIMENTS`, or of "all"."""
    if experiment == "all":
        return [job for name in EXPERIMENTS for job in plan(name, replace(selection, skip_unsupported=True))]
    check_name("experiment", experiment, (*EXPERIMENTS, "all"))
    jobs = EXPERIMENTS[experiment](selection)
    return [replace(job, experiment=f"{job.experiment}{QUICK_SUFFIX}") for job in jobs] if selection.quick else jobs  # type: ignore[type-var]


def _table1(selection: Selection) -> list[Job]:
    return [
        CellJob("table1", row, row.settings_for(dataset, selection.quick), dataset)
        for row in selection.load_rows(QUICK_ROWS if selection.quick else ())
        for dataset in selection.dataset_names()
    ]


def _backbones(selection: Selection) -> list[Job]:
    def has_backbone(row: Row) -> bool:
        return any(supports_backbone(row.method, backbone) for backbone in BACKBONES)

    rows = selection.load_rows(BACKBONE_ROWS)
    return [
        CellJob("backbones", row, row.settings_for(dataset, selection.quick) | more, dataset, backbone)
        for row in selection.supported("rows", rows, has_backbone, "support other backbones")
        for more in (BACKBONE_SETTINGS.get(row.method, {}),)
        for dataset in selection.dataset_names()
        for backbone in BACKBONES
        if supports_backbone(row.method, backbone)
    ]


def _dynamic(selection: Selection) -> list[Job]:
    updated = [row for row in selection.load_rows(DYNAMIC_ROWS) if build(row.method, {}).accepts_labels]
    jobs = [(row, False) for row in updated] + [(row, True) for row in selection.load_rows(RETRAINED_ROWS)]
    datasets, rule = selection.dataset_names(DYNAMIC_DATASETS), f"be among {', '.join(PAPER)} for labels added later"
    return [
        NewLabelsJob("dynamic", row, row.settings_for(dataset, selection.quick), dataset, retrained)
        for row, retrained in jobs
        for dataset in selection.supported("datasets", datasets, PAPER.__contains__, rule)
    ]


def _ablation(selection: Selection) -> list[Job]:
    path = configs_folder(selection.configs) / ABLATION_FILE
    content = read_toml(path)
    check_keys(path, "", content, ("base", "variants"))
    (row,) = select_rows(load_rows(selection.configs), [str(content.get("base"))])
    rule = f"be {row.number}, the base of {path}"
    if not selection.supported("rows", selection.load_rows((row.number,)), row.__eq__, rule):
        return []
    tables = read_table(path, content, "variants")
    variants = {name: read_table(path, tables, name) for name in tables}
    return [
        CellJob("ablation", row, row.settings_for(dataset, selection.quick) | own, dataset, variant=name, file=path)
        for dataset in selection.dataset_names()
        for name, own in variants.items()
    ]


def _robustness_figure(seed: int, callback: Callback | None, *, draws: int, **sizes: Any) -> tuple[Figure, Line]:
    result = robustness(**sizes, seeds=draws, seed=seed, callback=callback)
    return draw_robustness(result), {"change": result.changes()}


def _geodesic_figure(seed: int, callback: Callback | None, *, shape: str, p: str) -> tuple[Figure, Line]:
    result = geodesic(read_image(DRAGON), p=float(p))
    ends = {"source": list(result.source), "target": list(result.target)}
    return draw_geodesic(result), {**ends, "distance": result.length, "path_pixels": len(result.path)}


def _figure(selection: Selection, job: FigureJob) -> list[Job]:
    for argument in ("rows", "datasets"):
        rule = f"not be used with {job.experiment}, which is a figure"
        selection.supported(argument, getattr(selection, argument), lambda _: False, rule)
    return [] if selection.rows or selection.datasets else [job]


EXPERIMENTS: dict[str, Callable[[Selection], list[Job]]] = {
    "table1": _table1,
    "backbones": _backbones,
    "dynamic": _dynamic,
    "robustness": lambda selection: _figure(
        selection, FigureJob("robustness", _robustness_figure, QUICK_ROBUSTNESS if selection.quick else ROBUSTNESS)
    ),
    "geodesic": lambda selection: _figure(selection, FigureJob("geodesic", _geodesic_figure, GEODESIC)),
    "ablation": _ablation,
}
