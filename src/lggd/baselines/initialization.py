"""Initial networks of a pass. The parameters and dropout masks of each problem depend on its own seed alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeVar, cast, get_args

import torch
from torch import Tensor

from lggd.backbones import Backbone
from lggd.backbones.network import Network
from lggd.backbones.training import StackedBackbones
from lggd.baselines.baseline import BaselineData, Problems
from lggd.training.optimization import Optimization
from lggd.training.randomness import RandomState, read_seed
from lggd.validation import check_instance

Module = TypeVar("Module", bound=Network)
# Maximum number of entries of the copies of x in a pass: input dropout copies x for every problem.
DROPOUT_ENTRIES = 2**29


def check_backbone_kind(backbone: object, kinds: tuple[type, ...] = get_args(Backbone), remedy: str = "") -> None:
    """Raises an `InputError` unless `backbone` is an object of one of these classes."""
    *others, last = (f"{kind.__name__}()" for kind in kinds)
    check_instance("backbone", backbone, kinds, f"{', '.join(others)} or {last}" if others else last, remedy)


def derived_seeds(seed: int, count: int) -> list[int]:
    """Returns seeds derived from a seed, so that no stage repeats the random numbers of another."""
    generator = torch.Generator().manual_seed(seed)
    return [read_seed(generator) for _ in range(count)]


def build_modules(
    problems: Problems, build: Callable[[], Module], device: torch.device
) -> tuple[list[Module], list[int]]:
    """Returns one module per problem, initialized from its seed, and the seeds of their dropout."""
    modules = []
    for problem in problems:
        with torch.device("cpu"), RandomState(problem.seed, torch.device("cpu")).in_use():
            modules.append(build().to(device))
    return modules, [derived_seeds(problem.seed, 1)[0] for problem in problems]


def build_backbones(backbone: Backbone, data: BaselineData, problems: Problems) -> tuple[list[Network], list[int]]:
    """Returns one module of a backbone per problem, and the seeds of their dropout."""
    build = cast("Callable[[], Network]", partial(backbone.build, data.x.shape[1], data.num_classes))
    return build_modules(problems, build, data.x.device)


def stacked_backbones(
    backbone: Backbone,
    data: BaselineData,
    problems: Problems,
    edge_index: Tensor,
    edge_weight: Tensor | None,
) -> StackedBackbones:
    """Returns the stacked backbones of all problems on these edges."""
    modules, seeds = build_backbones(backbone, data, problems)
    return StackedBackbones(modules, data.x, edge_index, edge_weight, seeds)


def max_problems_with_input_dropout(data: BaselineData) -> int:
    """Returns the maximum number of problems per pass."""
    return max(1, DROPOUT_ENTRIES // data.x.numel())


def adam_without_decay_of(
    names: Collection[str], stacked: Mapping[str, Tensor], optimization: Optimization
) -> torch.optim.Adam:
    """Returns Adam for stacked parameters, without weight decay for those in `names`."""
    excluded = [value for name, value in stacked.items() if name in names]
    groups = [
        {"params": [v for k, v in stacked.items() if k not in names], "weight_decay": optimization.weight_decay},
        {"params": excluded, "weight_decay": 0.0},
    ]
    return torch.optim.Adam(groups, lr=optimization.lr, fused=True, capturable=excluded[0].is_cuda)
