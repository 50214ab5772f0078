"""Per-problem settings, targets, parameters and random numbers of problems that are trained together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.errors import InputError
from lggd.validation import check_int, check_positive, check_real, read_seed


@dataclass(frozen=True)
class Optimization:
    """The settings of Adam and of early stopping. The defaults are the paper's for backbones.

    Parameters
    ----------
    lr, weight_decay : float
        Learning rate and L2 regularisation.
    epochs : int
        Maximum number of epochs.
    patience : int or None
        Stop after this many epochs without a better validation score; None never stops early.

    Examples
    --------
    >>> Optimization(lr=0.05, epochs=200)
    Optimization(lr=0.05, weight_decay=1e-06, epochs=200, patience=100)
    """

    lr: float = 0.01
    weight_decay: float = 1e-6
    epochs: int = 5000
    patience: int | None = 100

    def __post_init__(self) -> None:
        check_positive("lr", self.lr)
        check_real("weight_decay", self.weight_decay, 0, math.inf, closed="left", rule="be 0 or above and finite")
        check_int("epochs", self.epochs, minimum=1)
        if self.patience is not None:
            check_int("patience", self.patience, minimum=1)


class Targets:
    """The labelled nodes of Q problems and their classes; `name` is that of the argument in errors.

    `labels` are int64 `[Q, N]`: a class, or -1 where a node is not a target of the problem.
    """

    def __init__(self, labels: Tensor, name: str) -> None:
        self.labels, self.name = labels, name
        is_target, (problems, nodes) = labels >= 0, labels.shape
        self.count = is_target.sum(1)
        self.counts: list[int] = self.count.tolist()
        self.problem, node = is_target.nonzero().unbind(1)
        self.classes = labels[self.problem, node]
        self.largest = int(self.classes.max()) if len(self.classes) else -1
        self._divisor = self.count.clamp(min=1)
        # The position of each target among logits [Q, N] and [N, Q].
        self.position, self._position_nodes_first = self.problem * nodes + node, node * problems + self.problem

    def losses(self, logits: Tensor, nodes_first: bool = False) -> Tensor:
        """The mean cross-entropy of each problem `[Q]`, over its targets and the leading dimensions; 0 without targets.

        `logits` are `[…, Q, N, K]`, or `[…, N, Q, K]` with `nodes_first`.
        """
        chosen = self._select(logits, nodes_first)
        classes = self.classes.repeat(len(chosen))
        losses = functional.cross_entropy(chosen.flatten(0, 1), classes, reduction="none").view(len(chosen), -1)
        return self.mean_by_problem(losses.mean(0))

    def mean_by_problem(self, by_target: Tensor) -> Tensor:
        """The mean over the targets of each problem, `[Q]`; 0 without targets."""
        return self._sum_by_problem(by_target) / self._divisor

    def correct(self, logits: Tensor) -> Tensor:
        """The number of targets of each problem with the largest logit at their class: `[Q, N, K]` → float64 `[Q]`."""
        chosen = self._select(logits, nodes_first=False)[0]
        return self._sum_by_problem((chosen.argmax(1) == self.classes).double())

    def _select(self, logits: Tensor, nodes_first: bool) -> Tensor:
        shape, num_classes = logits.shape[-3:-1], logits.shape[-1]
        expected = list(reversed(shape) if nodes_first else shape)
        if list(self.labels.shape) != expected:
            raise InputError(self.name, f"be int64 {expected}, one row per problem", list(self.labels.shape))
        if self.largest >= num_classes:
            rule = f"contain classes from 0 to {num_classes - 1}, one per output of the module"
            raise InputError(self.name, rule, self.largest)
        position = self._position_nodes_first if nodes_first else self.position
        return logits.reshape(-1, self.labels.numel(), num_classes).index_select(1, position)

    def _sum_by_problem(self, by_target: Tensor) -> Tensor:
        # In the order of the nodes, so that a problem gets the same bits as alone. `unsafe` skips a check that would
        # wait for the device.
        total: Tensor = torch.segment_reduce(by_target, "sum", lengths=self.count, axis=0, unsafe=True, initial=0)
        return total


@dataclass(frozen=True)
class StackedParameter:
    """A tensor that training changes: a parameter `[Q, …]` of all problems, or a buffer.

    `owner` is the index of the problem that the whole tensor belongs to; None where the first dimension is Q. `decays`
    says whether weight decay applies to it.
    """

    name: str
    value: Tensor
    owner: int | None = None
    decays: bool = True

    def expand(self, mask: Tensor) -> Tensor:
        """A mask of problems `[Q]` in a shape that broadcasts against the value."""
        return mask.view(-1, *[1] * (self.value.dim() - 1)) if self.owner is None else mask[self.owner]


def adam(parameters: Sequence[StackedParameter], optimization: Optimization, fused: bool = True) -> torch.optim.Adam:
    """Adam with these settings, for the parameters that require gradients."""
    trained = [parameter for parameter in parameters if parameter.value.requires_grad]
    groups = [
        {
            "params": [parameter.value for parameter in trained if parameter.decays == decays],
            "weight_decay": optimization.weight_decay if decays else 0.0,
        }
        for decays in (True, False)
    ]
    capturable = fused and any(parameter.value.is_cuda for parameter in trained)
    return torch.optim.Adam(groups, lr=optimization.lr, fused=fused, capturable=capturable)


def load_values(parameters: Iterable[StackedParameter], values: Mapping[str, Tensor]) -> None:
    """Overwrites parameters in place by the values with their names."""
    with torch.no_grad():
        for parameter in parameters:
            parameter.value.copy_(values[parameter.name])


class SeededModules:
    """Modules that cannot be stacked, such as a user's: one per problem, each with its own random numbers."""

    # Unknown: a user's module may draw from any generator and copy numbers to the host.
    generators: Sequence[torch.Generator] | None = None

    def __init__(self, modules: Sequence[nn.Module], seeds: Sequence[int], device: torch.device) -> None:
        self.modules = list(modules)
        self._random = [RandomState(seed, device) for seed in seeds]

    def call(self, problem: int, *inputs: Tensor | None, training: bool) -> Tensor:
        """The output of the module of one problem."""
        with self._random[problem].in_use():
            output: Tensor = self.modules[problem].train(training)(*inputs)
        return output

    def parameters(self) -> list[StackedParameter]:
        return [
            StackedParameter(f"module.{q}.{name}", value, q)
            for q, module in enumerate(self.modules)
            for name, value in (*module.named_parameters(), *module.named_buffers())
        ]


