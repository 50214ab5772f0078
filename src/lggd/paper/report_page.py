"""The report of all results as Markdown: the same lines give the same text, whenever and wherever it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from lggd.paper.bars import ADDITIONS, SPLITS, bars
from lggd.paper.comparison import (
    BACKBONES,
    BASE,
    CHALLENGERS,
    SIGNIFICANT,
    Contest,
    Findings,
    Measurement,
    Trial,
    contests,
    deviations,
    ideas,
)
from lggd.paper.measuring import changes, seconds_of, told, versions_of
from lggd.paper.paper_tables import BASELINES, DATASETS, PUBLISHED, ROWS
from lggd.paper.result_figures import COMPARED, on_backbone, row_name
from lggd.report.formatting import counted, signed

UNEXPLAINED = "**not explained**"
NONE = "–"
TITLE = """# Results

Written by `lggd report` from the lines in `results/*.jsonl`; change those, never this page. Accuracies are per cents of
the test nodes, mean ± sample standard deviation over the splits."""
PROTOCOL = """Every split takes 2.5 % of each class for training and 2.5 % for validation; the rest is the test. A
network is kept as it was in the epoch with the largest validation accuracy, the first of equals; training ends 100
epochs after it. Settings are chosen by validation accuracy; how many were tried stands below."""


@dataclass(frozen=True)
class Page:
    """What the page is written from. `figures` are addresses as the page links them, by name."""

    findings: Findings
    notes: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    trials: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by row and dataset

    def text(self) -> str:
        """The whole page."""
        sections = (
            TITLE,
            _measured(self),
            _table(self.findings) + self._figure("table1", "Table 1, ours beside the paper's"),
            _deviations(self),
            _contests(self.findings),
            _backbones(self.findings) + self._figure("backbones", "Backbones with and without LGGD"),
            _dynamic(self.findings) + self._figure("dynamic", "Accuracy after each addition of labels"),
            _robustness(self.findings) + self._figure("robustness", "Distances with wrong edges"),
            _geodesic(self.findings) + self._figure("geodesic", "A geodesic"),
            _ablation(self.findings) + self._figure("ablation", "What ideas changed"),
            _bars(self.findings),
        )
        return "\n\n".join(sections) + "\n"

    def _figure(self, name: str, title: str) -> str:
        return f"\n\n![{title}]({self.figures[name]})" if name in self.figures else ""


def _measured(page: Page) -> str:
    findings, measured = page.findings, page.findings.measurements
    counts = sorted({len(found.test) for _, found in measured})
    lines = [found.line for _, found in measured] + findings.robustness + findings.geodesic
    facts = [
        f"- Splits a line: {', '.join(map(str, counts)) or 'none'}. Seeds: {told(lines, 'seed')}.",
        f"- Machines: {told(lines, 'machine')}. Devices: {told(lines, 'device')}.",
        f"- Versions: {versions_of(lines)}.",
        f"- Torn lines skipped: {findings.torn}.",
    ]
    spent = seconds_of(findings)
    rows = [[name, str(count), f"{seconds:,.0f}"] for name, (count, seconds) in spent.items()]
    total = [["all", str(sum(n for n, _ in spent.values())), f"{sum(s for _, s in spent.values()):,.0f}"]]
    times = _grid(["experiment", "lines", "seconds"], rows + total)
    trials = _grid(
        ["row", *DATASETS.values()],
        [
            [_label(row, name), *(_whole(page.trials.get((row, d))) for d in DATASETS)]
            for row, name in findings.rows.items()
        ],
    )
    return "\n\n".join(
        (
            "## How it was measured",
            PROTOCOL,
            "\n".join(facts),
            "Time of the lines that count, without the searches:",
            times,
            f"Settings tried in the search for each row ({NONE}: not known):",
            trials,
        )
    )


def _table(findings: Findings) -> str:
    best = {d: max((f.mean for (_, on), f in findings.table.items() if on == d), default=0.0) for d in DATASETS}
    body, missing = [], []
    for row, name in findings.rows.items():
        cells = [_beside(findings, row, d, best[d]) for d in DATASETS]
        body.append([_label(row, name), *cells, _row_mean(findings, row)])
        if gaps := _gaps(findings, row):
            missing.append(f"{_label(row, name)} on {_listed(gaps)}")
    return "\n\n".join(
        (
            "## Table 1",
            "Ours, and in brackets the paper's. Bold is the best of ours on a dataset. The last column is the mean over"
            " the five datasets, where all are there.",
            _grid(["row", *DATASETS.values(), "mean"], body),
            "Missing: " + "; ".join(missing) + "." if missing else "No row is missing.",
        )
    )


def _beside(findings: Findings, row: str, dataset: str, best: float) -> str:
    ours, paper = findings.table.get((row, dataset)), PUBLISHED.get((row, dataset))
    published = "out of memory" if row in BASELINES else NONE
    if paper is not None:
        published = f"{paper.mean:.2f} ± {paper.sd:.2f}"
    if ours is None:
        return f"missing ({published})"
    return (f"**{_spread(ours)}**" if ours.mean == best else _spread(ours)) + f" ({published})"


def _row_mean(findings: Findings, row: str) -> str:
    ours = [findings.table[row, d].mean for d in DATASETS if (row, d) in findings.table]
    paper = [PUBLISHED[row, d].mean for d in DATASETS if (row, d) in PUBLISHED]
    shown = [f"{fmean(means):.2f}" if len(means) == len(DATASETS) else NONE for means in (ours, paper)]
    return f"{shown[0]} ({shown[1]})"


def _gaps(findings: Findings, row: str) -> list[str]:
    return [name for dataset, name in DATASETS.items() if (row, dataset) not in findings.table]


def _deviations(page: Page) -> str:
    found = deviations(page.findings, page.notes)
    intro = "Means more than one of the paper's standard deviations away from its mean."
    if not found:
        return f"## Deviations from the paper\n\n{intro} There are none."
    body = [
        [
            _label(each.row, ROWS[each.row]),
            DATASETS[each.dataset],
            f"{each.ours:.2f}",
            f"{each.paper.mean:.2f} ± {each.paper.sd:.2f}",
            f"{signed(each.difference, 2)}",
            "▼ below" if each.is_below else "above",
            _cell(each.note or (UNEXPLAINED if each.is_below else NONE)),
        ]
        for each in found
    ]
    below, open_ = sum(each.is_below for each in found), sum(each.is_below and not each.note for each in found)
    header = ["row", "dataset", "ours", "paper", "difference", "", "explanation"]
    tally = f"{below} below, {len(found) - below} above; {open_} below without an explanation."
    return "\n\n".join(("## Deviations from the paper", f"{intro} {tally}", _grid(header, body)))


def _contests(findings: Findings) -> str:
    intro = (
        "Two-sided Wilcoxon signed-rank tests over the splits that two rows share, paired by the splits' hashes. A "
        "cell is the mean difference in points, wins/losses/ties over the splits, and p after Holm's correction over "
        f"the rows of that dataset; * marks p < {SIGNIFICANT}."
    )
    parts = ["## Is the difference more than luck?", intro]
    for challenger in CHALLENGERS:
        found = contests(findings, challenger)
        parts.append(f"### {_label(challenger, ROWS[challenger])}")
        if not found:
            parts.append("Not measured beside another row.")
            continue
        cells = {(each.rival, each.dataset): _outcome(each) for each in found}
        labels = {row: _label(row, name) for row, name in findings.rows.items() if any(row == r for r, _ in cells)}
        body = [[label, *(cells.get((row, dataset), NONE) for dataset in DATASETS)] for row, label in labels.items()]
        parts += [_grid(["against", *DATASETS.values()], body), _losses(ROWS[challenger], found, labels)]
    return "\n\n".join(parts)


def _outcome(contest: Contest) -> str:
    if contest.difference is None:
        return "no split in common"
    score = f"{signed(contest.difference, 2)}, {contest.wins}/{contest.losses}/{contest.ties}"
    if contest.corrected is None:
        return f"{score}, one split: no test"
    if contest.ties == contest.pairs:
        return f"{score}, no difference"
    return f"{score}, {_chance(contest.corrected)}{'*' * contest.is_significant}"


def _losses(name: str, found: Sequence[Contest], labels: Mapping[str, str]) -> str:
    sentences = []
    for dataset, title in DATASETS.items():
        lost = [
            each for each in found if each.dataset == dataset and each.difference is not None and each.difference < 0
        ]
        surely = [_lost(each, labels) for each in lost if each.is_significant]
        perhaps = [_lost(each, labels) for each in lost if not each.is_significant]
        if surely:
            sentences.append(f"- **{name} loses on {title}** to {_listed(surely)}.")
        if perhaps:
            sentences.append(f"- {name} is behind on {title}, not significantly: {_listed(perhaps)}.")
    if sentences:
        return "\n".join(sentences)
    return f"{name} is behind no row on any dataset where both were measured on the same splits."


def _lost(contest: Contest, labels: Mapping[str, str]) -> str:
    return f"{labels[contest.rival]} ({signed(contest.difference or 0.0, 2)})"


def _backbones(findings: Findings) -> str:
    rows = {row: name for row, (name, _) in COMPARED.items()}
    rows |= {row: found.name for (row, *_), found in findings.backbones.items() if row not in rows}
    body = []
    for backbone in BACKBONES.values():
        for row, name in rows.items():
            cells = [_maybe(on_backbone(findings, row, dataset, backbone)) for dataset in DATASETS]
            body.append([backbone, _label(row, name), *cells])
    intro = "The same features in front of other networks. GCN is the backbone of Table 1."
    if not findings.backbones:
        return f"## Backbones\n\n{intro} The others were not measured."
    return "\n\n".join(("## Backbones", intro, _grid(["backbone", "features", *DATASETS.values()], body)))


def _dynamic(findings: Findings) -> str:
    intro = (
        "Three times 10 % of the nodes bring their labels; the test is the 65 % that never do. Rows are not retrained, "
        "but for those that say so. Milliseconds are the mean time of an addition and the predictions after it, "
        "divided by the number of splits; networks of all splits are retrained together."
    )
    if not findings.dynamic:
        return f"## Labels that come later\n\n{intro} This was not measured."
    body = []
    for row, dataset in sorted(
        {key[:2] for key in findings.dynamic}, key=lambda key: (list(DATASETS).index(key[1]), key)
    ):
        stages = [findings.dynamic.get((row, dataset, additions)) for additions in range(ADDITIONS + 1)]
        times = [_milliseconds(stage.line) for stage in stages[1:] if stage is not None]
        known = [time for time in times if time is not None]
        cells = [*map(_maybe, stages), f"{fmean(known):,.1f}" if known else NONE]
        body.append([DATASETS[dataset], f"{row.split()[0]} {row_name(row, stages)}", *cells])
    header = ["dataset", "row", *(counted(n, "addition") for n in range(ADDITIONS + 1)), "milliseconds"]
    return "\n\n".join(("## Labels that come later", intro, _grid(header, body)))


def _milliseconds(line: Mapping[str, Any]) -> float | None:
    """For one split: as the line says, or its share of the seconds that all splits took."""
    value = line.get("milliseconds")
    if value is None and line.get("seconds") is not None:
        value = 1000 * line["seconds"] / len(line["test"])
    known = [each for each in (value if isinstance(value, list) else [value]) if each is not None]
    return fmean(known) if known else None


def _robustness(findings: Findings) -> str:
    intro = "Relative change of the distance, ‖f_n − f_0‖ / ‖f_0‖, when n wrong edges are added; mean over the draws."
    found = changes(findings.robustness)
    if not found:
        return f"## Wrong edges\n\n{intro} This was not measured."
    counts = sorted({count for _, count in found})
    body = [
        [_exponent(p), *(f"{100 * found[p, n]:.2f} %" if (p, n) in found else NONE for n in counts)]
        for p in sorted({p for p, _ in found})
    ]
    return "\n\n".join(("## Wrong edges", intro, _grid(["p", *(f"n = {count}" for count in counts)], body)))


def _geodesic(findings: Findings) -> str:
    if not findings.geodesic:
        return "## A geodesic\n\nThe way through a shape was not drawn."
    line = findings.geodesic[-1]
    length = f", {line['distance']:.6g} long" if isinstance(line.get("distance"), (int, float)) else ""
    return f"## A geodesic\n\nThe way through a shape{length}."


def _ablation(findings: Findings) -> str:
    intro = (
        "Every idea that was tried, those that failed among them. In a cell: validation and test accuracy, each with "
        f"its difference to {BASE} over the same splits. Sorted by the mean difference on validation nodes, "
        "those that lack a dataset last."
    )
    found = ideas(findings)
    if not found:
        return f"## What was tried\n\n{intro} Nothing was measured."
    counts = sorted({len(each.test) for each in findings.ablation.values()})
    intro += f" Splits a line: {' or '.join(map(str, counts))}."
    explained = any(idea.about for idea in found)
    body = [
        [
            _cell(idea.name),
            *([_cell(idea.about)] if explained else []),
            *(_tried(idea.trials.get(dataset)) for dataset in DATASETS),
            _signed(idea.validation_difference),
            _signed(idea.test_difference),
        ]
        for idea in found
    ]
    header = ["idea", *(["what it is"] if explained else []), *DATASETS.values(), "mean, validation", "mean, test"]
    return "\n\n".join(("## What was tried", intro, _grid(header, body)))


def _tried(trial: Trial | None) -> str:
    if trial is None:
        return NONE
    validation = (
        NONE if trial.validation is None else f"{trial.validation:.2f} ({_signed(trial.validation_difference)})"
    )
    return f"{validation} · {trial.test:.2f} ({_signed(trial.test_difference)})"


def _bars(findings: Findings) -> str:
    found = bars(findings)
    body = [["reached" if bar.reached else "**missed**", bar.what, bar.because] for bar in found]
    tally = f"{sum(bar.reached for bar in found)} of {len(found)} reached, computed from the lines."
    return "\n\n".join(("## What was to be shown", tally, _grid(["", "what", "because"], body)))


# -- words --------------------------------------------------------------------------------------------------------


def _grid(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _label(row: str, name: str) -> str:
    return f"{row} {_cell(name)}"


def _cell(text: str) -> str:
    """What people wrote, in one line and with no end of a cell in it."""
    return " ".join(text.split()).replace("|", "\\|")


def _spread(found: Measurement) -> str:
    few = "" if len(found.test) == SPLITS else f" [{counted(len(found.test), 'split')}]"
    return f"{found.mean:.2f}" + ("" if found.sd is None else f" ± {found.sd:.2f}") + few


def _maybe(found: Measurement | None) -> str:
    return NONE if found is None else _spread(found)


def _signed(value: float | None) -> str:
    return NONE if value is None else signed(value, 2)


def _whole(value: int | None) -> str:
    return NONE if value is None else str(value)


def _chance(p: float) -> str:
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}"


def _exponent(p: float) -> str:
    return "∞" if p == float("inf") else f"{p:g}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
