"""The base class of baselines without training: predictions are a function of the graph and the labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lggd.errors import InputError
from lggd.estimator import NodeClassifier
from lggd.estimator.inputs import stored_graph
from lggd.estimator.labels import Labels
from lggd.estimator.passes import FitSteps, FitTask
from lggd.graph.edge_index import read_edges


@dataclass(eq=False, repr=False)
class UntrainedBaseline(NodeClassifier):
    """Base class of methods without training. More labels can be added at any time; node features are not used."""

    needs_edge_index = False
    _: KW_ONLY
    seed: int | torch.Generator = 0

    @abstractmethod
    def _scores(self, edge_index: Tensor, edge_weight: Tensor | None, labels: Tensor) -> Tensor:
        """Returns scores of all classes, 0 or above, float64 `[N, K]`; rows need not sum to 1 and may be 0."""

    @property
    def _held_out(self) -> float:
        return 0.0

    def _fit_to(self, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
        if stored_graph(task.data) is None:
            read_edges(task.data, len(labels.train))  # raises an error if they are invalid
        self._start(task.data, labels.num_classes)
        self.labels_ = labels.train.clone()
        yield from ()

    def _probabilities(self, data: Any) -> Tensor:
        edges = read_edges_of_same_size(data, len(self.labels_))
        return to_probabilities(self._scores(*edges, self.labels_), self.labels_)

    def _state(self) -> dict[str, Tensor]:
        return {}

    def _restore(self, data: Any, state: Mapping[str, Tensor]) -> None:
        pass


def read_edges_of_same_size(data: Any, num_nodes: int) -> tuple[Tensor, Tensor | None]:
    """The edges of PyG data and their weights; raises an error if it does not have this number of nodes."""
    if data.num_nodes != num_nodes:
        raise InputError("data", f"have {num_nodes} nodes, as the graph of the fit", data.num_nodes, "Fit it again.")
    return read_edges(data, num_nodes)


def one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """The classes of labelled nodes as rows of the identity, and rows of 0 elsewhere, float64 `[N, K]`.

    >>> one_hot(torch.tensor([1, -1]), num_classes=2).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    return functional.one_hot(labels + 1, num_classes + 1)[:, 1:].double()


def to_probabilities(scores: Tensor, labels: Tensor) -> Tensor:
    """Scores `[N, K]` with rows divided by their sum, float32.

    A row of 0, as of a node that no label reaches, becomes the share of each class among the labels.

    >>> to_probabilities(torch.tensor([[3.0, 1.0], [0.0, 0.0]]), torch.tensor([1, -1]))
    tensor([[0.7500, 0.2500],
            [0.0000, 1.0000]])
    """
    total = scores.sum(1, keepdim=True)
    shares = one_hot(labels, scores.shape[1]).mean(0)
    return torch.where(total > 0, scores / total, shares / shares.sum()).float()
