"""The uncertainty of a solved ridge regression: labels that look wrong, weights of edges, nodes worth labelling."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lggd.closed_form import kernels
from lggd.closed_form.ridge import RidgeSystem
from lggd.closed_form.ridge_inputs import RidgeInputs
from lggd.errors import InputError
from lggd.estimator import Member
from lggd.validation import check_int

# Nodes to suggest are chosen among this many of the least certain ones: each needs its covariance with all nodes.
MOST_CANDIDATES = 1024


@dataclass(frozen=True, eq=False)
class SuspiciousLabels:
    """All labels, the most suspicious first; see `KernelRidge.suspicious_labels`.

    Attributes
    ----------
    nodes : Tensor
        The labelled nodes, int64 `[n]`.
    labels : Tensor
        Their labels, int64 `[n]`.
    probability : Tensor
        The probability of that label by all other labels, float32 `[n]`, in ascending order.
    suggested : Tensor
        The most probable class by all other labels, int64 `[n]`: the label itself where they confirm it.
    suggested_probability : Tensor
        Its probability, float32 `[n]`.
    """

    nodes: Tensor
    labels: Tensor
    probability: Tensor
    suggested: Tensor
    suggested_probability: Tensor

    def __len__(self) -> int:
        return len(self.nodes)


class RidgeUncertainty(Member):
    """The methods of `KernelRidge` that find wrong labels, weigh edges, and suggest nodes to label."""

    needs_edge_index = False

    # Set by fit.
    ridge_: float
    inverse_temperature_: float
    loss_: float
    members_: tuple[kernels.Member, ...]
    _system: RidgeSystem
    _inputs: Any  # RidgeInputs or StoredInputs
    _edge_weights: dict[str, Tensor]

    @abstractmethod
    def leave_one_out_proba(self) -> Tensor: ...

    def variance(self) -> Tensor:
        """Return the posterior variance of each node, float32 `[N]`: how little the labels determine it.

        It depends on where labels are and not on their classes.
        """
        self._check_fitted()
        return self._system.variance(self.ridge_).float()

    def edge_weights(self) -> Tensor:
        """Return how much each edge counts, float32 `[E]` in (0, 1], in the order of `data_.edge_index`.

        The mean of the weights that the chosen kernels use, each relative to its own mean: of those on the graph as it
        is, and of those with edges weighed by the agreement of their ends. Leave-one-out has decided how much either
        counts. All edges of an unweighted graph count equally where agreement does not pay. Both directions of an edge
        have the same weight, so that `Graph.from_edges` takes them: the learned metric of `distance` and `evolve`.

        Examples
        --------
        >>> import lggd
        >>> data = lggd.load("karate")
        >>> weight = lggd.KernelRidge().fit(data).edge_weights()
        >>> graph = lggd.Graph.from_edges(data.edge_index, weight, num_nodes=data.num_nodes)
        >>> lggd.distance(graph, [0], p=1).value.shape
        torch.Size([34])
        """
        self._check_fitted()
        if not isinstance(self._inputs, RidgeInputs):
            raise InputError("data", "have edges in memory", "a graph on disk", "Fit a part of the graph.")
        count, given = self._inputs.adjacency.num_edges, self._inputs.adjacency.edge_weight
        total = torch.zeros(count, device=self._inputs.adjacency.edge_index.device)
        for member in self.members_ if count else ():
            weight = self._edge_weights.get(member.graph, given)
            total += member.weight * (torch.ones_like(total) if weight is None else weight / weight.mean())
        return total / total.max() if count else total

    def suspicious_labels(self) -> SuspiciousLabels:
        """Return all labels, those first that the other labels contradict most.

        Returns
        -------
        The nodes, their labels, the probability of each label by all others, and the class that they suggest instead.

        Examples
        --------
        >>> import lggd
        >>> data = lggd.load("karate")
        >>> data.y[15] = 0  # wrong
        >>> found = lggd.KernelRidge().fit(data).suspicious_labels()
        >>> found.nodes[0].item(), found.labels[0].item(), found.suggested[0].item()
        (15, 0, 1)
        """
        probabilities, labels = self.leave_one_out_proba(), self.labels_[self.labels_ >= 0]
        own, nodes = probabilities.gather(1, labels[:, None]).squeeze(1), (self.labels_ >= 0).nonzero().squeeze(1)
        order, (highest, suggested) = own.argsort(stable=True), probabilities.max(1)
        return SuspiciousLabels(*(column[order] for column in (nodes, labels, own, suggested, highest)))

    def suggest(self, k: int = 1) -> Tensor:
        """Return the k unlabelled nodes most worth labelling next.

        Chosen one by one: the node whose label would reduce the posterior variance of uncertain nodes most, given that
        those chosen before are labelled too, so that they spread over the graph.

        Parameters
        ----------
        k : int
            Number of nodes; where fewer are unlabelled, those are returned.

        Returns
        -------
        Nodes, int64 `[k]`, the best first.

        Examples
        --------
        >>> import lggd
        >>> model = lggd.KernelRidge().fit(lggd.load("karate"))
        >>> len(model.suggest(3))
        3
        """
        self._check_fitted()
        check_int("k", k, minimum=1)
        doubt = 1 - margins(self.predict_proba())
        unlabelled = (self.labels_ < 0).nonzero().squeeze(1)
        least_certain = doubt[unlabelled].argsort(descending=True, stable=True)[: max(k, MOST_CANDIDATES)]
        candidates = unlabelled[least_certain].sort().values
        covariance = self._system.covariance(candidates, self.ridge_)
        return candidates[greedy_choice(covariance, candidates, doubt, self.ridge_, k)]


def margins(probabilities: Tensor) -> Tensor:
    """How much more probable the first class is than the second, `[N]`; 1 where there is one class."""
    best = probabilities.topk(min(2, probabilities.shape[1]), dim=1).values
    return best[:, 0] - best[:, 1] if best.shape[1] > 1 else best[:, 0]


def greedy_choice(covariance: Tensor, candidates: Tensor, doubt: Tensor, ridge: float, count: int) -> Tensor:
    """The positions of `count` candidates that reduce the variance most, weighted by `doubt [N]`, one after another.

    A label of candidate j, whatever its class, turns the covariance c `[C, N]` into c − c[:, j] c[j] / (c[j, j] + λ),
    which reduces the variance of node i by c[j, i]² / (c[j, j] + λ).
    """
    covariance, weight = covariance.clone(), doubt.to(covariance.dtype).clamp(min=0)
    rows, free = torch.arange(len(candidates), device=candidates.device), torch.ones_like(candidates, dtype=torch.bool)
    chosen: list[Tensor] = []
    for _ in range(min(count, len(candidates))):
        gain = covariance.square() @ weight / (covariance[rows, candidates].clamp(min=0) + ridge)
        best = gain.masked_fill(~free, -torch.inf).argmax()
        chosen.append(best)
        free[best] = False
        # The kernel is symmetric: the column of a candidate among candidates is part of its row.
        row = covariance[best] / (covariance[best, candidates[best]].clamp(min=0) + ridge)
        covariance.addr_(covariance[best, candidates], row, alpha=-1)
    return torch.stack(chosen) if chosen else candidates.new_empty(0)
