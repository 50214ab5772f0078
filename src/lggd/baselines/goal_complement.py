"""GOAL's complement: the graph of what the given graph lacks, edges between nodes that have little in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones.layers import batched_linear
from lggd.backbones.propagation import Propagation, SortedEdges
from lggd.errors import InputError
from lggd.training.cuda_graph import CUDAGraphStep
from lggd.training.progress import Callback, Progress
from lggd.training.randomness import read_seed

# Of more training nodes than this, a random choice is compared pairwise: lists and pairs take memory by the square.
COMPARED = 1000
# The most pairs of unlike nodes an epoch, and the longest half of a list to be ranked.
UNLIKE_PAIRS, LONGEST_HALF = 10_000, 200
# The relevance of the first three blocks of a list, each of this share of half of it; the rest has relevance 1.
RELEVANCE, BLOCK = (4.0, 3.0, 2.0), 0.4


@dataclass(frozen=True)
class Complement:
    """How embeddings are learned that say which nodes have little in common, and who may be chosen by them.

    An MLP of `layers` layers, 2 · hidden wide and `hidden` at the end, is trained by Adam for a fixed number of epochs
    on three losses at once: the class of the training nodes, whether two of them are of one class, and their order by
    likeness (see `LikenessLoss`).

    Args:
        hidden: the width of the embedding, at least the number of classes.
        layers: how many linear maps there are.
        epochs: how many steps Adam makes.
        lr: how large they are.
        candidates: the share of all nodes, drawn at random, that edges may lead to.

    >>> Complement().layers
    3
    """

    hidden: int = 16
    layers: int = 3
    epochs: int = 200
    lr: float = 0.01
    candidates: float = 0.1

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "epochs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(name, "be a whole number from 1", repr(value))
        if not 0 < self.lr < math.inf:
            raise InputError("lr", "be positive", repr(self.lr))
        if not 0 < self.candidates <= 1:
            raise InputError("candidates", "be a share in (0, 1]", repr(self.candidates), "Use 1 for all nodes.")


def complement_graphs(
    choice: Complement,
    k: int,
    x: Tensor,
    contents: Tensor,
    train: Tensor,
    seeds: Sequence[int],
    callback: Callback | None,
) -> list[Tensor]:
    """For each problem the edges from every node to the k candidates that are least like it, `[2, N·k]`.

    Args:
        choice: how.
        k: all candidates where they are fewer.
        x: what embeddings are made of, `[N, F]` for all, or `[Q, N, F]`.
        contents: what lists are ordered by, `[N, F]`.
        train: int64 `[Q, N]`, the class of each training node and -1 elsewhere.
        seeds: one a problem.
        callback: hears of the epochs of "complement".
    """
    starting = [torch.Generator().manual_seed(seed) for seed in seeds]
    nodes = x.shape[-2]
    count = max(1, int(choice.candidates * nodes))
    candidates = [torch.randperm(nodes, generator=one)[:count].to(x.device) for one in starting]
    embedding = _Encoders(choice, x, contents, train, starting).trained(callback)
    return [unlike(z, chosen, k) for z, chosen in zip(embedding, candidates, strict=True)]


def unlike(embedding: Tensor, candidates: Tensor, k: int) -> Tensor:
    """Edges from every node i to the k candidates c of the smallest ⟨z_i, z_c⟩, `[2, N·k]`; i itself may be one.

    >>> unlike(torch.tensor([[1.0], [-1.0], [2.0]]), torch.tensor([0, 1]), k=1).tolist()
    [[0, 1, 2], [1, 0, 1]]
    """
    k = min(k, len(candidates))
    chosen = (embedding @ embedding[candidates].t()).topk(k, largest=False).indices
    source = torch.arange(len(embedding), device=embedding.device).repeat_interleave(k)
    return torch.stack([source, candidates[chosen].flatten()])


def normalised_blocks(graphs: Sequence[Tensor], num_nodes: int) -> Propagation:
    """D^-½ (A + Aᵀ) D^-½ of graphs `[2, E]` of N nodes each, one after the other in a matrix of Q·N rows.

    Equal edges count as often as they are there. A node without edges has a row of zeros.
    """
    offset = torch.cat([edges + q * num_nodes for q, edges in enumerate(graphs)], dim=1)
    both = torch.cat([offset, offset.flip(0)], dim=1)
    edges = SortedEdges(both, len(graphs) * num_nodes)
    root = torch.diff(edges.starts).clamp(min=1).float().rsqrt()
    return Propagation(edges, root[edges.source] * root[edges.target])


class _Encoders:
    """Q encoders side by side; each is trained as if it were alone."""

    def __init__(
        self, choice: Complement, x: Tensor, contents: Tensor, train: Tensor, starting: Sequence[torch.Generator]
    ) -> None:
        self.choice, self.x = choice, x
        sizes = [x.shape[-1], *[2 * choice.hidden] * (choice.layers - 1), choice.hidden]
        self.weights = [
            torch.stack([_glorot(b, a, one) for one in starting]).to(x.device).requires_grad_()
            for a, b in pairwise(sizes)
        ]
        self.biases = [torch.zeros(len(train), 1, b, device=x.device, requires_grad=True) for b in sizes[1:]]
        known = [_in_turn(labels, one) for labels, one in zip(train, starting, strict=True)]
        self.drawing = [torch.Generator(x.device).manual_seed(read_seed(one)) for one in starting]
        self.train, self.known = train, _padded(known, 0)
        self.seen = self._seen(self.known)
        self.loss = LikenessLoss(
            contents[self.known], _padded([labels[nodes] for labels, nodes in zip(train, known, strict=True)], -1)
        )
        self.adam = torch.optim.Adam([*self.weights, *self.biases], lr=choice.lr, fused=True, capturable=x.is_cuda)

    def trained(self, callback: Callback | None) -> Tensor:
        """The embeddings of all nodes, `[Q, N, hidden]`, after all epochs."""
        epoch = CUDAGraphStep(self._epoch, self.x.device, self.drawing)
        for number in range(self.choice.epochs):
            losses = epoch()
            if callback is not None:
                callback(Progress("complement", number + 1, self.choice.epochs))
        # Only now are they looked at: an epoch on a GPU does not wait for the last one.
        if not bool(losses.isfinite().all()):
            raise FloatingPointError(
                f"The loss of the complement must stay finite, got {losses.tolist()}. Lower its `lr`, now "
                f"{self.choice.lr}, or check that all features in `x` are finite."
            )
        epoch.reset()
        with torch.no_grad():
            return self._embedded(self.x)

    def _epoch(self) -> Tensor:
        self.adam.zero_grad()
        pairs, apart = self._drawn_pairs()
        count = self.known.shape[1]
        embedding = self._embedded(torch.cat([self.seen, self._seen(pairs)], dim=1))
        known, (left, right) = embedding[:, :count], embedding[:, count:].chunk(2, dim=1)
        losses = self.loss(known, left, right, apart)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.adam.step()
        return losses.detach()

    def _embedded(self, x: Tensor) -> Tensor:
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = batched_linear(x if number == 0 else torch.relu(x), weight) + bias
        return x

    def _seen(self, nodes: Tensor) -> Tensor:
        """The features of these nodes `[Q, n]` of each problem, `[Q, n, F]`."""
        if self.x.dim() == 2:
            return self.x[nodes]
        return self.x[torch.arange(len(nodes), device=nodes.device).unsqueeze(1), nodes]

    def _drawn_pairs(self) -> tuple[Tensor, Tensor]:
        """Ordered pairs of any nodes, all first and then all second ones, `[Q, 2m]`; and which of them count, `[Q, m]`.

        Those do that are not among the pairs of a class. A pair of a class is there in one direction only, so that some
        of these are of one class, too.
        """
        drawn = []
        for generator, like in zip(self.drawing, self.loss.like_pairs, strict=True):
            shape = (2, min(like, UNLIKE_PAIRS))
            drawn.append(torch.randint(self.x.shape[-2], shape, generator=generator, device=self.x.device))
        left, right = (_padded([pairs[side] for pairs in drawn], -1) for side in (0, 1))
        there = left >= 0
        left, right = left.clamp(min=0), right.clamp(min=0)
        first, second = self.train.gather(1, left), self.train.gather(1, right)
        apart = there & ~((first >= 0) & (first == second) & (left <= right))
        return torch.cat([left, right], dim=1), apart


class LikenessLoss:
    """What embeddings z of training nodes are judged by, each problem by itself: the sum of three losses.

    * Classes: the cross-entropy with z as logits, of which the first K stand for the classes.
    * Pairs: −mean log σ(⟨z_i, z_j⟩) over the pairs i ≤ j of a class, −mean log(1 − σ(⟨z_i, z_j⟩)) over drawn ones.
    * Order: for each node a list of the ℓ nodes of its class that are most like it, and then of the ℓ most alike of
      others, where ℓ is the size of the smallest class and likeness the product of contents, 0 with oneself. The
      cross-entropy between the softmax of their relevance, 4, 3, 2 and 1 from the first on, and that of ⟨z_i, z_list⟩
      (ListNet).

    All nodes are training nodes. Products of all pairs are weighed, where gathering lists would add up gradients in an
    order that changes on a GPU.

    Args:
        features: the contents of the training nodes, `[Q, n, F]`.
        labels: their classes `[Q, n]`, -1 where a problem has fewer.
    """

    def __init__(self, features: Tensor, labels: Tensor) -> None:
        there = labels >= 0
        self.classes = functional.one_hot(labels.clamp(min=0)).float() * there.unsqueeze(2)
        self.classes /= there.sum(1).view(-1, 1, 1)
        features, labels = features[:, :COMPARED], labels[:, :COMPARED]
        there = labels >= 0
        self.like = torch.triu((labels.unsqueeze(1) == labels.unsqueeze(2)) & there.unsqueeze(1)).float()
        pairs = self.like.sum((1, 2))
        self.like_pairs: list[int] = [int(count) for count in pairs.tolist()]
        self.like /= pairs.view(-1, 1, 1)
        self.relevance = torch.zeros_like(self.like)
        for given, x, y, n in zip(self.relevance, features, labels, there.sum(1).tolist(), strict=True):
            given[:n, :n] = relevance(x[:n], y[:n])
        # Of a place without a node only the place itself is listed, so that its loss is 0.
        self.unlisted = (self.relevance == 0) & ~torch.diag_embed(~there)
        self.ranked = there / there.sum(1, keepdim=True)

    def __call__(self, known: Tensor, left: Tensor, right: Tensor, apart: Tensor) -> Tensor:
        """The losses `[Q]` of embeddings of training nodes, and of both ends of drawn pairs, which count if `apart`."""
        score = known[:, : self.like.shape[1]]
        score = score @ score.transpose(1, 2)
        return self._of_classes(known) + self._of_pairs(score, left, right, apart) + self.of_order(score)

    def _of_classes(self, known: Tensor) -> Tensor:
        logarithm = torch.log_softmax(known, dim=2)[:, :, : self.classes.shape[2]]
        return -(self.classes * logarithm).sum((1, 2))

    def _of_pairs(self, score: Tensor, left: Tensor, right: Tensor, apart: Tensor) -> Tensor:
        like = (self.like * functional.softplus(-score)).sum((1, 2))
        unlike = (apart * functional.softplus((left * right).sum(2))).sum(1)
        return like + unlike / apart.sum(1).clamp(min=1)

    def of_order(self, score: Tensor) -> Tensor:
        """The third loss, `[Q]`, of scores of all pairs, `[Q, n, n]`."""
        every = torch.logsumexp(score.masked_fill(self.unlisted, -math.inf), dim=2)
        return ((every - (self.relevance * score).sum(2)) * self.ranked).sum(1)


def relevance(features: Tensor, labels: Tensor) -> Tensor:
    """How relevant each training node is to each, `[n, n]`: the softmax over the list of a row, 0 for all not in it.

    `features` are `[n, F]`, `labels` `[n]`. A node is in its own list only where nothing of its class is like it.

    >>> relevance(torch.tensor([[2.0], [1.0], [3.0]]), torch.tensor([0, 0, 1])).tolist()
    [[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.0, 0.5]]
    """
    counts = torch.bincount(labels)
    half = min(int(counts[counts > 0].min()), LONGEST_HALF)
    likeness = (features @ features.t()).fill_diagonal_(0)
    of_class = labels.unsqueeze(1) == labels.unsqueeze(0)
    given = torch.zeros_like(likeness)
    for side, start in ((of_class, 0), (~of_class, half)):
        value, node = likeness.masked_fill(~side, -math.inf).topk(half)
        points = value.new_tensor(_points(half)[start : start + half]).exp().expand_as(value)
        given.scatter_add_(1, node, points * (value > -math.inf))
    return given / given.sum(1, keepdim=True)


def _points(half: int) -> list[float]:
    """The relevance of each place of a list."""
    block = int(BLOCK * half)
    first = [points for points in RELEVANCE for _ in range(block)]
    return first + [1.0] * (2 * half - len(first))


def _in_turn(labels: Tensor, generator: torch.Generator) -> Tensor:
    """The training nodes; in an order by chance where they are too many to compare all of them."""
    nodes = (labels >= 0).nonzero().squeeze(1)
    order = torch.randperm(len(nodes), generator=generator).to(nodes.device)
    return nodes[order] if len(nodes) > COMPARED else nodes


def _padded(rows: Sequence[Tensor], filling: int) -> Tensor:
    """The rows below each other, filled up to the longest."""
    padded: Tensor = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=filling)
    return padded


def _glorot(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    bound = math.sqrt(6 / (rows + columns))
    return torch.empty(rows, columns).uniform_(-bound, bound, generator=generator)
