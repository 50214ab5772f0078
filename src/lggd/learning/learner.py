"""Pipeline 1: learning the initial condition, and the equation's coefficients if wanted, of many problems at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from lggd.learning.flow import Flow
from lggd.learning.networks import Networks, Owned
from lggd.learning.parameters import Equation
from lggd.training import Optimization


class DistanceLearner:
    """Q problems learned side by side; each as if it were alone: own labels, own early stopping, own best state.

    Distances start at φ₀ = |network(contents)| and run free of boundary; the loss asks training nodes to end up nearest
    to their own class: cross-entropy with −f as logits. The best state is that with the lowest validation loss of the
    distances with the boundary held (Pipeline 2). `train` and `validation` are int64 `[Q, N]`, a class or -1.
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
        optimization: Optimization,
        names: Sequence[str],
    ) -> None:
        self.networks, self.contents, self.equation, self.flow = networks, contents, equation, flow
        self.names, self.epochs, self.patience = list(names), optimization.epochs, optimization.patience
        self.asked, self.checked = _Questions(train), _Questions(validation)
        self.held = (
            torch.nn.functional.one_hot(train.clamp(min=0).t(), num_classes).bool() & (train >= 0).t()[..., None]
        )
        problems, device = train.shape[0], train.device
        self.lowest = torch.full((problems,), torch.inf, device=device)
        self.waited = torch.zeros(problems, dtype=torch.int64, device=device)
        self.best = [owned.value.detach().clone() for owned in self.owned()]
        self.optimizer = torch.optim.Adam(
            [owned.value for owned in self.owned() if owned.value.requires_grad],
            lr=optimization.lr,
            weight_decay=optimization.weight_decay,
            fused=True,
        )

    def owned(self) -> list[Owned]:
        """All that learning changes."""
        return [*self.networks.owned(), *self.equation.owned()]

    @property
    def finished(self) -> bool:
        return self.patience is not None and bool((self.waited >= self.patience).all())

    def step(self) -> dict[str, float]:
        """An epoch: one step of Adam on all problems, then a look at the validation nodes."""
        self.optimizer.zero_grad()
        start = self.networks(self.contents, training=True).abs()
        losses = self.asked.losses(self.flow(self.equation, start))
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        measured = {f"train_loss {name}": loss for name, loss in zip(self.names, losses.tolist(), strict=True)}
        if not all(loss < torch.inf for loss in measured.values()):
            raise FloatingPointError(
                "The loss became infinite or NaN while learning distances. Use a lower `lr`, a scheme with step=None, "
                "or contents of moderate size."
            )
        with torch.no_grad():
            validated = self._validate()
        if validated is not None:
            measured |= {f"validation_loss {name}": x for name, x in zip(self.names, validated.tolist(), strict=True)}
        return measured

    def _validate(self) -> Tensor | None:
        """Keeps the state of every problem that has never been better and has not run out of patience."""
        if not self.checked.any:
            self._keep(torch.ones_like(self.waited, dtype=torch.bool))
            return None
        losses = self.checked.losses(self.distances())
        running = torch.ones_like(self.waited, dtype=torch.bool)
        if self.patience is not None:
            running = self.waited < self.patience
        # Without validation nodes of its own a problem keeps its last state.
        better = ((losses < self.lowest) | self.checked.nothing_asked) & running
        self.lowest = torch.where(better, losses, self.lowest)
        self.waited = torch.where(better, 0, self.waited + 1)
        self._keep(better)
        return losses

    def distances(self) -> Tensor:
        """Pipeline 2 with the present state: `[M, N, Q, K]`, the training nodes of each problem held at 0."""
        start = self.networks(self.contents, training=False, ahead=True).abs()
        return self.flow(self.equation, start, self.held)

    def _keep(self, better: Tensor) -> None:
        chosen = better.nonzero().squeeze(1)
        for best, owned in zip(self.best, self.owned(), strict=True):
            if owned.owner is not None:
                if bool(better[owned.owner]):
                    best.copy_(owned.value.detach())
            else:
                best.index_copy_(0, chosen, owned.value.detach().index_select(0, chosen))

    def load_best(self) -> None:
        """Goes back to the best state of each problem."""
        with torch.no_grad():
            for best, owned in zip(self.best, self.owned(), strict=True):
                owned.value.copy_(best)

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on."""
        state = {"lowest": self.lowest, "waited": self.waited, **self.networks.random_state()}
        for owned, best in zip(self.owned(), self.best, strict=True):
            state[f"now.{owned.name}"], state[f"best.{owned.name}"] = owned.value.detach(), best
        for number, moments in self.optimizer.state_dict()["state"].items():
            state |= {f"adam.{number}.{name}": value for name, value in moments.items()}
        return {name: value.clone() for name, value in state.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Goes on from such a state as if it had never stopped."""
        device = self.lowest.device
        self.lowest, self.waited = (state[name].to(device, copy=True) for name in ("lowest", "waited"))
        self.networks.restore_random_state(state)
        with torch.no_grad():
            for owned, best in zip(self.owned(), self.best, strict=True):
                owned.value.copy_(state[f"now.{owned.name}"])
                best.copy_(state[f"best.{owned.name}"])
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in state.items():
            if name.startswith("adam."):
                _, number, moment = name.split(".")
                moments.setdefault(int(number), {})[moment] = value.clone()
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})


class _Questions:
    """The nodes that each problem is asked about, as one list of (problem, node) pairs."""

    def __init__(self, target: Tensor) -> None:
        self.problem, self.node = (target >= 0).nonzero().unbind(1)
        self.answer = target[self.problem, self.node]
        count = (target >= 0).sum(1)
        self.any, self.nothing_asked = len(self.answer) > 0, count == 0
        self.share = 1 / count.clamp(min=1)[self.problem]
        self.problems = len(target)

    def losses(self, distances: Tensor) -> Tensor:
        """The mean cross-entropy with −f as logits, of each problem `[Q]`: over its nodes and its horizons."""
        horizons = distances.shape[0]
        logits = -distances[:, self.node, self.problem]
        each = cross_entropy(logits.flatten(0, 1), self.answer.repeat(horizons), reduction="none")
        weighted = each.view(horizons, -1).mean(0) * self.share
        return weighted.new_zeros(self.problems).index_add(0, self.problem, weighted)
