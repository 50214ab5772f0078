"""Where is the mud? Learn how slow each cell is from when a front arrives there, by gradients through `evolve`."""

import numpy as np
import torch

from lggd import Graph, evolve

SIDE, TIME = 12, 8.0
graph = Graph.from_grid(np.ones((SIDE, SIDE), bool))
corners = [[0], [SIDE - 1], [SIDE * (SIDE - 1)], [SIDE * SIDE - 1]]


def arrivals(potential: torch.Tensor) -> torch.Tensor:
    """Four fronts, one from each corner, `[N, 4]`."""
    return evolve(graph, corners, start=torch.zeros(SIDE * SIDE), potential=potential, times=[TIME]).value[-1]


def draw(potential: torch.Tensor) -> list[str]:
    return ["".join("#+."[int(x > 0.55) + int(x > 0.8)] for x in row) for row in potential.reshape(SIDE, SIDE)]


muddy = torch.ones(SIDE, SIDE)
muddy[3:6, 2:9] = 0.4
observed = arrivals(muddy.flatten())

# Plain gradient descent; the logarithm keeps the potential positive.
log_potential = torch.zeros(SIDE * SIDE, requires_grad=True)
for step in range(91):
    loss = (arrivals(log_potential.exp()) - observed).square().sum()
    (gradient,) = torch.autograd.grad(loss, log_potential)
    with torch.no_grad():
        log_potential -= 0.01 * gradient
    if step % 30 == 0:
        print(f"step {step:2}: loss {loss.item():.6f}")

print("\n   the truth     learned    (# mud, . firm ground)")
print("\n".join(f"{a}  {b}" for a, b in zip(draw(muddy), draw(log_potential.exp()), strict=True)))
