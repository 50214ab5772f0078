"""
Distance and geodesic inside a shape
====================================

The pixels of a silhouette are a graph. Its distance from the tip of a whisker follows the body of the dragon, coil by
coil, and steepest descent on the distance is the shortest way to the tail: it never leaves the shape.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import lggd

dragon = Path(__file__).parents[1] / "reproduction" / "dragon.png"
inside = plt.imread(dragon).round() < 0.5  # bool [400, 600]
graph = lggd.Graph.from_grid(inside, connectivity=8)
pixels = np.argwhere(inside)  # the row and column of each node
whisker = int(pixels[:, 1].argmin())

# %%
# One call measures from the whisker. With p = ∞ distances are lengths in pixels, with diagonal steps of √2.
solution = lggd.distance(graph, [whisker], p=math.inf)
tail = int(solution.value.argmax())
path = pixels[lggd.shortest_path(graph, solution, tail)]

# %%
field = np.full(inside.shape, np.nan)
field[inside] = solution.value
figure, axes = plt.subplots(figsize=(9, 5.6), layout="constrained")
image = axes.imshow(field, cmap="viridis")
axes.contour(field, levels=30, colors="white", linewidths=0.8, alpha=0.7)
axes.plot(*path.T[::-1], color="#D55E00", linewidth=2.5)
axes.plot(*pixels[[whisker, tail]].T[::-1], "o", color="#D55E00", markeredgecolor="white", markersize=9)
axes.set_title(f"From whisker to tail: {solution.value[tail]:,.0f} pixels")
axes.axis("off")
figure.colorbar(image, label="distance from the whisker (pixels)", shrink=0.8)
plt.show()
