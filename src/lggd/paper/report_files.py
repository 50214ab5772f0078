"""The report on disk: its page and figures, and the same numbers for programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lggd.compare.row import configs_folder, read_toml
from lggd.errors import InputError
from lggd.files import replacing
from lggd.paper.bars import bars
from lggd.paper.comparison import (
    CHALLENGERS,
    EXPERIMENTS,
    Findings,
    Measurement,
    contests,
    deviations,
    ideas,
    read_findings,
)
from lggd.paper.measuring import seconds_of, trials_of
from lggd.paper.paper_tables import DATASETS, PUBLISHED, ROWS
from lggd.paper.report_page import Page
from lggd.paper.result_figures import DRAWINGS, draw_results

NOTES = "notes.toml"
FIGURES = "figures"
DRAWN_BEFORE = ("robustness", "geodesic")  # by the experiments themselves


def write_report(results: str | Path, out: str | Path, configs: str | Path | None = None) -> dict[str, Any]:
    """Writes the page to `out` and its figures beside it, and tells the numbers."""
    results, out = Path(results), Path(out)
    page = read_page(results, out, configs)
    drawn = draw_results(page.findings, out.parent / FIGURES)
    with replacing(out) as temporary:
        temporary.write_text(page.text(), encoding="utf-8")
    return facts(page) | {"figures": [str(path) for path in drawn]}


def read_page(results: str | Path, out: str | Path, configs: str | Path | None = None) -> Page:
    """The page that belongs to a folder of results, for a file called `out`. Writes nothing."""
    results, out = Path(results), Path(out)
    findings = read_findings(results)
    if findings.is_empty:
        known = ", ".join(f"{name}.jsonl" for name in EXPERIMENTS)
        raise InputError(
            "results",
            f"hold lines in {known} about {', '.join(DATASETS)}",
            f"none in {results}",
            (
                "Quick results and those of other datasets are not reported. Measure something first, as with: "
                "lggd reproduce table1"
            ),
        )
    own = {name: f"{FIGURES}/{name}.png" for name, (behind, _) in DRAWINGS.items() if behind(findings)}
    return Page(
        findings=findings,
        notes=read_notes(results / NOTES, findings.rows),
        figures=own | _drawn_before(findings, results, out),
        trials=trials_of(findings, _configs(configs)),
    )


def _configs(folder: str | Path | None) -> Path | None:
    """A package without its own still writes reports; a folder that people name must be there."""
    try:
        return configs_folder(folder)
    except FileNotFoundError:
        if folder is not None:
            raise
        return None


def _drawn_before(findings: Findings, results: Path, out: Path) -> dict[str, str]:
    found = {}
    for name, lines in zip(DRAWN_BEFORE, (findings.robustness, findings.geodesic), strict=True):
        path = results / str(lines[-1].get("figure", f"{FIGURES}/{name}.png")) if lines else results / name
        if path.is_file():
            found[name] = Path(os.path.relpath(path, out.parent)).as_posix()
    return found


def read_notes(path: str | Path, rows: Iterable[str] = ROWS) -> dict[str, str]:
    """Explanations by "row.dataset" or "row". No file, no notes. Quoted and dotted keys mean the same."""
    path = Path(path)
    if not path.exists():
        return {}
    notes: dict[str, Any] = {}
    for key, value in read_toml(path).items():
        notes |= {f"{key}.{inner}": text for inner, text in value.items()} if isinstance(value, dict) else {key: value}
    known = {key for row in rows for key in (row, *(f"{row}.{dataset}" for dataset in DATASETS))}
    for key, text in notes.items():
        if key not in known or not isinstance(text, str):
            raise InputError(
                path, 'hold texts under keys such as "04" and "04.pubmed"', f"{key} = {text!r}", "Mend that line."
            )
    return notes


def facts(page: Page) -> dict[str, Any]:
    """The numbers of the page as JSON can hold them."""
    findings = page.findings
    return {
        "table1": [_measured(found) | _paper(found) for found in findings.table.values()],
        "missing": [f"{row}.{each}" for row in ROWS for each in DATASETS if (row, each) not in findings.table],
        "deviations": [
            asdict(each) | {"difference": each.difference, "below": each.is_below}
            for each in deviations(findings, page.notes)
        ],
        "contests": [asdict(each) for challenger in CHALLENGERS for each in contests(findings, challenger)],
        "backbones": [_measured(found) for found in findings.backbones.values()],
        "dynamic": [_measured(found) for found in findings.dynamic.values()],
        "ablation": [
            asdict(idea)
            | {"validation_difference": idea.validation_difference, "test_difference": idea.test_difference}
            for idea in ideas(findings)
        ],
        "robustness": findings.robustness,
        "geodesic": findings.geodesic,
        "bars": [asdict(bar) for bar in bars(findings)],
        "seconds": {name: seconds for name, (_, seconds) in seconds_of(findings).items()},
        "trials": {f"{row}.{dataset}": trials for (row, dataset), trials in page.trials.items()},
        "torn": findings.torn,
    }


def _measured(found: Measurement) -> dict[str, Any]:
    own: Mapping[str, Any] = {
        "row": found.row,
        "name": found.name,
        "dataset": found.dataset,
        "backbone": found.backbone,
        "splits": len(found.test),
        "test": found.mean,
        "sd": found.sd,
        "validation": found.validation_mean,
    }
    return {**own} if found.additions is None else {**own, "additions": found.additions}


def _paper(found: Measurement) -> dict[str, Any]:
    published = PUBLISHED.get((found.row, found.dataset))
    return {"paper": None if published is None else asdict(published)}
