"""`python -m benchmarks.halo`: how many values travel between blocks of rows, by graph, order and number of blocks.

Simulates the halo exchange without a cluster: counts the nodes outside a block that its rows read. Writes
results/halo.json, results/halo.md and docs/halo.png.
"""

from __future__ import annotations

import argparse
import datetime
import json
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
import scipy.sparse as sp
from matplotlib import pyplot
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.spatial import cKDTree

from benchmarks.record import DOCS, RESULTS
from lggd.cluster.team import split_rows
from lggd.graph.geometry import morton

BLOCKS = (2, 4, 8, 16, 32, 64, 128)


def power_law(nodes: int, degree: int, seed: int = 0) -> sp.csr_array:
    """A graph whose expected degrees follow a power law with exponent 2.5 (Chung and Lu)."""
    draw = np.random.default_rng(seed)
    return undirected(_ends(draw, nodes, nodes * degree // 2), _ends(draw, nodes, nodes * degree // 2), nodes)


def communities(nodes: int, degree: int, seed: int = 0, size: int = 1000, inside: float = 0.9) -> sp.csr_array:
    """The same, with this share of the edges within communities of `size` adjacent nodes."""
    draw = np.random.default_rng(seed)
    first, anywhere = (_ends(draw, nodes, nodes * degree // 2) for _ in range(2))
    near = np.minimum(first // size * size + draw.integers(0, size, len(first)), nodes - 1)
    return undirected(first, np.where(draw.random(len(first)) < inside, near, anywhere), nodes)


def plane(nodes: int, degree: int, seed: int = 0) -> sp.csr_array:
    """Points in a square joined to their nearest neighbours, numbered along a space-filling curve."""
    points = np.random.default_rng(seed).random((nodes, 2))
    points = points[morton(points).numpy()]
    neighbours = cKDTree(points).query(points, degree * 3 // 4 + 1)[1][:, 1:]
    return undirected(np.repeat(np.arange(nodes), neighbours.shape[1]), neighbours.ravel(), nodes)


def _ends(draw: np.random.Generator, nodes: int, count: int) -> np.ndarray:
    """Nodes drawn by weights that follow a power law, the same for every call."""
    weight = (1 - np.random.default_rng(7).random(nodes)) ** (-1 / 1.5)
    cumulated = np.cumsum(np.minimum(weight, np.sqrt(nodes * weight.mean())))
    return np.minimum(np.searchsorted(cumulated, draw.random(count) * cumulated[-1]), nodes - 1)


def undirected(first: np.ndarray, second: np.ndarray, nodes: int) -> sp.csr_array:
    kept = first != second
    matrix = sp.coo_array((np.ones(kept.sum(), np.int8), (first[kept], second[kept])), shape=(nodes, nodes)).tocsr()
    return (matrix + matrix.T).tocsr()


def ordered(graph: sp.csr_array, order: np.ndarray) -> sp.csr_array:
    """The same graph with node `order[k]` as number k."""
    return graph[order][:, order].tocsr()


def halo(graph: sp.csr_array, blocks: int) -> tuple[int, float]:
    """Values of one column that travel in an evaluation, and the edges of the largest block relative to the mean."""
    indptr, indices = graph.indptr, graph.indices
    bounds, total, largest = split_rows(indptr, blocks), 0, 0
    for first, last in pairwise(bounds):
        read = np.zeros(graph.shape[0], np.bool_)
        read[indices[indptr[first] : indptr[last]]] = True
        total += int(read.sum() - read[first:last].sum())
        largest = max(largest, int(indptr[last] - indptr[first]))
    return total, largest * blocks / graph.nnz


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--figure", type=Path, default=DOCS / "halo.png")
    chosen = parser.parse_args()
    shuffled = np.random.default_rng(1).permutation(chosen.nodes)
    rows = []
    for name, build in (("power law", power_law), ("communities", communities), ("plane", plane)):
        graph = build(chosen.nodes, chosen.degree)
        given = graph if name != "power law" else None
        scattered = ordered(graph, shuffled)
        orders = {"random": scattered}
        if given is not None:
            orders["as built"] = given
        orders["Cuthill-McKee"] = ordered(scattered, reverse_cuthill_mckee(scattered, symmetric_mode=True))
        for order, numbered in orders.items():
            for blocks in BLOCKS:
                values, imbalance = halo(numbered, blocks)
                rows.append({
                    "graph": name, "order": order, "blocks": blocks, "nodes": graph.shape[0],
                    "edges": graph.nnz, "halo": values, "halo_per_node": values / graph.shape[0],
                    "halo_per_edge": values / graph.nnz, "imbalance": imbalance,
                })  # fmt: skip
            print(name, order, [f"{r['halo_per_node']:.3f}" for r in rows[-len(BLOCKS) :]], flush=True)
    record = {"date": datetime.date.today().isoformat(), "rows": rows}
    (chosen.out / "halo.json").write_text(json.dumps(record, indent=1) + "\n")
    (chosen.out / "halo.md").write_text(page(record))
    draw_figure(rows, chosen.figure)


def page(record: dict[str, object]) -> str:
    rows = record["rows"]
    lines = [
        f"# Halo exchange\n\nMeasured {record['date']} by `python -m benchmarks.halo`: values of one column that "
        "travel between blocks in an evaluation, in units of the number of nodes.\n",
        "| graph | order | " + " | ".join(f"{blocks} blocks" for blocks in BLOCKS) + " | largest block / mean |",
        "|---" * (len(BLOCKS) + 3) + "|",
    ]
    for key in dict.fromkeys((row["graph"], row["order"]) for row in rows):
        own = [row for row in rows if (row["graph"], row["order"]) == key]
        cells = [*key, *(f"{row['halo_per_node']:.3f}" for row in own), f"{max(row['imbalance'] for row in own):.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    sizes = {row["graph"]: f"{row['graph']}: {row['nodes']:,} nodes, {row['edges']:,} edges" for row in rows}
    return "\n".join([*lines, "", "; ".join(sizes.values()) + "."]) + "\n"


def draw_figure(rows: list[dict[str, object]], path: Path) -> None:
    figure, axes = pyplot.subplots(figsize=(6.4, 3.8), layout="constrained")
    styles = {"random": ":", "as built": "-", "Cuthill-McKee": "--"}
    colours = {"power law": "C3", "communities": "C0", "plane": "C2"}
    for key in dict.fromkeys((row["graph"], row["order"]) for row in rows):
        own = [row for row in rows if (row["graph"], row["order"]) == key]
        values = [row["halo_per_node"] for row in own]
        axes.plot(BLOCKS, values, styles[key[1]], color=colours[key[0]], marker=".", label=", ".join(key))
    axes.set(xscale="log", yscale="log", xlabel="blocks", ylabel="values of a column sent / nodes")
    axes.set_xticks(BLOCKS, [str(blocks) for blocks in BLOCKS])
    axes.minorticks_off()
    axes.legend(fontsize=7)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
