"""The common part of all backbones: a module whose computation serves many sets of parameters at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones.layers import Drop
from lggd.graph.edge_index import check_edges
from lggd.training.cache import Cache, identity_key
from lggd.validation import check_fraction, check_int

# Builds what a network needs of a graph from (edge_index, edge_weight, num_nodes, dtype).
ReadGraph = Callable[[Tensor, Tensor | None, int, torch.dtype], Any]


class BackboneChoice(Protocol):
    """The settings of a backbone."""

    @property
    def dropout(self) -> float: ...


class Network(nn.Module, ABC):
    """The module of a backbone: PyG's layers hold its parameters, `logits` computes with them.

    Q networks of equal sizes are evaluated at once by passing their stacked parameters to `logits`; the module itself
    is the case Q = 1.
    """

    def __init__(self, choice: BackboneChoice, read_graph: ReadGraph) -> None:
        super().__init__()
        self.choice = choice
        self._read_graph = read_graph
        # One graph to train on and one to evaluate on. Neither copied nor saved with the module.
        self._graphs: Cache[Any] = Cache(capacity=2)

    @abstractmethod
    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Any, drop: Drop) -> Tensor:
        """The logits of Q networks, `[Q, N, K]`.

        Parameters
        ----------
        parameters : mapping of str to Tensor
            By their names in the module, stacked as `[Q, …]`.
        x : Tensor
            `[Q, N, F]`, or `[N, F]` shared by all.
        graph : object
            What `read_graph` returned.
        drop : callable
            Dropout, called on all values that it applies to.
        """

    def read_graph(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
        """What the network needs of the graph of node features x `[N, F]`."""
        check_edges(edge_index, edge_weight, x.shape[0])
        return self._read_graph(edge_index, edge_weight, x.shape[0], x.dtype)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        own = {name: parameter.unsqueeze(0) for name, parameter in self.named_parameters()}
        drop = partial(functional.dropout, p=self.choice.dropout, training=self.training)
        return self.logits(own, x, self._graph(x, edge_index, edge_weight), drop).squeeze(0)

    def _graph(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
        tensors = identity_key(edge_index, edge_weight)
        key = None if tensors is None else (tensors, x.shape[0], x.dtype)
        # What is cached must be usable in autograd later, whatever the mode is now.
        with torch.inference_mode(torch.is_inference_mode_enabled() and key is None):
            return self._graphs(key, lambda: self.read_graph(x, edge_index, edge_weight))


def check_backbone(choice: BackboneChoice, *counts: str) -> None:
    """Raises where a setting is out of range: `counts` name those that must be positive integers."""
    for name in counts:
        check_int(name, getattr(choice, name), minimum=1)
    check_fraction("dropout", choice.dropout)


def check_sizes(in_channels: int, num_classes: int) -> None:
    """Raises where a network cannot have such sizes."""
    check_int("in_channels", in_channels, minimum=1)
    check_int("num_classes", num_classes, minimum=1)
