"""
A backbone of your own
======================

Any torch module called as ``module(x, edge_index)`` can be trained on the distances, here a GraphSAGE of PyG. Its loss
falls on labels held out for validation as it does in training, and the weights of the best epoch are kept (dotted).
"""

import matplotlib.pyplot as plt
import torch
from torch_geometric.nn import GraphSAGE

import lggd

plt.style.use("tableau-colorblind10")
data = lggd.load("digits", labels_per_class=20)
model = lggd.LGGDClassifier(lggd.GGD(times=(2, 4)), optimization=lggd.Optimization(epochs=60))
torch.manual_seed(0)
model.backbone = GraphSAGE(model.in_channels(data), 32, num_layers=2, out_channels=10, dropout=0.5)
model.fit(data)
print(f"{model.in_channels(data)} distances per node, {model.score(data):.1%} accuracy on the images without a label")

# %%
# Every model records its training by stage.
history = model.history_["backbone"]
best = min(range(len(history["validation_loss"])), key=history["validation_loss"].__getitem__)
figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
axes.plot(history["train_loss"], label="training")
axes.plot(history["validation_loss"], label="validation")
axes.axvline(best, color="black", linestyle=":", label=f"lowest validation loss, epoch {best}")
axes.set(xlabel="epoch", ylabel="cross-entropy", yscale="log", title="GraphSAGE on distances to ten classes")
axes.legend(frameon=False)
plt.show()
