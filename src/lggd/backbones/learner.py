"""The training of backbones: cross-entropy on the labelled nodes, stopped by the accuracy on the validation nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from lggd.backbones.copies import Copies
from lggd.backbones.networks import Backbone, Network, build_backbone
from lggd.backbones.propagation import check_edges
from lggd.backbones.stack import Stack
from lggd.questions import Questions
from lggd.replay import Replayed
from lggd.training import FOREVER, Optimization, Randomness, seed_of

# Nothing says when to stop without validation nodes. By then the paper's GCN knows its training nodes by heart.
EPOCHS_WITHOUT_VALIDATION = 200


def initialised(
    backbone: Backbone | nn.Module, in_channels: int, num_classes: int, seed: int | torch.Generator
) -> nn.Module:
    """The module of a backbone, with first parameters that depend on the seed alone, on the CPU.

    A module of one's own keeps the parameters it has, in a copy. Torch's global random numbers stay as they are.

    >>> from lggd.backbones import GCN
    >>> one, other = (initialised(GCN(), in_channels=5, num_classes=3, seed=0) for _ in range(2))
    >>> bool((one.first.lin.weight == other.first.lin.weight).all())
    True
    """
    with torch.device("cpu"), Randomness(seed_of(seed), torch.device("cpu")).in_use():
        return build_backbone(backbone, in_channels, num_classes)


class BackboneLearner:
    """Trains modules that `initialised` or `build_backbone` made, an epoch a step; a `Learner` for `training.learn`.

    Q problems on one graph are learned side by side, each as if it were alone: own labels, own random numbers, own
    early stopping, own best state. Modules of a backbone of ours must have equal sizes, and one computation serves
    all. Modules of one's own are called one after the other.

    An epoch is one step of Adam on the mean cross-entropy over the training nodes, with dropout, and then an
    evaluation without. The best epoch is the one of the largest validation accuracy, the first of equals. After
    `optimization.patience` epochs without a larger one a problem has ended. Without validation nodes it ends after
    `EPOCHS_WITHOUT_VALIDATION` epochs at most, and its last one counts as the best. What ended keeps its best state.

    Args:
        modules: Q different ones, trained on the device of x; they hold the result after `load_best`.
        x: features, float `[N, F]` for all or `[Q, N, F]`.
        edge_index: int64 `[2, E]`.
        edge_weight: float `[E]` or None.
        target: int64 `[Q, N]`, the class of each training node and -1 elsewhere.
        validation: int64 `[Q, N]`, the class of each validation node and -1 elsewhere; None where there is none.
        optimization: how Adam is run.
        seeds: of the dropout, one a problem.
        names: what tells the problems apart in the history; "" adds nothing.

    >>> from lggd.backbones import GCN
    >>> x, edge_index = torch.eye(4), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> modules = [initialised(GCN(), in_channels=4, num_classes=2, seed=seed) for seed in (0, 1)]
    >>> target = torch.tensor([[0, -1, 1, -1], [-1, 0, -1, 1]])
    >>> learner = BackboneLearner(modules, x, edge_index, None, target, seeds=(0, 1), names=("one", "two"))
    >>> sorted(learner.step())
    ['train_loss one', 'train_loss two']
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        target: Tensor,
        validation: Tensor | None = None,
        optimization: Optimization = Optimization(),
        seeds: Sequence[int | torch.Generator] = (0,),
        names: Sequence[str] = ("",),
    ) -> None:
        _check_problems(modules, x, seeds, names)
        check_edges(edge_index, edge_weight, x.shape[-2])
        problems, device = len(modules), x.device
        self.names, self.optimization = list(names), optimization
        self._asked = _read_labels("target", target, problems, x)
        if 0 in self._asked.counts:
            name = self._called(self._asked.counts.index(0))
            raise ValueError(
                f"`target` must hold the class of at least one training node{name}, got none: all are below 0."
            )
        checked = None if validation is None else _read_labels("validation", validation, problems, x)
        self._checked = checked if checked is not None and any(checked.counts) else None
        self._counts = [0] * problems if self._checked is None else self._checked.counts
        longest = optimization.epochs
        lasts = [longest if count else min(longest, EPOCHS_WITHOUT_VALIDATION) for count in self._counts]
        self.epochs = max(lasts)
        self._networks = _together([module.to(device) for module in modules], x, edge_index, edge_weight, seeds)
        self._adam = self._networks.adam(optimization)
        self._best = {owned.name: owned.value.detach().clone() for owned in self._networks.owned()}
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
        if isinstance(self._networks, Stack):
            self._epoch = Replayed(self._compute, device, self._networks.generators)

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
        train_loss = self._networks.descend(self._asked, self._running)
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

    def load_best(self) -> list[nn.Module]:
        """The modules with their best states, and their dropout off."""
        if isinstance(self._epoch, Replayed):
            self._epoch.forget()
        self._networks.put(self._best)
        return list(self._networks.hand_over())

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
        self._networks.restore_random_state(_part(state, "random."))
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
        if isinstance(self._epoch, Replayed):
            self._epoch.forget()

    def _counters(self) -> dict[str, Tensor]:
        return {"epochs": self._epochs_run, "best_epoch": self._best_epoch, "best_right": self._best_right}


