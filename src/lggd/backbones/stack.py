"""Equal networks with their parameters stacked: one computation serves all, yet each learns as if it were alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lggd.backbones.networks import Network
from lggd.errors import InputError
from lggd.learning.networks import Owned
from lggd.training.dropout import LEVELS, draw_kept, kept_levels
from lggd.training.optimization import Optimization
from lggd.training.targets import Targets


class Stack:
    """Q networks of one choice of backbone, each with a generator of its own that decides what it drops.

    An epoch of them never looks at a number from the device, so that it can be recorded there.
    """

    def __init__(
        self,
        modules: Sequence[Network],
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        seeds: Sequence[int],
    ) -> None:
        _check_equal(modules)
        self.modules, self.x = list(modules), x.detach()
        first = self.modules[0]
        weight = None if edge_weight is None else edge_weight.detach()
        # Not remembered by the module: what the graph gathers for Q problems shall go when they are done.
        self.graph: Any = first.remembered.anew(x if x.dim() == 2 else x[0], edge_index, weight)
        self.generators: Sequence[torch.Generator] = [torch.Generator(x.device).manual_seed(seed) for seed in seeds]
        # Something is always kept: it stands for all that is dropped.
        self.kept_levels = max(1, kept_levels(first.choice.dropout))
        each = [dict(module.named_parameters()) for module in self.modules]
        self.parameters = {
            name: torch.stack([one[name].detach() for one in each]).requires_grad_(parameter.requires_grad)
            for name, parameter in each[0].items()
        }

    def owned(self) -> list[Owned]:
        """All that learning changes; the first dimension counts the problems."""
        return [Owned(name, value) for name, value in self.parameters.items()]

    def adam(self, optimization: Optimization) -> torch.optim.Adam:
        """One Adam for all: what it does to an entry depends on that entry alone."""
        learned = [value for value in self.parameters.values() if value.requires_grad]
        return torch.optim.Adam(
            learned,
            lr=optimization.lr,
            weight_decay=optimization.weight_decay,
            fused=True,
            capturable=self.x.is_cuda,
        )

    def training_step(self, asked: Targets, running: Sequence[bool]) -> Tensor:
        """Leaves gradients in the parameters; gives the losses that they are of, `[Q]`."""
        losses = asked.losses(self._logits(self._dropped))
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def evaluate(self, checked: Targets, running: Sequence[bool]) -> tuple[Tensor, Tensor]:
        """The loss and the number of right answers of each problem, without dropout."""
        logits = self.answers()
        return checked.losses(logits), checked.right(logits)

    def answers(self) -> Tensor:
        """The logits of all nodes, `[Q, N, K]`, without dropout."""
        with torch.no_grad():
            return self._logits(_as_they_are)

    def _logits(self, drop: Any) -> Tensor:
        return self.modules[0].logits(self.parameters, self.x, self.graph, drop)

    def _dropped(self, values: Tensor) -> Tensor:
        """Values `[Q, A, B]`, or `[A, B]` for all, each problem without what it would drop alone: `[Q, A, B]`."""
        if self.kept_levels == LEVELS:
            return values
        kept = draw_kept(self.generators, values.shape[-2:], self.kept_levels)
        # By way of bytes: torch turns truth into numbers far slower on a CPU.
        return values * kept.view(torch.uint8).to(values.dtype).mul_(LEVELS / self.kept_levels)

    def put(self, values: Mapping[str, Tensor]) -> None:
        """Goes on from such values of what is owned."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(values[name])

    def export(self) -> list[Network]:
        """The modules as they are now, off training."""
        with torch.no_grad():
            for q, module in enumerate(self.modules):
                for name, parameter in module.named_parameters():
                    parameter.copy_(self.parameters[name][q])
        return [module.eval() for module in self.modules]

    def random_state(self) -> dict[str, Tensor]:
        """Where the random numbers stand."""
        return {str(q): generator.get_state() for q, generator in enumerate(self.generators)}

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        """Goes on drawing from there."""
        for q, generator in enumerate(self.generators):
            generator.set_state(state[str(q)].cpu())


def _as_they_are(values: Tensor) -> Tensor:
    return values


def _check_equal(modules: Sequence[Network]) -> None:
    def shape(module: Network) -> tuple[Any, ...]:
        return module.choice, [
            (name, one.shape, one.dtype, one.requires_grad) for name, one in module.named_parameters()
        ]

    for place, module in enumerate(modules):
        if shape(module) != shape(modules[0]):
            raise InputError(
                "modules",
                "be of one choice of backbone and of equal sizes",
                but=f"number {place}, of {module.choice}, is not like the first, of {modules[0].choice}",
                remedy="Train them apart.",
            )
