"""The training of a backbone: cross-entropy on the labelled nodes, stopped by the accuracy on the validation nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones.networks import Backbone, build_backbone
from lggd.backbones.propagation import check_edges
from lggd.training import Optimization, Randomness, seed_of

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
    """Trains a module that `initialised` or `build_backbone` made, an epoch a step; a `Learner` for `training.learn`.

    An epoch is one step of Adam on the mean cross-entropy over the training nodes, with dropout, and then an
    evaluation without. The best epoch is the one of the largest validation accuracy, the first of equals. After
    `optimization.patience` epochs without a larger one it has finished. Without validation nodes it runs for at most
    `EPOCHS_WITHOUT_VALIDATION` epochs, and the last one counts as the best.

    It has random numbers of its own: two learners may take turns, and each gives the same bits as it would alone.

    Args:
        module: trained in place, on the device of x.
        x: features, float `[N, F]`.
        edge_index: int64 `[2, E]`.
        edge_weight: float `[E]` or None.
        target: int64 `[N]`, the class of each training node and -1 elsewhere.
        validation: int64 `[N]`, the class of each validation node and -1 elsewhere; None where there is none.
        optimization: how Adam is run.
        seed: of the dropout.

    >>> from lggd.backbones import GCN
    >>> x, edge_index = torch.eye(4), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> module = initialised(GCN(), in_channels=4, num_classes=2, seed=0)
    >>> learner = BackboneLearner(module, x, edge_index, None, target=torch.tensor([0, -1, 1, -1]))
    >>> sorted(learner.step())
    ['train_loss']
    """

    def __init__(
        self,
        module: nn.Module,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        target: Tensor,
        validation: Tensor | None = None,
        optimization: Optimization = Optimization(),
        seed: int | torch.Generator = 0,
    ) -> None:
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError(f"`x` must be float [N, F], a row a node, got {x.dtype} {list(x.shape)}. Use x.float().")
        check_edges(edge_index, edge_weight, len(x))
        self.module = module.to(x.device)
        self.optimization = optimization
        self._inputs = x, edge_index, edge_weight
        self._train = _Answers(target.to(x.device), "target", len(x))
        self._validation = None if validation is None else _Answers(validation.to(x.device), "validation", len(x))
        if not len(self._train):
            raise ValueError("`target` must hold the class of at least one training node, got none: all are below 0.")
        if self._validation is not None and not len(self._validation):
            self._validation = None
        self.epochs = optimization.epochs
        if self._validation is None:
            self.epochs = min(self.epochs, EPOCHS_WITHOUT_VALIDATION)
        # A seed drawn from the seed: the numbers that dropped values must not be those that parameters started from.
        own_seed = seed_of(torch.Generator().manual_seed(seed_of(seed)))
        self._random = Randomness(own_seed, x.device)
        self._make_lazy_parameters()
        self._adam = self._make_adam()
        self._epoch = self.best_epoch = 0
        self._best_count = -1
        self._best: dict[str, Tensor] | None = None

    def _make_lazy_parameters(self) -> None:
        """Gives layers that take their size from their first input that input. Adam has to see their parameters."""
        held = chain(self.module.parameters(), self.module.buffers())
        if any(nn.parameter.is_lazy(tensor) for tensor in held):
            self.module.eval()
            with self._random.in_use(), torch.no_grad():
                self.module(*self._inputs)

    def _make_adam(self) -> torch.optim.Adam:
        learned = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        if not learned:
            raise ValueError(
                f"`module` must have parameters that ask for gradients, but {type(self.module).__name__} has none. "
                "There is nothing to train."
            )
        return torch.optim.Adam(learned, lr=self.optimization.lr, weight_decay=self.optimization.weight_decay)

    # -- learning ------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether `patience` epochs have brought no larger validation accuracy."""
        patience = self.optimization.patience
        return self._validation is not None and patience is not None and self._epoch - self.best_epoch >= patience

    @property
    def best_accuracy(self) -> float | None:
        """The largest validation accuracy so far; None before the first epoch and without validation nodes."""
        return None if self._validation is None or not self._epoch else self._best_count / len(self._validation)

    def step(self) -> dict[str, float]:
        """Learns for an epoch; gives `train_loss` and, with validation nodes, their loss and accuracy after it."""
        with self._random.in_use():
            measures = [self._descend()]
            if self._validation is not None:
                measures += self._evaluate(self._validation)
        # One transfer for all: each would wait for the device.
        losses = torch.stack([measure.double() for measure in measures]).tolist()
        self._epoch += 1
        if self._validation is None:
            self._check_finite(losses)
            self.best_epoch = self._epoch
            return {"train_loss": losses[0]}
        count = int(losses.pop())
        self._check_finite(losses)
        if count > self._best_count:
            self._best_count, self.best_epoch, self._best = count, self._epoch, _copied(self.module.state_dict())
        accuracy = count / len(self._validation)
        return {"train_loss": losses[0], "validation_loss": losses[1], "validation_accuracy": accuracy}

    def _descend(self) -> Tensor:
        self.module.train()
        self._adam.zero_grad()
        loss = self._train.loss(self.module(*self._inputs))
        loss.backward()  # type: ignore[no-untyped-call]
        self._adam.step()
        return loss.detach()

    def _evaluate(self, answers: _Answers) -> list[Tensor]:
        self.module.eval()
        with torch.no_grad():
            logits = self.module(*self._inputs)
            return [answers.loss(logits), answers.count_right(logits)]

    def _check_finite(self, losses: list[float]) -> None:
        if not all(math.isfinite(loss) for loss in losses):
            kinds = ("training", "validation")[: len(losses)]
            told = " and ".join(f"{loss:.4g} in {kind}" for kind, loss in zip(kinds, losses, strict=True))
            raise FloatingPointError(
                f"The loss must stay finite, got {told} at epoch {self._epoch}. "
                f"Lower `lr`, now {self.optimization.lr}, or check that all features in `x` are finite."
            )

    # -- what is learned -----------------------------------------------------------------------------------------

    def best_state(self) -> dict[str, Tensor]:
        """A copy of the module's state after the best epoch; its present one without validation nodes."""
        return _copied(self.module.state_dict() if self._best is None else self._best)

    def load_best(self) -> nn.Module:
        """The module with its best state, and its dropout off."""
        if self._best is not None:
            self.module.load_state_dict(self._best)
        return self.module.eval()

    # -- putting it down and picking it up again -----------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on, in copies."""
        adam = self._adam.state_dict()["state"]
        return {
            **{f"module.{name}": value for name, value in _copied(self.module.state_dict()).items()},
            **{f"best.{name}": value for name, value in _copied(self._best or {}).items()},
            **{f"adam.{index}.{name}": value.clone() for index, of in adam.items() for name, value in of.items()},
            **{f"random.{name}": value for name, value in self._random.states.items()},
            "counts": torch.tensor([self._epoch, self.best_epoch, self._best_count]),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Goes on from such a state as if it had never stopped."""
        self.module.load_state_dict(_part(state, "module."))
        device = self._inputs[0].device
        self._best = {name: value.to(device, copy=True) for name, value in _part(state, "best.").items()} or None
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _part(state, "adam.").items():
            index, _, of = name.partition(".")
            moments.setdefault(int(index), {})[of] = value.clone()
        self._adam.load_state_dict({"state": moments, "param_groups": self._adam.state_dict()["param_groups"]})
        self._random.states |= _copied(_part(state, "random."))
        self._epoch, self.best_epoch, self._best_count = state["counts"].tolist()


class _Answers:
    """The nodes whose class is known, and what it is."""

    def __init__(self, labels: Tensor, name: str, num_nodes: int) -> None:
        if list(labels.shape) != [num_nodes] or labels.dtype != torch.int64:
            raise ValueError(
                f"`{name}` must be int64 [{num_nodes}], a class a node and -1 where it is not known, "
                f"got {labels.dtype} {list(labels.shape)}."
            )
        self.name = name
        self.nodes = (labels >= 0).nonzero().squeeze(1)
        self.labels = labels[self.nodes]
        self.largest = int(self.labels.max()) if len(self) else -1

    def __len__(self) -> int:
        return len(self.nodes)

    def loss(self, logits: Tensor) -> Tensor:
        """The mean cross-entropy."""
        if self.largest >= logits.shape[1]:
            raise ValueError(
                f"`{self.name}` must hold classes from 0 to {logits.shape[1] - 1}, as many as the module tells apart, "
                f"got {self.largest}."
            )
        return functional.cross_entropy(logits[self.nodes], self.labels)

    def count_right(self, logits: Tensor) -> Tensor:
        """How many nodes have their own class on top."""
        return (logits[self.nodes].argmax(1) == self.labels).sum()


def _copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in state.items()}


def _part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
