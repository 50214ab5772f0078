"""The measured beside the published and beside each other: which lines count, deviations, paired tests, ideas."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lggd.compare.results import Results
from lggd.errors import InputError
from lggd.paper.paper_tables import DATASETS, PUBLISHED, ROWS, Published

Line = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)
EXPERIMENTS = ("table1", "backbones", "dynamic", "ablation", "robustness", "geodesic")
CHALLENGERS = ("09", "10", "14")
BACKBONES = {"gcn": "GCN", "gat": "GAT", "chebnet": "ChebNet", "jknet": "JKNet"}
BASE = "LGGD+ as chosen"  # the variant that every other one of the ablation is measured against
SIGNIFICANT = 0.05
# Accuracies are shares of whole nodes. What is left of a difference below this is rounding, and would hide a tie.
DIGITS = 9
MOST_COUNTED = 13  # differences whose signs are tried in all ways


@dataclass(frozen=True)
class Measurement:
    """One line of results: per cents right on each of its splits. `marks` tell which splits they are.

    >>> found = Measurement.read({"row": "01", "dataset": "cora", "test": [70, 74], "splits": ["a", "b"]})
    >>> found.mean, round(found.sd, 2)
    (72.0, 2.83)
    """

    row: str
    idea: str  # of the ablation; its row is that of the base
    name: str
    dataset: str
    backbone: str
    additions: int | None
    validation: tuple[float, ...]
    test: tuple[float, ...]
    marks: tuple[Hashable, ...]
    line: Line = field(repr=False, compare=False)

    @classmethod
    def read(cls, line: Line) -> Measurement:
        test, validation = _per_cents(line, "test"), _per_cents(line, "val")
        row, backbone = str(line.get("row", "")), str(line.get("backbone") or "GCN")
        return cls(
            row=row,
            idea=str(line.get("idea", line.get("variant", ""))),
            name=str(line.get("name", ROWS.get(row, row))),
            dataset=str(line.get("dataset", "")),
            backbone=BACKBONES.get(backbone.lower(), backbone),
            additions=line.get("additions"),
            validation=validation if len(validation) == len(test) else (),
            test=test,
            marks=_marks(line, len(test)),
            line=line,
        )

    @property
    def mean(self) -> float:
        return fmean(self.test)

    @property
    def sd(self) -> float | None:
        """Of a sample (divided by n − 1). None for one split."""
        return stdev(self.test) if len(self.test) > 1 else None

    @property
    def validation_mean(self) -> float | None:
        return fmean(self.validation) if self.validation else None


def _per_cents(line: Line, key: str) -> tuple[float, ...]:
    """Nothing where nothing was measured, which a line may say with null."""
    values = line.get(key)
    if values is None or (isinstance(values, list) and None in values):
        return ()
    numbers = isinstance(values, list) and all(isinstance(value, (int, float)) for value in values)
    if not numbers or not all(0 <= value <= 100 for value in values):
        where = f"{line.get('experiment')}, row {line.get('row')}, {line.get('dataset')}"
        raise InputError(
            key, "be a list of per cents", f"{values!r} in a line of {where}", "Remove that line, and measure it anew."
        )
    return tuple(float(value) for value in values)


def _marks(line: Line, count: int) -> tuple[Hashable, ...]:
    """What tells each split: its own hash, in `splits`, or the hash of all of them and its number."""
    splits = line.get("splits", range(count))
    splits = range(splits) if isinstance(splits, int) else splits
    if count and len(splits) != count:
        raise InputError(
            "splits",
            f"have one entry for each of the {count} accuracies",
            f"{len(splits)} in a line of {line.get('experiment')}",
            "Remove that line, and measure it anew.",
        )
    return tuple(split if isinstance(split, str) else (str(line.get("split_hash")), split) for split in splits)


@dataclass(frozen=True)
class Findings:
    """The lines that count, by what they are about."""

    table: dict[tuple[str, str], Measurement]  # by row and dataset
    backbones: dict[tuple[str, str, str], Measurement]  # by row, dataset and backbone
    dynamic: dict[tuple[str, str, int], Measurement]  # by row, dataset and number of additions
    ablation: dict[tuple[str, str], Measurement]  # by idea and dataset
    robustness: list[Line]
    geodesic: list[Line]
    torn: int = 0  # lines whose writer died in them

    @property
    def rows(self) -> dict[str, str]:
        """The names of the table's rows: those of the comparison, and whatever else was measured."""
        return ROWS | {row: found.name for (row, _), found in self.table.items() if row not in ROWS}

    @property
    def measurements(self) -> list[tuple[str, Measurement]]:
        """All of them, each with the name of its experiment."""
        groups: dict[str, Mapping[Any, Measurement]] = {
            "table1": self.table,
            "backbones": self.backbones,
            "dynamic": self.dynamic,
            "ablation": self.ablation,
        }
        return [(experiment, found) for experiment, group in groups.items() for found in group.values()]

    @property
    def is_empty(self) -> bool:
        return not (self.measurements or self.robustness or self.geodesic)


