"""GDC (Gasteiger et al.): graph diffusion convolution, that is a network on the graph of who is near by diffusion."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import torch
from scipy.special import ive
from torch import Tensor

from lggd.backbones import GCN, Backbone, JKNet
from lggd.backbones.propagation import Propagation, SortedEdges
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, BaselineProblem
from lggd.baselines.made_graphs import Kept, check_backbone, check_symmetric, digests, stack_on, with_graph
from lggd.errors import InputError, InputTypeError
from lggd.graph.edge_index import read_edges
from lggd.training.progress import Callback

# How exact the entries of S are; those below it cannot be told from 0 and are no edges.
TOLERANCE = 1e-10
# How far kernels may reach. Here S takes thousands of products with T, about a minute on a graph the size of Cora.
# Farther out it takes ever more, and rounding may keep PageRank's coefficients from ever adding up to 1.
LEAST_ALPHA, LARGEST_T = 1e-5, 1e6
# How many numbers to work on at a time: on a CPU what stays in its cache, on a GPU what keeps all of it busy.
ENTRIES_AT_ONCE = {"cpu": 2**19, "cuda": 2**25}


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


@dataclass(frozen=True)
class PPR:
    """Personalised PageRank: S = α (I - (1 - α) T)⁻¹ = Σₖ α (1 - α)ᵏ Tᵏ. The smaller α, the wider it reaches.

    α lies in [1e-5, 1]: the work grows as 1/√α.

    >>> PPR(alpha=1).chebyshev()
    [1.0]
    """

    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not _is_number(self.alpha) or not LEAST_ALPHA <= self.alpha <= 1:
            raise InputError(
                "alpha",
                f"lie in [{LEAST_ALPHA:g}, 1]",
                repr(self.alpha),
                "Towards 0 nothing would ever stop spreading; use 0.05.",
            )

    def chebyshev(self) -> list[float]:
        """What S has of each Chebyshev polynomial of T, down to `TOLERANCE` in all that is left out.

        In closed form: 2α/√(1 - (1 - α)²) · rᵏ with r = (1 - α) / (1 + √(1 - (1 - α)²)), half of it for k = 0.
        """
        root = math.sqrt(1 - (1 - self.alpha) ** 2)
        ratio = (1 - self.alpha) / (1 + root)
        return _until_exact(lambda order: self.alpha / root * ratio**order)


@dataclass(frozen=True)
class Heat:
    """The heat kernel: S = exp(-t (I - T)) = e^-t Σₖ tᵏ/k! Tᵏ. The larger t, the wider it reaches.

    t is at most 1e6: the work grows as √t.

    >>> round(sum(Heat(t=1.0).chebyshev()), 8)
    1.0
    """

    t: float = 5.0

    def __post_init__(self) -> None:
        if not _is_number(self.t) or not 0 < self.t <= LARGEST_T:
            raise InputError(
                "t", f"be positive and at most {LARGEST_T:g}", repr(self.t), "It is the time that heat spreads; use 5."
            )

    def chebyshev(self) -> list[float]:
        """What S has of each Chebyshev polynomial of T: 2e^-t Iₖ(t), half of it for k = 0, I being Bessel's."""
        return _until_exact(lambda order: ive(order, self.t))


