"""Networks from node contents to the initial condition φ₀: many of them side by side, one a problem."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.errors import InputError
from lggd.graph import Graph
from lggd.learning.contents import Contents, Dense, Sparse, check_contents, of_entries, read_contents
from lggd.learning.layers import Layers, Seen, Thinned, Whole, first_layer
from lggd.learning.neighbourhood import propagated
from lggd.learning.workspace import Workspace
from lggd.training.dropout import LEVELS, draw_kept, draw_lots, kept_levels, words_for
from lggd.training.randomness import generator_states, load_generator_states, parameter_generators
from lggd.training.seeded_modules import SeededModules
from lggd.training.stacked_parameters import StackedParameter

Activation = Literal["relu", "elu", "gelu", "leaky_relu", "silu", "tanh"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "leaky_relu": functional.leaky_relu,
    "silu": functional.silu,
    "tanh": torch.tanh,
}

# From this many parameters and values of a network on, networks take turns on a CPU: all at once they would push each
# other out of the cache.
WORTH_A_TURN = 2**17


@dataclass(frozen=True)
class MLP:
    """φ₀ = |MLP(x)|: hidden layers of these sizes, each followed by the activation and by dropout.

    `input_dropout` is the share of the entries of x that training drops before the first layer. `normalize` divides
    each row of x by its length. `zeros` appends columns of 0 to x (the appendix of the paper suggests it): a plain MLP
    sees them only through the smaller scale of its first random weights.
    """

    hidden: tuple[int, ...] = (512, 128)
    dropout: float = 0.5
    activation: Activation = "relu"
    normalize: bool = False
    zeros: int = 0
    input_dropout: float = 0.0

    def __post_init__(self) -> None:
        _check_sizes(self.hidden, self.activation, self.zeros)
        _check_shares(dropout=self.dropout, input_dropout=self.input_dropout)

    def contents(self, data: Any, graph: Graph) -> Contents:
        """What the networks see of the data."""
        return read_contents(data, self.normalize, self.zeros)

    def networks(
        self,
        contents: Contents,
        num_classes: int,
        generators: Sequence[torch.Generator],
        dropout: Sequence[float] | None = None,
    ) -> StackedMLPs:
        """A network a generator, with parameters drawn from it. `dropout` are rates of their own, where they differ."""
        sizes = (contents.num_features, *self.hidden, num_classes)
        rates = self.dropout if dropout is None else dropout
        return StackedMLPs(sizes, rates, ACTIVATIONS[self.activation], generators, self.input_dropout)


@dataclass(frozen=True)
class PropagatedMLP:
    """φ₀ = |MLP([x, Âx, Â²x, …])|: an initial condition that sees the neighbourhood up to `hops` steps away.

    Â is the normalised adjacency with self-loops of a GCN. `pagerank` adds what lies farther away: the contents spread
    by a personalised PageRank that restarts with this chance. `normalize` divides each row of each block by its length.
    Not in the paper.
    """

    hidden: tuple[int, ...] = (128,)
    dropout: float = 0.5
    hops: int = 2
    activation: Activation = "relu"
    normalize: bool = True
    zeros: int = 0
    pagerank: float | None = None

    def __post_init__(self) -> None:
        _check_sizes(self.hidden, self.activation, self.zeros)
        _check_shares(dropout=self.dropout)
        if self.pagerank is not None and not 0 < self.pagerank < 1:
            raise InputError("pagerank", "lie between 0 and 1, or be None", repr(self.pagerank))
        if isinstance(self.hops, bool) or not isinstance(self.hops, int) or self.hops < 1:
            raise InputError("hops", "be a whole number from 1", repr(self.hops), "MLP() looks at no neighbours.")

    def contents(self, data: Any, graph: Graph) -> Contents:
        """What the networks see of the data."""
        base = read_contents(data, normalize=False, zeros=self.zeros)
        return propagated(base, graph, self.hops, self.normalize, self.pagerank)

    @property
    def num_blocks(self) -> int:
        """How many times as wide as x what the networks see is."""
        return self.hops + 1 + (self.pagerank is not None)

    def networks(
        self,
        contents: Contents,
        num_classes: int,
        generators: Sequence[torch.Generator],
        dropout: Sequence[float] | None = None,
    ) -> StackedMLPs:
        """A network a generator, with parameters drawn from it. `dropout` are rates of their own, where they differ."""
        return MLP(self.hidden, self.dropout, self.activation).networks(contents, num_classes, generators, dropout)


class Networks(Protocol):
    """Q networks that are evaluated together."""

    @property
    def generators(self) -> Sequence[torch.Generator] | None:
        """All that they draw random numbers from; None where that is unknown."""

    def parameters(self) -> list[StackedParameter]:
        """All that learning changes in them."""

    def __call__(self, contents: Any, training: bool, ahead: bool = False) -> Tensor:
        """What they answer, `[N, Q, K]`; with dropout where `training`.

        `ahead` says that a training step with the same parameters comes next, and may find some of its work done.
        """

    def part(self, problems: slice) -> Networks:
        """The networks of some of the problems, which share nothing that learning changes with these."""

    def random_state(self) -> dict[str, Tensor]:
        """Where their random numbers stand."""

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        """Goes on drawing from there."""


class StackedMLPs:
    """Q equal MLPs with parameters `[Q, in, out]`: evaluated together, yet each is drawn and trained as if alone.

    `dropout` is the rate of all, or one a network; `input_dropout` that of the contents, for all.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        dropout: float | Sequence[float],
        activation: Callable[[Tensor], Tensor],
        generators: Sequence[torch.Generator],
        input_dropout: float = 0.0,
    ) -> None:
        self.activation, self.generators = activation, list(generators)
        self.input_level = kept_levels(input_dropout)
        rates = [dropout] * len(self.generators) if isinstance(dropout, (int, float)) else dropout
        self.levels = [kept_levels(rate) for rate in rates]
        starting = parameter_generators(generators)
        self.weights = [self._drawn(starting, a, a, b) for a, b in pairwise(sizes)]
        self.biases = [self._drawn(starting, a, 1, b) for a, b in pairwise(sizes)]
        self._prepare()

    def _drawn(self, starting: Sequence[torch.Generator], fan_in: int, rows: int, columns: int) -> Tensor:
        """Uniform in ±1/√fan_in, as torch's own linear layers are."""
        bound = fan_in**-0.5
        parts = [torch.empty(rows, columns).uniform_(-bound, bound, generator=g) for g in starting]
        return torch.stack(parts).to(self.generators[0].device).requires_grad_()

    def _prepare(self) -> None:
        """What is no part of what was learned, made anew."""
        device = self.weights[0].device
        self._space = Workspace()
        self._ahead: tuple[Contents, tuple[int, int], Tensor] | None = None
        # On the device once and for all: nothing may be copied there while an epoch is being recorded.
        self._levels = torch.tensor(self.levels, dtype=torch.int16, device=device)
        self._factor = (LEVELS / self._levels)[:, None, None]

    def part(self, problems: slice) -> StackedMLPs:
        """The networks of some of the problems, with copies of all that learning changes."""
        part = copy.copy(self)
        part.levels = self.levels[problems]
        part.generators = [_continued(g) for g in self.generators[problems]]
        part.weights, part.biases = (
            [value.detach()[problems].clone().requires_grad_() for value in values]
            for values in (self.weights, self.biases)
        )
        part._prepare()
        return part

    def parameters(self) -> list[StackedParameter]:
        weights = [StackedParameter(f"weight.{k}", value) for k, value in enumerate(self.weights)]
        return weights + [StackedParameter(f"bias.{k}", value) for k, value in enumerate(self.biases)]

    def __call__(self, contents: Contents, training: bool, ahead: bool = False) -> Tensor:
        numbers = sum((weight.shape[1] + contents.num_nodes) * weight.shape[2] for weight in self.weights)
        if self.input_level < LEVELS:
            numbers += of_entries(contents).entries.numel()
        if self.weights[0].device.type == "cpu" and numbers >= WORTH_A_TURN:
            answers = self._in_turn(contents, training, ahead)
        else:
            answers = self._at_once(contents, training)
        return answers.transpose(0, 1)

    def _at_once(self, contents: Contents, training: bool) -> Tensor:
        """What they answer, `[Q, N, K]`, in few operations: for GPUs, and for networks that are small."""
        dropping = training and min(self.levels) < LEVELS
        drawing = [g if level < LEVELS else None for g, level in zip(self.generators, self.levels, strict=True)]
        h = self._first_product(contents, training) + self.biases[0]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            h = self.activation(h)
            if dropping:
                h = h * draw_kept(drawing, h.shape[1:], self._levels)
                # What is kept counts for what is dropped; the weights are the cheapest place to say so.
                weight = weight * self._factor
            h = torch.baddbmm(bias, h, weight)
        return h

    def _first_product(self, contents: Contents, training: bool) -> Tensor:
        if not training or self.input_level == LEVELS:
            return contents.times(self.weights[0])
        whole = of_entries(contents)
        kept = draw_kept(self.generators, whole.entries.shape, self.input_level)
        return whole.times_by_network(whole.entries * kept, self.weights[0] * (LEVELS / self.input_level))

    def _in_turn(self, contents: Contents, training: bool, ahead: bool) -> Tensor:
        """The same, network after network, in memory that is used again in the next epoch.

        Unless contents are dropped, what the first layer gives before activation is the same in validation as in the
        training step after it: it is kept for that step, which saves a product in every epoch.
        """
        if training and self.input_level < LEVELS:
            seen: Seen = self._thinned(of_entries(contents))
            first = first_layer(seen, self.weights[0], self.biases[0], self._space)
        else:
            seen, first = Whole(contents), self._first_layer(contents, ahead and self.input_level == LEVELS)
        levels = self.levels if training and min(self.levels) < LEVELS else None
        layers = Layers(seen, self.activation, levels, self.generators, self._space)
        answers = layers(first, self.weights, self.biases)
        if not training and not ahead:
            # No epoch has just ended, nor does one follow.
            self._space.let_go()
        return answers

    def _thinned(self, contents: Dense | Sparse) -> Thinned:
        lots = self._space.empty((len(self.generators), words_for(contents.entries.numel())), torch.int64)
        for own, generator in zip(lots, self.generators, strict=True):
            draw_lots(own, generator)
        return Thinned(contents, self.input_level, lots, self._space)

    def _first_layer(self, contents: Contents, ahead: bool) -> Tensor:
        """What the first layer gives, or what was kept of the last time; kept for the next one where `ahead`."""
        versions = (self.weights[0]._version, self.biases[0]._version)
        kept, self._ahead = self._ahead, None
        if kept is not None and kept[0] is contents and kept[1] == versions:
            first = kept[2]
        else:
            first = first_layer(Whole(contents), self.weights[0], self.biases[0], self._space)
        if ahead:
            self._ahead = (contents, versions, first)
        return first

    def random_state(self) -> dict[str, Tensor]:
        return generator_states(self.generators)

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        load_generator_states(self.generators, state)


