"""Training curves by stage: which lines share a chart, how they are told apart, and where the best epoch was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lggd.report.charts import Floats, Line, legend, line_chart
from lggd.report.wording import count, counted, name, number, percent, text

VALIDATION = "validation"
# Training is grey, validation stands out; whatever else was measured follows.
SERIES = ("var(--series-1)", "var(--series-2)", "var(--series-3)", "var(--series-4)")


def curve_cards(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """A card for each stage that recorded anything."""
    return "".join(_card(stage, measures) for stage, measures in curves.items() if any(map(len, measures.values())))


def _card(stage: str, measures: Mapping[str, Sequence[float]]) -> str:
    lines = [line for line in _lines(measures) if len(line.y)]
    accuracies = [_in_percent(line) for line in lines if "accuracy" in line.name]
    losses = [line for line in lines if "accuracy" not in line.name]
    best = _best_epochs(losses, accuracies)
    losses, accuracies = ([_marked(line, best) for line in group] for group in (losses, accuracies))
    epochs = max(len(line.y) for line in lines)
    charts = "".join(_panel(group, stage, up) for group, up in ((losses, "loss"), (accuracies, "accuracy, %")) if group)
    told = _best_in_words(best, accuracies or losses)
    return (
        f'<article class="card curves"><h3>{name(stage)}</h3>'
        f'<p class="quiet">{counted(epochs, "epoch")}{told}</p>{charts}</article>'
    )


def _panel(lines: list[Line], stage: str, up: str) -> str:
    ends = ", ".join(f"{line.name} ends at {number(_last_finite(line.y))}" for line in lines)
    summary = f"{up} by epoch, {stage}: {ends}."
    readable = [replace(line, name=line.name.replace("_", " ")) for line in lines]
    return line_chart(readable, across="epoch", up=up, summary=summary) + legend(_keys(readable))


def _keys(lines: list[Line]) -> list[Line]:
    """What to explain of the lines: each, or, of variants, each kind once and each variant once."""
    if not any(_variant(line.name) for line in lines):
        return lines
    kinds = {line.name.removesuffix(f" {_variant(line.name)}"): line for line in lines}
    shades = {_variant(line.name): replace(line, dashed=False) for line in lines}
    return [replace(line, name=kind, colour="var(--quiet)") for kind, line in kinds.items()] + [
        replace(line, name=variant) for variant, line in shades.items() if variant
    ]


def _lines(measures: Mapping[str, Sequence[float]]) -> list[Line]:
    """One line a measure. "train_loss t=1" is the variant t=1 of train_loss: shades tell variants, dashes kinds."""
    variants = list(dict.fromkeys(_variant(measure) for measure in measures))
    lines = []
    for k, (measure, values) in enumerate(measures.items()):
        y = np.asarray(values, np.float64).reshape(-1)
        x = np.arange(1, len(y) + 1, dtype=np.float64)
        validating = VALIDATION in measure
        if len(variants) > 1:
            share = variants.index(_variant(measure)) / (len(variants) - 1)
            colour = f"color-mix(in oklab,var(--shade-last) {100 * share:.0f}%,var(--shade-first))"
            lines.append(Line(str(measure), x, y, colour, dashed=not validating))
        else:
            training = "train" in measure
            lines.append(Line(str(measure), x, y, SERIES[1 if validating else 0 if training else 2 + k % 2]))
    return lines


def _variant(measure: str) -> str:
    variant = str(measure).rpartition(" ")[2]
    return variant if "=" in variant else ""


def _in_percent(line: Line) -> Line:
    finite = line.y[np.isfinite(line.y)]
    return replace(line, y=line.y * 100) if len(finite) and finite.max() <= 1 else line


def _best_epochs(losses: list[Line], accuracies: list[Line]) -> dict[str, int]:
    """By variant, the position of the first epoch that validated best: by accuracy where there is one, else by loss."""
    judges = [line for line in accuracies if VALIDATION in line.name] or [
        line for line in losses if VALIDATION in line.name
    ]
    best = {}
    for line in judges:
        score: Floats = line.y if "accuracy" in line.name else -line.y
        if np.isfinite(score).any():
            best[_variant(line.name)] = int(np.where(np.isfinite(score), score, -np.inf).argmax())
    return best


def _marked(line: Line, best: Mapping[str, int]) -> Line:
    at = best.get(_variant(line.name))
    return replace(line, best=at) if VALIDATION in line.name and at is not None and at < len(line.y) else line


def _best_in_words(best: Mapping[str, int], judges: list[Line]) -> str:
    if not best:
        return ""
    if len(best) > 1:
        epochs = ", ".join(f"{count(at + 1)}\N{NO-BREAK SPACE}({text(variant)})" for variant, at in best.items())
        return f"; best validated at {epochs}"
    at = next(iter(best.values()))
    values = [line.y[at] for line in judges if VALIDATION in line.name and at < len(line.y)]
    told = (
        f" with {percent(values[0]) if 'accuracy' in judges[0].name else 'loss ' + number(values[0])}" if values else ""
    )
    return f"; best validated at {count(at + 1)}{told}"


def _last_finite(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if len(finite) else float("nan")
