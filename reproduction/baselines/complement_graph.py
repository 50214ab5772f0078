"""GOAL's complement graph: edges between dissimilar nodes, by embeddings learned from the training labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones.convolutions import batched_linear
from lggd.estimator import saveable
from lggd.progress import Callback, Progress
from lggd.training.cuda_graph import CUDAGraphStep
from lggd.validation import check_positive, check_real, check_sizes_and_dropout, read_seed

# Maximum number of training nodes that are compared pairwise: memory grows with its square.
MAX_COMPARED = 1000
# Maximum number of pairs sampled per epoch, and of nodes in each half of a ranked list.
MAX_SAMPLED_PAIRS, MAX_HALF = 10_000, 200
# Relevance of the first three blocks of a ranked list, each this fraction of half its length. The rest has relevance 1.
RELEVANCE, BLOCK_FRACTION = (4.0, 3.0, 2.0), 0.4


@saveable
@dataclass(frozen=True)
class Complement:
    """Settings of GOAL's complement graph.

    An MLP with hidden layers of width 2 · `hidden` embeds the nodes. It minimizes the sum of three losses on the
    training nodes: cross-entropy, same-class link prediction and ranking by similarity (see `SimilarityLoss`).

    Parameters
    ----------
    hidden, layers : int
        Size of the embedding, at least the number of classes, and number of linear layers.
    epochs : int
        Number of epochs; there is no early stopping.
    lr, candidates : float
        Learning rate of Adam; fraction of the nodes, drawn at random, that may be targets of edges, in (0, 1].

    Examples
    --------
    >>> Complement(epochs=50, candidates=1.0)  # GOAL(complement=…)
    Complement(hidden=16, layers=3, epochs=50, lr=0.01, candidates=1.0)
    """

    hidden: int = 16
    layers: int = 3
    epochs: int = 200
    lr: float = 0.01
    candidates: float = 0.1

    def __post_init__(self) -> None:
        check_sizes_and_dropout(self)
        check_positive("lr", self.lr)
        check_real("candidates", self.candidates, 0, 1, closed="right", remedy="Use 1 for all nodes.")


def complement_graphs(
    settings: Complement,
    k: int,
    inputs: Tensor,
    x: Tensor,
    train: Tensor,
    seeds: Sequence[int],
    callback: Callback | None,
) -> list[Tensor]:
    """For each problem, edges from every node to the k least similar candidates, `[2, N·k]`, or to all if fewer.

    `inputs` are those of the encoders, `[N, F]` or `[Q, N, F]`; the node features `x` `[N, F]` rank the lists; `train`
    is int64 `[Q, N]`, a class or -1.
    """
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    count = max(1, int(settings.candidates * len(x)))
    candidates = [torch.randperm(len(x), generator=generator)[:count].to(x.device) for generator in generators]
    embeddings = Encoders(settings, inputs, x, train, generators).train_embeddings(callback)
    return [least_similar(z, chosen, k) for z, chosen in zip(embeddings, candidates, strict=True)]


def least_similar(z: Tensor, candidates: Tensor, k: int) -> Tensor:
    """Edges from every node i to the k candidates c with the smallest ⟨z_i, z_c⟩, `[2, N·k]`, possibly i itself.

    >>> least_similar(torch.tensor([[1.0], [-1.0], [2.0]]), torch.tensor([0, 1]), k=1).tolist()
    [[0, 1, 2], [1, 0, 1]]
    """
    k = min(k, len(candidates))
    chosen = (z @ z[candidates].t()).topk(k, largest=False).indices
    source = torch.arange(len(z), device=z.device).repeat_interleave(k)
    return torch.stack([source, candidates[chosen].flatten()])


class Encoders:
    """The encoders of Q problems, trained side by side and independently."""

    def __init__(
        self, settings: Complement, inputs: Tensor, x: Tensor, train: Tensor, generators: Sequence[torch.Generator]
    ) -> None:
        self.settings, self.inputs = settings, inputs
        device = inputs.device
        sizes = [inputs.shape[-1], *[2 * settings.hidden] * (settings.layers - 1), settings.hidden]
        self.weights, self.biases = [], []
        for a, b in pairwise(sizes):
            weights = [nn.init.xavier_uniform_(torch.empty(b, a), generator=one) for one in generators]
            self.weights.append(torch.stack(weights).to(device).requires_grad_())
            self.biases.append(torch.zeros(len(train), 1, b, device=device, requires_grad=True))
        nodes = [_training_nodes(labels, one) for labels, one in zip(train, generators, strict=True)]
        self.sampling = [torch.Generator(device).manual_seed(read_seed(one)) for one in generators]
        self.train, self.nodes = train, _padded(nodes, 0)
        self.node_inputs = self._inputs_of(self.nodes)
        classes = _padded([labels[chosen] for labels, chosen in zip(train, nodes, strict=True)], -1)
        self.loss = SimilarityLoss(x[self.nodes], classes)
        parameters = [*self.weights, *self.biases]
        self.adam = torch.optim.Adam(parameters, lr=settings.lr, fused=True, capturable=inputs.is_cuda)

    def train_embeddings(self, callback: Callback | None) -> Tensor:
        """Trains for all epochs and returns the embeddings of all nodes, `[Q, N, hidden]`."""
        step = CUDAGraphStep(self._step, self.inputs.device, self.sampling)
        for epoch in range(self.settings.epochs):
            losses = step()
            if callback is not None:
                callback(Progress("complement", epoch + 1, self.settings.epochs))
        # Checked once at the end, so that no epoch waits for the GPU.
        if not bool(losses.isfinite().all()):
            raise FloatingPointError(
                f"The loss of the complement graph must be finite, got {losses.tolist()}. Lower `complement.lr` "
                f"(currently {self.settings.lr}), or check that the node features `x` are finite."
            )
        step.reset()
        with torch.no_grad():
            return self._encode(self.inputs)

    def _step(self) -> Tensor:
        self.adam.zero_grad()
        pairs, negative = self.sample_pairs()
        count = self.nodes.shape[1]
        z = self._encode(torch.cat([self.node_inputs, self._inputs_of(pairs)], dim=1))
        left, right = z[:, count:].chunk(2, dim=1)
        losses = self.loss(z[:, :count], left, right, negative)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.adam.step()
        return losses.detach()

    def _encode(self, values: Tensor) -> Tensor:
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = batched_linear(values if layer == 0 else torch.relu(values), weight) + bias
        return values

    def _inputs_of(self, nodes: Tensor) -> Tensor:
        """The inputs of nodes `[Q, n]` of each problem, `[Q, n, F]`."""
        problem = torch.arange(len(nodes), device=nodes.device).unsqueeze(1)
        return self.inputs.expand(len(nodes), -1, -1)[problem, nodes]

    def sample_pairs(self) -> tuple[Tensor, Tensor]:
        """Random ordered pairs of nodes, first ends and then second ends, `[Q, 2m]`; which are negative, `[Q, m]`."""
        sampled = []
        # As many as there are positive pairs, i ≤ j of one class.
        for generator, positives in zip(self.sampling, self.loss.num_positives, strict=True):
            shape = (2, min(positives, MAX_SAMPLED_PAIRS))
            sampled.append(torch.randint(self.inputs.shape[-2], shape, generator=generator, device=self.inputs.device))
        left, right = (_padded([pairs[side] for pairs in sampled], -1) for side in (0, 1))
        exists = left >= 0
        left, right = left.clamp(min=0), right.clamp(min=0)
        first, second = self.train.gather(1, left), self.train.gather(1, right)
        # A positive pair is excluded in this direction only, so that some negatives are pairs of one class, too.
        negative = exists & ~((first >= 0) & (first == second) & (left <= right))
        return torch.cat([left, right], dim=1), negative


class SimilarityLoss:
    """The loss of embeddings z of the n training nodes of each problem: the sum of three losses.

    * Classes: the cross-entropy with the first K entries of z as logits.
    * Pairs: −mean log σ(⟨z_i, z_j⟩) over the pairs i ≤ j of one class, −mean log(1 − σ(⟨z_i, z_j⟩)) over negatives.
    * Ranking (ListNet): for each node, the ℓ most similar nodes of its class and then the ℓ most similar others, where
      ℓ is the size of the smallest class and similarity the dot product of features, 0 for a node with itself. The
      loss is the cross-entropy between the softmax of the relevance (4, 3, 2 and 1 in this order) and of ⟨z_i, z_list⟩.

    `x` are the features `[Q, n, F]`, `labels` the classes `[Q, n]`, padded with -1. Pairs are selected by weights and
    not by gathering, whose gradient is not deterministic on a GPU.
    """

    def __init__(self, x: Tensor, labels: Tensor) -> None:
        exists = labels >= 0
        self.classes = functional.one_hot(labels.clamp(min=0)).float() * exists.unsqueeze(2)
        self.classes /= exists.sum(1).view(-1, 1, 1)
        x, labels = x[:, :MAX_COMPARED], labels[:, :MAX_COMPARED]
        exists = labels >= 0
        self.positive = torch.triu((labels.unsqueeze(1) == labels.unsqueeze(2)) & exists.unsqueeze(1)).float()
        pairs = self.positive.sum((1, 2))
        self.num_positives: list[int] = [int(count) for count in pairs.tolist()]
        self.positive /= pairs.view(-1, 1, 1)
        self.relevance = torch.zeros_like(self.positive)
        for target, features, y, n in zip(self.relevance, x, labels, exists.sum(1).tolist(), strict=True):
            target[:n, :n] = relevance(features[:n], y[:n])
        # The list of a padding node is the node itself, so that its loss is 0.
        self.unlisted = (self.relevance == 0) & ~torch.diag_embed(~exists)
        self.node_weight = exists / exists.sum(1, keepdim=True)

    def __call__(self, z: Tensor, left: Tensor, right: Tensor, negative: Tensor) -> Tensor:
        """The losses `[Q]`, from the embeddings of the training nodes and of both ends of the sampled pairs."""
        score = z[:, : self.positive.shape[1]]
        score = score @ score.transpose(1, 2)
        log_probability = torch.log_softmax(z, dim=2)[:, :, : self.classes.shape[2]]
        classes = -(self.classes * log_probability).sum((1, 2))
        positive_loss = (self.positive * functional.softplus(-score)).sum((1, 2))
        negative_loss = (negative * functional.softplus((left * right).sum(2))).sum(1)
        pairs = positive_loss + negative_loss / negative.sum(1).clamp(min=1)
        return classes + pairs + self.ranking(score)

    def ranking(self, score: Tensor) -> Tensor:
        """The ranking loss `[Q]` of the scores of all pairs `[Q, n, n]`."""
        normalizer = torch.logsumexp(score.masked_fill(self.unlisted, -math.inf), dim=2)
        return ((normalizer - (self.relevance * score).sum(2)) * self.node_weight).sum(1)


def relevance(x: Tensor, labels: Tensor) -> Tensor:
    """The relevance of training nodes to each other, `[n, n]`: a softmax over the ranked list of each row, 0 elsewhere.

    `x` is `[n, F]`, `labels` `[n]`. A node is in its own list only if too few nodes of its class are similar to it.

    >>> relevance(torch.tensor([[2.0], [1.0], [3.0]]), torch.tensor([0, 0, 1])).tolist()
    [[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.0, 0.5]]
    """
    counts = torch.bincount(labels)
    half = min(int(counts[counts > 0].min()), MAX_HALF)
    similarity = (x @ x.t()).fill_diagonal_(0)
    same_class = labels.unsqueeze(1) == labels.unsqueeze(0)
    weights = torch.zeros_like(similarity)
    for side, start in ((same_class, 0), (~same_class, half)):
        value, node = similarity.masked_fill(~side, -math.inf).topk(half)
        points = value.new_tensor(relevance_points(half)[start : start + half]).exp().expand_as(value)
        weights.scatter_add_(1, node, points * (value > -math.inf))
    return weights / weights.sum(1, keepdim=True)


def relevance_points(half: int) -> list[float]:
    """The relevance of each position of a list."""
    block = int(BLOCK_FRACTION * half)
    first = [points for points in RELEVANCE for _ in range(block)]
    return first + [1.0] * (2 * half - len(first))


def _training_nodes(labels: Tensor, generator: torch.Generator) -> Tensor:
    """The training nodes; in random order if there are too many to compare all."""
    nodes = (labels >= 0).nonzero().squeeze(1)
    order = torch.randperm(len(nodes), generator=generator).to(nodes.device)
    return nodes[order] if len(nodes) > MAX_COMPARED else nodes


def _padded(rows: Sequence[Tensor], value: int) -> Tensor:
    padded: Tensor = nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=value)
    return padded
