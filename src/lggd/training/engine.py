"""The training engine: many problems side by side, each with its own early stopping and its own best state.

`train` runs it and reports `Progress` to a callback.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from lggd.errors import InputError
from lggd.progress import Callback, Progress
from lggd.training.cuda_graph import CUDAGraphStep
from lggd.training.problems import Optimization, StackedParameter, Targets, adam, load_values
from lggd.validation import check_same_length

# Without validation nodes nothing stops training early; by this epoch the paper's GCN fits its training nodes.
EPOCHS_WITHOUT_VALIDATION = 200

# Training curves: a list of values by name, one value per epoch.
History = dict[str, list[float]]


class Trainable(Protocol):
    """Q networks, or anything else that has losses and parameters, trained side by side.

    `generators` are all those that training and validation draw random numbers from; None where they are unknown or
    where tensors are read on the host: then the step is not captured as a CUDA graph. `fused` selects Adam's fused
    kernel, which requires dense floating-point parameters.
    """

    fused: bool

    @property
    def generators(self) -> Sequence[torch.Generator] | None: ...

    def parameters(self) -> list[StackedParameter]:
        """All tensors that training changes, buffers included."""

    def training_step(self, targets: Targets) -> Tensor:
        """Backpropagates the losses and returns them, `[Q]`."""

    def validate(self, targets: Targets) -> tuple[Tensor, Tensor | None]:
        """The losses and the numbers of correct predictions, `[Q]` each; None where only losses are measured."""


class Engine:
    """Trains Q problems in place, one epoch at a time: a step of the optimizer, then a validation.

    Every problem is trained as if it were alone, with its own targets, random numbers, early stopping and best state.
    The best epoch is the first one of highest validation accuracy, or of lowest validation loss with `lowest_loss`. A
    problem ends after its maximum of epochs, or after `patience` epochs without a better one. Without validation nodes
    its last epoch counts as the best, of at most `EPOCHS_WITHOUT_VALIDATION` for accuracy.

    `train` and `validation` hold the class of each node, -1 elsewhere, int64 `[Q, N]`; `optimization` the settings of
    all problems. The `names` of problems in metrics are distinct; "" adds nothing to a metric's name.
    """

    def __init__(
        self,
        trainable: Trainable,
        train: Tensor,
        validation: Tensor | None = None,
        optimization: Optimization = Optimization(),
        names: Sequence[str] = ("",),
        lowest_loss: bool = False,
    ) -> None:
        self.trainable, self.names, self.lowest_loss = trainable, list(names), lowest_loss
        problems, parameters = len(train), trainable.parameters()
        device = parameters[0].value.device
        self._optimization = optimization
        self._train = _read_targets("train", train, train, device)
        check_same_length("names", self.names, problems, "problem")
        if len(set(names)) < problems:
            raise InputError("names", "be distinct", self.names)
        if 0 in self._train.counts:
            label = self._label(self._train.counts.index(0))
            raise InputError("train", f"contain the class of at least one training node{label}", "none: all are < 0")
        targets = None if validation is None else _read_targets("validation", validation, train, device)
        self._validation = targets if targets is not None and any(targets.counts) else None
        self._num_validation = [0] * problems if self._validation is None else self._validation.counts
        few = min(optimization.epochs, EPOCHS_WITHOUT_VALIDATION)
        max_epochs = [optimization.epochs if count or lowest_loss else few for count in self._num_validation]
        self.epochs = max(max_epochs)
        self._optimizer = adam(parameters, optimization, trainable.fused)
        self._best = {parameter.name: parameter.value.detach().clone() for parameter in parameters}
        # The best state is selected on the device, so that an epoch need not wait for its metrics to be read.
        self._without_validation = torch.tensor(self._num_validation, device=device) == 0
        self._max_epochs = torch.tensor(max_epochs, device=device)
        self._patience = optimization.patience or optimization.epochs
        self._epoch = torch.zeros((), dtype=torch.int64, device=device)
        self._best_epoch = torch.zeros_like(self._max_epochs)
        self._best_score = torch.full((problems,), -torch.inf, dtype=torch.float64, device=device)
        # The same on the host, as of the last epoch.
        self.best_epoch, self._running = [0] * problems, [True] * problems
        self._graph: CUDAGraphStep | None = None
        if device.type == "cuda" and trainable.generators is not None:
            self._graph = CUDAGraphStep(self._compute_epoch, device, trainable.generators)

    @property
    def finished(self) -> bool:
        """Whether all problems have ended."""
        return not any(self._running)

    def step(self) -> dict[str, float]:
        """Trains for one epoch; returns the metrics of the problems that were still running.

        These are `train_loss NAME` and, with validation nodes, `validation_loss NAME` and `validation_accuracy NAME`.
        """
        problems = len(self.names)
        compute = self._compute_epoch if self._graph is None else self._graph
        values = compute().tolist()
        train_loss, best_epoch, ended, *validated = (values[k : k + problems] for k in range(0, len(values), problems))
        measured = [q for q, running in enumerate(self._running) if running]
        validation = [q for q in measured if self._num_validation[q]]
        self.best_epoch, self._running = [int(epoch) for epoch in best_epoch], [not end for end in ended]
        metrics = {self._metric("train_loss", q): train_loss[q] for q in measured}
        if validated:
            metrics |= {self._metric("validation_loss", q): validated[0][q] for q in validation}
        if len(validated) > 1:
            counts = self._num_validation
            metrics |= {self._metric("validation_accuracy", q): validated[1][q] / counts[q] for q in validation}
        self._check_finite(metrics, measured)
        return metrics

    def _compute_epoch(self) -> Tensor:
        """Runs an epoch without reading from the device; returns rows `[Q]`, concatenated, in the order of `step`."""
        self._optimizer.zero_grad()
        train_loss = self.trainable.training_step(self._train)
        self._optimizer.step()
        with torch.no_grad():
            better = ~self._ended()
            self._epoch.add_(1)
            validated: list[Tensor] = []
            if self._validation is not None:
                loss, correct = self.trainable.validate(self._validation)
                score = (-loss if self.lowest_loss or correct is None else correct).double()
                better &= (score > self._best_score) | self._without_validation
                torch.where(better, score, self._best_score, out=self._best_score)
                validated = [loss] if correct is None else [loss, correct]
            torch.where(better, self._epoch, self._best_epoch, out=self._best_epoch)
            self._save_best(better)
            rows = train_loss, self._best_epoch, self._ended(), *validated
            return torch.cat([row.double() for row in rows])

    def _ended(self) -> Tensor:
        """Which problems have ended, bool `[Q]`."""
        return (self._epoch - self._best_epoch >= self._patience) | (self._epoch >= self._max_epochs)

    def _save_best(self, better: Tensor) -> None:
        """Copies the current state of these problems to the best state, in place."""
        for parameter in self.trainable.parameters():
            value = parameter.value.detach()
            if parameter.name not in self._best:
                # A buffer that a user's module created in its first epoch.
                self._best[parameter.name] = value.clone()
            best = self._best[parameter.name]
            torch.where(parameter.expand(better), value, best, out=best)

    def _check_finite(self, metrics: Mapping[str, float], problems: Sequence[int]) -> None:
        # The lowest loss never selects an epoch whose validation loss is not finite.
        kinds = ("train",) if self.lowest_loss else ("train", "validation")
        for q in problems:
            losses = {kind: metrics.get(self._metric(f"{kind}_loss", q), 0.0) for kind in kinds}
            infinite = [f"{kind} loss {loss:.4g}" for kind, loss in losses.items() if not math.isfinite(loss)]
            if infinite:
                raise FloatingPointError(
                    f"The loss{self._label(q)} must stay finite, got {' and '.join(infinite)} at epoch "
                    f"{int(self._epoch)}. Lower `lr`, now {self._optimization.lr}, or check that the node features "
                    "`x` are finite and of moderate size."
                )

    def _metric(self, name: str, q: int) -> str:
        return f"{name} {self.names[q]}" if self.names[q] else name

    def _label(self, q: int) -> str:
        return f" of {self.names[q]!r}" if self.names[q] else ""

    def load_best(self) -> None:
        """Loads the best state of each problem into the trainable."""
        self._optimizer.zero_grad()
        if self._graph is not None:
            self._graph.reset()  # its tensors are replaced
        load_values(self.trainable.parameters(), self._best)


def _read_targets(name: str, labels: Tensor, train: Tensor, device: torch.device) -> Targets:
    if labels.dim() != 2 or labels.shape != train.shape or labels.dtype != torch.int64:
        shape = "[Q, N]" if train.dim() != 2 else list(train.shape)
        rule = f"be int64 {shape}, one row per problem, with a class or -1 per node"
        raise InputError(name, rule, f"{labels.dtype} {list(labels.shape)}")
    return Targets(labels.to(device), name)


def without_prefix(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def train(engine: Engine, stage: str, callback: Callback | None = None) -> History:
    """Trains until all problems have ended, and loads their best states; returns the metrics of all epochs."""
    history: History = {}
    epoch = 0
    while epoch < engine.epochs and not engine.finished:
        metrics = engine.step()
        epoch += 1
        for name, value in metrics.items():
            history.setdefault(name, []).append(float(value))
        if callback is not None:
            callback(Progress(stage, epoch, engine.epochs, metrics))
    engine.load_best()
    return history
