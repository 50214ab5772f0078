"""Learning many networks side by side: each stopped by its accuracy on the validation nodes, its best state kept."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from lggd.errors import InputError
from lggd.learning.networks import Owned
from lggd.training.cuda_graph import CUDAGraphStep
from lggd.training.loop import FOREVER
from lggd.training.optimization import Optimization
from lggd.training.targets import Targets

# Nothing says when to stop without validation nodes. By then the paper's GCN knows its training nodes by heart.
EPOCHS_WITHOUT_VALIDATION = 200


class Networks(Protocol):
    """Q networks on their way: what is learned of them, and how well they answer. `Stack` is the usual one.

    `generators` are all that an epoch draws random numbers from, where it never looks at a number from the device and
    can be recorded there; None where it cannot.
    """

    @property
    def generators(self) -> Sequence[torch.Generator] | None:
        """What an epoch draws from."""

    def owned(self) -> list[Owned]:
        """All that learning changes."""

    def adam(self, optimization: Optimization) -> torch.optim.Adam:
        """One Adam for all."""

    def training_step(self, asked: Targets, running: Sequence[bool]) -> Tensor:
        """Leaves gradients in the parameters; gives the losses that they are of, `[Q]`."""

    def evaluate(self, checked: Targets, running: Sequence[bool]) -> tuple[Tensor, Tensor]:
        """The loss and the number of right answers of each problem, `[Q]` each, as they answer when trained."""

    def put(self, values: Mapping[str, Tensor]) -> None:
        """Goes on from such values of what is owned."""

    def random_state(self) -> dict[str, Tensor]:
        """Where the random numbers stand."""

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        """Goes on drawing from there."""


class NetworkLearner(ABC):
    """Trains Q networks an epoch a step; a `Learner` for `training.learn`.

    Problems are learned side by side, each as if it were alone: own labels, own random numbers, own early stopping, own
    best state. An epoch is one step of Adam on the gradients of `Networks.training_step`, then an evaluation. The best
    epoch is the one of the largest validation accuracy, the first of equals. After `optimization.patience` epochs
    without a larger one a problem has ended. Without validation nodes it ends after `EPOCHS_WITHOUT_VALIDATION` epochs at most,
    and its last one counts as the best. What ended keeps its best state.

    Args:
        networks: what is trained; it holds the best states after `load_best`.
        target: int64 `[Q, N]`, the class of each training node and -1 elsewhere.
        validation: int64 `[Q, N]`, the class of each validation node and -1 elsewhere; None where there is none.
        optimization: how Adam is run.
        names: what tells the problems apart in the history; "" adds nothing.
    """

    def __init__(
        self,
        networks: Networks,
        target: Tensor,
        validation: Tensor | None = None,
        optimization: Optimization = Optimization(),
        names: Sequence[str] = ("",),
    ) -> None:
        problems, device = len(names), target.device
        self.names, self.optimization = list(names), optimization
        self._asked = Targets(target, "target")
        if 0 in self._asked.counts:
            name = self._called(self._asked.counts.index(0))
            raise InputError("target", f"hold the class of at least one training node{name}", "none: all are below 0")
        checked = None if validation is None else Targets(validation, "validation")
        self._checked = checked if checked is not None and any(checked.counts) else None
        self._counts = [0] * problems if self._checked is None else self._checked.counts
        longest = optimization.epochs
        lasts = [longest if count else min(longest, EPOCHS_WITHOUT_VALIDATION) for count in self._counts]
        self.epochs = max(lasts)
        self._networks = networks
        self._adam = networks.adam(optimization)
        self._best = {owned.name: owned.value.detach().clone() for owned in networks.owned()}
        # Which state is the best is decided on the device: an epoch there must not wait until its numbers are read.
        self._unasked = torch.tensor(self._counts, device=device) == 0
        self._last = torch.tensor(lasts, device=device)
        self._epochs_run = torch.zeros((), dtype=torch.int64, device=device)
        self._best_epoch = torch.zeros_like(self._last)
        self._best_right = torch.full((problems,), -1.0, dtype=torch.float64, device=device)
        # What is known of it here, as of the last epoch.
        self.best_epoch = [0] * problems
        self._most_right, self._running, self._epoch_number = [-1.0] * problems, [True] * problems, 0
        self._epoch: Callable[[], Tensor] = self._compute
        if networks.generators is not None:
            self._epoch = CUDAGraphStep(self._compute, device, networks.generators)

    # -- learning ------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether every problem has ended, before all epochs are over."""
        return self._epoch_number < self.epochs and not any(self._running)

    @property
    def best_accuracy(self) -> list[float | None]:
        """The largest validation accuracy of each so far; None before the first epoch and without validation nodes."""
        both = zip(self._most_right, self._counts, strict=True)
        return [right / count if count and right >= 0 else None for right, count in both]

    def step(self) -> dict[str, float]:
        """Learns for an epoch; gives the `train_loss NAME` of each problem that had not ended before it.

        With validation nodes also its `validation_loss NAME` and `validation_accuracy NAME` after the epoch.
        """
        told = [q for q, running in enumerate(self._running) if running]
        measures = self._epoch().tolist()
        self._epoch_number += 1
        rows = [measures[start : start + len(self.names)] for start in range(0, len(measures), len(self.names))]
        train_loss, best_epoch, self._most_right, ended, *validated = rows
        self.best_epoch, self._running = [int(epoch) for epoch in best_epoch], [not over for over in ended]
        measured = {}
        for q in told:
            losses = {"training": train_loss[q]}
            measured[self._key("train_loss", q)] = train_loss[q]
            if self._counts[q]:
                losses["validation"] = measured[self._key("validation_loss", q)] = validated[0][q]
                measured[self._key("validation_accuracy", q)] = validated[1][q] / self._counts[q]
            self._check_finite(losses, q)
        return measured

    def _compute(self) -> Tensor:
        """A whole epoch without a look at any number. Gives what was measured of all problems, one row `[Q]` each:

        the training loss, the best epoch, its right answers, whether the problem has now ended, and the validation loss
        and right answers where any problem has validation nodes.
        """
        self._adam.zero_grad()
        train_loss = self._networks.training_step(self._asked, self._running)
        self._adam.step()
        with torch.no_grad():
            better = ~self._ended()
            self._epochs_run.add_(1)
            validated: tuple[Tensor, ...] = ()
            if self._checked is not None:
                validated = _, right = self._networks.evaluate(self._checked, self._running)
                better &= (right > self._best_right) | self._unasked
                torch.where(better, right, self._best_right, out=self._best_right)
            torch.where(better, self._epochs_run, self._best_epoch, out=self._best_epoch)
            self._keep(better)
            rows = train_loss, self._best_epoch, self._best_right, self._ended(), *validated
            return torch.cat([row.double() for row in rows])

    def _ended(self) -> Tensor:
        """Which problems are over, bool `[Q]`."""
        patience = self.optimization.patience or FOREVER
        return (self._epochs_run - self._best_epoch >= patience) | (self._epochs_run >= self._last)

    def _keep(self, better: Tensor) -> None:
        """Takes the present state of these problems for their best, in place."""
        for owned in self._networks.owned():
            value = owned.value.detach()
            if owned.name not in self._best:
                # A buffer that a module of the user's made in its first epoch.
                self._best[owned.name] = value.clone()
            best = self._best[owned.name]
            chosen = better.view(-1, *[1] * (value.dim() - 1)) if owned.owner is None else better[owned.owner]
            torch.where(chosen, value, best, out=best)

    def _check_finite(self, losses: Mapping[str, float], q: int) -> None:
        if not all(math.isfinite(loss) for loss in losses.values()):
            told = " and ".join(f"{loss:.4g} in {kind}" for kind, loss in losses.items())
            raise FloatingPointError(
                f"The loss{self._called(q)} must stay finite, got {told} at epoch {self._epoch_number}. "
                f"Lower `lr`, now {self.optimization.lr}, or check that all features in `x` are finite."
            )

    def _key(self, measure: str, q: int) -> str:
        return f"{measure} {self.names[q]}" if self.names[q] else measure

    def _called(self, q: int) -> str:
        return f" of {self.names[q]!r}" if self.names[q] else ""

    # -- what is learned -----------------------------------------------------------------------------------------

    @abstractmethod
    def load_best(self) -> Any:
        """What was learned, in its best states."""

    def _put_best(self) -> None:
        if isinstance(self._epoch, CUDAGraphStep):
            self._epoch.forget()
        self._networks.put(self._best)

    # -- putting it down and picking it up again -----------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on, in copies."""
        adam = self._adam.state_dict()["state"]
        state = {
            **{f"now.{owned.name}": owned.value.detach() for owned in self._networks.owned()},
            **{f"best.{name}": value for name, value in self._best.items()},
            **{f"adam.{index}.{name}": value for index, of in adam.items() for name, value in of.items()},
            **{f"random.{name}": value for name, value in self._networks.random_state().items()},
            **{f"count.{name}": value for name, value in self._counters().items()},
        }
        return {name: value.clone() for name, value in state.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Goes on from such a state as if it had never stopped."""
        self._networks.put(_part(state, "now."))
        self._networks.load_random_state(_part(state, "random."))
        for name, value in self._best.items():
            value.copy_(state[f"best.{name}"])
        for name, value in self._counters().items():
            value.copy_(state[f"count.{name}"])
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _part(state, "adam.").items():
            index, _, of = name.partition(".")
            moments.setdefault(int(index), {})[of] = value.clone()
        self._adam.load_state_dict({"state": moments, "param_groups": self._adam.state_dict()["param_groups"]})
        self._epoch_number, self.best_epoch = int(self._epochs_run), self._best_epoch.tolist()
        self._most_right, self._running = self._best_right.tolist(), (~self._ended()).tolist()
        if isinstance(self._epoch, CUDAGraphStep):
            self._epoch.forget()

    def _counters(self) -> dict[str, Tensor]:
        return {"epochs": self._epochs_run, "best_epoch": self._best_epoch, "best_right": self._best_right}


def _part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