def read_findings(folder: str | Path) -> Findings:
    """Reads the `.jsonl` files of a folder. Of lines about the same, the last of those with the most splits counts."""
    results = Results(folder)
    lines, torn = {}, 0
    for experiment in EXPERIMENTS:
        lines[experiment], skipped = results.lines(experiment)
        torn += skipped
    table = counting(lines["table1"], lambda found: (found.row, found.dataset))
    ablation = counting(lines["ablation"], lambda found: (found.idea, found.dataset))
    return Findings(
        table=table,
        backbones=counting(lines["backbones"], lambda found: (found.row, found.dataset, found.backbone)),
        dynamic=counting(lines["dynamic"], lambda found: (found.row, found.dataset, found.additions or 0)),
        ablation=_with_base(ablation, table),
        robustness=lines["robustness"],
        geodesic=lines["geodesic"],
        torn=torn,
    )


def counting(lines: Iterable[Line], key: Callable[[Measurement], Key]) -> dict[Key, Measurement]:
    """The measurement that counts for each key, in the order of the keys. Datasets not in the paper are left out."""
    best: dict[Key, Measurement] = {}
    for found in map(Measurement.read, lines):
        if found.dataset not in DATASETS or not found.test:
            continue
        if key(found) not in best or len(found.test) >= len(best[key(found)].test):
            best[key(found)] = found
    return dict(sorted(best.items(), key=lambda item: str(item[0])))


def _with_base(
    ablation: dict[tuple[str, str], Measurement], table: Mapping[tuple[str, str], Measurement]
) -> dict[tuple[str, str], Measurement]:
    """Where the ablation did not measure its base, that is the row of the table whose settings its ideas change."""
    base = {(BASE, found.dataset): table.get((found.row, found.dataset)) for found in ablation.values()}
    return {key: found for key, found in base.items() if found is not None} | ablation


# -- beside the paper ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deviation:
    """A mean more than one published standard deviation away from the published mean."""

    row: str
    dataset: str
    ours: float
    paper: Published
    note: str | None

    @property
    def difference(self) -> float:
        return self.ours - self.paper.mean

    @property
    def is_below(self) -> bool:
        return self.difference < 0


def deviations(findings: Findings, notes: Mapping[str, str]) -> list[Deviation]:
    """In the order of the table. A note under "row.dataset" goes before one under "row"."""
    found = []
    for row in ROWS:
        for dataset in DATASETS:
            ours, paper = findings.table.get((row, dataset)), PUBLISHED.get((row, dataset))
            if ours is None or paper is None or abs(ours.mean - paper.mean) <= paper.sd:
                continue
            found.append(Deviation(row, dataset, ours.mean, paper, notes.get(f"{row}.{dataset}", notes.get(row))))
    return found


# -- beside each other --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contest:
    """A row against another on the splits that both were measured on; positive differences are in its favour.

    `p` is of the two-sided Wilcoxon signed-rank test, `corrected` after Holm over the rivals on this dataset; both are
    None where fewer than two splits can be paired. `difference` is None where none can.
    """

    challenger: str
    rival: str
    dataset: str
    pairs: int
    difference: float | None
    wins: int
    losses: int
    ties: int
    p: float | None
    corrected: float | None = None

    @property
    def is_significant(self) -> bool:
        return self.corrected is not None and self.corrected < SIGNIFICANT


def paired_differences(ours: Measurement, theirs: Measurement) -> list[float]:
    """Ours less theirs on every split that both have, known by its mark and never by its place.

    >>> ours = Measurement.read({"test": [80, 70], "splits": ["a", "b"]})
    >>> theirs = Measurement.read({"test": [69, 50], "splits": ["b", "c"]})
    >>> paired_differences(ours, theirs)
    [1.0]
    """
    other = dict(zip(theirs.marks, theirs.test, strict=True))
    both = [(mine, other[mark]) for mark, mine in zip(ours.marks, ours.test, strict=True) if mark in other]
    return [round(mine - rival, DIGITS) for mine, rival in both]


def signed_rank_p(differences: Sequence[float]) -> float | None:
    """The two-sided p of Wilcoxon's test. Half of the zeros' ranks goes to either side; nothing but zeros gives 1.

    >>> signed_rank_p([1, 2, 3, 4, 5, 6])
    0.03125
    >>> signed_rank_p([0, 0, 0]), signed_rank_p([1])
    (1.0, None)
    """
    if len(differences) < 2:
        return None
    if not any(differences):
        return 1.0
    sizes = np.abs(differences)
    # The tables of scipy's exact test know neither zeros nor equal sizes.
    if sizes.all() and len(set(sizes.tolist())) == len(sizes):
        return float(stats.wilcoxon(differences, method="exact").pvalue)
    if len(sizes) > MOST_COUNTED:
        return float(stats.wilcoxon(differences, zero_method="zsplit", correction=True).pvalue)
    return _counted_p(np.asarray(differences, float))


