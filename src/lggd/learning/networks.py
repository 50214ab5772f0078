"""The networks that map node features to the initial condition φ₀."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.errors import InputError
from lggd.graph import Graph
from lggd.inputs import NodeData
from lggd.learning.node_features import NodeFeatures, propagate, read_node_features
from lggd.learning.stacked_mlps import StackedMLPs
from lggd.training.problems import LEVELS, SeededModules
from lggd.validation import check_int, check_name, check_real


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
        return getattr(torch if in_torch else functional, self.value)  # type: ignore[no-any-return]  # by name


class _MLPSettings:
    """The settings that MLP and PropagatedMLP share."""

    hidden: tuple[int, ...]
    dropout: float
    activation: Activation
    zeros: int
    input_dropout: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.hidden, tuple) or not all(type(size) is int and size > 0 for size in self.hidden):
            raise InputError("hidden", "be a tuple of positive sizes such as (512, 128)", repr(self.hidden))
        check_name("activation", self.activation, list(Activation))
        check_int("zeros", self.zeros, minimum=0)
        for name in ("dropout", "input_dropout"):
            # At higher rates, rounding to levels would keep nothing.
            rule, rate = "lie in [0, 1)", getattr(self, name)
            check_real(name, rate, 0, 1 - 1 / LEVELS, closed="left", rule=rule, remedy="Use 0 for none.")

    def networks(
        self,
        x: NodeFeatures,
        num_classes: int,
        generators: Sequence[torch.Generator],
        dropout: Sequence[float] | None = None,
    ) -> StackedMLPs:
        """One network per generator, initialized from it; `dropout` holds their rates where these differ."""
        sizes = (x.shape[1], *self.hidden, num_classes)
        rates = self.dropout if dropout is None else dropout
        return StackedMLPs(sizes, rates, Activation(self.activation).function, generators, self.input_dropout)


@dataclass(frozen=True)
class MLP(_MLPSettings):
    """An MLP on node features as initial condition: φ₀ = |MLP(x)|.

    Parameters
    ----------
    hidden : tuple of int
        Sizes of the hidden layers, each followed by the activation and by dropout.
    dropout, input_dropout : float
        Dropout rates of the hidden layers and of the entries of x, in [0, 1).
    activation : Activation
        Activation of the hidden layers.
    normalize : bool
        Whether each row of x is scaled to unit length.
    zeros : int
        Number of zero columns appended to x, as the paper's appendix suggests. They affect a plain MLP only through the
        smaller scale of its initial weights.

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

    def node_features(self, nodes: NodeData, graph: Graph) -> NodeFeatures:
        """The input of the networks."""
        return read_node_features(nodes, self.normalize, self.zeros)


@dataclass(frozen=True)
class PropagatedMLP(_MLPSettings):
    """An MLP on node features and those of the neighbourhood: φ₀ = |MLP([x, Âx, Â²x, …])|. Not in the paper.

    Â is the normalized adjacency with self-loops of a GCN.

    Parameters
    ----------
    hidden, dropout, activation, zeros
        As for `MLP`.
    hops : int
        The largest power of Â.
    normalize : bool
        Whether each row of each block is scaled to unit length.
    pagerank : float, optional
        Restart probability of a personalized PageRank, which adds a block of farther nodes.

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
        super().__post_init__()
        if self.pagerank is not None:
            check_real("pagerank", self.pagerank, 0, 1, closed="neither", rule="lie between 0 and 1, or be None")
        check_int("hops", self.hops, minimum=1, remedy="MLP() uses no neighbours.")

    def node_features(self, nodes: NodeData, graph: Graph) -> NodeFeatures:
        """The input of the networks."""
        base = read_node_features(nodes, normalize=False, zeros=self.zeros)
        return propagate(base, graph, self.hops, self.normalize, self.pagerank)

    @property
    def num_blocks(self) -> int:
        """The number of blocks x, Âx, …"""
        return self.hops + 1 + (self.pagerank is not None)


@dataclass(frozen=True, eq=False)
class FromModule:
    """A user's module as initial condition: φ₀ = |module(x)| or |module(x, edge_index)|, of K outputs per node."""

    module: nn.Module

    def node_features(self, nodes: NodeData, graph: Graph) -> ModuleInputs:
        """The input of the modules."""
        return ModuleInputs(nodes.features, graph.edge_index)

    def networks(self, x: ModuleInputs, num_classes: int, generators: Sequence[torch.Generator]) -> ModuleCopies:
        """One copy per generator."""
        return ModuleCopies(self.module, x, num_classes, generators)


@dataclass(frozen=True, eq=False)
class ModuleInputs:
    """Node features and edges as a user's module takes them."""

    x: Tensor
    edge_index: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)


class ModuleCopies(SeededModules):
    """Q copies of a module, each trained from the module's current parameters."""

    def __init__(
        self, module: nn.Module, inputs: ModuleInputs, num_classes: int, generators: Sequence[torch.Generator]
    ) -> None:
        device = inputs.x.device
        modules = [copy.deepcopy(module).to(device) for _ in generators]
        super().__init__(modules, [generator.initial_seed() for generator in generators], device)
        self._takes_edges = _takes_edges(module.forward)
        # A first call checks the output and initializes lazy layers.
        try:
            with torch.no_grad():
                width = self(inputs, training=False).shape[2]
        except (InputError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            rule = f"accept node features [N, {inputs.shape[1]}]{' and edges [2, E]' * self._takes_edges}"
            reason = str(error).strip().rstrip(".").partition("\n")[0]
            clause = f"{type(module).__name__} raised {type(error).__name__}: {reason}"
            raise InputError("initial", rule, but=clause) from error
        if width != num_classes:
            rule = f"return one value for each of the {num_classes} classes"
            raise InputError("initial", rule, f"{width} per node")

    def __call__(self, x: ModuleInputs, training: bool, training_follows: bool = False) -> Tensor:
        inputs = (x.x, x.edge_index) if self._takes_edges else (x.x,)
        outputs = [self.call(q, *inputs, training=training) for q in range(len(self.modules))]
        first: Any = outputs[0]
        if not isinstance(first, Tensor) or first.dim() != 2 or len(first) != x.shape[0]:
            received = f"shape {list(first.shape)}" if isinstance(first, Tensor) else f"a {type(first).__name__}"
            raise InputError("initial", "return one row per node, [N, K]", received)
        return torch.stack(outputs, 1)


# Q networks behind φ₀ that are evaluated together.
Networks = StackedMLPs | ModuleCopies


def _takes_edges(forward: Callable[..., Any]) -> bool:
    """Whether it requires two positional arguments, or accepts a second one named `edge_index`."""
    parameters = inspect.signature(forward).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    return len(required) == 2 or (len(positional) >= 2 and positional[1].name == "edge_index")
