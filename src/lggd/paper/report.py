"""The report of a results folder: Markdown, figures, and the same numbers as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lggd.compare.choices import read_chosen
from lggd.compare.configs import CHOSEN, configs_folder, read_toml
from lggd.errors import InputError, InputFileError
from lggd.files import replacing
from lggd.paper import report_sections as sections
from lggd.paper.comparison import TESTED_ROWS, ablation, deviations, paired_tests
from lggd.paper.measurements import FIGURE_EXPERIMENTS, KEYS, Measurement, Measurements, read_measurements
from lggd.paper.published import DATASETS, PUBLISHED, ROWS
from lggd.paper.result_figures import FIGURES, draw_results

NOTES, FIGURE_FOLDER = "notes.toml", "figures"


@dataclass(frozen=True)
class Report:
    """The content of the report. `figures` are link targets by experiment."""

    measured: Measurements
    notes: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    trials: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by row and dataset

    def markdown(self) -> str:
        measured = self.measured
        parts = (
            sections.TITLE,
            sections.provenance(measured, self.trials),
            self._with_figure("table1", sections.table1(measured)),
            sections.published_deviations(measured, self.notes),
            sections.significance(measured),
            self._with_figure("backbones", sections.backbones(measured)),
            self._with_figure("dynamic", sections.dynamic(measured)),
            self._with_figure("robustness", sections.robustness(measured)),
            self._with_figure("geodesic", sections.geodesic(measured)),
            self._with_figure("ablation", sections.ablation_study(measured)),
        )
        return "\n\n".join(parts) + "\n"

    def _with_figure(self, name: str, section: str) -> str:
        title = section.partition("\n")[0].removeprefix("## ")
        return f"{section}\n\n![{title}]({self.figures[name]})" if name in self.figures else section

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers of the report."""
        measured = self.measured
        return {
            **{name: [_summary(found) for found in getattr(measured, name).values()] for name in KEYS},
            "paper": {f"{row}.{dataset}": asdict(paper) for (row, dataset), paper in PUBLISHED.items()},
            "missing": [f"{row}.{d}" for row in ROWS for d in DATASETS if (row, d) not in measured.table1],
            "deviations": [asdict(each) | {"difference": each.difference} for each in deviations(measured, self.notes)],
            "paired_tests": [
                {"row": row, "compared_with": other, "dataset": dataset, **asdict(test)}
                for row in TESTED_ROWS
                for (other, dataset), test in paired_tests(measured, row).items()
            ],
            "variants": [asdict(variant) for variant in ablation(measured)],
            **{name: getattr(measured, name) for name in FIGURE_EXPERIMENTS},
            "trials": {f"{row}.{dataset}": trials for (row, dataset), trials in self.trials.items()},
            "incomplete_lines": measured.incomplete_lines,
        }


def write_report(results: Path, out: Path, configs: Path | None = None) -> dict[str, Any]:
    """Writes the report to `out` and its figures next to it; returns its numbers."""
    report = read_report(results, out, configs)
    drawn = draw_results(report.measured, out.parent / FIGURE_FOLDER)
    with replacing(out) as temporary:
        temporary.write_text(report.markdown(), encoding="utf-8")
    return report.to_json() | {"figures": [str(path) for path in drawn]}


def read_report(results: Path, out: Path, configs: Path | None = None) -> Report:
    """Reads the report of a results folder, with links relative to the file `out`."""
    if not results.is_dir():
        raise InputFileError("results", "be a folder", f"{results}, which is not one")
    measured = read_measurements(results)
    if not any(measured.lines.values()):
        files, datasets = ", ".join(f"{name}.jsonl" for name in measured.lines), ", ".join(DATASETS)
        remedy = "Quick results and other datasets are not reported. Measure something first: lggd reproduce table1"
        raise InputError("results", f"contain measurements of {datasets} in {files}", f"none in {results}", remedy)
    figures = {name: f"{FIGURE_FOLDER}/{name}.png" for name in FIGURES if getattr(measured, name)}
    for name in FIGURE_EXPERIMENTS:
        path = results / FIGURE_FOLDER / f"{name}.png"
        if getattr(measured, name) and path.is_file():
            figures[name] = Path(os.path.relpath(path, out.parent)).as_posix()
    trials = {}
    for (row, dataset), found in measured.table1.items():
        choice = read_chosen(configs_folder(configs) / CHOSEN / f"{found.line['slug']}.toml").get(dataset)
        if choice is not None and choice.trials is not None:
            trials[row, dataset] = choice.trials
    return Report(measured, read_notes(results / NOTES, measured.rows), figures, trials)


def read_notes(path: Path, rows: Iterable[str] = ROWS) -> dict[str, str]:
    """Reads explanations with quoted or dotted keys "row.dataset" or "row"; returns an empty dict without a file."""
    if not path.exists():
        return {}
    notes: dict[str, Any] = {}
    for key, value in read_toml(path).items():
        notes |= {f"{key}.{inner}": text for inner, text in value.items()} if isinstance(value, dict) else {key: value}
    known = {key for row in rows for key in (row, *(f"{row}.{dataset}" for dataset in DATASETS))}
    for key, text in notes.items():
        if key not in known or not isinstance(text, str):
            rule = 'contain text under keys such as "04" and "04.pubmed"'
            raise InputError(str(path), rule, f"{key} = {text!r}", "Correct this line.")
    return notes


def _summary(found: Measurement) -> dict[str, Any]:
    names = ("row", "name", "dataset", "backbone", "additions", "variant", "seconds")
    identity = {name: found.line[name] for name in names if name in found.line}
    accuracies = {"test": found.mean, "sd": found.sd, "validation": found.validation_mean}
    return {**identity, "splits": len(found.test), **accuracies}
