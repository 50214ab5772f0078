"""The experiments of the paper and the jobs of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.figure import Figure

from lggd.comparison.configs import check_keys, configs_folder, read_settings, read_table, read_toml
from lggd.comparison.jobs import Job
from lggd.comparison.methods import Method, load_methods, select_methods
from lggd.comparison.results import Line
from lggd.comparison.templates import build, supports_backbone
from lggd.data.datasets import PAPER
from lggd.errors import InputError
from lggd.paper.figures import draw_geodesic, draw_robustness
from lggd.paper.geodesic import DRAGON, geodesic, read_image
from lggd.paper.jobs import CellJob, FigureJob, NewLabelsJob
from lggd.paper.robustness import robustness
from lggd.training.engine import Callback, Progress
from lggd.validation import check_name

BACKBONE_ROWS, BACKBONES = ("01", "09", "14"), ("gat", "chebnet", "jknet")
# The nearest class does not depend on the backbone; LGGD+ always uses both readouts here.
BACKBONE_SETTINGS = {"LGGD+": {"readout": "both"}}
DYNAMIC_DATASETS, DYNAMIC_ROWS, RETRAINED_ROWS = ("cora", "citeseer", "pubmed"), ("09", "14"), ("01", "09")
ABLATION_FILE = "ablation.toml"
# With `quick`, everything is measured within minutes, and results are in separate files.
QUICK_SUFFIX, QUICK_ROWS, QUICK_DATASETS = "-quick", ("01", "07", "08", "09", "11", "14"), ("cora",)
ROBUSTNESS = {"points": 20_000, "epsilon": 0.05, "extra_edges": [10, 100, 1000], "draws": 5}
GEODESIC = {"shape": "dragon", "p": "inf"}
QUICK_ROBUSTNESS = ROBUSTNESS | {"points": 2000, "epsilon": 0.15, "draws": 1}
T = TypeVar("T", Method, str)


@dataclass(frozen=True)
class Selection:
    """The part of an experiment to run; what it does not support raises, or is omitted with `skip_unsupported`."""

    rows: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    configs: Path | None = None
    quick: bool = False
    skip_unsupported: bool = False

    def load_rows(self, default: Sequence[str] = ()) -> list[Method]:
        rows = load_methods(self.configs)
        usual = [row for row in rows if not default or row.number in default]
        return select_methods(rows, self.rows) if self.rows else usual

    def dataset_names(self, default: Sequence[str] = tuple(PAPER)) -> list[str]:
        return [name.lower() for name in self.datasets] or list(QUICK_DATASETS if self.quick else default)

    def supported(self, argument: str, values: Sequence[T], accepts: Callable[[T], bool], rule: str) -> list[T]:
        rejected = [value.name if isinstance(value, Method) else value for value in values if not accepts(value)]
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
    def has_backbone(row: Method) -> bool:
        return any(supports_backbone(row.template, backbone) for backbone in BACKBONES)

    rows = selection.load_rows(BACKBONE_ROWS)
    return [
        CellJob("backbones", row, row.settings_for(dataset, selection.quick) | more, dataset, backbone)
        for row in selection.supported("rows", rows, has_backbone, "support other backbones")
        for more in (BACKBONE_SETTINGS.get(row.template, {}),)
        for dataset in selection.dataset_names()
        for backbone in BACKBONES  # innermost, so that all share the learned distances
        if supports_backbone(row.template, backbone)
    ]


def _dynamic(selection: Selection) -> list[Job]:
    updated = [row for row in selection.load_rows(DYNAMIC_ROWS) if build(row.template, {}, "gcn", 0).accepts_labels]
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
    (row,) = select_methods(load_methods(selection.configs), [str(content.get("base"))])
    rule = f"be {row.number}, the base of {path}"
    if not selection.supported("rows", selection.load_rows((row.number,)), row.__eq__, rule):
        return []
    tables = read_table(path, content, "variants")
    variants = {name: read_settings(path, tables, name, f"variants.{name}") for name in tables}
    return [
        CellJob("ablation", row, row.settings_for(dataset, selection.quick) | own, dataset, variant=name, file=path)
        for dataset in selection.dataset_names()
        for name, own in variants.items()
    ]


def _robustness_figure(seed: int, callback: Callback | None, *, draws: int, **sizes: Any) -> tuple[Figure, Line]:
    def report(solved: int, total: int) -> None:
        if callback is not None:
            callback(Progress("distances", solved, total, {}))

    found = robustness(**sizes, seeds=draws, seed=seed, progress=report)
    return draw_robustness(found), {"change": found.changes()}


def _geodesic_figure(seed: int, callback: Callback | None, *, shape: str, p: str) -> tuple[Figure, Line]:
    found = geodesic(read_image(DRAGON), p=float(p))
    ends = {"source": list(found.source), "target": list(found.target)}
    return draw_geodesic(found), {**ends, "distance": found.length, "path_pixels": len(found.path)}


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