def _continued(generator: torch.Generator) -> torch.Generator:
    """Another that draws what this one would draw next."""
    other = torch.Generator(generator.device)
    other.set_state(generator.get_state())
    return other


@dataclass(frozen=True, eq=False)
class Raw:
    """Contents and edges as a module of the user's takes them."""

    x: Tensor
    edge_index: Tensor


@dataclass(frozen=True, eq=False)
class FromModule:
    """φ₀ = |module(x)| or |module(x, edge_index)|, for any module that gives K values a node.

    Every problem learns a copy of its own, from the parameters that the module came with.
    """

    module: nn.Module

    def contents(self, data: Any, graph: Graph) -> Raw:
        """What the networks see of the data."""
        return Raw(check_contents(data), graph.edge_index)

    def networks(self, contents: Raw, num_classes: int, generators: Sequence[torch.Generator]) -> ModuleCopies:
        """A copy a generator."""
        return ModuleCopies(self.module, contents, num_classes, generators)


class ModuleCopies(SeededModules):
    """Q copies of a user's module, evaluated one after the other."""

    def __init__(
        self, module: nn.Module, contents: Raw, num_classes: int, generators: Sequence[torch.Generator]
    ) -> None:
        device = contents.x.device
        modules = [copy.deepcopy(module).to(device) for _ in generators]
        super().__init__(modules, [one.initial_seed() for one in generators], device)
        self.takes_edges = _takes_two(module.forward)
        # A first call checks the output and initialises lazy layers.
        with torch.no_grad():
            output = self(contents, training=False)
        if output.shape[2] != num_classes:
            raise InputError(
                "initial", f"give a value for each of the {num_classes} classes", f"{output.shape[2]} a node"
            )

    def part(self, problems: slice) -> ModuleCopies:
        """The modules of some of the problems, copied, with their random numbers."""
        part = copy.copy(self)
        part.modules, part._random = copy.deepcopy(self.modules[problems]), copy.deepcopy(self._random[problems])
        return part

    def __call__(self, contents: Raw, training: bool, ahead: bool = False) -> Tensor:
        inputs = (contents.x, contents.edge_index) if self.takes_edges else (contents.x,)
        outputs = [self.call(q, *inputs, training=training) for q in range(len(self.modules))]
        if outputs[0].dim() != 2 or outputs[0].shape[0] != contents.x.shape[0]:
            raise InputError("initial", "return one row per node, [N, K]", f"shape {list(outputs[0].shape)}")
        return torch.stack(outputs, 1)


def _takes_two(forward: Callable[..., Any]) -> bool:
    """Whether it must or may be called with two positional arguments."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(forward).parameters.values()
    required = [q for q in parameters if q.kind in kinds and q.default is inspect.Parameter.empty]
    named = [q.name for q in parameters if q.kind in kinds]
    return len(required) == 2 or (len(named) >= 2 and named[1] == "edge_index")


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share < 1 - 1 / LEVELS:
            raise InputError(name, "lie in [0, 1)", share, "Use 0 for none.")


def _check_sizes(hidden: Any, activation: str, zeros: int) -> None:
    if not isinstance(hidden, tuple) or not all(isinstance(h, int) and h > 0 for h in hidden):
        raise InputError("hidden", "be a tuple of positive sizes such as (512, 128)", repr(hidden))
    if activation not in ACTIVATIONS:
        raise InputError("activation", f"be one of {', '.join(ACTIVATIONS)}", repr(activation))
    if not isinstance(zeros, int) or zeros < 0:
        raise InputError("zeros", "be a whole number from 0", repr(zeros))