@dataclass(eq=False)
class GDC(Baseline):
    """A backbone on the graph of each node's strongest partners in diffusion, in training and in evaluation.

    S is the kernel of T = D̃^-½ (A + I) D̃^-½. Its k largest entries a column (dim=0: the k strongest sources of each
    target) or a row (dim=1: the k strongest targets of each source) are the new edges; what is 0 is none. Weights are
    scaled so that those into each target add up to 1. GCN and JKNet take these weights as they are, with no loops added
    and no other scaling; ChebNet takes them as those of any graph, GAT takes the edges alone. No label is looked at.

    The edges must go in both directions; weights are the entries of A.

    Args:
        kernel: PPR(alpha) or Heat(t).
        k: how many edges each node keeps.
        dim: 0 for the edges into a node, 1 for those out of it.
        backbone: GCN(), GAT(), ChebNet() or JKNet().

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> GDC(Heat(t=3.0), k=8).transform(data).num_edges == 34 * 8
    True
    >>> GDC(k=8, optimization=lggd.Optimization(epochs=20)).fit(data).predict().shape
    torch.Size([34])
    """

    kernel: PPR | Heat = PPR()
    k: int = 64
    dim: int = 0
    backbone: Backbone = GCN()

    def transform(self, data: Any) -> Any:
        """A shallow copy of PyG data with the new edges, as `edge_index` and `edge_weight`."""
        self._check()
        edges, weight = read_edges(data, data.num_nodes)
        return with_graph(data, *self._diffused(edges, weight, data.num_nodes))

    def _check(self) -> None:
        if not isinstance(self.kernel, (PPR, Heat)):
            raise InputTypeError("kernel", "be PPR(alpha) or Heat(t)", repr(self.kernel))
        if isinstance(self.k, bool) or not isinstance(self.k, Integral) or self.k < 1:
            raise InputError("k", "be a whole number from 1", repr(self.k), "Each node keeps that many edges.")
        if isinstance(self.dim, bool) or self.dim not in (0, 1):
            raise InputError("dim", "be 0, for edges into a node, or 1, for those out of it", repr(self.dim))
        check_backbone(self.backbone)

    def _networks(
        self, subject: BaselineData, problems: Sequence[BaselineProblem], callback: Callback | None
    ) -> BaselineNetworks:
        edge_index, weight = self._diffused(subject.edge_index, subject.edge_weight, subject.num_nodes)
        stack = stack_on(edge_index, weight, subject, problems, self.backbone)
        if isinstance(self.backbone, (GCN, JKNet)):
            edges = SortedEdges(edge_index, subject.num_nodes)
            stack.graph = Propagation(edges, weight[edges.order])
        return stack

    def _diffused(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> tuple[Tensor, Tensor]:
        """Sources and targets `[2, E']`, ordered by target, and weights float32 `[E']`."""
        k = min(int(self.k), num_nodes)
        # Kept without `dim`: as S is symmetric, its rows are its columns.
        partner, share = _KEPT(
            (digests(edge_index, edge_weight), num_nodes, self.kernel, k),
            lambda: strongest(transition(edge_index, edge_weight, num_nodes), self.kernel.chebyshev(), k),
        )
        there = (share > TOLERANCE).flatten()
        node = torch.arange(num_nodes, device=edge_index.device).repeat_interleave(k)[there]
        partner, share = partner.flatten()[there], share.flatten()[there]
        ends = [partner, node] if self.dim == 0 else [node, partner]
        edges = SortedEdges(torch.stack(ends), num_nodes)
        share = share[edges.order]
        total = edges.sums(share.unsqueeze(1)).squeeze(1)
        return torch.stack([edges.source, edges.target]), (share / total[edges.target]).float()


# Sweeps come back to the same diffusion for each split, and for both values of `dim`.
_KEPT: Kept[tuple[Tensor, Tensor]] = Kept(most=8)


def transition(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Tensor:
    """T = D̃^-½ (A + I) D̃^-½ as compressed rows, float64 `[N, N]`: symmetric, with eigenvalues in (-1, 1]."""
    check_symmetric(edge_index, edge_weight, num_nodes)
    loops = torch.arange(num_nodes, device=edge_index.device).expand(2, -1)
    edges = SortedEdges(torch.cat([edge_index, loops], dim=1), num_nodes)
    weight = torch.ones(edge_index.shape[1], device=loops.device) if edge_weight is None else edge_weight.detach()
    weight = torch.cat([weight.double(), torch.ones(num_nodes, dtype=torch.float64, device=loops.device)])[edges.order]
    scale = edges.sums(weight.unsqueeze(1)).squeeze(1).rsqrt()
    return edges.matrix(weight * scale[edges.source] * scale[edges.target])


def strongest(matrix: Tensor, coefficients: Sequence[float], k: int) -> tuple[Tensor, Tensor]:
    """Of S = Σₖ coefficients[k] · Tₖ(matrix), the k largest entries of each column: where, int64, and what, `[N, k]`.

    Column by column, some at a time: S as a whole is never there.

    >>> matrix = transition(torch.tensor([[0, 1], [1, 0]]), None, num_nodes=2)
    >>> where, what = strongest(matrix, PPR(alpha=0.5).chebyshev(), k=1)
    >>> where.tolist(), round(float(what[0, 0]), 8)
    ([[0], [1]], 0.75)
    """
    size = len(matrix)
    width = max(1, ENTRIES_AT_ONCE[matrix.device.type] // size)
    found = [
        _columns(matrix, coefficients, start, min(size, start + width)).t().contiguous().topk(k, dim=1)
        for start in range(0, size, width)
    ]
    return torch.cat([one.indices for one in found]), torch.cat([one.values for one in found])


def _columns(matrix: Tensor, coefficients: Sequence[float], start: int, end: int) -> Tensor:
    """The columns of S from `start` to `end`, by the recurrence Tₖ₊₁ = 2T·Tₖ - Tₖ₋₁ of Chebyshev's polynomials."""
    previous = torch.zeros(len(matrix), end - start, dtype=matrix.dtype, device=matrix.device)
    previous[start:end].fill_diagonal_(1)
    total = coefficients[0] * previous
    if len(coefficients) == 1:
        return total
    current = matrix @ previous
    total.add_(current, alpha=coefficients[1])
    for coefficient in coefficients[2:]:
        torch.addmm(previous, matrix, current, beta=-1, alpha=2, out=previous)
        previous, current = current, previous
        total.add_(current, alpha=coefficient)
    return total


def _until_exact(half: Callable[[int], float]) -> list[float]:
    """The coefficients half(0), 2·half(1), 2·half(2), … until no more than `TOLERANCE` is left.

    All are positive, and they add up to S at the eigenvalue 1 of T, which is 1: that tells how much is left.
    """
    coefficients = [float(half(0))]
    for order in itertools.count(1):
        if 1 - math.fsum(coefficients) <= TOLERANCE:
            break
        coefficients.append(2 * float(half(order)))
    return coefficients
