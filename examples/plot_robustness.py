"""
Wrong edges: p = 1 holds, shortest paths collapse
=================================================

Points in a disk, measured from the rim. Thirty wrong edges among 6,000 points are shortcuts that shortest paths (p =
∞) take at once; with p = 1 the distance depends on all neighbours of a node and keeps its shape.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
import torch

import lggd

rng = np.random.default_rng(0)
radius, angle = np.sqrt(rng.random(6000)), 2 * np.pi * rng.random(6000)
points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
rim = np.flatnonzero(radius > 0.95)
clean = lggd.Graph.from_points(points, k=40)
wrong = torch.from_numpy(rng.integers(0, 6000, (2, 30)))
corrupted = lggd.Graph.from_edges(torch.cat([clean.edge_index, wrong], dim=1), symmetrize="max")

# %%
figure, panels = plt.subplots(2, 2, figsize=(8, 7.6), layout="constrained", subplot_kw={"aspect": "equal"})
for row, p, name in zip(panels, (1, math.inf), ("p = 1", "p = ∞ (shortest path)"), strict=True):
    before, after = (lggd.distance(graph, rim, p=p).value for graph in (clean, corrupted))
    change = float((after - before).norm() / before.norm())
    for axes, value, title in zip(row, (before, after), ("no wrong edges", "30 wrong edges"), strict=True):
        dots = axes.scatter(*points.T, c=value / before.max(), s=5, cmap="viridis", vmin=0, vmax=1, rasterized=True)
        axes.set(title=title, xticks=[], yticks=[], frame_on=False)
    row[0].set_ylabel(name, fontsize=12)
    row[1].set_xlabel(f"changed by {change:.1%}")
    print(f"{name}: changed by {change:.1%}")
figure.colorbar(dots, ax=panels, label="distance from the rim, largest = 1", shrink=0.6)
plt.show()
