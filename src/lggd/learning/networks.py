"""The networks that map node features to the initial condition φ₀."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.errors import InputError
from lggd.graph import Graph
from lggd.learning.module_copies import ModuleCopies, ModuleInputs
from lggd.learning.node_features import NodeFeatures, check_node_features, propagate, read_node_features
from lggd.learning.stacked_mlps import StackedMLPs
from lggd.training.randomness import LEVELS
from lggd.training.stacked_parameters import StackedParameter
from lggd.validation import check_choice, check_int, check_real


class Activation(StrEnum):
    """The activation after each hidden layer; plain strings are accepted."""

    RELU = "relu"
    ELU = "elu"
    GELU = "gelu"
    LEAKY_RELU = "leaky_relu"
    SILU = "silu"
    TANH = "tanh"

    def __repr__(self) -> str:
        return repr(self.value)

    @property
    def function(self) -> Callable[[Tensor], Tensor]:
        """The torch function."""
        in_torch = self in (Activation.RELU, Activation.TANH)
        function: Callable[[Tensor], Tensor] = getattr(torch if in_torch else functional, self.value)
        return function


class Networks(Protocol):
    """Q networks behind φ₀ that are evaluated together."""

    @property
    def generators(self) -> Sequence[torch.Generator] | None:
        """All those that they draw random numbers from; None where they are unknown."""

    def parameters(self) -> list[StackedParameter]:
        """All tensors that training changes."""

    def __call__(self, x: Any, training: bool, training_follows: bool = False) -> Tensor:
        """The outputs `[N, Q, K]`, with dropout if `training`.

        `training_follows` promises that a training step with the same parameters comes next, which may reuse work.
        """

    def part(self, problems: slice) -> Networks:
        """The networks of some problems, sharing no parameters with these."""

    def random_state(self) -> dict[str, Tensor]:
        """The states of the random number generators."""

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores the states of the random number generators."""


@dataclass(frozen=True)
class MLP:
    """An MLP on node features as initial condition: φ₀ = |MLP(x)|.

    Parameters
    ----------
    hidden : tuple of int
        Sizes of the hidden layers, each followed by the activation and by dropout.
    dropout : float
        Dropout rate of the hidden layers, in [0, 1).
    activation : Activation
        Activation of the hidden layers.
    normalize : bool
        Whether each row of x is scaled to unit length.
    zeros : int
        Number of zero columns appended to x, as the paper's appendix suggests. They affect a plain MLP only through the
        smaller scale of its initial weights.
    input_dropout : float
        Dropout rate of the entries of x, in [0, 1).

    Examples
    --------
    >>> import lggd
    >>> model = lggd.LGGD(times=(1,), initial=MLP(hidden=(16,)), optimization=lggd.Optimization(epochs=2))
    >>> model.fit(lggd.load("karate")).num_classes_
    2
    """

    hidden: tuple[int, ...] = (512, 128)
    dropout: float = 0.5
    activation: Activation = Activation.RELU
    normalize: bool = False
    zeros: int = 0
    input_dropout: float = 0.0

    def __post_init__(self) -> None:
        _check_layers(self)
        _check_dropout("input_dropout", self.input_dropout)

    def node_features(self, data: Any, graph: Graph) -> NodeFeatures:
        """The input of the networks."""
        return read_node_features(data, self.normalize, self.zeros)

    def networks(
        self,
        x: NodeFeatures,
        num_classes: int,
        generators: Sequence[torch.Generator],
        dropout: Sequence[float] | None = None,
    ) -> StackedMLPs:
        """One network per generator, initialised from it; `dropout` holds their rates where these differ."""
        sizes = (x.shape[1], *self.hidden, num_classes)
        rates = self.dropout if dropout is None else dropout
        return StackedMLPs(sizes, rates, Activation(self.activation).function, generators, self.input_dropout)


@dataclass(frozen=True)
class PropagatedMLP:
    """An MLP on node features and those of the neighbourhood: φ₀ = |MLP([x, Âx, Â²x, …])|. Not in the paper.

    Â is the normalised adjacency with self-loops of a GCN.

    Parameters
    ----------
    hidden : tuple of int
        Sizes of the hidden layers, each followed by the activation and by dropout.
    dropout : float
        Dropout rate of the hidden layers, in [0, 1).
    hops : int
        The largest power of Â.
    activation : Activation
        Activation of the hidden layers.
    normalize : bool
        Whether each row of each block is scaled to unit length.
    zeros : int
        Number of zero columns appended to x.
    pagerank : float, optional
        Restart probability of a personalised PageRank, which adds a block of farther nodes.

    Examples
    --------
    >>> PropagatedMLP(hops=2, pagerank=0.1).num_blocks
    4
    """

    hidden: tuple[int, ...] = (128,)
    dropout: float = 0.5
    hops: int = 2
    activation: Activation = Activation.RELU
    normalize: bool = True
    zeros: int = 0
    pagerank: float | None = None

    def __post_init__(self) -> None:
        _check_layers(self)
        if self.pagerank is not None:
            check_real("pagerank", self.pagerank, 0, 1, closed="neither", rule="lie between 0 and 1, or be None")
        check_int("hops", self.hops, minimum=1, remedy="MLP() uses no neighbours.")

    def node_features(self, data: Any, graph: Graph) -> NodeFeatures:
        """The input of the networks."""
        base = read_node_features(data, normalize=False, zeros=self.zeros)
        return propagate(base, graph, self.hops, self.normalize, self.pagerank)

    @property
    def num_blocks(self) -> int:
        """The number of blocks x, Âx, …"""
        return self.hops + 1 + (self.pagerank is not None)

    def networks(
        self,
        x: NodeFeatures,
        num_classes: int,
        generators: Sequence[torch.Generator],
        dropout: Sequence[float] | None = None,
    ) -> StackedMLPs:
        """One network per generator, initialised from it; `dropout` holds their rates where these differ."""
        return MLP(self.hidden, self.dropout, self.activation).networks(x, num_classes, generators, dropout)


@dataclass(frozen=True, eq=False)
class FromModule:
    """A user's module as initial condition: φ₀ = |module(x)| or |module(x, edge_index)|, of K outputs per node."""

    module: nn.Module

    def node_features(self, data: Any, graph: Graph) -> ModuleInputs:
        """The input of the modules."""
        return ModuleInputs(check_node_features(data), graph.edge_index)

    def networks(self, x: ModuleInputs, num_classes: int, generators: Sequence[torch.Generator]) -> ModuleCopies:
        """One copy per generator."""
        return ModuleCopies(self.module, x, num_classes, generators)


def _check_layers(choice: MLP | PropagatedMLP) -> None:
    if not isinstance(choice.hidden, tuple) or not all(isinstance(size, int) and size > 0 for size in choice.hidden):
        raise InputError("hidden", "be a tuple of positive sizes such as (512, 128)", repr(choice.hidden))
    check_choice("activation", choice.activation, [activation.value for activation in Activation])
    check_int("zeros", choice.zeros, minimum=0)
    _check_dropout("dropout", choice.dropout)


def _check_dropout(name: str, rate: float) -> None:
    # At higher rates, rounding to levels would keep nothing.
    check_real(name, rate, 0, 1 - 1 / LEVELS, closed="left", rule="lie in [0, 1)", remedy="Use 0 for none.")
