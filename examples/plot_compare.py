"""
Which method is best on your own graph?
=======================================

``compare`` fits all methods, yours included, to the same splits with the same labels. Each dot is one split, each
diamond a mean. Here label propagation, which sees the edges alone, is as good as the best and the fastest: use that
one.
"""

import matplotlib.pyplot as plt

import lggd
from lggd.backbones import SGC

plt.style.use("tableau-colorblind10")
data = lggd.load("digits")
mine = {"SGC, three hops": lggd.LGGDClassifier(None, SGC(hops=3), lggd.Optimization(epochs=60))}
methods = ["label-propagation", "logistic-regression", "kernel-ridge", mine]
found = lggd.compare(data, methods, splits=3, labels=3, curve=False)
print(found.table[["accuracy", "sd", "seconds"]])
print(found.recommendation)

# %%
# ``found.plot()`` draws four panels; this is the first of them, by hand.
figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
for row, method in enumerate(found.methods):
    accuracies = list(method.accuracy.values())
    axes.plot(accuracies, [row] * len(accuracies), "o", color="C0", alpha=0.5)
    axes.plot(method.mean, row, "D", color="C1", markersize=9)
    axes.annotate(f"{method.mean:.1f}", (method.mean, row), xytext=(0, 9), textcoords="offset points", ha="center")
axes.set_yticks(range(len(found.methods)), [method.name for method in found.methods])
axes.set_ylim(len(found.methods) - 0.5, -0.6)
axes.set(xlabel="accuracy (%)", title="Digits with three labels per class, three splits")
plt.show()
