"""User-defined modules as backbones, called one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from lggd.training.optimization import Optimization
from lggd.training.seeded_modules import SeededModules
from lggd.training.stacked_parameters import GroupedAdam
from lggd.training.targets import Targets


class SeparateModules(SeededModules):
    """Q modules, each called with the graph and its own features. The Trainable of user-defined backbones.

    Problems that have finished are skipped.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        seeds: Sequence[int],
    ) -> None:
        super().__init__(modules, seeds, x.device)
        self._inputs = [(x if x.dim() == 2 else x[q], edge_index, edge_weight) for q in range(len(self.modules))]
        for q, module in enumerate(self.modules):
            # Lazy layers create their parameters at the first call; Adam needs them now.
            if any(nn.parameter.is_lazy(tensor) for tensor in chain(module.parameters(), module.buffers())):
                self._logits(q, training=False)

    def _logits(self, q: int, training: bool) -> Tensor:
        """The logits of one problem, `[1, N, K]`."""
        with torch.set_grad_enabled(training):
            return self.call(q, *self._inputs[q], training=training).unsqueeze(0)

    def logits(self) -> Tensor:
        """The logits of all nodes without dropout, `[Q, N, K]`."""
        return torch.cat([self._logits(q, training=False) for q in range(len(self.modules))])

    def optimizer(self, optimizations: Sequence[Optimization]) -> GroupedAdam:
        """Adam that accepts parameters of any dtype and layout; the fused version does not."""
        return GroupedAdam(self.parameters(), optimizations, fused=False)

    def training_step(self, targets: Targets, running: Sequence[bool]) -> Tensor:
        """Backpropagates the losses and returns them, `[Q]`."""
        losses = self._zeros()
        for q in (q for q, is_running in enumerate(running) if is_running):
            loss = targets.of_problem(q).losses(self._logits(q, training=True))
            loss.sum().backward()  # type: ignore[no-untyped-call]
            losses[q] = loss.detach()[0]
        return losses

    def validate(self, targets: Targets, running: Sequence[bool]) -> tuple[Tensor, Tensor]:
        """The losses and the numbers of correct predictions, `[Q]` each, without dropout."""
        losses, correct = self._zeros(), self._zeros()
        for q in (q for q, is_running in enumerate(running) if is_running and targets.counts[q]):
            logits, target = self._logits(q, training=False), targets.of_problem(q)
            losses[q], correct[q] = target.losses(logits)[0], target.correct(logits)[0]
        return losses, correct

    def _zeros(self) -> Tensor:
        return torch.zeros(len(self.modules), dtype=torch.float64, device=self._inputs[0][0].device)

    def export(self) -> list[nn.Module]:
        """The modules in their current states, in evaluation mode."""
        return [module.eval() for module in self.modules]
