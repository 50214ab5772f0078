"""`python -m benchmarks.accuracy EXPERIMENT … [--device cuda] [--splits 10]`: test accuracy.

Every line of a file in results/accuracy/ is one split: dataset, method, validation and test accuracy (%), seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import lggd
from lggd import GCN, LGGD, LGGDClassifier

PAPER = ("cora", "citeseer", "pubmed", "computers", "photo")
RESULTS = Path(__file__).parent.parent / "results" / "accuracy"
Line = dict[str, Any]


def measured(model: LGGDClassifier, data: Any) -> Line:
    """Fits the model; returns its validation and test accuracy and the seconds of training."""
    began = time.perf_counter()
    model.fit(data)
    curve = model.history_.get("backbone", {}).get("validation_accuracy")
    seconds = time.perf_counter() - began
    validation = None if curve is None else round(100 * max(curve), 3)
    return {"validation": validation, "test": round(100 * model.score(data), 3), "seconds": round(seconds, 2)}


def rows(make: Callable[[], dict[str, LGGDClassifier]], name: str, split: int, device: str) -> Iterator[Line]:
    data = lggd.load(name, split=split).to(device)
    for method, model in make().items():
        yield {"dataset": name, "split": split, "method": method, **measured(model, data)}


def digits(datasets: list[str], splits: int, device: str) -> Iterator[Line]:
    """Five labels per class: other methods, a GCN alone, and a GCN on learned distances."""
    for split in range(splits):
        yield from peer_lines(split)
        yield from rows(
            lambda: {
                "GCN": LGGDClassifier(None, GCN()),
                "GGD, nearest class": LGGDClassifier(lggd.GGD(), backbone=None),
                "LGGD, nearest class": LGGDClassifier(LGGD(), backbone=None),
                "LGGD + GCN": LGGDClassifier(),
            },
            "digits",
            split,
            device,
        )


def peer_lines(split: int) -> Iterator[Line]:
    """Methods of scikit-learn on pixels scaled to [0, 1], where they are more accurate than on standardized ones."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import LabelSpreading

    data, x = lggd.load("digits", split=split), load_digits().data / 16
    y, train, test = (value.numpy() for value in (data.y, data.train_mask, data.test_mask))
    known = y.copy()
    known[test] = -1
    for method, model, seen in (
        ("logistic regression", LogisticRegression(max_iter=1000), train),
        ("LabelSpreading, 10 neighbours", LabelSpreading(kernel="knn", n_neighbors=10), train | test),
    ):
        score = model.fit(x[seen], known[seen]).score(x[test], y[test])
        yield {"dataset": "digits", "split": split, "method": method, "validation": None, "test": round(100 * score, 3)}


def release(datasets: list[str], splits: int, device: str) -> Iterator[Line]:
    """The settings of the authors' code, to compare with what they and others measured."""
    for split in range(splits):
        yield from rows(
            lambda: {"LGGD + GCN, preset release": LGGDClassifier(features=LGGD.release())},
            "cora",
            split,
            device,
        )


def defaults(datasets: list[str], splits: int, device: str) -> Iterator[Line]:
    """The default settings on the paper's datasets, compared with the backbone alone."""
    for name in datasets or PAPER:
        for split in range(splits):
            yield from rows(
                lambda: {"GCN": LGGDClassifier(None, GCN()), "LGGD + GCN": LGGDClassifier()},
                name,
                split,
                device,
            )


def dynamic(datasets: list[str], splits: int, device: str) -> Iterator[Line]:
    """10 % of the labels are added three times, without retraining (paper, Figure 5)."""
    for name in datasets or PAPER[:3]:
        for split in range(splits):
            data = lggd.load(name, split=split, dynamic=True).to(device)
            model = LGGDClassifier().fit(data)
            line = {"dataset": name, "split": split, "method": "LGGD + GCN", "validation": None}
            yield {**line, "additions": 0, "test": round(100 * model.score(data), 3)}
            for k in range(3):
                new = data.new_mask[:, k]
                began = time.perf_counter()
                model.add_labels(new, data.y[new]).predict()
                milliseconds = round(1e3 * (time.perf_counter() - began), 1)
                test = round(100 * model.score(data), 3)
                yield {**line, "additions": k + 1, "test": test, "milliseconds": milliseconds}


EXPERIMENTS = {"digits": digits, "release": release, "defaults": defaults, "dynamic": dynamic}


def summary(lines: list[Line]) -> str:
    """Mean ± standard deviation over the splits, one row per dataset and method."""
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["dataset"], line["method"], line.get("additions", "")), []).append(line)
    text = ["| dataset | method | additions | splits | validation | test |", "|---" * 6 + "|"]
    for (dataset, method, additions), found in groups.items():
        test = [line["test"] for line in found]
        spread = statistics.stdev(test) if len(test) > 1 else 0.0
        validated = [line["validation"] for line in found if line["validation"] is not None]
        validation = f"{statistics.mean(validated):.2f}" if validated else ""
        score = f"{statistics.mean(test):.2f} ± {spread:.2f}"
        text.append(f"| {dataset} | {method} | {additions} | {len(test)} | {validation} | {score} |")
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT", help=f"one or more of {', '.join(EXPERIMENTS)}; default: all"
    )
    parser.add_argument("--datasets", nargs="*", default=[], help="only these datasets of the paper")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.experiments or EXPERIMENTS:
        path = chosen.out / ("-".join([name, *chosen.datasets]) + ".jsonl")
        lines = []
        with path.open("w") as file:
            for line in EXPERIMENTS[name](chosen.datasets, chosen.splits, chosen.device):
                lines.append({**line, "device": chosen.device, "torch": torch.__version__})
                file.write(json.dumps(lines[-1]) + "\n")
                file.flush()
        print(f"{name}\n{summary(lines)}", flush=True)
    write_page(chosen.out)


def write_page(folder: Path) -> None:
    """Writes all result files of the folder as tables to one page next to it."""
    text = [
        "# Accuracy",
        "",
        "Test accuracy (%), mean ± standard deviation over the splits, with default settings, the same for all",
        "datasets unless stated. All splits are in `accuracy/`; `python -m benchmarks.accuracy` measures them again.",
    ]
    for path in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        about = " ".join((EXPERIMENTS[path.stem.split("-")[0]].__doc__ or "").split())
        text += ["", f"## {path.stem}", "", about, "", summary(lines).rstrip()]
    (folder.parent / "accuracy.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
