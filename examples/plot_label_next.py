"""
Which node to label next
========================

Two half moons with one label each (squares). ``suggest`` returns the nodes whose labels would tell most about all
others: the numbers, in this order, spread over the parts where the model is least certain.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_moons
from torch_geometric.data import Data

import lggd

points, truth = make_moons(400, noise=0.08, random_state=0)
graph = lggd.Graph.from_points(points, k=8)
y = torch.full((400,), -1)
first = [int(np.hypot(*(points - place).T).argmin()) for place in ((-1, 0.2), (2, 0.3))]
y[first] = torch.from_numpy(truth[first])
data = Data(edge_index=graph.edge_index, y=y, num_nodes=400)  # the model sees the edges, not the points

# %%
model = lggd.KernelRidge().fit(data)
suggested, certainty = model.suggest(6), model.predict_proba().amax(1)
before = float((model.predict().numpy() == truth).mean())
model.add_labels(suggested, truth[suggested])
after = float((model.predict().numpy() == truth).mean())
print(f"2 labels: {before:.1%}; with the 6 suggested ones: {after:.1%}")
figure, axes = plt.subplots(figsize=(8.5, 4.6), layout="constrained", subplot_kw={"aspect": "equal"})
dots = axes.scatter(*points.T, c=certainty, cmap="viridis", s=22)
axes.scatter(*points[first].T, marker="s", s=120, color="#D55E00", edgecolors="white", label="labelled")
for number, place in enumerate(points[suggested], start=1):
    axes.plot(*place, "o", color="black", markersize=15)
    axes.annotate(str(number), place, ha="center", va="center", color="white", weight="bold")
axes.set(title=f"accuracy with 2 labels {before:.1%}, with the 6 suggested ones {after:.1%}")
axes.axis("off")
figure.colorbar(dots, label="probability of the predicted class", shrink=0.8)
plt.show()
