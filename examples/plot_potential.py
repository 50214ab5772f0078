"""
A potential follows the density
===============================

With the potential ρ = degree^α a step through a dense region is longer (α < 0) or shorter (α > 0). The geodesic
between two points goes around the crowd in the middle, straight through it, or out of its way to get into it.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import lggd

rng = np.random.default_rng(3)
crowd = rng.normal((0, 0.5), (0.4, 0.2), (1500, 2))
points = np.concatenate([crowd, rng.uniform((-2, -1.2), (2, 1.2), (3500, 2))])
graph = lggd.Graph.from_points(points, epsilon=0.16)
start, goal = (int(np.hypot(*(points - place).T).argmin()) for place in ((-1.8, 0), (1.8, 0)))

# %%
figure, panels = plt.subplots(1, 3, figsize=(11, 3), layout="constrained", sharey=True)
for axes, alpha in zip(panels, (-1, 0, 1), strict=True):
    solution = lggd.distance(graph, [start], p=math.inf, potential=lggd.DegreePotential(alpha))
    path = points[lggd.shortest_path(graph, solution, goal)]
    dots = axes.scatter(*points.T, c=solution.value / solution.value[goal], s=3, cmap="viridis", vmin=0, vmax=1)
    axes.plot(*path.T, color="#D55E00", linewidth=2.5)
    axes.plot(*points[[start, goal]].T, "o", color="#D55E00", markeredgecolor="white", markersize=9)
    axes.set(title=f"ρ = degree^{alpha}" if alpha else "ρ = 1", aspect="equal", xticks=[], yticks=[], frame_on=False)
    print(f"alpha = {alpha:2}: the path has {len(path) - 1} steps, at most {abs(path[:, 1]).max():.1f} off the line")
figure.colorbar(dots, ax=panels, label="distance, goal = 1")
plt.show()
