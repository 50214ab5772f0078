"""
Gradients through the evolution: where is the mud?
==================================================

Fronts start at the four corners of a field and are late behind a muddy patch. From their arrivals alone, gradients
through ``evolve`` find how slow each cell is: the potential that was learned shows the patch.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import lggd

SIDE, TIME = 10, 7.0
graph = lggd.Graph.from_grid(np.ones((SIDE, SIDE), bool))
corners = [[0], [SIDE - 1], [SIDE * (SIDE - 1)], [SIDE * SIDE - 1]]


def arrivals(potential: torch.Tensor) -> torch.Tensor:  # [N, 4]
    return lggd.evolve(graph, corners, start=torch.zeros(SIDE * SIDE), potential=potential, times=[TIME]).value[-1]


truth = torch.ones(SIDE, SIDE)
truth[3:6, 2:8] = 0.4
observed = arrivals(truth.flatten())
log_potential = torch.zeros(SIDE * SIDE, requires_grad=True)  # the logarithm keeps it positive
for _ in range(60):
    loss = (arrivals(log_potential.exp()) - observed).square().sum()
    log_potential.data -= 0.01 * torch.autograd.grad(loss, log_potential)[0]
print(f"loss {loss.item():.6f}")

figure, panels = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for axes, value, title in zip(panels, (truth, log_potential.detach().exp()), ("truth", "learned"), strict=True):
    image = axes.imshow(value.reshape(SIDE, SIDE), cmap="viridis", vmin=0.3, vmax=1.1)
    axes.set(title=title, xticks=[], yticks=[])
figure.colorbar(image, ax=panels, label="potential ρ: small is slow")
plt.show()
