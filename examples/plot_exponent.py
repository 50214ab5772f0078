"""
From p = 1 to p = ∞
===================

One source on a grid and one exponent per panel. For p = ∞ only the nearest neighbour counts and circles are diamonds,
the shortest paths of a grid; p = 2 is close to the true circle; towards p = 1 all nearer neighbours count together.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import lggd

SIDE = 101
graph = lggd.Graph.from_grid(np.ones((SIDE, SIDE), bool))
centre = (SIDE * SIDE) // 2

# %%
# Distances are divided by the largest on the circle of radius 45, so that the panels can be compared.
x, y = np.meshgrid(np.arange(SIDE) - SIDE // 2, np.arange(SIDE) - SIDE // 2)
figure, panels = plt.subplots(1, 4, figsize=(11, 3.3), layout="constrained", sharey=True)
for axes, p in zip(panels, (1, 2, 4, math.inf), strict=True):
    value = lggd.distance(graph, [centre], p=p).value.reshape(SIDE, SIDE).numpy()
    value = value / value[np.hypot(x, y) <= 45].max()
    image = axes.contourf(x, y, value, levels=np.linspace(0, 1, 13), cmap="viridis", extend="max")
    axes.add_patch(plt.Circle((0, 0), 30, fill=False, color="white", linestyle="--", linewidth=1.2))
    axes.set(title="p = ∞" if math.isinf(p) else f"p = {p}", aspect="equal", xticks=[], yticks=[])
    print(f"p = {p}: {value[50, 80] / value[80 - 9, 80 - 9]:.2f} = distance right / distance diagonally, at radius 30")
figure.colorbar(image, ax=panels, label="distance", shrink=0.9, ticks=[0, 0.5, 1])
plt.show()
