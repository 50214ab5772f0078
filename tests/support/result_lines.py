"""Lines of results as the runner writes them, for tests of the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from lggd.app.comparison.results import Results
from reproduction.measurements import BASE_VARIANT, DATASETS, ROWS, Measurements, read_measurements

Line = dict[str, Any]
MEANS = {
    "01": (75, 62, 83, 86, 91), "02": (73, 65, 81, 82, 89), "03": (73, 66, 82, 82, 89), "04": (73, 67, 83, 85, 91.5),
    "05": (72, 67.5, 80, 84, 91), "06": (78, 66, 83, 81, 89), "07": (79, 67, 81, 83, 90), "08": (70, 44, 77, 79, 86),
    "09": (80, 67, 84, 85, 92), "10": (81, 68, 84, 85.5, 92.5), "11": (79.5, 67, 84, 83, 91.5),
    "12": (76, 66, 82, 83, 92),
    "13": (74, 64, 82, 85, 90), "14": (82, 70, 85, 88, 93),
}  # fmt: skip


def line(row: str, dataset: str, mean: float, count: int = 10, **more: Any) -> Line:
    """A line whose accuracies have this mean, with differences between splits that depend on the row."""
    number, *retrained = row.split()
    steps = np.random.default_rng(int(number)).permutation(count) - (count - 1) / 2
    test = [round(mean + 0.1 * step, 6) for step in steps]
    return {
        "row": row, "name": ", ".join([ROWS[number], *retrained]), "slug": f"row{number}", "dataset": dataset,
        "backbone": "gcn", "seed": 0, "val": [value - 1 for value in test], "test": test,
        "splits": [f"{dataset}{n}" for n in range(count)], "split_hash": f"{dataset}-{count}", "seconds": 2.0,
        "device": "cuda", "machine": {"cpu": "C", "gpu": "G"}, "versions": {"torch": "2.9"},
        "when": "2025-01-01T00:00:00+00:00", **more,
    }  # fmt: skip


def all_lines() -> dict[str, list[Line]]:
    """Everything measured; all acceptance checks pass except row 01 on CiteSeer."""
    table = [line(row, d, mean) for row, means in MEANS.items() for d, mean in zip(DATASETS, means, strict=True)]
    gains = {"01": 0, "09": 1, "14": 2}
    backbones = [
        line(row, dataset, 80 + gain, backbone=backbone)
        for (row, gain), dataset, backbone in product(gains.items(), DATASETS, ("gat", "chebnet", "jknet"))
    ]
    dynamic = [
        line(row, dataset, 70 + n, additions=n)
        for row, dataset, n in product(("09", "14", "09 retrained"), ("cora", "citeseer", "pubmed"), range(4))
    ]
    variants = {BASE_VARIANT: 0.0, "good": 1.5, "failed | badly": -2.0}
    ablation = [
        line("14", dataset, 80 + gain, variant=variant)
        for (variant, gain), dataset in product(variants.items(), DATASETS)
    ]
    changes = [{"p": p, "extra_edges": n, "mean": 0.1, "each": [0.1]} for p in (1.0, "inf") for n in (10, 100)]
    robustness = [{"change": changes, "figure": "figures/robustness.png", "seconds": 1.0}]
    geodesic = [{"distance": 123.5, "seconds": 1.0}]
    return {
        "table1": table, "backbones": backbones, "dynamic": dynamic, "ablation": ablation, "robustness": robustness,
        "geodesic": geodesic,
    }  # fmt: skip


def changed(row: str, dataset: str, mean: float, **more: Any) -> Callable[[Line], Line]:
    """A function that gives one line another mean and leaves the others alone."""

    def change(each: Line) -> Line:
        wanted = {"row": row, "dataset": dataset, **more}
        return line(row, dataset, mean, **more) if all(each.get(k) == v for k, v in wanted.items()) else each

    return change


def written(folder: Path, lines: dict[str, list[Line]]) -> Path:
    """The results folder with these lines by experiment."""
    folder.mkdir(exist_ok=True)
    for experiment, group in lines.items():
        texts = [json.dumps({"experiment": experiment, **each}) for each in group]
        (folder / f"{experiment}.jsonl").write_text("".join(f"{text}\n" for text in texts))
    return folder


def lines_of(folder: Path, experiment: str = "table1") -> list[Line]:
    """The lines of a results folder, all of them complete."""
    lines, incomplete = Results(folder).lines(experiment)
    assert incomplete == 0
    return lines


def measured(folder: Path, lines: dict[str, list[Line]]) -> Measurements:
    return read_measurements(written(folder, lines))
