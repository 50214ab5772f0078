"""
Labels that arrive
==================

Labels come in batches of twenty, and each batch is solved for at once: nothing is trained. The line is the closed form
after each batch; the crosses are a GCN trained from the start, which needs 180 labels to catch up.
"""

import time

import matplotlib.pyplot as plt
import torch

import lggd

plt.style.use("tableau-colorblind10")
data = lggd.load("digits", labels_per_class=2)
shuffled = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
arriving, others = shuffled[~data.train_mask[shuffled]].split([160, data.num_nodes - 180])
never = torch.zeros_like(data.train_mask).index_fill(0, others, True)  # images that are never labelled
# %%
model = lggd.KernelRidge().fit(data)
labels, solved, trained, seconds = [20], [100 * model.score(data, never)], {}, []
for batch in arriving.split(20):
    start = time.perf_counter()
    model.add_labels(batch, data.y[batch]).predict()
    seconds.append(time.perf_counter() - start)
    labels.append(labels[-1] + 20)
    solved.append(100 * model.score(data, never))
    if labels[-1] % 40 == 20:
        known = data.clone().update({"train_mask": model.labels_ >= 0})
        gcn = lggd.LGGDClassifier(None, lggd.GCN(), lggd.Optimization(epochs=80)).fit(known)
        trained[labels[-1]] = 100 * gcn.score(data, never)
print(f"median time from twenty labels to predictions: {1000 * sorted(seconds)[4]:.0f} ms")
figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
axes.plot(labels, solved, "o-", label="kernel ridge, solved again with every batch")
axes.plot(trained.keys(), trained.values(), "X", markersize=10, label="GCN, trained from the start")
axes.set(xlabel="labels", ylabel="accuracy on images never labelled (%)", title="Handwritten digits")
axes.legend(loc="lower right", frameon=False)
plt.show()
