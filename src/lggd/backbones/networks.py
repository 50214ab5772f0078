"""Backbones: graph neural networks from node features to class scores, all of one signature.

A choice of backbone is a frozen object. `build` makes a module of it, and every module is called alike:
`module(x [N, F], edge_index [2, E], edge_weight [E] or None)` gives logits `[N, K]`. The layers and their first
parameters are PyG's. What they compute is written for the parameters of many modules at once (see `layers.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones.given import GivenModule
from lggd.backbones.jumping import jumping_knowledge
from lggd.backbones.layers import (
    Drop,
    cheb_conv,
    edges_with_loops,
    gat_conv,
    gcn_adjacency,
    gcn_conv,
    scaled_laplacian,
)
from lggd.backbones.propagation import Propagation, Remembered, SortedEdges
from lggd.errors import InputError, InputTypeError
from lggd.estimator.storage import saveable


@saveable
@dataclass(frozen=True)
class GCN:
    """A graph convolutional network of two layers (Kipf and Welling), as the paper trains it.

    Â(dropout(ReLU(ÂXW₁ + b₁)))W₂ + b₂ with Â = D̃^-½ (A + I) D̃^-½: no dropout on the input. Edge weights are the
    entries of A.

    Args:
        hidden: the width of the hidden layer.
        dropout: the share of hidden values that are dropped in training.

    >>> module = GCN().build(in_channels=5, num_classes=3)
    >>> sum(parameter.numel() for parameter in module.parameters()) == (5 * 32 + 32) + (32 * 3 + 3)
    True
    """

    hidden: int = 32
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden)
        check_share(dropout=self.dropout)

    def build(self, in_channels: int, num_classes: int) -> nn.Module:
        """A module with new parameters, drawn from torch's global random numbers as any layer's are."""
        check_counts(in_channels=in_channels, num_classes=num_classes)
        return _ConvolutionalNetwork(self, in_channels, num_classes)


@saveable
@dataclass(frozen=True)
class GAT:
    """A graph attention network of two layers (Veličković et al.).

    dropout → `heads` heads of width `hidden` side by side → ELU → dropout → one head of width K; the attention is
    dropped too. The paper's "hidden size 32" is read as the width of each head, so that the hidden layer has 256.
    Edge weights are ignored: an edge is there or not, and its share is for the attention to say.

    Args:
        hidden: the width of each head.
        heads: how many heads the hidden layer has.
        dropout: the share of inputs, hidden values and attention that is dropped in training.

    >>> import torch
    >>> module = GAT(hidden=4, heads=2).build(in_channels=5, num_classes=3)
    >>> module(torch.ones(2, 5), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 3])
    """

    hidden: int = 32
    heads: int = 8
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden, heads=self.heads)
        check_share(dropout=self.dropout)

    def build(self, in_channels: int, num_classes: int) -> nn.Module:
        """A module with new parameters, drawn from torch's global random numbers as any layer's are."""
        check_counts(in_channels=in_channels, num_classes=num_classes)
        return _AttentionNetwork(self, in_channels, num_classes)


@saveable
@dataclass(frozen=True)
class ChebNet:
    """A network of two Chebyshev layers (Defferrard et al.), with ReLU and dropout between them.

    A layer is Σ_k T_k(L̂)XΘ_k + b, where T_k is the k-th Chebyshev polynomial and L̂ = −D^-½ A D^-½, the normalised
    Laplacian moved to [−1, 1]. Edge weights are the entries of A; loops do not count.

    Args:
        hidden: the width of the hidden layer.
        terms: how many polynomials a layer adds up. PyG calls it K. The paper's "two-step propagation" is read as
            terms=2: T₀ and T₁, one step a layer and two in all. Two steps a layer are terms=3.
        dropout: the share of hidden values that are dropped in training.

    >>> module = ChebNet().build(in_channels=5, num_classes=3)
    >>> sum(parameter.numel() for parameter in module.parameters()) == (2 * 5 * 32 + 32) + (2 * 32 * 3 + 3)
    True
    """

    hidden: int = 32
    terms: int = 2
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden, terms=self.terms)
        check_share(dropout=self.dropout)

    def build(self, in_channels: int, num_classes: int) -> nn.Module:
        """A module with new parameters, drawn from torch's global random numbers as any layer's are."""
        check_counts(in_channels=in_channels, num_classes=num_classes)
        return _ChebyshevNetwork(self, in_channels, num_classes)


@saveable
@dataclass(frozen=True)
class JKNet:
    """A jumping knowledge network (Xu et al.): each node chooses between the layers of a GCN.

    Two convolutions of width `hidden`, each followed by ReLU and dropout → a bidirectional LSTM reads both layers of a
    node and weighs them → one more step Â over the graph → a linear map to K. Edge weights are the entries of A.

    The paper asks for a GCN of width 32 and an LSTM of "3 layers, each of size 16". PyG has no such network: there the
    LSTM's size is the width of the GCN, and its 3 layers are a factor of the LSTM's own width. The default is 16 and 3,
    the one reading that leaves the LSTM as the paper has it. JKNet(hidden=32) is the other one.

    Args:
        hidden: the width of both convolutions, and what the LSTM calls its channels.
        lstm_layers: the LSTM is lstm_layers · hidden / 2 wide in each direction. PyG calls it num_layers.
        dropout: the share of the values of each convolution that are dropped in training.

    >>> import torch
    >>> module = JKNet().build(in_channels=5, num_classes=3)
    >>> module(torch.ones(2, 5), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 3])
    """

    hidden: int = 16
    lstm_layers: int = 3
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden, lstm_layers=self.lstm_layers)
        check_share(dropout=self.dropout)
        if self.hidden * self.lstm_layers < 2:
            raise ValueError("`hidden` times `lstm_layers` must be at least 2, got 1. Raise one of them.")

    def build(self, in_channels: int, num_classes: int) -> nn.Module:
        """A module with new parameters, drawn from torch's global random numbers as any layer's are."""
        check_counts(in_channels=in_channels, num_classes=num_classes)
        return _JumpingNetwork(self, in_channels, num_classes)


Backbone = GCN | GAT | ChebNet | JKNet


def build_backbone(backbone: Backbone | nn.Module, in_channels: int, num_classes: int) -> nn.Module:
    """The module of a chosen backbone, or a copy of a module of one's own; the given one is never trained.

    One's own module has its own layers and sizes. It is called as `module(x, edge_index)`, and with the edge weights
    too where its forward has a parameter for them (see `GivenModule`). Where it does not give logits `[N, K]`, its
    first call says so.

    >>> import torch
    >>> from torch_geometric.nn import GraphSAGE
    >>> module = build_backbone(GraphSAGE(-1, 16, num_layers=2, out_channels=3), in_channels=5, num_classes=3)
    >>> module(torch.ones(2, 5), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 3])
    """
    if isinstance(backbone, Backbone):
        return backbone.build(in_channels, num_classes)
    check_counts(in_channels=in_channels, num_classes=num_classes)
    if isinstance(backbone, nn.Module):
        return GivenModule(backbone, num_classes)
    given = f"the class {backbone.__name__}" if isinstance(backbone, type) else f"a {type(backbone).__name__}"
    raise InputTypeError(
        "backbone",
        "be GCN(), GAT(), ChebNet(), JKNet() or a torch.nn.Module",
        given,
        "Give an object, not its class or its name.",
    )


# -- The modules -------------------------------------------------------------------------------------------------------


class Network(nn.Module, ABC):
    """The module of a chosen backbone: PyG's layers hold its parameters, `logits` is what it computes with them.

    Q networks of equal sizes are evaluated at once by giving `logits` their parameters stacked. The module itself is
    the case Q = 1.
    """

    def __init__(self, choice: Backbone, reading: Callable[[Tensor, Tensor | None, int, torch.dtype], Any]) -> None:
        super().__init__()
        self.choice = choice
        self.remembered = Remembered(reading)

    @abstractmethod
    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Any, drop: Drop) -> Tensor:
        """What Q networks answer, `[Q, N, K]`.

        Args:
            parameters: by the names they have in the module, each stacked as `[Q, …]`.
            x: `[Q, N, F]`, or `[N, F]` for all.
            graph: as `remembered` has it.
            drop: called on all values that training drops some of.
        """

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        own = {name: parameter.unsqueeze(0) for name, parameter in self.named_parameters()}
        drop = partial(functional.dropout, p=self.choice.dropout, training=self.training)
        return self.logits(own, x, self.remembered(x, edge_index, edge_weight), drop).squeeze(0)


class _ConvolutionalNetwork(Network):
    def __init__(self, choice: GCN, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__(choice, gcn_adjacency)
        self.first, self.second = GCNConv(in_channels, choice.hidden), GCNConv(choice.hidden, num_classes)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagation, drop: Drop) -> Tensor:
        hidden = gcn_conv(x, parameters["first.lin.weight"], parameters["first.bias"], graph)
        hidden = drop(functional.relu(hidden))
        return gcn_conv(hidden, parameters["second.lin.weight"], parameters["second.bias"], graph)


class _AttentionNetwork(Network):
    def __init__(self, choice: GAT, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GATConv

        super().__init__(choice, edges_with_loops)
        self.first = GATConv(in_channels, choice.hidden, choice.heads)
        self.second = GATConv(choice.hidden * choice.heads, num_classes, concat=False)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        # Without the weights, the graph is known again whatever they are.
        return super().forward(x, edge_index)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SortedEdges, drop: Drop) -> Tensor:
        def layer(name: str, x: Tensor) -> Tensor:
            weight, source, target = (parameters[f"{name}.{of}"] for of in ("lin.weight", "att_src", "att_dst"))
            return gat_conv(x, weight, source, target, graph, getattr(self, name).negative_slope, drop)

        hidden = layer("first", drop(x)).transpose(1, 2).flatten(2) + parameters["first.bias"].unsqueeze(1)
        return layer("second", drop(functional.elu(hidden))).mean(1) + parameters["second.bias"].unsqueeze(1)


class _ChebyshevNetwork(Network):
    def __init__(self, choice: ChebNet, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import ChebConv

        super().__init__(choice, scaled_laplacian)
        self.first = ChebConv(in_channels, choice.hidden, choice.terms)
        self.second = ChebConv(choice.hidden, num_classes, choice.terms)
        self.terms = choice.terms

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagation, drop: Drop) -> Tensor:
        def layer(name: str, x: Tensor) -> Tensor:
            weights = [parameters[f"{name}.lins.{term}.weight"] for term in range(self.terms)]
            return cheb_conv(x, weights, parameters[f"{name}.bias"], graph)

        return layer("second", drop(functional.relu(layer("first", x))))


class _JumpingNetwork(Network):
    def __init__(self, choice: JKNet, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GCNConv, JumpingKnowledge

        super().__init__(choice, gcn_adjacency)
        self.first, self.second = GCNConv(in_channels, choice.hidden), GCNConv(choice.hidden, choice.hidden)
        self.jump = JumpingKnowledge("lstm", choice.hidden, choice.lstm_layers)
        self.last = nn.Linear(choice.hidden, num_classes)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagation, drop: Drop) -> Tensor:
        def layer(name: str, x: Tensor) -> Tensor:
            hidden = gcn_conv(x, parameters[f"{name}.lin.weight"], parameters[f"{name}.bias"], graph)
            return drop(functional.relu(hidden))

        near = layer("first", x)
        far = layer("second", near)
        jump = {name.removeprefix("jump."): one for name, one in parameters.items() if name.startswith("jump.")}
        # The last step and the linear map after it make a convolution, whichever of them comes first.
        return gcn_conv(jumping_knowledge([near, far], jump), parameters["last.weight"], parameters["last.bias"], graph)


# -- Checks ------------------------------------------------------------------------------------------------------------


def check_counts(**counts: object) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, Integral) or int(count) < 1:
            raise InputError(name, "be a whole number from 1", repr(count))


def check_share(**shares: object) -> None:
    for name, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) < 1:
            raise InputError(name, "lie in [0, 1)", repr(share), f"Use {name}=0 to drop nothing.")
