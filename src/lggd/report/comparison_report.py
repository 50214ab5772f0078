"""What the page of a comparison shows: plain numbers and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ComparedMethod:
    """A method over all splits: accuracies in %, times in seconds, memory in bytes, None where unknown.

    `curve` are pairs of a number of training labels and the mean accuracy, `reliability` pairs of the probability of
    the predicted class and the accuracy, both in %.
    """

    name: str
    title: str
    accuracies: Sequence[float]
    mean: float
    sd: float | None
    macro_f1: float
    calibration_error: float | None
    seconds: float
    memory: int | None
    difference: float | None
    corrected_p: float | None
    verdict: str
    curve: Sequence[tuple[float, float]] = ()
    reliability: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class ComparisonReport:
    """A comparison as a page shows it. `created` is a time in ISO format; `facts` are counts by name.

    `failed` and `skipped` give a reason for each method that is not among `methods`, the most accurate of which is
    first.
    """

    dataset: str
    protocol: str
    recommendation: str
    recommended: str | None
    methods: Sequence[ComparedMethod]
    facts: Mapping[str, str]
    created: str
    version: str
    machine: str
    failed: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
