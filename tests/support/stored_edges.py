"""Edges of graphs on disk by the ids of their ends, and the same from a table in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch

import lggd


def edges_by_id(folder: Path) -> dict[tuple[object, object], float]:
    """The weight of every stored edge."""
    graph = lggd.Graph.open(folder)
    ids = node_ids(folder)
    pairs = graph.edge_index.T.tolist()
    return {(ids[i], ids[j]): weight for (i, j), weight in zip(pairs, graph.weight.tolist(), strict=True)}


def node_ids(folder: Path) -> list[object]:
    graph = lggd.Graph.open(folder)
    found = graph.stored.ids()
    return list(range(graph.num_nodes)) if found is None else found.to_pylist()


def edges_of_table(
    frame: pd.DataFrame, weight: str | None = None, *, directed: bool = False
) -> dict[tuple[object, object], float]:
    """The same from `Graph.from_edges`, which sees the whole table."""
    codes, ids = pd.factorize(pd.concat([frame["source"], frame["target"]]), sort=True)
    ends = codes.reshape(2, -1)
    kept = ends[0] != ends[1]
    values = None if weight is None else frame[weight].to_numpy(np.float64)[kept]
    how = {"directed": True} if directed else {"symmetrize": "max"}
    graph = lggd.Graph.from_edges(ends[:, kept], values, num_nodes=len(ids), dtype=torch.float32, unbounded=True, **how)
    pairs = graph.edge_index.T.tolist()
    return {(ids[i], ids[j]): value for (i, j), value in zip(pairs, graph.weight.tolist(), strict=True)}
