"""
Handwritten digits with five labels per class
=============================================

1,797 images, 50 of them labelled (circled). Each numeral stands where the graph puts its image and shows the predicted
class; wrong predictions are black crosses, at the borders of clusters and in small groups far from any label.
"""

import matplotlib.pyplot as plt

import lggd
from lggd.app.report.graph_layout import layout_graph

data = lggd.load("digits", labels_per_class=5)
model = lggd.KernelRidge().fit(data)
predicted = model.predict()
labelled = data.train_mask
wrong = (predicted != data.y) & ~labelled
print(f"{int(labelled.sum())} labels: {model.score(data):.1%} of the other images are predicted correctly")

# %%
# A map of the graph, and the nodes on it.
place = layout_graph(lggd.Graph.from_pyg(data))
figure, axes = plt.subplots(figsize=(9, 8), layout="constrained")
colours = plt.get_cmap("tab10")
for digit in range(10):
    mine = (predicted == digit) & ~wrong
    axes.scatter(*place[mine].T, marker=f"${digit}$", s=40, linewidths=0.3, color=colours(digit))
axes.scatter(*place[wrong].T, marker="x", s=45, color="black", linewidths=1.6, label=f"wrong: {int(wrong.sum())}")
axes.scatter(*place[labelled].T, s=110, facecolors="none", edgecolors="black", linewidths=1.3, label="labelled: 50")
axes.set_title(f"{model.score(data):.1%} accuracy from five labels per class")
axes.legend(loc="upper right", frameon=False)
axes.axis("off")
plt.show()
