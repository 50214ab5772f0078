"""A few wrong edges ruin shortest paths (p = inf) but hardly touch the distance with p = 1."""

import math

import numpy as np
import torch

from lggd import Graph, distance

# Points on a broken ring, measured from one of its ends: the other end is near in the plane and far along the ring.
rng = np.random.default_rng(0)
angle, radius = rng.uniform(0.2, 2 * np.pi - 0.2, 3000), rng.uniform(1, 2, 3000)
graph = Graph.from_points(np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), k=50)
source = [int(angle.argmin())]

print(f"{graph}, then with more edges between random nodes:\n")
print("wrong edges   change of the distance for p = inf   for p = 1")
extra = torch.from_numpy(rng.integers(0, 3000, (2, 100)))
for wrong in (1, 3, 10, 30, 100):
    corrupted = Graph.from_edges(torch.cat([graph.edge_index, extra[:, :wrong]], 1), symmetrize="max")
    change = []
    for p in (math.inf, 1):
        clean, dirty = (distance(g, source, p=p).value for g in (graph, corrupted))
        change.append(float((dirty - clean).abs().mean() / clean.mean()))
    print(f"{wrong:11}{change[0]:37.1%}{change[1]:12.1%}")
