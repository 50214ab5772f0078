"""
A graph on disk
===============

A table of edges that may be larger than memory becomes a folder of arrays, which opens at once and is read where it is
used. Here it is small: points on a spiral, whose distance from the centre runs along the arm, not across.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import lggd
from lggd.app.tables.building import build_graph

rng = np.random.default_rng(0)
turn = np.sqrt(rng.uniform(1, 100, 4000))
points = (turn + rng.uniform(0, 1.2, 4000))[:, None] * np.stack([np.cos(turn * 2), np.sin(turn * 2)], axis=1)
edges = lggd.Graph.from_points(points, k=8).edge_index.T

# %%
# On the command line: ``lggd graph build edges.csv spiral``. Ids may be text; here they are the numbers of the points.
with tempfile.TemporaryDirectory() as folder:
    table, spiral = Path(folder, "edges.csv"), Path(folder, "spiral")
    np.savetxt(table, edges, "%d", delimiter=",", header="source,target", comments="")
    build_graph(table, spiral)
    graph = lggd.Graph.open(spiral)
    distance = lggd.distance(graph, [int(turn.argmin())]).value
    print(graph, {file.name: file.stat().st_size for file in sorted(spiral.iterdir())})

# %%
figure, axes = plt.subplots(figsize=(7.5, 6.2), layout="constrained", subplot_kw={"aspect": "equal"})
dots = axes.scatter(*points.T, c=distance, s=7, cmap="viridis")
axes.set_title("Distance (p = 1) on a graph that is read from disk")
axes.axis("off")
figure.colorbar(dots, label="distance from the centre", shrink=0.8)
plt.show()
