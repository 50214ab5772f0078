"""`python -m benchmarks.uncertainty [DATASET …] [--splits 10] [--out FOLDER]`: wrong labels found, labels asked for.

Every line of results/uncertainty.jsonl is one split: a tenth of the given labels is made wrong, and `found` of those
`wrong` ones are in the first 15 % of `suspicious_labels`; and the accuracy (%) on the same nodes `before` and after 20
more labels: those of `suggest`, those of the smallest margin, or random ones.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import lggd
from lggd.closed_form.uncertainty import margins

DATASETS = ("digits", "cora", "citeseer")
RESULTS = Path(__file__).parent.parent / "results"
WRONG, FIRST, ADDED = 0.1, 0.15, 20
WAYS = ("before", "random", "margin", "suggested")
Line = dict[str, Any]


def suspicious(name: str, split: int) -> Line:
    """How many of the labels that were made wrong are among the most suspicious."""
    data, draws = lggd.load(name, split=split), torch.Generator().manual_seed(1000 + split)
    nodes = data.train_mask.nonzero().squeeze(1)
    wrong = nodes[torch.randperm(len(nodes), generator=draws)[: round(WRONG * len(nodes))]]
    shift = torch.randint(1, data.num_classes, wrong.shape, generator=draws)
    data.y[wrong] = (data.y[wrong] + shift) % data.num_classes
    found = lggd.KernelRidge(seed=split).fit(data).suspicious_labels()
    first = torch.isin(found.nodes, wrong)[: round(FIRST * len(nodes))]
    return {"labels": len(nodes), "wrong": len(wrong), "found": int(first.sum())}


def suggested(name: str, split: int) -> Line:
    """The accuracy before and after more labels, on the nodes that none of the ways would label."""
    data, draws = lggd.load(name, split=split), torch.Generator().manual_seed(split)
    model = lggd.KernelRidge(seed=split).fit(data)
    unlabelled = (model.labels_ < 0).nonzero().squeeze(1)
    margin = margins(model.predict_proba())[unlabelled]
    began = time.perf_counter()
    chosen: dict[str, Tensor] = {"suggested": model.suggest(ADDED)}
    milliseconds = round(1e3 * (time.perf_counter() - began), 1)
    chosen["random"] = unlabelled[torch.randperm(len(unlabelled), generator=draws)[:ADDED]]
    chosen["margin"] = unlabelled[margin.argsort(stable=True)[:ADDED]]
    test = model.labels_ < 0
    test[torch.cat(list(chosen.values()))] = False
    line: Line = {"before": model.score(data, test)}
    for way, nodes in chosen.items():
        line[way] = copy.deepcopy(model).add_labels(nodes, data.y[nodes]).score(data, test)
    return {**{way: round(100 * value, 3) for way, value in line.items()}, "milliseconds": milliseconds}


def summary(lines: list[Line]) -> str:
    text = ["| dataset | wrong labels found | " + " | ".join(WAYS) + " | ms |", "|---" * (len(WAYS) + 3) + "|"]
    for name in dict.fromkeys(line["dataset"] for line in lines):
        own = [line for line in lines if line["dataset"] == name]
        found, wrong = (sum(line[key] for line in own) for key in ("found", "wrong"))
        scores = [f"{statistics.mean(line[way] for line in own):.2f}" for way in WAYS]
        milliseconds = f"{statistics.median(line['milliseconds'] for line in own):.0f}"
        text.append(
            " | ".join([f"| {name}", f"{found} of {wrong}: {100 * found / wrong:.0f} %", *scores, milliseconds]) + " |"
        )
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.uncertainty", description=__doc__)
    parser.add_argument("datasets", nargs="*", metavar="DATASET", help=f"default: {', '.join(DATASETS)}")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    lines = [
        {"dataset": name, "split": split, **suspicious(name, split), **suggested(name, split)}
        for name in chosen.datasets or DATASETS
        for split in range(chosen.splits)
    ]
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "uncertainty.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(summary(lines))


if __name__ == "__main__":
    main()
