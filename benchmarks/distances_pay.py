"""`python -m benchmarks.distances_pay [GRAPH …] [--draws 10] [--out FOLDER]`: where do distances pay?

On graphs without node features (stochastic block models of several strengths, karate, and datasets whose x is
dropped), on neighbourhood graphs of points (scikit-learn's), and on Cora with wrong edges: the kernel ridge alone, the
distances that start there (p = 1, 2, ∞; time 0, no evolution, may be chosen), the distances alone with and without
learned edge weights, and the kernel ridge with distances as one more block of its mixture. Ten draws of labels each.
Every line of results/distances.jsonl is one model on one graph; what is there is not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import datasets as points
from sklearn.neighbors import NearestNeighbors
from torch import Tensor
from torch_geometric.data import Data

import lggd
from benchmarks.wrong_edges import damaged
from lggd.app.comparison.results import machine
from lggd.closed_form.ridge import class_targets, leave_one_out_path, ridge_coefficients
from lggd.closed_form.selection import RIDGES, fit_inverse_temperature
from lggd.datasets.by_name import split_by_count
from lggd.features.distance_features import assign_folds
from lggd.samples import graph_data

RESULTS = Path(__file__).parent.parent / "results"
EXPONENTS = (1.0, 2.0, math.inf)
# Of the mean of kernels and distances as one more block, the shares of the latter to choose from, and its folds.
SHARES, FOLDS = (0.0, 0.1, 0.3, 0.6), 5
Line = dict[str, Any]


def blocks(inside: float, seed: int, classes: int = 4, size: int = 150, outside: float = 0.01) -> Any:
    """A stochastic block model without node features, ten labels a class."""
    draws, y = np.random.default_rng(seed), np.repeat(np.arange(classes), size)
    chance = np.where(y[:, None] == y, inside, outside)
    adjacent = np.triu(draws.random(chance.shape) < chance, 1)
    edge_index = torch.from_numpy(np.stack((adjacent | adjacent.T).nonzero()))
    return labelled(Data(edge_index=edge_index, y=torch.from_numpy(y), num_nodes=len(y)), 10, seed)


def labelled(data: Any, count: int, seed: int) -> Any:
    """The data with `count` labels of each class."""
    data.train_mask, data.test_mask = split_by_count(data.y, count, seed)
    return data


def neighbours(X: Any, y: Any, seed: int) -> Any:
    """The graph of ten nearest neighbours, five labels a class."""
    return labelled(graph_data(X, np.asarray(y, np.int64), NearestNeighbors(n_neighbors=10).fit(X)), 5, seed)


def swiss_roll(seed: int) -> Any:
    """Four quarters along the roll."""
    X, t = points.make_swiss_roll(600, noise=0.6, random_state=seed)
    return neighbours(X, np.argsort(np.argsort(t)) * 4 // len(t), seed)


def without_x(name: str) -> Callable[[int], Any]:
    def load(split: int) -> Any:
        data = lggd.load(name, split=split)
        data.num_nodes, data.x = data.num_nodes, None
        return data

    return load


GRAPHS: dict[str, Callable[[int], Any]] = {
    "SBM, 0.06 : 0.01": lambda seed: blocks(0.06, seed),
    "SBM, 0.04 : 0.01": lambda seed: blocks(0.04, seed),
    "SBM, 0.025 : 0.01": lambda seed: blocks(0.025, seed),
    "SBM, 0.01 : 0.03": lambda seed: blocks(0.01, seed, outside=0.03),
    "karate": lambda seed: lggd.load("karate", split=seed),
    "moons": lambda seed: neighbours(*points.make_moons(600, noise=0.15, random_state=seed), seed),
    "circles": lambda seed: neighbours(*points.make_circles(600, noise=0.08, factor=0.5, random_state=seed), seed),
    "blobs": lambda seed: neighbours(*points.make_blobs(600, 10, centers=6, cluster_std=4.5, random_state=seed), seed),
    "swiss roll": swiss_roll,
    "iris": lambda seed: neighbours(*points.load_iris(return_X_y=True), seed),
    "wine": lambda seed: neighbours(*points.load_wine(return_X_y=True), seed),
    "breast cancer": lambda seed: neighbours(*points.load_breast_cancer(return_X_y=True), seed),
    "digits": lambda seed: lggd.load("digits", split=seed),
    "cora without x": without_x("cora"),
    "citeseer without x": without_x("citeseer"),
    "cora": lambda split: damaged(split, "random", 0),
    "cora, 50 % wrong edges": lambda split: damaged(split, "random", 50),
    "cora, 100 % wrong edges": lambda split: damaged(split, "random", 100),
    "cora, 200 % wrong edges": lambda split: damaged(split, "random", 200),
}


def class_distances(data: Any, labels: Tensor, p: float, weight: Tensor | None = None) -> Tensor:
    """The distance of every node to the labelled nodes of each class, `[N, K]`; twice the largest where none is."""
    graph = lggd.Graph.from_edges(data.edge_index, weight, num_nodes=data.num_nodes)
    sources = [(labels == k).nonzero().squeeze(1) for k in range(int(labels.max()) + 1)]
    f = lggd.distance(graph, sources, p=p).value
    return torch.where(f.isfinite(), f, 2 * f[f.isfinite()].max())


def distance_features(data: Any, labels: Tensor) -> Tensor:
    """Distances p = 1 as rows of unit length `[N, K]`; those of labelled nodes without the labels of their own fold."""
    fold = assign_folds(labels, torch.arange(len(labels)), FOLDS)
    features = class_distances(data, labels, 1.0)
    for number in range(FOLDS):
        left_out = fold == number
        features[left_out] = class_distances(data, torch.where(left_out, -1, labels), 1.0)[left_out]
    spread = (features - features.mean(1, keepdim=True)).square().mean().sqrt()
    return torch.nn.functional.normalize(torch.softmax(-2 * features / spread, dim=1)).float()


def with_block(model: lggd.KernelRidge, data: Any) -> tuple[Tensor, float]:
    """The scores of the kernel ridge with distances as one more block, and the share of it that leave-one-out chose."""
    features, nodes = distance_features(data, model.labels_), (model.labels_ >= 0).nonzero().squeeze(1)
    classes, found = model.labels_[nodes], []
    targets, columns = class_targets(classes, model.num_classes_), model.solution_.system.columns
    block = features @ features[nodes].t()
    for share in SHARES:
        kernel = ((1 - share) * columns + share * block).double()
        path = leave_one_out_path(kernel[nodes], targets, RIDGES)
        for ridge, scores in zip(RIDGES, path, strict=True):
            found.append((fit_inverse_temperature(scores, classes)[1], share, ridge))
    _, share, ridge = min(found)
    kernel = ((1 - share) * columns + share * block).double()
    return kernel @ ridge_coefficients(kernel[nodes], targets, ridge), share


def measure(name: str, draws: int) -> Iterator[Line]:
    """The test accuracy (%) of every model on every draw; `chosen` is the time, or the share of the block."""
    test: dict[str, list[float]] = {}
    chosen: dict[str, list[float]] = {}
    for draw in range(draws):
        data = GRAPHS[name](draw)

        def add(model: str, predicted: Tensor, choice: float | None = None) -> None:
            right = (predicted == data.y)[data.test_mask]  # noqa: B023
            test.setdefault(model, []).append(100 * float(right.double().mean()))
            if choice is not None:
                chosen.setdefault(model, []).append(choice)

        ridge = lggd.KernelRidge().fit(data)
        add("kernel ridge", ridge.predict())
        scores, share = with_block(ridge, data)
        add("kernel ridge and distances", scores.argmax(1), share)
        weight = ridge.edge_weights()
        for p in EXPONENTS:
            solved = lggd.EvolvedKernelRidge(p=p).fit(data)
            add(f"LGGD.solved, p = {p:g}", solved.predict(), solved.time_)  # its name when lines were committed
            add(f"distances alone, p = {p:g}", class_distances(data, ridge.labels_, p).argmin(1))
            add(f"learned weights, p = {p:g}", class_distances(data, ridge.labels_, p, weight).argmin(1))
    about = {"experiment": "distances", "graph": name, "device": "cpu", "machine": machine("cpu")}
    for model, accuracies in test.items():
        yield {**about, "model": model, "test": accuracies, "chosen": chosen.get(model)}


def table(lines: list[Line]) -> str:
    """One row per graph, one column per model, and how often time or share 0 was chosen."""
    graphs, models = (list(dict.fromkeys(line[key] for line in lines)) for key in ("graph", "model"))
    known = {(line["graph"], line["model"]): line for line in lines}
    text = ["| | " + " | ".join(models) + " | time 0 (p = 1) | share 0 |", "|---" * (len(models) + 3) + "|"]
    for graph in graphs:
        cells = [f"{statistics.mean(known[graph, model]['test']):.1f}" for model in models]
        choices = [known[graph, model]["chosen"] for model in ("LGGD.solved, p = 1", "kernel ridge and distances")]
        zeros = [f"{own.count(0.0)} of {len(own)}" for own in choices]
        text.append(f"| {graph} | " + " | ".join(cells + zeros) + " |")
    return "\n".join(text)


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distances_pay", description=__doc__)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help="default: all")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    path = arguments.out / "distances.jsonl"
    for name in arguments.graphs or GRAPHS:
        if name not in {line["graph"] for line in read(path)}:
            lines = list(measure(name, arguments.draws))
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
    print(table(read(path)))


if __name__ == "__main__":
    main()
