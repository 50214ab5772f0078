"""What the reproduction has to show, and whether the measured numbers show it. Nothing here is written by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from lggd.paper.comparison import Findings, Measurement
from lggd.paper.paper_tables import BASELINES, DATASETS, PUBLISHED, ROWS

SPLITS = 10
MOST = 4  # of the five datasets
GGD_WITHIN, LGGD_WITHIN = 2.0, 1.0  # points
LGGD_PLUS_MEAN = 82.5
GROWING = ("cora", "citeseer", "pubmed")
ADDITIONS = 3
OTHER_BACKBONES = ("GAT", "ChebNet", "JKNet")
RETRAINED = "retrained"


@dataclass(frozen=True)
class Bar:
    """Something to show, whether it is shown, and the numbers that decide. What was not measured is not shown."""

    what: str
    reached: bool
    because: str


def bars(findings: Findings) -> list[Bar]:
    """All of them, in the order of the report."""
    return [
        _rows_present(findings),
        *(_baseline(findings, row) for row in BASELINES),
        _distances_alone(findings),
        *(_learned(findings, row) for row in ("09", "10")),
        _ahead_of_all(findings),
        _never_behind(findings),
        _mean_over_datasets(findings),
        *(_rises(findings, row, dataset) for row in _growing_rows(findings) for dataset in GROWING),
        *(_backbone(findings, backbone) for backbone in OTHER_BACKBONES),
    ]


def _rows_present(findings: Findings) -> Bar:
    wanting = [
        f"{row} on {DATASETS[dataset]} ({len(found.test) if found else 0})"
        for row in ROWS
        for dataset in DATASETS
        if (found := findings.table.get((row, dataset))) is None or len(found.test) < SPLITS
    ]
    what = f"All {len(ROWS)} rows on all {len(DATASETS)} datasets, {SPLITS} splits each"
    return Bar(what, not wanting, "fewer splits: " + ", ".join(wanting) if wanting else "all there")


def _baseline(findings: Findings, row: str) -> Bar:
    least = {dataset: PUBLISHED[row, dataset] for dataset in DATASETS if (row, dataset) in PUBLISHED}
    return _each(
        findings,
        row,
        f"Row {row} {ROWS[row]} at least the paper's mean less one standard deviation",
        {dataset: paper.mean - paper.sd for dataset, paper in least.items()},
    )


def _learned(findings: Findings, row: str) -> Bar:
    return _each(
        findings,
        row,
        f"Row {row} {ROWS[row]} at least the paper's row 09 less {LGGD_WITHIN:g}",
        {dataset: PUBLISHED["09", dataset].mean - LGGD_WITHIN for dataset in DATASETS},
    )


def _each(findings: Findings, row: str, what: str, least: dict[str, float]) -> Bar:
    """A row against a least mean on each of the datasets."""
    found = {dataset: findings.table.get((row, dataset)) for dataset in least}
    missed = [
        f"{DATASETS[d]} {_shown(found[d])} < {bound:.2f}"
        for d, bound in least.items()
        if (ours := found[d]) is not None and ours.mean < bound
    ]
    missed += _unmeasured(dataset for dataset, ours in found.items() if ours is None)
    return Bar(what, not missed, ", ".join(missed) or f"on {len(least)} of {len(least)} datasets")


def _distances_alone(findings: Findings) -> Bar:
    far = []
    for dataset in DATASETS:
        ours, paper = findings.table.get(("08", dataset)), PUBLISHED["08", dataset].mean
        if ours is None:
            far += _unmeasured([dataset])
        elif abs(ours.mean - paper) > GGD_WITHIN:
            far.append(f"{DATASETS[dataset]} {ours.mean:.2f}, the paper {paper:.2f}")
    return Bar(f"Row 08 {ROWS['08']} within {GGD_WITHIN:g} points of the paper", not far, ", ".join(far) or "on all")


def _ahead_of_all(findings: Findings) -> Bar:
    """Rows that were not measured are not beaten: a dataset counts only when every row is there."""
    ahead, behind = [], []
    for dataset, name in DATASETS.items():
        ours = findings.table.get(("14", dataset))
        rivals = [findings.table.get((row, dataset)) for row in ROWS if row != "14"]
        known = [rival for rival in rivals if rival is not None]
        if ours is None or len(known) < len(rivals):
            behind += _unmeasured([dataset])
            continue
        best = max(known, key=lambda rival: rival.mean)
        if ours.mean > best.mean:
            ahead.append(name)
        else:
            behind.append(f"{name} {ours.mean:.2f}, row {best.row} {best.mean:.2f}")
    what = f"{ROWS['14']} ahead of every other row on at least {MOST} of {len(DATASETS)} datasets"
    return Bar(what, len(ahead) >= MOST, _counted(ahead, behind))


def _never_behind(findings: Findings) -> Bar:
    wrong = []
    for dataset, name in DATASETS.items():
        ours, plain = findings.table.get(("14", dataset)), findings.table.get(("01", dataset))
        if ours is None or plain is None:
            wrong += _unmeasured([dataset])
        elif ours.mean < plain.mean:
            wrong.append(f"{name} {ours.mean:.2f} < {plain.mean:.2f}")
    return Bar(f"{ROWS['14']} never behind our own row 01", not wrong, ", ".join(wrong) or "on all")


def _mean_over_datasets(findings: Findings) -> Bar:
    what = f"{ROWS['14']} at least {LGGD_PLUS_MEAN:g} on the mean over the datasets"
    found = {dataset: findings.table.get(("14", dataset)) for dataset in DATASETS}
    absent = _unmeasured(dataset for dataset, ours in found.items() if ours is None)
    if absent:
        return Bar(what, False, ", ".join(absent))
    mean = fmean(ours.mean for ours in found.values() if ours is not None)
    return Bar(what, mean >= LGGD_PLUS_MEAN, f"{mean:.2f}")


def _growing_rows(findings: Findings) -> Sequence[str]:
    """The rows that take new labels without being retrained; row 09 is asked for in any case."""
    rows = {row for row, *_ in findings.dynamic if RETRAINED not in row}
    return sorted(rows | {"09"})


def _rises(findings: Findings, row: str, dataset: str) -> Bar:
    what = f"Row {row} on {DATASETS[dataset]} rises with each addition of labels, without retraining"
    found = [findings.dynamic.get((row, dataset, additions)) for additions in range(ADDITIONS + 1)]
    means = [each.mean for each in found if each is not None]
    if len(means) < len(found):
        return Bar(what, False, f"{len(means)} of {len(found)} stages measured")
    rises = all(before < after for before, after in pairwise(means))
    return Bar(what, rises, " → ".join(f"{mean:.2f}" for mean in means))


def _backbone(findings: Findings, backbone: str) -> Bar:
    ahead, behind = [], []
    for dataset, name in DATASETS.items():
        ours, plain = (findings.backbones.get((row, dataset, backbone)) for row in ("14", "01"))
        if ours is None or plain is None:
            behind += _unmeasured([dataset])
        elif ours.mean > plain.mean:
            ahead.append(name)
        else:
            behind.append(f"{name} {ours.mean:.2f}, row 01 {plain.mean:.2f}")
    what = f"{backbone}: {ROWS['14']} ahead of the raw features on at least {MOST} of {len(DATASETS)} datasets"
    return Bar(what, len(ahead) >= MOST, _counted(ahead, behind))


def _counted(ahead: Sequence[str], behind: Sequence[str]) -> str:
    return f"ahead on {len(ahead)}" + (f"; not on {', '.join(behind)}" if behind else "")


def _unmeasured(datasets: Iterator[str] | Sequence[str]) -> list[str]:
    return [f"{DATASETS[dataset]} not measured" for dataset in datasets]


def _shown(found: Measurement | None) -> str:
    return "–" if found is None else f"{found.mean:.2f}"
