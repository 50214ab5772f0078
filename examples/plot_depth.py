"""
Data depth: the most and the least typical images
=================================================

The depth of a node is its closeness to the median of the graph. On the left are the deepest handwritten ones, sevens
and eights, which look alike; on the right the shallowest: ones with a base, sevens without a bar, eights that came out
badly.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import lggd

digits = load_digits()
SHOWN = 6


def similarity(length: np.ndarray) -> np.ndarray:
    return np.exp(-((length / 25) ** 2))


# %%
# One graph per digit: each image is joined to the 15 that are nearest to it, and any image may be the median.
figure, panels = plt.subplots(3, 2 * SHOWN + 1, figsize=(11, 3.4), layout="constrained")
for row, digit in zip(panels, (1, 7, 8), strict=True):
    images = digits.images[digits.target == digit]
    graph = lggd.Graph.from_points(images.reshape(len(images), -1), k=15, kernel=similarity)
    depth = lggd.depth(graph, candidates=range(len(images)))
    order = depth.value.argsort(descending=True).numpy()
    print(f"digit {digit}: {len(images)} images, the median is image {depth.median}")
    row[SHOWN].axis("off")
    for axes, node in zip([*row[:SHOWN], *row[SHOWN + 1 :]], [*order[:SHOWN], *order[-SHOWN:]], strict=True):
        axes.imshow(images[node], cmap="gray_r")
        axes.set(xticks=[], yticks=[])
panels[0, 0].set_title("deepest", loc="left")
panels[0, SHOWN + 1].set_title("shallowest", loc="left")
plt.show()
