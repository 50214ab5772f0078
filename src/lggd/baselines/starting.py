"""How networks start: each from its problem's own seed, and dropping by random numbers of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from lggd.backbones import Backbone, build_backbone
from lggd.backbones.networks import Network
from lggd.baselines.baseline import BaselineData, BaselineProblem
from lggd.errors import InputTypeError
from lggd.training.randomness import RandomState, read_seed

Module = TypeVar("Module", bound=Network)


def starting_modules(
    problems: Sequence[BaselineProblem], make: Callable[[], Module], device: torch.device
) -> list[Module]:
    """What `make` makes, once a problem, with parameters drawn from its seed as a backbone's are."""
    modules = []
    for one in problems:
        with torch.device("cpu"), RandomState(one.seed, torch.device("cpu")).in_use():
            modules.append(make().to(device))
    return modules


def starting_networks(
    subject: BaselineData, problems: Sequence[BaselineProblem], backbone: Backbone
) -> tuple[list[Network], list[int]]:
    """A network a problem, with its first parameters, and the seed of what it drops."""

    def make() -> Network:
        module = build_backbone(backbone, subject.x.shape[1], subject.num_classes)
        if not isinstance(module, Network):
            raise InputTypeError("backbone", "be GCN(), GAT(), ChebNet() or JKNet()", repr(backbone))
        return module

    return starting_modules(problems, make, subject.x.device), dropout_seeds(problems)


def dropout_seeds(problems: Sequence[BaselineProblem]) -> list[int]:
    """Drawn from the seeds, as backbones alone do: what is dropped is not drawn as parameters were."""
    return [read_seed(torch.Generator().manual_seed(one.seed)) for one in problems]
