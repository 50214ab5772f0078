"""Writes a comparison: a table for spreadsheets, and a page for people."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lggd.comparison.comparison import Comparison
from lggd.comparison.label_splits import describe_labels
from lggd.comparison.runner import machine
from lggd.comparison.summary import COLUMNS, MethodSummary
from lggd.report.comparison_page import ComparedMethod, ComparisonReport, render_comparison
from lggd.report.html import counted, duration, write_page
from lggd.system.files import replacing

TABLE, PAGE = "comparison.csv", "comparison.html"


def write_report(comparison: Comparison, folder: str | Path, name: str, notes: Sequence[str] = ()) -> list[str]:
    """Writes the table and the page of a comparison on the graph `name`; returns their names."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(comparison.rows)
    with replacing(folder / TABLE) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")
    write_page(render_comparison(page_content(comparison, name, notes)), folder / PAGE)
    return [TABLE, PAGE]


def page_content(comparison: Comparison, name: str, notes: Sequence[str] = ()) -> ComparisonReport:
    """Returns what the page shows."""
    try:
        installed = version("lggd")
    except PackageNotFoundError:  # a source tree that was never installed
        installed = "unknown"
    device = comparison.lines[0]["device"] if comparison.lines else "cpu"
    counts = {key: f"{value:,}" for key, value in comparison.facts.items()}
    when = max((line["when"] for line in comparison.lines), default=None)
    return ComparisonReport(
        dataset=name,
        protocol=describe_protocol(comparison),
        recommendation=comparison.recommendation,
        recommended=comparison.recommended,
        methods=[_compared(method) for method in comparison.methods],
        facts=counts | {"duration": duration(sum(line["seconds"] for line in comparison.lines))},
        created=when or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=installed,
        machine=", ".join(str(value) for value in machine(device).values()),
        failed=comparison.failed,
        skipped=comparison.skipped,
        notes=notes,
    )


def describe_protocol(comparison: Comparison) -> str:
    """Returns in words what all methods had in common."""
    trials = max((line["trials"] for line in comparison.lines), default=0)
    settings = f"settings by {counted(trials, 'validation trial')} per split" if trials else "default settings"
    return f"{counted(comparison.splits, 'split')}, {describe_labels(comparison.labels)} for training, {settings}"


def _compared(method: MethodSummary) -> ComparedMethod:
    row = method.row()
    kept = ("name", "title", "sd", "macro_f1", "calibration_error", "seconds", "memory", "verdict")
    return ComparedMethod(
        **{name: getattr(method, name) for name in kept},
        accuracies=list(method.accuracy.values()),
        mean=method.mean,
        difference=row["difference"],
        corrected_p=row["corrected_p"],
        curve=[(float(labels), value) for labels, value in method.curve.items()],
        reliability=method.reliability,
    )
