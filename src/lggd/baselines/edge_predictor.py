"""Which pairs of nodes ought to be joined: encoders whose products of node vectors say so, and the loss they learn by.

A loss over all N² pairs and its gradient are computed together, some rows at a time: nothing of size N² is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones.layers import batched_linear, gcn_adjacency
from lggd.backbones.propagation import Propagation, SortedEdges, spread_each
from lggd.training.progress import Callback, Progress

# How many numbers to work on at a time: on a CPU what stays in its cache, on a GPU what keeps all of it busy. It must
# not depend on how many problems there are: each draws its random numbers block by block, as it would alone.
ENTRIES_AT_ONCE = {"cpu": 2**18, "cuda": 2**26}


def row_blocks(num_nodes: int, device: torch.device) -> Iterator[tuple[int, int]]:
    """Bounds of blocks of rows of a matrix `[N, N]`."""
    height = max(1, ENTRIES_AT_ONCE[device.type] // num_nodes)
    return ((start, min(num_nodes, start + height)) for start in range(0, num_nodes, height))


def joined_pairs(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Every pair i < j that has an edge in either direction, once, in order: int64 `[2, P]`. Loops are none.

    >>> joined_pairs(torch.tensor([[1, 0, 2, 2], [0, 1, 2, 0]]), 3).tolist()
    [[0, 0], [1, 2]]
    """
    low, high = edge_index.amin(0), edge_index.amax(0)
    pair = torch.unique((low * num_nodes + high)[low != high])
    return torch.stack([pair // num_nodes, pair % num_nodes])


def row_shares(x: Tensor) -> Tensor:
    """Contents with rows that add up to 1 in absolute value; rows of zeros stay."""
    return functional.normalize(x, p=1, dim=1)


class Reconstruction:
    """How badly products of node vectors tell pairs that are joined, each node with itself too, from all others.

    The weighted cross-entropy w · mean_ij BCE(zᵢ·zⱼ, Ãᵢⱼ), where the joined count p = (N² - ΣÃ) / ΣÃ times as much and
    w = N² / (2 (N² - ΣÃ)): both kinds count half. Called on z `[Q, N, D]` it gives `[Q]`, differentiable once.

    Args:
        pairs: as `joined_pairs` gives them, `[2, P]`.
        num_nodes: N.

    >>> told_apart = torch.tensor([[[9.0, 0.0], [9.0, 0.0], [-9.0, 0.0]]])
    >>> bool(Reconstruction(torch.tensor([[0], [1]]), 3)(told_apart) < 1e-6)
    True
    """

    def __init__(self, pairs: Tensor, num_nodes: int) -> None:
        loops = torch.arange(num_nodes, device=pairs.device).expand(2, -1)
        self.edges = SortedEdges(torch.cat([pairs, pairs.flip(0), loops], dim=1), num_nodes)
        joined = 2 * pairs.shape[1] + num_nodes
        # Where all are joined there is nothing to tell apart, but the numbers stay finite.
        apart = max(1, num_nodes**2 - joined)
        self.joined_weight = apart / joined
        # w / N², as a sum over all pairs is needed to make the mean.
        self.scale = 1 / (2 * apart)

    def __call__(self, z: Tensor) -> Tensor:
        losses: Tensor = _Reconstruct.apply(z, self)  # type: ignore[no-untyped-call]
        return losses


class _Reconstruct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, of: Reconstruction) -> Tensor:
        total, by_score = _as_if_apart(z)
        corrected, by_score_of_joined = _joined_instead(z, of)
        # Scores and targets are symmetric: what zᵢ is told of zⱼ comes from both (i, j) and (j, i).
        ctx.save_for_backward((by_score + by_score_of_joined).mul_(2 * of.scale))
        return (total + corrected) * of.scale

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (by_z,) = ctx.saved_tensors
        return by_z * grad.view(-1, 1, 1), None


def _as_if_apart(z: Tensor) -> tuple[Tensor, Tensor]:
    """Σᵢⱼ softplus(zᵢ·zⱼ) `[Q]`, the loss if no pair were joined, and Σⱼ σ(zᵢ·zⱼ) zⱼ for each i."""
    total, told = z.new_zeros(len(z)), torch.zeros_like(z)
    for start, end in row_blocks(z.shape[1], z.device):
        # Only from the diagonal on: the other half is the same.
        mine, others, height = z[:, start:end], z[:, start:], end - start
        score = torch.bmm(mine, others.transpose(1, 2))
        each = functional.softplus(score)
        total += 2 * each.sum((1, 2)) - each[:, :, :height].sum((1, 2))
        share = score.sigmoid_()
        told[:, start:end] += torch.bmm(share, others)
        told[:, end:] += torch.bmm(share[:, :, height:].transpose(1, 2), mine)
    return total, told


def _joined_instead(z: Tensor, of: Reconstruction) -> tuple[Tensor, Tensor]:
    """What joined pairs add to both: theirs is p · softplus(-zᵢ·zⱼ) instead."""
    edges, weight = of.edges, of.joined_weight
    score = (z.index_select(1, edges.source) * z.index_select(1, edges.target)).sum(2)
    added = weight * functional.softplus(-score) - functional.softplus(score)
    by_score = -weight * torch.sigmoid(-score) - torch.sigmoid(score)
    return added.sum(1), spread_each(z, by_score, edges)


def uniform_weight(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """A weight `[rows, columns]` on the CPU, uniform as Glorot and Bengio have it."""
    bound: float = (6 / (rows + columns)) ** 0.5
    return (torch.rand(rows, columns, generator=generator) * 2 - 1) * bound


class VariationalEncoder:
    """A variational graph autoencoder (Kipf and Welling) of one graph: μ and log σ of each node's vector.

    H = ELU(ÂXW), μ = ÂHW_μ, log σ = ÂHW_σ without bias or dropout; rows of X are scaled to a sum of 1.

    Args:
        x: contents `[N, F]`.
        edge_index, edge_weight: the graph.
        hidden: the width of H.
        size: the length of a node's vector.
        seed: of the first parameters and of what is drawn in training.
    """

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        hidden: int = 32,
        size: int = 16,
        seed: int = 0,
    ) -> None:
        first = torch.Generator().manual_seed(seed)
        self.x = row_shares(x)
        self.spread: Propagation = gcn_adjacency(edge_index, edge_weight, len(x), x.dtype)
        self.reconstruction = Reconstruction(joined_pairs(edge_index, len(x)), len(x))
        shapes = (hidden, x.shape[1]), (2 * size, hidden)
        self.weights = [uniform_weight(*shape, first).to(x).unsqueeze(0).requires_grad_() for shape in shapes]
        self.generator = torch.Generator(x.device).manual_seed(int(torch.randint(2**31, (1,), generator=first)))

    def mean_and_log_deviation(self) -> tuple[Tensor, Tensor]:
        """μ and log σ, `[1, N, size]` each."""
        hidden = functional.elu(self.spread(batched_linear(self.x, self.weights[0])))
        mean, log_deviation = self.spread(batched_linear(hidden, self.weights[1])).chunk(2, dim=2)
        return mean, log_deviation

    def loss(self) -> Tensor:
        """The reconstruction of one drawn Z = μ + ε ⊙ σ, and 1/N times how far it is from normal, in the mean."""
        mean, log_deviation = self.mean_and_log_deviation()
        noise = torch.randn(mean.shape, generator=self.generator, dtype=mean.dtype, device=mean.device)
        divergence = -0.5 * (1 + 2 * log_deviation - mean**2 - (2 * log_deviation).exp()).sum(2).mean()
        drawn = self.reconstruction((mean + noise * log_deviation.exp()).contiguous()).sum()
        return drawn + divergence / len(self.x)

    def train(self, epochs: int, lr: float = 0.01, callback: Callback | None = None) -> Tensor:
        """Learns to tell joined pairs from others; gives μ `[N, size]`."""
        adam = torch.optim.Adam(self.weights, lr=lr, fused=True)
        for epoch in range(epochs):
            adam.zero_grad()
            self.loss().backward()  # type: ignore[no-untyped-call]
            adam.step()
            if callback is not None:
                callback(Progress("edge predictor", epoch + 1, epochs))
        with torch.no_grad():
            return self.mean_and_log_deviation()[0].squeeze(0).contiguous()
