"""The base class of the backbones' modules: one forward pass evaluates many sets of parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones.layers import Drop
from lggd.estimator.inputs import Cache, identity_key
from lggd.graph.edge_index import check_edges
from lggd.validation import check_fraction, check_int

# Converts (edge_index, edge_weight, num_nodes, dtype) to the sparse matrix or pattern that a network uses.
ReadGraph = Callable[[Tensor, Tensor | None, int, torch.dtype], Any]


class Network(nn.Module, ABC):
    """The module of a backbone: PyG's layers hold the parameters, and `logits` is the forward pass of Q of them."""

    def __init__(self, choice: BackboneChoice, read_graph: ReadGraph) -> None:
        super().__init__()
        self.choice = choice
        self._read_graph = read_graph
        # One graph for training and one for evaluation. Not copied or saved with the module.
        self._graphs: Cache[Any] = Cache(capacity=2)

    @abstractmethod
    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Any, drop: Drop) -> Tensor:
        """The logits of Q networks, `[Q, N, K]`, from x `[Q, N, F]`, or `[N, F]` shared by all, with dropout `drop`.

        `parameters` have their names in the module and are stacked as `[Q, …]`; `graph` is a result of `read_graph`.
        """

    def read_graph(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
        """Convert a graph with node features x `[N, F]` to the form that `logits` uses."""
        check_edges(edge_index, edge_weight, x.shape[0])
        return self._read_graph(edge_index, edge_weight, x.shape[0], x.dtype)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        parameters = {name: parameter.unsqueeze(0) for name, parameter in self.named_parameters()}
        drop = partial(functional.dropout, p=self.choice.dropout, training=self.training)
        return self.logits(parameters, x, self._graph(x, edge_index, edge_weight), drop).squeeze(0)

    def _graph(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
        tensors = identity_key(edge_index, edge_weight)
        key = None if tensors is None else (tensors, x.shape[0], x.dtype)
        # Cached tensors must be usable in autograd later, even if inference mode is enabled now.
        with torch.inference_mode(torch.is_inference_mode_enabled() and key is None):
            return self._graphs(key, lambda: self.read_graph(x, edge_index, edge_weight))


class BackboneChoice:
    """The settings of a backbone as a frozen dataclass: positive integers, and a dropout rate."""

    network: ClassVar[type[Network]]
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    dropout: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name == "dropout":
                check_fraction(name, value)
            else:
                check_int(name, value, minimum=0 if name in self.may_be_zero else 1)

    def build(self, in_channels: int, num_classes: int) -> Network:
        """Return a new module, initialized from torch's global random state."""
        check_sizes(in_channels, num_classes)
        return self.network(self, in_channels, num_classes)  # type: ignore[call-arg, arg-type]


def check_sizes(in_channels: int, num_classes: int) -> None:
    """Raises an `InputError` unless both sizes are positive integers."""
    check_int("in_channels", in_channels, minimum=1)
    check_int("num_classes", num_classes, minimum=1)
