# %% [markdown]
# # Getting started with lggd
#
# The steps of the page *Getting started* as a notebook. It needs no network: the data comes with scikit-learn.
# Made from `docs/getting_started.py` by `make notebook`; change that file, not this one.

# %% [markdown]
# ## A distance
#
# A graph, and the generalized geodesic distance of every node to node 0. A graph and a solution show themselves.

# %%
import lggd

graph = lggd.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (2, 4)], symmetrize="max")
graph

# %%
solution = lggd.distance(graph, [0])  # p = 1, robust
print(solution.value.tolist())
solution

# %% [markdown]
# Node 2 has two neighbours that are closer to node 0, so with p = 1 it is nearer than
# the two steps of the shortest path:

# %%
lggd.distance(graph, [0], p=float("inf")).value.tolist()

# %% [markdown]
# ## Predictions from fifty labels
#
# The 1,797 handwritten digits of scikit-learn are a graph: each is joined to its nearest neighbours. Five of every
# class have a label. The model predicts the others.

# %%
data = lggd.load("digits", labels_per_class=5)  # a PyG Data
model = lggd.KernelRidge().fit(data)
print(f"{model.score(data):.1%} of the other digits")
model

# %% [markdown]
# Somebody labels the twenty digits that the model is least sure of. Nothing is trained again.

# %%
certainty = model.predict_proba().max(1).values  # of probabilities [1797, 10]
certainty[model.labels_ >= 0] = 1.0
nodes = certainty.argsort()[:20]
model.add_labels(nodes, data.y[nodes])
print(f"{model.score(data, model.labels_ < 0):.1%} of those without a label")

# %% [markdown]
# What do they look like? These are the eight that were asked for first.

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

figure, panels = plt.subplots(1, 8, figsize=(10, 1.8))
for axes, node in zip(panels, nodes.tolist(), strict=False):
    axes.imshow(load_digits().images[node], cmap="gray_r")
    axes.set(xticks=[], yticks=[], title=f"a {data.y[node]}")
plt.show()

# %% [markdown]
# A model is saved as JSON and safetensors; loading it executes nothing.

# %%
import tempfile

with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/digits-model")
    loaded = lggd.load_model(f"{folder}/digits-model")
bool((loaded.predict() == model.predict()).all())

# %% [markdown]
# ## Arrays instead of a graph
#
# `KNNGraphClassifier` is a scikit-learn estimator and builds the graph itself; `-1` marks samples without a label.

# %%
import numpy as np

from lggd.sklearn import KNNGraphClassifier

X, truth = load_digits(return_X_y=True)
y = np.full(len(truth), -1)
for digit in range(10):
    first = np.flatnonzero(truth == digit)[:5]
    y[first] = truth[first]
classifier = KNNGraphClassifier().fit(X, y)
print(f"{(classifier.transduction_ == truth)[y == -1].mean():.1%}")

# %% [markdown]
# ## Which method is best here?
#
# The same splits for all methods, and a recommendation. A comparison shows its table.

# %%
lggd.compare(data, ["label-propagation", "kernel-ridge"], splits=2, labels=3, curve=False)
