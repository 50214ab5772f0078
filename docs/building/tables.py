"""Tables of the pages that are made of the measurements in results/, so that they cannot go stale.

A page has `<!-- table: NAME -->` and `<!-- end -->` around such a table. `python docs/building/tables.py` writes them
again; a test compares.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from lggd.app.runs.methods import METHODS as KNOWN
from lggd.app.runs.methods import build_model

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))
from benchmarks import wrong_edges  # noqa: E402
from reproduction.measurements import BACKBONES, DATASETS, PUBLISHED, ROWS, Measurements, read_measurements  # noqa: E402

RESULTS, DOCS = ROOT / "results", ROOT / "docs"
PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)

# Row of the table → name of the method for the command line, and a remark.
METHODS = {
    "24": ("lggd-plus", ""), "22": ("kernel-ridge", ", the default"), "23": ("evolved-ridge", ""),
    "21": ("gcn-plus", ""),
    "17": ("appnp", ""), "07": ("gdc-ppr", ""), "11": ("gpr-gnn", ""), "01": ("gcn", ""), "16": ("sgc", ""),
    "09": ("lggd", ", as in the paper"), "18": ("label-propagation", ""), "08": ("ggd", ""),
    "15": ("mlp", ", no edges"),
}  # fmt: skip
# What is measured in results/speed-cpu.json, and how people would say it: name, columns of "what".
SPEED = {
    "distance, p = 1: 20 thousand / 200 thousand / 2 million nodes": [
        "marching p=1, d20k", "marching p=1, d200k", "marching p=1, d2M",
    ],
    "distance, p = 2, 20 thousand nodes": ["marching p=2, d20k"],
    "distance, p = 3, 20 thousand nodes": ["marching p=3, d20k"],
    "ten classes at once, p = 1": ["ten classes, p=1, d20k"],
    "shortest paths, unweighted: the same three graphs": [f"p=inf unweighted, {d}" for d in ("d20k", "d200k", "d2M")],
    "shortest paths, weighted": [f"p=inf weighted, {d}" for d in ("d20k", "d200k", "d2M")],
    "grid of a million pixels, p = 2": ["grid 1000 x 1000, p=2"],
    "right-hand side: 1 million edges, 10 columns / 10 million, 100": [
        "right-hand side, d20k, K=10", "right-hand side, d200k, K=100",
    ],
    "evolution, 100 RK4 steps, 10 columns": ["forward"],
    "… its gradient": ["gradient (start and potential)"],
    "one training epoch on Cora, settings of the authors' code": ["release's settings"],
    "new labels to new predictions, PubMed": ["add_labels and predict"],
}  # fmt: skip
PEERS = {
    "graphlearning fmm": "graphlearning", "SciPy dijkstra(min_only)": "SciPy", "scikit-fmm order 1": "scikit-fmm",
    "torch scatter_add": "torch's scatter_add", "torchdiffeq rk4, scatter": "torchdiffeq over scatter",
    "odeint_adjoint, scatter": "torchdiffeq's adjoint over scatter",
    "odeint_adjoint rk4, scatter": "torchdiffeq's adjoint over scatter",
    "retraining the GCN, 351 epochs": "training a GCN again",
}  # fmt: skip


def robustness() -> str:
    """Relative change of distances by exponent and number of wrong edges."""
    changes = _lines("robustness")[-1]["change"]
    numbers = sorted({one["extra_edges"] for one in changes})
    mean = {(str(one["p"]), one["extra_edges"]): one["mean"] for one in changes}
    names = {"1.0": "p = 1", "inf": "p = ∞, the shortest path"}
    rows = [[name, *(f"{100 * mean[p, n]:.2g} %" for n in numbers)] for p, name in names.items()]
    return _table(["", *(f"n = {n:,}" for n in numbers)], rows)


def methods() -> str:
    """Accuracy of the methods on the paper's datasets, with wrong edges, and what they need."""
    table, wrong = _measurements().table1, {}
    for line in wrong_edges.read(RESULTS / "wrong-edges.jsonl").values():
        if (line["edges"], line["percent"]) == ("random", 100):
            wrong[line["method"]] = fmean(line["test"])
    rows = []
    for row, (method, remark) in METHODS.items():
        means = [table[row, dataset].mean for dataset in DATASETS]
        needs = "x" if KNOWN[method].needs_features else "–"
        takes = "yes" if build_model(method).accepts_labels else "no"
        numbers = [fmean(means), *means, wrong[method]]
        rows.append([f"`{method}`{remark}", *(f"{number:.1f}" for number in numbers), needs, takes])
    head = ["`--method`", "mean", *DATASETS.values(), "wrong edges", "needs", "new labels"]
    return _table(head, rows)


