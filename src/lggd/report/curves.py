"""Charts of training curves by stage, with the best epoch marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lggd.report.charts import Line, legend, line_chart
from lggd.report.formatting import counted, escape_name, escape_text, number, percent

VALIDATION = "validation"
# Training is grey, validation stands out, other measures follow.
COLOURS = ("var(--series-1)", "var(--series-2)", "var(--series-3)", "var(--series-4)")


def curve_cards(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Returns one card per stage with recorded values."""
    return "".join(_card(stage, measures) for stage, measures in curves.items() if any(map(len, measures.values())))


def _card(stage: str, measures: Mapping[str, Sequence[float]]) -> str:
    lines = [line for line in _lines(measures) if len(line.y)]
    accuracies = [_in_percent(line) for line in lines if "accuracy" in line.name]
    losses = [line for line in lines if "accuracy" not in line.name]
    best = _best_epochs(losses, accuracies)
    losses, accuracies = ([_mark_best(line, best) for line in group] for group in (losses, accuracies))
    panels = ((losses, "loss"), (accuracies, "accuracy (%)"))
    charts = "".join(_panel(group, stage, y_label) for group, y_label in panels if group)
    epochs = counted(max(len(line.y) for line in lines), "epoch")
    return (
        f'<article class="card curves"><h3>{escape_name(stage)}</h3>'
        f'<p class="quiet">{epochs}{_describe_best(best, accuracies or losses)}</p>{charts}</article>'
    )


def _panel(lines: list[Line], stage: str, y_label: str) -> str:
    finals = [float(next((y for y in line.y[::-1] if np.isfinite(y)), np.nan)) for line in lines]
    ends = ", ".join(f"{line.name} ends at {number(final)}" for line, final in zip(lines, finals, strict=True))
    readable = [replace(line, name=line.name.replace("_", " ")) for line in lines]
    chart = line_chart(readable, x_label="epoch", y_label=y_label, summary=f"{y_label} by epoch, {stage}: {ends}.")
    return chart + legend(_legend_lines(readable))


def _legend_lines(lines: list[Line]) -> list[Line]:
    """Returns each line, or, if there are variants, one line per measure and one per variant."""
    if not any(_variant(line.name) for line in lines):
        return lines
    measures = {line.name.removesuffix(f" {_variant(line.name)}"): line for line in lines}
    variants = {_variant(line.name): line for line in lines if _variant(line.name)}
    return [replace(line, name=name, colour="var(--quiet)") for name, line in measures.items()] + [
        replace(line, name=name, dashed=False) for name, line in variants.items()
    ]


def _lines(measures: Mapping[str, Sequence[float]]) -> list[Line]:
    """Returns one line per measure. "train_loss t=1" is the variant t=1 of train_loss; variants differ in shade."""
    variants = list(dict.fromkeys(_variant(measure) for measure in measures))
    lines = []
    for k, (measure, values) in enumerate(measures.items()):
        y = np.asarray(values, np.float64).reshape(-1)
        is_validation = VALIDATION in measure
        colour = COLOURS[1 if is_validation else 0 if "train" in measure else 2 + k % 2]
        if len(variants) > 1:
            position = 100 * variants.index(_variant(measure)) / (len(variants) - 1)
            colour = f"color-mix(in oklab,var(--shade-last) {position:.0f}%,var(--shade-first))"
        dashed = len(variants) > 1 and not is_validation
        lines.append(Line(str(measure), np.arange(1.0, len(y) + 1), y, colour, dashed))
    return lines


def _variant(measure: str) -> str:
    variant = str(measure).rpartition(" ")[2]
    return variant if "=" in variant else ""


def _in_percent(line: Line) -> Line:
    finite = line.y[np.isfinite(line.y)]
    return replace(line, y=line.y * 100) if len(finite) and finite.max() <= 1 else line


def _best_epochs(losses: list[Line], accuracies: list[Line]) -> dict[str, int]:
    """Returns by variant the index of the best validation epoch: by accuracy if it was recorded, else by loss."""
    scores = [(line.name, line.y) for line in accuracies if VALIDATION in line.name]
    scores = scores or [(line.name, -line.y) for line in losses if VALIDATION in line.name]
    return {
        _variant(name): int(np.where(np.isfinite(score), score, -np.inf).argmax())
        for name, score in scores
        if np.isfinite(score).any()
    }


def _mark_best(line: Line, best: Mapping[str, int]) -> Line:
    epoch = best.get(_variant(line.name))
    return replace(line, best=epoch) if VALIDATION in line.name and epoch is not None and epoch < len(line.y) else line


def _describe_best(best: Mapping[str, int], lines: list[Line]) -> str:
    if len(best) > 1:
        epochs = (f"{k + 1:,}\N{NO-BREAK SPACE}({escape_text(variant)})" for variant, k in best.items())
        return f"; best validation at {', '.join(epochs)}"
    if not best:
        return ""
    (epoch,) = best.values()
    value = next((line.y[epoch] for line in lines if line.best == epoch), None)
    is_accuracy = "accuracy" in lines[0].name
    reached = "" if value is None else f": {percent(value) if is_accuracy else 'loss ' + number(value)}"
    return f"; best validation at {epoch + 1:,}{reached}"
