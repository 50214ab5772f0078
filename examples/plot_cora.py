"""
Learned distances to the seven classes of Cora
==============================================

The features of LGGD are distances to the labelled nodes of each class. Seven maps of one citation graph: papers that
are near a class are dark, each in its own part of the graph. With ``LGGD_DATA`` set to a folder of datasets this is
Cora with 2.5 % of its labels; without, it is a **stand-in**: seven classes of the handwritten digits.
"""

import os

import matplotlib.pyplot as plt

import lggd
from lggd.app.report.graph_layout import layout_graph

if os.environ.get("LGGD_DATA"):
    data, name = lggd.load("cora"), "Cora"
else:
    data = lggd.load("digits", labels_per_class=5)
    data, name = data.subgraph(data.y < 7), "stand-in for Cora: digits 0 to 6"
print(f"{name}: {data.num_nodes} nodes, {int(data.train_mask.sum())} labels")

# %%
# The distances start at φ₀ = −log p of a closed form, and the labelled nodes of a class are its boundary.
model = lggd.EvolvedKernelRidge().fit(data)
nearness = model.nearness(data)[:, -1]  # softmax(−f) over the classes
print(f"{model.score(data):.1%} accuracy of the nearest class")
place = layout_graph(lggd.Graph.from_pyg(data))
figure, panels = plt.subplots(2, 4, figsize=(11, 5.8), layout="constrained", subplot_kw={"aspect": "equal"})
for k, axes in enumerate(panels.flat[:7]):
    order = nearness[:, k].argsort()  # near nodes on top
    dots = axes.scatter(*place[order].T, c=nearness[order, k].clamp(min=0.1), s=4, cmap="Blues", vmin=0, vmax=1)
    axes.set_title(f"class {k}")
for axes in panels.flat:
    axes.axis("off")
figure.colorbar(dots, cax=panels[1, 3].inset_axes((0.2, 0.1, 0.1, 0.8)), label="nearness, softmax(−distance)")
figure.suptitle(f"{name}: how near each node is to each class")
plt.show()