def exponents() -> str:
    """Robustness, time and accuracy by exponent."""
    changes = {(str(one["p"]), one["extra_edges"]): one["mean"] for one in _lines("robustness")[-1]["change"]}
    speed = _speed()
    times = {
        "1": "marching p=1, d20k",
        "2": "marching p=2, d20k",
        "3": "marching p=3, d20k",
        "∞": "p=inf unweighted, d20k",
    }
    accuracy = {
        p: fmean(
            fmean(one["test"])
            for one in _lines("distances-pay")
            if not one["x"] and one["model"] == f"LGGD.solved p={p}"
        )
        for p in ("1", "2", "inf")
    }
    rows = []
    for p, what in times.items():
        key = {"1": "1.0", "∞": "inf"}.get(p)
        change = f"{100 * changes[key, 100]:.2g} %" if key else "–"
        mean = accuracy.get("inf" if p == "∞" else p)
        rows.append([p, change, f"{speed[what]['ours']:.1f} ms", f"{mean:.2f}" if mean else "–"])
    head = ["p", "change by 100 wrong edges", "a distance, 20 thousand nodes", "accuracy (%) without node features"]
    return _table(head, rows)


def solvers() -> str:
    """Times of the solvers beside other packages."""
    rows = []
    for what, name in (
        ("marching p=1, d20k", "`FastMarching()`, p = 1, 20 thousand nodes"),
        ("marching p=1, d2M", "`FastMarching()`, p = 1, 2 million nodes"),
        ("marching p=3, d20k", "`FastMarching()`, p = 3, 20 thousand nodes"),
        ("p=inf unweighted, d2M", "`Dijkstra()`, equal lengths, 2 million nodes"),
        ("p=inf weighted, d2M", "`Dijkstra()`, weights, 2 million nodes"),
    ):
        row = _speed()[what]
        rows.append(
            [name, f"{row['ours']:,.1f} ms", f"{PEERS.get(row['against'], row['against'])}: {row['peer']:,.0f} ms"]
        )
    return _table(["solver", "time", "compared with"], rows)


def potentials() -> str:
    """What the choice of the potential is worth: the row with a learned one, and the exponents chosen by validation."""
    table = _measurements().table1
    rows = [
        [name, *(f"{table[row, dataset].mean:.1f}" for dataset in DATASETS)]
        for row, name in (("09", "`DegreePotential(alpha)`, α by validation"), ("10", "… and `LearnedPotential()`"))
    ]
    alphas = [f"{table['08', dataset].line['config']['alpha']:g}".replace("-", "−") for dataset in DATASETS]
    rows.append(["α that validation chose for `GGD`", *alphas])
    return _table(["", *DATASETS.values()], rows)


def backbones() -> str:
    """Accuracy of the backbones on node features and on distances."""
    measured = _measurements()
    rows = []
    for key, name in BACKBONES.items():
        for row, features in (("01", "x"), ("14", "trained LGGD+")):
            means = [measured.with_backbone(row, dataset, key).mean for dataset in DATASETS]  # type: ignore[union-attr]
            rows.append([f"`{name}()`", features, f"{fmean(means):.1f}", *(f"{mean:.1f}" for mean in means)])
    return _table(["backbone", "input", "mean", *DATASETS.values()], rows)


def paper() -> str:
    """The paper's Table 1: ours, and theirs in parentheses."""
    table, rows = _measurements().table1, []
    for row, name in ROWS.items():
        if (row, "cora") not in PUBLISHED:
            continue
        cells = []
        for dataset in DATASETS:
            ours, theirs = table[row, dataset].mean, PUBLISHED.get((row, dataset))
            shown = "out of memory" if theirs is None else f"{theirs.mean:.1f}"
            mark = " ▼" if theirs is not None and ours < theirs.mean - theirs.sd else ""
            cells.append(f"{ours:.1f} ({shown}){mark}")
        rows.append([f"{row} {name}", *cells])
    return _table(["row", *DATASETS.values()], rows)


def speed() -> str:
    """How much faster than other packages, on a CPU."""
    rows = []
    for name, parts in SPEED.items():
        timings = [_speed()[part] for part in parts]
        ratios = " / ".join(f"{_ratio(one['peer'] / one['ours'])} ×" for one in timings)
        missed = any(one["bar"] and one["peer"] / one["ours"] < one["bar"] for one in timings)
        rows.append(
            [
                name,
                PEERS.get(timings[0]["against"], timings[0]["against"]),
                f"{ratios}{', below its target' if missed else ''}",
            ]
        )
    return _table(["", "compared with", "faster by"], rows)


TABLES: dict[str, Callable[[], str]] = {
    one.__name__: one for one in (robustness, methods, exponents, solvers, potentials, backbones, paper, speed)
}


def with_tables(text: str) -> str:
    """Returns a page with its tables made again."""
    return PLACE.sub(lambda place: f"{place[1]}\n{TABLES[place[2]]()}\n{place[3]}", text)


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


@cache
def _measurements() -> Measurements:
    return read_measurements(RESULTS)


@cache
def _lines(experiment: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / f"{experiment}.jsonl").read_text(encoding="utf-8").splitlines()]


@cache
def _speed() -> dict[str, dict[str, Any]]:
    tables = json.loads((RESULTS / "speed-cpu.json").read_text(encoding="utf-8"))["tables"]
    # Of rows with the same text the first counts; those of the sections that the tables show are distinct.
    return {row["what"]: row for table in reversed(tables) for row in reversed(table["rows"])}


def main() -> None:
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if with_tables(text) != text:
            page.write_text(with_tables(text), encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
