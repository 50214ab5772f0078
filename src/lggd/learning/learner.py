"""Pipeline 1: learning the initial condition, and the equation's coefficients if wanted, of many problems at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from lggd.learning.flow import Flow
from lggd.learning.networks import Networks, Owned
from lggd.learning.parameters import Equation
from lggd.training.cuda_graph import CUDAGraphStep
from lggd.training.loop import FOREVER
from lggd.training.optimization import Optimization
from lggd.training.targets import Targets


class DistanceLearner:
    """Q problems learned side by side; each as if it were alone: own labels, own early stopping, own best state.

    Distances start at φ₀ = |network(contents)| and run free of boundary; the loss asks training nodes to end up nearest
    to their own class: cross-entropy with −f as logits. The best state is that with the lowest validation loss of the
    distances with the boundary held (Pipeline 2). `train` and `validation` are int64 `[Q, N]`, a class or -1.

    `optimization` is one for all or one a problem. A problem has ended after its epochs, or when its patience is out:
    then its best state stays, and it is no longer told of.
    """

    def __init__(
        self,
        networks: Networks,
        contents: object,
        equation: Equation,
        flow: Flow,
        train: Tensor,
        validation: Tensor,
        num_classes: int,
        optimization: Optimization | Sequence[Optimization],
        names: Sequence[str],
    ) -> None:
        self.networks, self.contents, self.equation, self.flow = networks, contents, equation, flow
        problems, device = train.shape[0], train.device
        each = [optimization] * problems if isinstance(optimization, Optimization) else list(optimization)
        self.names, self.epochs = list(names), max(one.epochs for one in each)
        self.asked = Targets(train, "train", nodes_first=True)
        self.checked = Targets(validation, "validation", nodes_first=True)
        self.boundary_mask = one_hot(train.clamp(min=0).t(), num_classes).bool() & (train >= 0).t()[..., None]
        self.last = torch.tensor([one.epochs for one in each], device=device)
        self.patience = torch.tensor([one.patience or FOREVER for one in each], device=device)
        self._unasked = self.checked.count == 0
        self.lowest = torch.full((problems,), torch.inf, device=device)
        self.waited = torch.zeros(problems, dtype=torch.int64, device=device)
        self.epoch = torch.zeros((), dtype=torch.int64, device=device)
        self.best = [owned.value.detach().clone() for owned in self.owned()]
        self.optimizer = _Adam(self.owned(), each)
        self._running = [True] * problems
        # Modules of the user's draw from torch's global numbers and may look at any: they cannot be recorded.
        generators = getattr(networks, "generators", None)
        self._epoch = self._compute if generators is None else CUDAGraphStep(self._compute, device, generators)

    def owned(self) -> list[Owned]:
        """All that learning changes."""
        return [*self.networks.owned(), *self.equation.owned()]

    @property
    def finished(self) -> bool:
        """Whether all problems have ended."""
        return not any(self._running)

    def step(self) -> dict[str, float]:
        """An epoch: one step of Adam on all problems, then a look at the validation nodes.

        Gives `train_loss NAME` and, where it has validation nodes, `validation_loss NAME` of each problem that had not
        ended before.
        """
        measures = self._epoch().tolist()
        told = [q for q, running in enumerate(self._running) if running]
        trained, ended, *validated = (measures[k :: self._rows] for k in range(self._rows))
        for q in told:
            if not math.isfinite(trained[q]):
                raise FloatingPointError(
                    f"The loss became infinite or NaN while learning distances ({self.names[q]}). Use a lower `lr`, "
                    "a scheme with step=None, or contents of moderate size."
                )
        measured = {f"train_loss {self.names[q]}": trained[q] for q in told}
        for losses in validated:
            measured |= {f"validation_loss {self.names[q]}": losses[q] for q in told if self.checked.counts[q]}
        self._running = [not over for over in ended]
        return measured

    @property
    def _rows(self) -> int:
        """How many numbers an epoch measures of a problem."""
        return 3 if any(self.checked.counts) else 2

    def _compute(self) -> Tensor:
        """A whole epoch without a look at any number; what was measured comes back, one number after the other.

        By problem: the training loss, whether it has now ended, and the validation loss where there is any.
        """
        self.optimizer.forget_gradients()
        start = self.networks(self.contents, training=True).abs()
        losses = self.asked.losses(-self.flow(self.equation, start))
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        measured = [losses.detach()]
        with torch.no_grad():
            running = ~self._ended()
            better = running
            if any(self.checked.counts):
                validated = self.checked.losses(-self.distances())
                # Without validation nodes of its own a problem keeps its last state.
                better = ((validated < self.lowest) | self._unasked) & running
                torch.where(better, validated, self.lowest, out=self.lowest)
                self.waited.add_(1).masked_fill_(better, 0)
                measured.append(validated)
            self._keep(better)
            self.epoch.add_(1)
            measured.insert(1, self._ended().to(losses.dtype))
            return torch.stack(measured, 1).flatten()

    def _ended(self) -> Tensor:
        """Which problems are over, bool `[Q]`."""
        return (self.waited >= self.patience) | (self.epoch >= self.last)

    def distances(self) -> Tensor:
        """Pipeline 2 with the present state: `[M, N, Q, K]`, the training nodes of each problem held at 0."""
        start = self.networks(self.contents, training=False, ahead=True).abs()
        return self.flow(self.equation, start, self.boundary_mask)

    def _keep(self, better: Tensor) -> None:
        """Takes the present state of these problems for their best, in place."""
        for best, owned in zip(self.best, self.owned(), strict=True):
            value = owned.value.detach()
            chosen = better.view(-1, *[1] * (value.dim() - 1)) if owned.owner is None else better[owned.owner]
            torch.where(chosen, value, best, out=best)

    def load_best(self) -> None:
        """Goes back to the best state of each problem."""
        self.optimizer.forget_gradients()
        self._forget_recording()
        with torch.no_grad():
            for best, owned in zip(self.best, self.owned(), strict=True):
                owned.value.copy_(best)

    def _forget_recording(self) -> None:
        if isinstance(self._epoch, CUDAGraphStep):
            self._epoch.forget()

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on."""
        state = {"lowest": self.lowest, "waited": self.waited, "epochs_run": self.epoch, **self.networks.random_state()}
        for owned, best in zip(self.owned(), self.best, strict=True):
            state[f"now.{owned.name}"], state[f"best.{owned.name}"] = owned.value.detach(), best
        return {name: value.clone() for name, value in (state | self.optimizer.moments()).items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Goes on from such a state as if it had never stopped."""
        for name, value in (("lowest", self.lowest), ("waited", self.waited), ("epochs_run", self.epoch)):
            value.copy_(state[name])
        self.networks.load_random_state(state)
        with torch.no_grad():
            for owned, best in zip(self.owned(), self.best, strict=True):
                owned.value.copy_(state[f"now.{owned.name}"])
                best.copy_(state[f"best.{owned.name}"])
        self.optimizer.restore_moments(state)
        self._running = (~self._ended()).tolist()
        self._forget_recording()


class _Adam:
    """Adam with a rate and a decay of its own for every problem.

    It steps on views: neighbours with equal settings are one piece of each stacked tensor.
    """

    def __init__(self, owned: Sequence[Owned], each: Sequence[Optimization]) -> None:
        self._learned = [one.value for one in owned if one.value.requires_grad]
        self._pieces: list[tuple[Tensor, Tensor, slice]] = []
        grouped: dict[tuple[float, float], list[Tensor]] = {}
        runs = _runs([(one.lr, one.weight_decay) for one in each])
        for one in owned:
            if not one.value.requires_grad:
                continue
            if one.owner is not None:
                setting = each[one.owner].lr, each[one.owner].weight_decay
                grouped.setdefault(setting, []).append(one.value)
                continue
            for setting, problems in runs:
                piece = one.value.detach()[problems]
                self._pieces.append((piece, one.value, problems))
                grouped.setdefault(setting, []).append(piece)
        on_gpu = any(value.is_cuda for value in self._learned)
        groups = [{"params": pieces, "lr": lr, "weight_decay": decay} for (lr, decay), pieces in grouped.items()]
        self._adam = torch.optim.Adam(groups, fused=True, capturable=on_gpu)

    def forget_gradients(self) -> None:
        self._adam.zero_grad(set_to_none=True)
        for value in self._learned:
            value.grad = None

    def step(self) -> None:
        for piece, whole, problems in self._pieces:
            piece.grad = None if whole.grad is None else whole.grad[problems]
        self._adam.step()

    def moments(self) -> dict[str, Tensor]:
        """What Adam remembers of the gradients, by name."""
        state = self._adam.state_dict()["state"]
        return {f"adam.{place}.{name}": value for place, kept in state.items() for name, value in kept.items()}

    def restore_moments(self, state: Mapping[str, Tensor]) -> None:
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in state.items():
            if name.startswith("adam."):
                _, place, moment = name.split(".")
                moments.setdefault(int(place), {})[moment] = value.clone()
        self._adam.load_state_dict({**self._adam.state_dict(), "state": moments})


def _runs(settings: Sequence[tuple[float, float]]) -> list[tuple[tuple[float, float], slice]]:
    """Neighbours with equal settings, as slices."""
    runs, first = [], 0
    for setting, members in groupby(settings):
        count = len(list(members))
        runs.append((setting, slice(first, first + count)))
        first += count
    return runs
