"""Writes graphlearning.npz: distances by the package graphlearning on one weighted graph. See README.md beside it."""

from pathlib import Path

import graphlearning
import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

NODES, NEIGHBOURS, WIDTH = 300, 8, 0.08


def main() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((NODES, 2))
    length, near = cKDTree(points).query(points, NEIGHBOURS + 1)
    rows = np.repeat(np.arange(NODES), NEIGHBOURS)
    weight = np.exp(-((length[:, 1:].ravel() / WIDTH) ** 2))
    w = sp.coo_array((weight, (rows, near[:, 1:].ravel())), shape=(NODES, NODES)).tocsr()
    w = w.maximum(w.T).tocsr()
    rho = rng.uniform(0.5, 2, NODES)
    sources = np.array([3, 50, 120])
    found = {}
    for p in (1, 2, 3):
        powered = w.copy()
        powered.data **= p / 2
        graph = graphlearning.graph(powered)
        found[f"f{p}"] = graph.peikonal(sources, f=rho**-p, p=p, num_bisection_it=60)
    upper = sp.triu(w).tocoo()
    edges = np.stack([upper.row, upper.col]).astype(np.int32)
    np.savez_compressed(
        Path(__file__).with_name("graphlearning.npz"),
        edges=edges, weight=upper.data, rho=rho, sources=sources, **found,
    )  # fmt: skip


if __name__ == "__main__":
    main()