def derived_seeds(seed: int | torch.Generator, count: int) -> list[int]:
    """Returns seeds derived from a seed, so that no stage repeats the random numbers of another."""
    generator = torch.Generator().manual_seed(read_seed(seed))
    return [read_seed(generator) for _ in range(count)]


def parameter_generators(generators: Sequence[torch.Generator]) -> list[torch.Generator]:
    """Generators for initial parameters: on the CPU, so that these are equal on every device."""
    # Not the seed itself: dropout must not draw the numbers that parameters were initialised with.
    return [torch.Generator().manual_seed((generator.initial_seed() + 1) % 2**63) for generator in generators]


class RandomState:
    """A private state of torch's global random numbers; `in_use()` activates it temporarily.

    For modules that draw from the global generators, as dropout and the initialisation of layers do.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self.states = {"cpu": torch.Generator().manual_seed(seed).get_state()}
        self._devices = [device] if device.type == "cuda" else []
        for cuda in self._devices:
            self.states["cuda"] = torch.Generator(cuda).manual_seed(seed).get_state()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside, torch draws from here; afterwards its global state is restored."""
        with torch.random.fork_rng(self._devices):
            torch.set_rng_state(self.states["cpu"])
            for device in self._devices:
                torch.cuda.set_rng_state(self.states["cuda"], device)
            yield
            self.states = {"cpu": torch.get_rng_state()}
            for device in self._devices:
                self.states["cuda"] = torch.cuda.get_rng_state(device)


# Keep rates are rounded to this many levels: an entry is kept where its random byte is below the level.
LEVELS = 256


def keep_level(rate: float) -> int:
    """The level of a dropout rate; at least 1, because kept entries are scaled up by its inverse."""
    return max(1, round((1 - rate) * LEVELS))


def num_words(size: int) -> int:
    """The number of int64 words that hold one byte per entry."""
    return -(-size // 8)


def draw_random_bytes(words: Tensor, generator: torch.Generator) -> None:
    """Fills int64 `words [W]` with random bytes."""
    words.random_(-(2**63), None, generator=generator)


def draw_keep_mask(generators: Sequence[torch.Generator | None], shape: Sequence[int], level: int | Tensor) -> Tensor:
    """Which entries are kept, bool `[Q, *shape]`: each problem draws the same numbers as alone.

    `level` is one number for all, or int16 `[Q]`, with None instead of the generators that need not draw.
    """
    size = math.prod(shape)
    device = next(generator.device for generator in generators if generator is not None)
    words = torch.empty(len(generators), num_words(size), dtype=torch.int64, device=device)
    for row, generator in zip(words, generators, strict=True):
        if generator is not None:
            draw_random_bytes(row, generator)
    levels = level if isinstance(level, int) else level.unsqueeze(1)
    return (words.view(torch.uint8)[:, :size] < levels).view(len(generators), *shape)


def dropout(values: Tensor, generators: Sequence[torch.Generator], level: int) -> Tensor:
    """Dropout of `[Q, A, B]`, or of `[A, B]` shared by all problems: `[Q, A, B]`."""
    if level == LEVELS:
        return values
    keep = draw_keep_mask(generators, values.shape[-2:], level)
    # Through bytes: torch converts booleans far more slowly on a CPU.
    return values * keep.view(torch.uint8).to(values.dtype).mul_(LEVELS / level)
