"""Edges predicted from node embeddings Z, for GAug: graph autoencoders, and graphs sampled from the predictions.

All pairs of nodes are computed in blocks of rows, with losses and gradients together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer

from lggd.backbones.convolutions import batched_linear
from lggd.graph.sparse import SparsePattern, multiply_each, normalized_adjacency
from lggd.progress import Callback, Progress

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
        total, grad = all_pairs(z)
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


def all_pairs(z: Tensor) -> tuple[Tensor, Tensor]:
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


# Probabilities are clamped to [ε, 1 - ε]: closer to 0 and 1, log-odds have no float32 precision.
EPSILON = 1e-7


class SampledGraphs:
    """Graphs A' of Q problems: symmetric, binary, with all self-loops; `sample` draws new ones.

    A pair i < j is an edge with probability P = α zᵢ·zⱼ + (1 - α) Aᵢⱼ, where all |zᵢ| ≤ 1 and zᵢ·zⱼ ≥ 0. With u uniform
    in (0, 1) and soft = σ((logit P + logit u) / τ), it is an edge if soft > ½. The straight-through gradient is that of
    soft: d A'ᵢⱼ / dP = soft (1 - soft) / (τ P (1 - P)). An epoch stores 1½ entries per pair of nodes and problem; the
    rest is computed in blocks of rows, and only in the upper triangle, because graphs are symmetric.

    Calling it multiplies values `[Q, N, C]` by D'^-½ A' D'^-½. After a backward pass through such products, `gradient`
    returns the gradient of z. `pairs` are the edges i < j of A, sorted and without duplicates, `[2, P]`.

    >>> graphs = SampledGraphs(torch.tensor([[0], [1]]), 3, [torch.Generator()], alpha=0.0, temperature=1.0)
    >>> graphs.sample(torch.zeros(1, 3, 2))
    >>> graphs.adjacency.tolist()
    [[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    """

    def __init__(
        self, pairs: Tensor, num_nodes: int, generators: Sequence[torch.Generator], alpha: float, temperature: float
    ) -> None:
        self.generators, self.alpha, self.temperature = generators, alpha, temperature
        self.blocks = list(row_blocks(num_nodes, pairs.device))
        # Flat positions of the edges in each block: rows `start` to `end` and columns from `start` on.
        self.block_edges = []
        for start, end in self.blocks:
            rows, columns = pairs[:, (pairs[0] >= start) & (pairs[0] < end)] - start
            self.block_edges.append(rows * (num_nodes - start) + columns)
        self.adjacency = torch.zeros(len(generators), num_nodes, num_nodes, device=pairs.device)
        self.slopes = [torch.zeros_like(self.adjacency[:, start:end, start:]) for start, end in self.blocks]

    def sample(self, z: Tensor) -> None:
        """Samples all edges from embeddings `[Q, N, D]`."""
        self.z = z.detach()
        for (start, end), edges, slope in zip(self.blocks, self.block_edges, self.slopes, strict=True):
            height = end - start
            sampled = self._sample_block(start, end, edges, slope)
            square = sampled[:, :, :height]
            # Mirror the strict upper triangle and add the self-loops.
            square.triu_(1)
            slope[:, :, :height].triu_(1)
            square.add_(square.transpose(1, 2).clone())
            square.diagonal(dim1=1, dim2=2).fill_(1)
            self.adjacency[:, start:end, start:].copy_(sampled)
            self.adjacency[:, end:, start:end].copy_(sampled[:, :, height:].transpose(1, 2))
        # Exact: a sum of ones.
        self.degree = self.adjacency.sum(2, keepdim=True).requires_grad_()
        self.scale = self.degree.rsqrt()
        # The gradient of A' as a sum of outer products left · rightᵀ.
        self.gradient_factors: list[tuple[Tensor, Tensor]] = []

    def _sample_block(self, start: int, end: int, edges: Tensor, slope: Tensor) -> Tensor:
        """A' in rows `start` to `end` and columns from `start` on, as zeros and ones; writes d A'/dP into `slope`."""
        probability = torch.bmm(self.z[:, start:end] * self.alpha, self.z[:, start:].transpose(1, 2))
        # Each position occurs once, so that the order of additions does not matter.
        original = probability.new_full((1, 1), 1 - self.alpha).expand(len(probability), len(edges))
        probability.view(len(probability), -1).index_add_(1, edges, original)
        unclamped = (probability - 0.5).abs_().lt_(0.5 - EPSILON)
        probability.clamp_(EPSILON, 1 - EPSILON)
        logit = torch.empty_like(probability)
        for row, generator in zip(logit, self.generators, strict=True):
            row.uniform_(generator=generator)
        logit.logit_().add_(probability.logit())
        sampled = logit.gt(0).to(probability.dtype)
        soft = logit.div_(self.temperature).sigmoid_()
        torch.mul(soft, 1 - soft, out=slope)
        # A clamped probability has no gradient.
        slope.div_(probability.sub_(probability * probability).mul_(self.temperature)).mul_(unclamped)
        return sampled

    def __call__(self, values: Tensor) -> Tensor:
        product: Tensor = _AdjacencyProduct.apply(self.scale * values, self)  # type: ignore[no-untyped-call]
        return self.scale * product

    def gradient(self) -> Tensor:
        """Returns the gradient of z, `[Q, N, D]`; call it once after each backward pass."""
        if self.degree.grad is None:
            raise RuntimeError("`gradient` must follow a backward pass through products with this graph.")
        self.gradient_factors.append((self.degree.grad, torch.ones_like(self.degree)))
        left, right = (torch.cat(side, dim=2) for side in zip(*self.gradient_factors, strict=True))
        self.gradient_factors.clear()
        # Edge (i, j) is stored twice: its gradient is Gᵢⱼ + Gⱼᵢ with G = left · rightᵀ.
        left, right = torch.cat([left, right], dim=2), torch.cat([right, left], dim=2)
        z, grad = self.z, torch.zeros_like(self.z)
        for (start, end), slope in zip(self.blocks, self.slopes, strict=True):
            grad_probability = torch.bmm(left[:, start:end], right[:, start:].transpose(1, 2)).mul_(slope)
            grad[:, start:end] += torch.bmm(grad_probability, z[:, start:])
            grad[:, start:] += torch.bmm(grad_probability.transpose(1, 2), z[:, start:end])
        return grad.mul_(self.alpha)


class _AdjacencyProduct(torch.autograd.Function):
    """A' times values. The gradient of A' has low rank; its factors are collected by the graph."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, graph: SampledGraphs) -> Tensor:
        ctx.graph = graph
        ctx.save_for_backward(values)
        return torch.bmm(graph.adjacency, values)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (values,) = ctx.saved_tensors
        # Detached, to avoid a reference cycle between the values and the graph.
        ctx.graph.gradient_factors.append((grad, values.detach()))
        return torch.bmm(ctx.graph.adjacency, grad), None
