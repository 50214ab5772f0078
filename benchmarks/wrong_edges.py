"""`python -m benchmarks.wrong_edges [METHOD …] [--splits 10] [--device cpu] [--out FOLDER]`: accuracy with wrong edges.

To Cora are added 10, 50, 100 and 200 % of its number of edges: random ones, or edges that join unlike classes on
purpose. Methods are those of `lggd run`, with default settings. Every line of results/wrong-edges.jsonl is one method
on one kind and number of wrong edges; what is there is not measured again. `--draw` only draws docs/wrong-edges.png.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import lggd
from lggd.app.comparison.results import machine
from lggd.app.runs.methods import METHODS, build_model

RESULTS = Path(__file__).parent.parent / "results"
FIGURE = Path(__file__).parent.parent / "docs" / "wrong-edges.png"
DATASET, PERCENT, KINDS = "cora", (0, 10, 50, 100, 200), ("random", "unlike")
TITLES = {"random": "random edges", "unlike": "edges between unlike classes"}
DRAWN = {
    "lggd-plus": "LGGD+", "evolved-ridge": "kernel ridge, evolved", "gdc-ppr": "GDC (PPR)", "appnp": "APPNP",
    "gpr-gnn": "GPR-GNN", "gcn-plus": "GCN+", "gcn": "GCN", "mlp": "MLP",
    "lggd": "LGGD", "label-propagation": "label propagation",
}  # fmt: skip
# Lines without a title have the names that methods had when they were measured.
RENAMED = {"lggd": "evolved-ridge", "lggd-trained": "lggd"}
Line = dict[str, Any]


def wrong_edges(edge_index: Tensor, y: Tensor, count: int, unlike: bool, generator: torch.Generator) -> Tensor:
    """The edges and `count` new ones, in both directions, between any two nodes or those of different classes."""
    size = len(y)
    known = set((edge_index[0] * size + edge_index[1]).tolist())
    added: list[tuple[int, int]] = []
    while len(added) < count:
        pairs = torch.randint(size, (2, count), generator=generator)
        keep = (y[pairs[0]] != y[pairs[1]]) if unlike else (pairs[0] != pairs[1])
        for i, j in pairs[:, keep].t().tolist():
            if len(added) < count and i * size + j not in known:
                known |= {i * size + j, j * size + i}
                added.append((i, j))
    new = torch.tensor(added, dtype=torch.int64).reshape(-1, 2).t()
    return torch.cat([edge_index, new, new.flip(0)], dim=1)


def damaged(split: int, kind: str, percent: int) -> Any:
    """One split of the dataset with wrong edges."""
    data, generator = lggd.load(DATASET, split=split), torch.Generator().manual_seed(split)
    count = data.edge_index.shape[1] // 2 * percent // 100
    data.edge_index = wrong_edges(data.edge_index, data.y, count, kind == "unlike", generator)
    return data


def measure(method: str, kind: str, percent: int, splits: int, device: str) -> Line:
    """The test accuracy (%) of a method on every split."""
    test = []
    for split in range(splits):
        data = damaged(split, kind, percent).to(device)
        test.append(100 * build_model(method, seed=split).fit(data).score(data))
    about: Line = {"experiment": "wrong-edges", "dataset": DATASET, "edges": kind, "percent": percent}
    return {
        **about,
        "method": method,
        "title": METHODS[method].title,
        "test": test,
        "device": device,
        "machine": machine(device),
    }


def conditions() -> Iterator[tuple[str, int]]:
    """The graph as it is, and with every kind and number of wrong edges."""
    for percent in PERCENT:
        for kind in KINDS if percent else KINDS[:1]:
            yield kind, percent


def read(path: Path) -> dict[tuple[str, str, int], Line]:
    """The lines of a file by method, kind and number of wrong edges."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    measured = [json.loads(line) for line in lines]
    for line in measured:
        if "title" not in line:
            line["method"] = RENAMED.get(line["method"], line["method"])
    return {(line["method"], line["edges"], line["percent"]): line for line in measured}


def draw(lines: dict[tuple[str, str, int], Line], path: Path) -> None:
    """Mean accuracy over the number of wrong edges, one panel per kind."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for kind, panel in zip(KINDS, panels, strict=True):
        for method, title in DRAWN.items():
            keys = [(method, kind if percent else KINDS[0], percent) for percent in PERCENT]
            points = [(key[2], statistics.mean(lines[key]["test"])) for key in keys if key in lines]
            ours = method in ("lggd-plus", "evolved-ridge")
            panel.plot(*zip(*points, strict=True), marker="o", ms=3, lw=2.2 if ours else 1, label=title)
        panel.set(xlabel="wrong edges (% of the true ones)", title=TITLES[kind])
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("test accuracy (%)")
    panels[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(path, dpi=150)


def table(lines: dict[tuple[str, str, int], Line]) -> str:
    """One row per method, one column per kind and number of wrong edges."""
    columns = list(conditions())
    text = ["| | " + " | ".join(f"+{percent} % {kind}" for kind, percent in columns) + " |"]
    text.append("|---" * (len(columns) + 1) + "|")
    for method in dict.fromkeys(key[0] for key in lines):
        cells = [lines.get((method, *column)) for column in columns]
        means = ["–" if cell is None else f"{statistics.mean(cell['test']):.1f}" for cell in cells]
        text.append(f"| {METHODS[method].title} | " + " | ".join(means) + " |")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wrong_edges", description=__doc__)
    parser.add_argument("methods", nargs="*", metavar="METHOD", help="default: all")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--draw", action="store_true", help="only draw what was measured")
    arguments = parser.parse_args()
    path = arguments.out / "wrong-edges.jsonl"
    if not arguments.draw:
        for method in arguments.methods or METHODS:
            for kind, percent in conditions():
                if (method, kind, percent) not in read(path):
                    line = measure(method, kind, percent, arguments.splits, arguments.device)
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
    lines = read(path)
    draw(lines, FIGURE)
    print(table(lines))


if __name__ == "__main__":
    main()
