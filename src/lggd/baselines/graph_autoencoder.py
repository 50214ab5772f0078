"""Graph autoencoders: node embeddings Z whose products zᵢ·zⱼ predict the edges of a graph (Kipf and Welling, 2016).

The loss over all N² pairs and its gradient are computed together, in blocks of rows, with O(N) memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer

from lggd.backbones.layers import batched_linear
from lggd.graph.sparse import SparsePattern, multiply_each, normalized_adjacency
from lggd.training.engine import Callback, Progress

# Entries computed at a time: few enough for a CPU's cache, and enough to keep a GPU busy. Independent of the number of
# problems, because each draws its random numbers block by block, as it would alone.
BLOCK_ENTRIES = {"cpu": 2**18, "cuda": 2**26}
# The widths of the hidden layer and of the embedding of a variational autoencoder.
HIDDEN, EMBEDDING = 32, 16


def row_blocks(num_nodes: int, device: torch.device) -> Iterator[tuple[int, int]]:
    """The start and end of each block of rows of a matrix `[N, N]`."""
    height = max(1, BLOCK_ENTRIES[device.type] // num_nodes)
    return ((start, min(num_nodes, start + height)) for start in range(0, num_nodes, height))


def undirected_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Every pair i < j with an edge in either direction, once and sorted: int64 `[2, P]`, without self-loops.

    >>> undirected_edges(torch.tensor([[1, 0, 2, 2], [0, 1, 2, 0]]), 3).tolist()
    [[0, 0], [1, 2]]
    """
    low, high = edge_index.amin(0), edge_index.amax(0)
    pair = torch.unique((low * num_nodes + high)[low != high])
    return torch.stack([pair // num_nodes, pair % num_nodes])


def glorot_uniform(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """A weight `[rows, columns]` on the CPU, uniform in ±√(6 / (rows + columns))."""
    bound: float = (6 / (rows + columns)) ** 0.5
    return (torch.rand(rows, columns, generator=generator) * 2 - 1) * bound


def minimize(
    loss: Callable[[], Tensor], optimizer: Optimizer, epochs: int, stage: str, callback: Callback | None
) -> None:
    """Runs one optimizer step per epoch."""
    for epoch in range(epochs):
        optimizer.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if callback is not None:
            callback(Progress(stage, epoch + 1, epochs))
    optimizer.zero_grad()


class ReconstructionLoss:
    """Weighted cross-entropy w · mean_ij BCE(zᵢ·zⱼ, Ãᵢⱼ) of embeddings, where Ã has the edges and all self-loops.

    Edges are weighted by p = (N² - ΣÃ) / ΣÃ, and w = N² / (2 (N² - ΣÃ)), so that edges and other pairs contribute half
    each. Calling it on z `[Q, N, D]` returns losses `[Q]`, differentiable once. `pairs` are the `undirected_edges`.

    >>> z = torch.tensor([[[9.0, 0.0], [9.0, 0.0], [-9.0, 0.0]]])
    >>> bool(ReconstructionLoss(torch.tensor([[0], [1]]), 3)(z) < 1e-6)
    True
    """

    def __init__(self, pairs: Tensor, num_nodes: int) -> None:
        loops = torch.arange(num_nodes, device=pairs.device).expand(2, -1)
        self.pattern = SparsePattern.from_edges(torch.cat([pairs, pairs.flip(0), loops], dim=1), num_nodes)
        positives = 2 * pairs.shape[1] + num_nodes
        # At least 1, so that the loss of a complete graph is finite.
        negatives = max(1, num_nodes**2 - positives)
        self.positive_weight = negatives / positives
        # w / N², as the mean is computed from a sum.
        self.scale = 1 / (2 * negatives)

    def __call__(self, z: Tensor) -> Tensor:
        losses: Tensor = _Reconstruction.apply(z, self)  # type: ignore[no-untyped-call]
        return losses


class _Reconstruction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, loss: ReconstructionLoss) -> Tensor:
        total, grad = _all_pairs(z)
        # The loss of an edge is p · softplus(-zᵢ·zⱼ) instead.
        pattern, weight = loss.pattern, loss.positive_weight
        score = (z.index_select(1, pattern.columns) * z.index_select(1, pattern.rows)).sum(2)
        correction = (weight * functional.softplus(-score) - functional.softplus(score)).sum(1)
        grad_score = -weight * torch.sigmoid(-score) - torch.sigmoid(score)
        # Scores and targets are symmetric: the pairs (i, j) and (j, i) contribute equally to the gradient of zᵢ.
        ctx.save_for_backward((grad + multiply_each(z, grad_score, pattern)).mul_(2 * loss.scale))
        return (total + correction) * loss.scale

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (grad_z,) = ctx.saved_tensors
        return grad_z * grad.view(-1, 1, 1), None


def _all_pairs(z: Tensor) -> tuple[Tensor, Tensor]:
    """Σᵢⱼ softplus(zᵢ·zⱼ) `[Q]`, the loss of a graph without edges, and Σⱼ σ(zᵢ·zⱼ) zⱼ for each i."""
    total, grad = z.new_zeros(len(z)), torch.zeros_like(z)
    for start, end in row_blocks(z.shape[1], z.device):
        # Only columns from the diagonal on: the matrix is symmetric.
        rows, columns, height = z[:, start:end], z[:, start:], end - start
        score = torch.bmm(rows, columns.transpose(1, 2))
        losses = functional.softplus(score)
        total += 2 * losses.sum((1, 2)) - losses[:, :, :height].sum((1, 2))
        probability = score.sigmoid_()
        grad[:, start:end] += torch.bmm(probability, columns)
        grad[:, end:] += torch.bmm(probability[:, :, height:].transpose(1, 2), rows)
    return total, grad


class VariationalGraphAutoencoder:
    """A variational graph autoencoder of one graph: μ and log σ of each node's embedding.

    H = ELU(ÂXW), μ = ÂHW_μ, log σ = ÂHW_σ without bias or dropout; rows of X are divided by their L1 norm. `seed`
    determines the initial parameters and the noise in training.
    """

    def __init__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None, seed: int = 0) -> None:
        init = torch.Generator().manual_seed(seed)
        self.x = functional.normalize(x, p=1, dim=1)
        self.adjacency = normalized_adjacency(edge_index, edge_weight, len(x), x.dtype)
        self.reconstruction = ReconstructionLoss(undirected_edges(edge_index, len(x)), len(x))
        shapes = (HIDDEN, x.shape[1]), (2 * EMBEDDING, HIDDEN)
        self.weights = [glorot_uniform(*shape, init).to(x).unsqueeze(0).requires_grad_() for shape in shapes]
        self.generator = torch.Generator(x.device).manual_seed(int(torch.randint(2**31, (1,), generator=init)))

    def encode(self) -> tuple[Tensor, Tensor]:
        """μ and log σ, `[1, N, D]` each."""
        hidden = functional.elu(self.adjacency(batched_linear(self.x, self.weights[0])))
        mean, log_std = self.adjacency(batched_linear(hidden, self.weights[1])).chunk(2, dim=2)
        return mean, log_std

    def loss(self) -> Tensor:
        """Reconstruction loss of a sample Z = μ + ε ⊙ σ, plus 1/N of the mean KL divergence from a standard normal."""
        mean, log_std = self.encode()
        noise = torch.randn(mean.shape, generator=self.generator, dtype=mean.dtype, device=mean.device)
        divergence = -0.5 * (1 + 2 * log_std - mean**2 - (2 * log_std).exp()).sum(2).mean()
        reconstruction = self.reconstruction((mean + noise * log_std.exp()).contiguous()).sum()
        return reconstruction + divergence / len(self.x)

    def train(self, epochs: int, callback: Callback | None = None) -> Tensor:
        """Trains and returns μ `[N, D]`."""
        minimize(self.loss, torch.optim.Adam(self.weights, lr=0.01, fused=True), epochs, "edge predictor", callback)
        with torch.no_grad():
            return self.encode()[0].squeeze(0).contiguous()
