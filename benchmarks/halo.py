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
from matplotlib import pyplot

import lggd
from benchmarks.record import DOCS, RESULTS
from lggd.cluster.rows import split_rows
from lggd.graph.layout import cuthill_mckee

BLOCKS = (2, 4, 8, 16, 32, 64, 128)


def power_law(nodes: int, degree: int, seed: int = 0, exponent: float = 2.5) -> lggd.Graph:
    """A graph whose expected degrees follow a power law (Chung and Lu): an end is drawn by its weight."""
    draw = np.random.default_rng(seed)
    weight = (1 - draw.random(nodes)) ** (-1 / (exponent - 1))
    weight = np.minimum(weight, np.sqrt(nodes * weight.mean()))
    cumulated = np.cumsum(weight) / weight.sum()
    ends = np.searchsorted(cumulated, draw.random((2, nodes * degree // 2)))
    return undirected(np.minimum(ends, nodes - 1), nodes)


def communities(nodes: int, degree: int, seed: int = 0, size: int = 1000, inside: float = 0.9) -> lggd.Graph:
    """Ends with power-law weights, and with this share of the edges within communities of `size` adjacent nodes."""
    draw = np.random.default_rng(seed)
    weight = (1 - draw.random(nodes)) ** (-1 / 1.5)
    cumulated = np.cumsum(weight) / weight.sum()
    count = nodes * degree // 2
    first = np.minimum(np.searchsorted(cumulated, draw.random(count)), nodes - 1)
    anywhere = np.minimum(np.searchsorted(cumulated, draw.random(count)), nodes - 1)
    near = np.minimum(first // size * size + draw.integers(0, size, count), nodes - 1)
    return undirected(np.stack([first, np.where(draw.random(count) < inside, near, anywhere)]), nodes)


def plane(nodes: int, degree: int, seed: int = 0) -> lggd.Graph:
    """Points in a square joined to their nearest neighbours, numbered along a space-filling curve."""
    points = np.random.default_rng(seed).random((nodes, 2))
    graph = lggd.Graph.from_points(points, k=degree * 3 // 4)
    return ordered(graph, graph._native.order.numpy())


def undirected(edges: np.ndarray, nodes: int) -> lggd.Graph:
    return lggd.Graph.from_edges(edges[:, edges[0] != edges[1]], num_nodes=nodes, symmetrize="max")


def ordered(graph: lggd.Graph, order: np.ndarray) -> lggd.Graph:
    """The same graph with node `order[k]` as number k."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return lggd.Graph.from_edges(rank[graph.edge_index.numpy()], num_nodes=graph.num_nodes)


def halo(graph: lggd.Graph, blocks: int) -> tuple[int, float]:
    """Values of one column that travel in an evaluation, and the edges of the largest block relative to the mean."""
    indptr, indices = graph.csr.indptr.numpy(), graph.csr.indices.numpy()
    bounds, total, largest = split_rows(indptr, blocks), 0, 0
    for first, last in pairwise(bounds):
        columns = np.unique(indices[indptr[first] : indptr[last]])
        total += int(((columns < first) | (columns >= last)).sum())
        largest = max(largest, int(indptr[last] - indptr[first]))
    return total, largest * blocks / graph.num_edges


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=400_000)
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
        orders["Cuthill-McKee"] = ordered(scattered, cuthill_mckee(scattered.csr).numpy())
        for order, numbered in orders.items():
            for blocks in BLOCKS:
                values, imbalance = halo(numbered, blocks)
                rows.append({
                    "graph": name, "order": order, "blocks": blocks, "nodes": graph.num_nodes,
                    "edges": graph.num_edges, "halo": values, "halo_per_node": values / graph.num_nodes,
                    "halo_per_edge": values / graph.num_edges, "imbalance": imbalance,
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
        "| graph | order | "
        + " | ".join(f"{blocks} blocks" for blocks in BLOCKS)
        + " | largest block / mean |",
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