def _part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _together(
    modules: Sequence[nn.Module],
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None,
    seeds: Sequence[int | torch.Generator],
) -> Stack | Copies:
    """Stacked where they are ours, one after the other where they are not."""
    for module in modules:
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise ValueError(
                f"`modules` must have parameters that ask for gradients, but {type(module).__name__} has none. "
                "There is nothing to train."
            )
    # Seeds drawn from the seeds: the numbers that drop values must not be those that parameters started from.
    drawn = [seed_of(torch.Generator().manual_seed(seed_of(seed))) for seed in seeds]
    networks = [module for module in modules if isinstance(module, Network)]
    if not networks:
        return Copies(modules, x, edge_index, edge_weight, drawn)
    if len(networks) < len(modules):
        raise ValueError(
            f"`modules` must all be of a backbone of ours or all of one's own, got {len(networks)} of "
            f"{len(modules)} of ours. Train them apart."
        )
    return Stack(networks, x, edge_index, edge_weight, drawn)


def _read_labels(name: str, labels: Tensor, problems: int, x: Tensor) -> Questions:
    shape = [problems, x.shape[-2]]
    if list(labels.shape) != shape or labels.dtype != torch.int64:
        raise ValueError(
            f"`{name}` must be int64 {shape}, a class a node and -1 where it is not known, a row a module, "
            f"got {labels.dtype} {list(labels.shape)}."
        )
    return Questions(labels.to(x.device), name)


def _check_problems(
    modules: Sequence[nn.Module], x: Tensor, seeds: Sequence[int | torch.Generator], names: Sequence[str]
) -> None:
    problems = len(modules)
    if not problems or len({id(module) for module in modules}) < problems:
        raise ValueError(
            f"`modules` must be different modules, one a problem and at least one, got {problems}"
            f"{' with some of them twice' if problems else ''}. Copy them, for each is trained in place."
        )
    if x.dim() not in (2, 3) or not x.is_floating_point():
        raise ValueError(
            f"`x` must be float [N, F], a row a node, or [Q, N, F], got {x.dtype} {list(x.shape)}. Use x.float()."
        )
    if x.dim() == 3 and len(x) != problems:
        raise ValueError(f"`x` must be [N, F] or [{problems}, N, F] for {problems} modules, got {list(x.shape)}.")
    for argument, given in (("seeds", seeds), ("names", names)):
        if len(given) != problems:
            raise ValueError(f"`{argument}` must have one a module, {problems} in all, got {len(given)}.")
    if len(set(names)) < problems:
        raise ValueError(f"`names` must tell the problems apart, got {list(names)}.")