def _counted_p(differences: NDArray[np.float64]) -> float:
    """The same from all 2^n signs the differences might have had. Scipy does so too, but takes seconds for a test."""
    ranks = stats.rankdata(np.abs(differences))
    places = np.flatnonzero(differences)  # zeros add half their ranks to either side, whatever the signs
    signs = (np.arange(2 ** len(places))[:, None] >> np.arange(len(places))) & 1
    sums, ours = signs @ ranks[places], ranks[differences > 0].sum()
    return min(1.0, 2 * min(float((sums <= ours).mean()), float((sums >= ours).mean())))


def holm(chances: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the i-th smallest of m times m − i + 1, never falling, at most 1.

    >>> holm([0.01, 0.25, 0.125])
    [0.03, 0.25, 0.25]
    """
    corrected, reached = [0.0] * len(chances), 0.0
    for place, index in enumerate(sorted(range(len(chances)), key=lambda index: chances[index])):
        reached = max(reached, min(1.0, (len(chances) - place) * chances[index]))
        corrected[index] = reached
    return corrected


def contests(findings: Findings, challenger: str) -> list[Contest]:
    """A row against every other row that was measured, dataset by dataset."""
    found = []
    for dataset in DATASETS:
        ours = findings.table.get((challenger, dataset))
        rivals = [findings.table.get((row, dataset)) for row in findings.rows if row != challenger]
        if ours is not None:
            found += _corrected([_contest(ours, theirs) for theirs in rivals if theirs is not None])
    return found


def _contest(ours: Measurement, theirs: Measurement) -> Contest:
    differences = paired_differences(ours, theirs)
    signs = Counter(int(np.sign(difference)) for difference in differences)
    return Contest(
        challenger=ours.row,
        rival=theirs.row,
        dataset=ours.dataset,
        pairs=len(differences),
        difference=_mean(differences),
        wins=signs[1],
        losses=signs[-1],
        ties=signs[0],
        p=signed_rank_p(differences),
    )


def _corrected(found: list[Contest]) -> list[Contest]:
    chances = iter(holm([contest.p for contest in found if contest.p is not None]))
    return [
        contest if contest.p is None else Contest(**{**vars(contest), "corrected": next(chances)}) for contest in found
    ]


# -- ideas --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """An idea on one dataset. Differences to the base are over the splits that both were measured on."""

    validation: float | None
    test: float
    validation_difference: float | None
    test_difference: float | None


@dataclass(frozen=True)
class Idea:
    """What was tried beside the base, and what came of it on each dataset."""

    name: str
    about: str
    trials: dict[str, Trial]

    @property
    def validation_difference(self) -> float | None:
        return _mean(trial.validation_difference for trial in self.trials.values())

    @property
    def test_difference(self) -> float | None:
        return _mean(trial.test_difference for trial in self.trials.values())


def ideas(findings: Findings) -> list[Idea]:
    """The base, then every idea, the largest mean validation difference first.

    Those that were measured on fewer datasets than others come after them: their means tell of less. Of equals, those
    without a difference are last.
    """
    found = []
    for name in dict.fromkeys(name for name, _ in findings.ablation):
        lines = {d: findings.ablation[name, d] for d in DATASETS if (name, d) in findings.ablation}
        about = next((str(each.line["about"]) for each in lines.values() if each.line.get("about")), "")
        trials = {d: _trial(each, findings.ablation.get((BASE, d))) for d, each in lines.items()}
        found.append(Idea(name, about, trials))
    most = max((len(idea.trials) for idea in found), default=0)
    return sorted(found, key=lambda idea: _rank(idea, most))


def _rank(idea: Idea, most: int) -> tuple[bool, bool, float, str]:
    difference = idea.validation_difference
    return idea.name != BASE, len(idea.trials) < most, math.inf if difference is None else -difference, idea.name


def _trial(ours: Measurement, base: Measurement | None) -> Trial:
    by_validation, by_test = None, None
    if base is not None:
        by_test = _mean(paired_differences(ours, base))
        if ours.validation and base.validation:
            by_validation = _mean(paired_differences(_on_validation(ours), _on_validation(base)))
    return Trial(ours.validation_mean, ours.mean, by_validation, by_test)


def _on_validation(found: Measurement) -> Measurement:
    return Measurement(**{**vars(found), "test": found.validation})


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), DIGITS) if known else None
