"""Initial networks of a pass: each problem draws its parameters, and its dropout, from its own seed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeVar, cast, get_args

import torch
from torch import Tensor

from lggd.backbones import Backbone
from lggd.backbones.network import Network
from lggd.backbones.stacked_backbones import StackedBackbones
from lggd.baselines.baseline import BaselineData, Problems
from lggd.training.optimization import Optimization
from lggd.training.randomness import RandomState, read_seed
from lggd.validation import check_instance

Module = TypeVar("Module", bound=Network)
# Input dropout copies x for every problem; a pass drops from at most so many entries.
DROPOUT_ENTRIES = 2**29


def check_backbone_kind(backbone: object, kinds: tuple[type, ...] = get_args(Backbone), remedy: str = "") -> None:
    """Raises unless `backbone` is an object of one of these classes."""
    *others, last = (f"{kind.__name__}()" for kind in kinds)
    check_instance("backbone", backbone, kinds, f"{', '.join(others)} or {last}" if others else last, remedy)


def derived_seeds(seed: int, count: int) -> list[int]:
    """Seeds drawn from a seed, so that no stage repeats the random numbers of another."""
    generator = torch.Generator().manual_seed(seed)
    return [read_seed(generator) for _ in range(count)]


def build_modules(
    problems: Problems, build: Callable[[], Module], device: torch.device
) -> tuple[list[Module], list[int]]:
    """One module per problem, initialized from its seed, and the seeds of their dropout."""
    modules = []
    for problem in problems:
        with torch.device("cpu"), RandomState(problem.seed, torch.device("cpu")).in_use():
            modules.append(build().to(device))
    return modules, [derived_seeds(problem.seed, 1)[0] for problem in problems]


def build_backbones(backbone: Backbone, data: BaselineData, problems: Problems) -> tuple[list[Network], list[int]]:
    """The same for a backbone."""
    build = cast("Callable[[], Network]", partial(backbone.build, data.x.shape[1], data.num_classes))
    return build_modules(problems, build, data.x.device)


def stacked_backbones(
    backbone: Backbone,
    data: BaselineData,
    problems: Problems,
    edge_index: Tensor,
    edge_weight: Tensor | None,
) -> StackedBackbones:
    """Backbones of all problems on these edges."""
    modules, seeds = build_backbones(backbone, data, problems)
    return StackedBackbones(modules, data.x, edge_index, edge_weight, seeds)


def max_problems_with_input_dropout(data: BaselineData) -> int:
    """How many problems may share a pass."""
    return max(1, DROPOUT_ENTRIES // data.x.numel())


def adam_without_decay_of(
    names: Collection[str], stacked: Mapping[str, Tensor], optimization: Optimization
) -> torch.optim.Adam:
    """Adam for stacked parameters, without weight decay for these names."""
    decayed, others = ([value for name, value in stacked.items() if (name in names) is of] for of in (False, True))
    groups = [
        {"params": decayed, "weight_decay": optimization.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.Adam(groups, lr=optimization.lr, fused=True, capturable=others[0].is_cuda)
