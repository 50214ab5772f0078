"""
Wrong labels found
==================

Of 300 labels 15 are made wrong on purpose. Each label is predicted from all others, and the ones that are contradicted
most come first: the fifteen wrong ones (orange), with the true class as the suggestion.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import lggd

data = lggd.load("digits", labels_per_class=30)
images, generator = load_digits().images, torch.Generator().manual_seed(0)
labelled = data.train_mask.nonzero().squeeze(1)
spoilt = labelled[torch.randperm(len(labelled), generator=generator)[:15]]
noisy = data.clone()
noisy.y[spoilt] = (data.y[spoilt] + torch.randint(1, 10, (15,), generator=generator)) % 10

# %%
# Predictions without a label's own vote are exact and need no second fit.
found = lggd.KernelRidge().fit(noisy).suspicious_labels()
hits = torch.isin(found.nodes, spoilt)
print(f"{int(hits[:15].sum())} of the 15 wrong labels are among the first 15 of {len(found)}")

# %%
figure, panels = plt.subplots(2, 10, figsize=(11, 3.6), layout="constrained")
for k, axes in enumerate(panels.flat):
    axes.imshow(images[found.nodes[k]], cmap="gray_r")
    axes.set(xticks=[], yticks=[], title=f"label {found.labels[k]}", xlabel=f"suggested: {found.suggested[k]}")
    for spine in axes.spines.values():
        spine.set(color="#D55E00" if hits[k] else "#BBBBBB", linewidth=3)
figure.suptitle("The twenty most suspicious labels; orange: it was made wrong")
plt.show()
