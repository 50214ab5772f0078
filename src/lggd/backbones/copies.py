"""Modules that cannot be stacked, as those of the user's own: called one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from lggd.learning.networks import Owned
from lggd.training.optimization import Optimization
from lggd.training.randomness import RandomState
from lggd.training.targets import Targets


class Copies:
    """Q modules, each with random numbers of its own; a problem that has ended costs nothing any more."""

    # What they draw from, and look at, is not known: their epochs cannot be recorded.
    generators: Sequence[torch.Generator] | None = None

    def __init__(
        self,
        modules: Sequence[nn.Module],
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        seeds: Sequence[int],
    ) -> None:
        self.modules = list(modules)
        self.inputs = [(x if x.dim() == 2 else x[q], edge_index, edge_weight) for q in range(len(self.modules))]
        self.draws = [RandomState(seed, x.device) for seed in seeds]
        for q in range(len(self.modules)):
            self._make_lazy_parameters(q)

    def _make_lazy_parameters(self, q: int) -> None:
        """Gives layers that take their size from their first input that input. Adam has to see their parameters."""
        module = self.modules[q]
        if any(nn.parameter.is_lazy(tensor) for tensor in chain(module.parameters(), module.buffers())):
            module.eval()
            with self.draws[q].in_use(), torch.no_grad():
                module(*self.inputs[q])

    def owned(self) -> list[Owned]:
        """All that learning changes: buffers, as those of batch normalisation, too."""
        return [
            Owned(f"{q}.{name}", value, q)
            for q, module in enumerate(self.modules)
            for name, value in module.state_dict().items()
        ]

    def adam(self, optimization: Optimization) -> torch.optim.Adam:
        """One Adam for all. It skips the parameters of problems that have ended: they have no gradients."""
        learned = [one for module in self.modules for one in module.parameters() if one.requires_grad]
        return torch.optim.Adam(learned, lr=optimization.lr, weight_decay=optimization.weight_decay)

    def training_step(self, asked: Targets, running: Sequence[bool]) -> Tensor:
        """Leaves gradients in the parameters; gives the losses that they are of, `[Q]`."""
        losses = self._nothing()
        for q, module in self._chosen(running):
            module.train()
            with self.draws[q].in_use():
                loss = asked.alone(q).losses(module(*self.inputs[q]).unsqueeze(0))
                loss.sum().backward()  # type: ignore[no-untyped-call]
            losses[q] = loss.detach()[0]
        return losses

    def evaluate(self, checked: Targets, running: Sequence[bool]) -> tuple[Tensor, Tensor]:
        """The loss and the number of right answers of each problem, without dropout."""
        losses, right = self._nothing(), self._nothing()
        for q, module in self._chosen(
            [runs and count > 0 for runs, count in zip(running, checked.counts, strict=True)]
        ):
            module.eval()
            with self.draws[q].in_use(), torch.no_grad():
                logits = module(*self.inputs[q]).unsqueeze(0)
                losses[q], right[q] = checked.alone(q).losses(logits)[0], checked.alone(q).right(logits)[0]
        return losses, right

    def _nothing(self) -> Tensor:
        return torch.zeros(len(self.modules), dtype=torch.float64, device=self.inputs[0][0].device)

    def _chosen(self, chosen: Sequence[bool]) -> Iterator[tuple[int, nn.Module]]:
        return ((q, module) for q, module in enumerate(self.modules) if chosen[q])

    def put(self, values: Mapping[str, Tensor]) -> None:
        """Goes on from such values of what is owned."""
        for q, module in enumerate(self.modules):
            module.load_state_dict({name: values[f"{q}.{name}"] for name in module.state_dict()})

    def export(self) -> list[nn.Module]:
        """The modules as they are now, off training."""
        return [module.eval() for module in self.modules]

    def random_state(self) -> dict[str, Tensor]:
        """Where the random numbers stand."""
        return {f"{q}.{device}": state for q, own in enumerate(self.draws) for device, state in own.states.items()}

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        """Goes on drawing from there."""
        for q, own in enumerate(self.draws):
            own.states = {device: state[f"{q}.{device}"].cpu() for device in own.states}
