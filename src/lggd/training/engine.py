"""The training engine: many problems side by side, each with its own early stopping and its own best state.

`train` runs it, reports `Progress` to a callback, and saves unfinished training in a `Checkpoint`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from lggd._system.files import replacing, save_tensors, write_errors
from lggd.errors import InputError
from lggd.progress import Callback, Progress
from lggd.training.cuda_graph import CUDAGraphStep
from lggd.training.problems import GroupedAdam, Optimization, StackedParameter, Targets, load_values
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

    def random_state(self) -> dict[str, Tensor]:
        """The states of the random number generators."""

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores the states of the random number generators."""


class Engine:
    """Trains Q problems in place, one epoch at a time: a step of the optimizer, then a validation.

    Every problem is trained as if it were alone, with its own targets, random numbers, early stopping and best state.
    The best epoch is the first one of highest validation accuracy, or of lowest validation loss with `lowest_loss`. A
    problem ends after its maximum of epochs, or after `patience` epochs without a better one. Without validation nodes
    its last epoch counts as the best, of at most `EPOCHS_WITHOUT_VALIDATION` for accuracy.

    `train` and `validation` hold the class of each node, -1 elsewhere, int64 `[Q, N]`; `optimization` the settings of
    all problems, or of each. The `names` of problems in metrics are distinct; "" adds nothing to a metric's name.
    """

    def __init__(
        self,
        trainable: Trainable,
        train: Tensor,
        validation: Tensor | None = None,
        optimization: Optimization | Sequence[Optimization] = Optimization(),
        names: Sequence[str] = ("",),
        lowest_loss: bool = False,
    ) -> None:
        self.trainable, self.names, self.lowest_loss = trainable, list(names), lowest_loss
        problems, parameters = len(train), trainable.parameters()
        device = parameters[0].value.device
        self._optimizations = [optimization] * problems if isinstance(optimization, Optimization) else [*optimization]
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
        max_epochs = [
            own.epochs if count or lowest_loss else min(own.epochs, EPOCHS_WITHOUT_VALIDATION)
            for own, count in zip(self._optimizations, self._num_validation, strict=True)
        ]
        self.epochs = max(max_epochs)
        self._optimizer = GroupedAdam(parameters, self._optimizations, trainable.fused)
        self._best = {parameter.name: parameter.value.detach().clone() for parameter in parameters}
        # The best state is selected on the device, so that an epoch need not wait for its metrics to be read.
        self._without_validation = torch.tensor(self._num_validation, device=device) == 0
        self._max_epochs = torch.tensor(max_epochs, device=device)
        patience = [own.patience or own.epochs for own in self._optimizations]
        self._patience = torch.tensor(patience, device=device)
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
                score = (-loss if self.lowest_loss else correct).double()  # type: ignore[union-attr]
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
                    f"{int(self._epoch)}. Lower `lr`, now {self._optimizations[q].lr}, or check that the node features "
                    "`x` are finite and of moderate size."
                )

    def _metric(self, name: str, q: int) -> str:
        return f"{name} {self.names[q]}" if self.names[q] else name

    def _label(self, q: int) -> str:
        return f" of {self.names[q]!r}" if self.names[q] else ""

    def load_best(self) -> None:
        """Loads the best state of each problem into the trainable."""
        self._optimizer.zero_grad()
        self._forget_graph()
        load_values(self.trainable.parameters(), self._best)

    def state(self) -> dict[str, Tensor]:
        """Copies of all tensors that the next epoch depends on."""
        moments = self._optimizer.state_dict()["state"]
        state = {
            **{f"now.{parameter.name}": parameter.value.detach() for parameter in self.trainable.parameters()},
            **{f"best.{name}": value for name, value in self._best.items()},
            **{f"optimizer.{index}.{name}": value for index, own in moments.items() for name, value in own.items()},
            **{f"random.{name}": value for name, value in self.trainable.random_state().items()},
            **{f"count.{name}": value for name, value in self._counters().items()},
        }
        return {name: value.clone() for name, value in state.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continues from a saved state as if training had never stopped."""
        load_values(self.trainable.parameters(), without_prefix("now.", state))
        self.trainable.load_random_state(without_prefix("random.", state))
        for name, value in self._best.items():
            value.copy_(state[f"best.{name}"])
        for name, value in self._counters().items():
            value.copy_(state[f"count.{name}"])
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in without_prefix("optimizer.", state).items():
            index, _, moment = name.partition(".")
            moments.setdefault(int(index), {})[moment] = value.clone()
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": moments})
        self.best_epoch, self._running = self._best_epoch.tolist(), (~self._ended()).tolist()
        self._forget_graph()

    def _forget_graph(self) -> None:
        """Lets a CUDA graph be captured again, because tensors that an epoch uses are replaced."""
        if self._graph is not None:
            self._graph.reset()

    def _counters(self) -> dict[str, Tensor]:
        return {"epoch": self._epoch, "best_epoch": self._best_epoch, "best_score": self._best_score}


def _read_targets(name: str, labels: Tensor, train: Tensor, device: torch.device) -> Targets:
    if labels.dim() != 2 or labels.shape != train.shape or labels.dtype != torch.int64:
        shape = "[Q, N]" if train.dim() != 2 else list(train.shape)
        rule = f"be int64 {shape}, one row per problem, with a class or -1 per node"
        raise InputError(name, rule, f"{labels.dtype} {list(labels.shape)}")
    return Targets(labels.to(device), name)


def without_prefix(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


class Checkpoint:
    """The state of unfinished training in a folder: one file per stage, each written atomically.

    Parameters
    ----------
    folder : str or Path
        Where the files are written.
    key : str
        Identifies everything that the result depends on. Checkpoints with another key are refused.
    every : float
        Seconds between two saves; 0 saves after every epoch.

    Examples
    --------
    >>> import tempfile
    >>> import lggd
    >>> model = lggd.LGGDClassifier(None, lggd.GCN(), lggd.Optimization(epochs=5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.fit(lggd.load("karate"), checkpoint=Checkpoint(folder, key="karate, GCN", every=0)).predict().shape
    torch.Size([34])
    """

    def __init__(self, folder: str | Path, key: str, every: float = 5.0) -> None:
        self.folder, self.key, self.every = Path(folder), key, every
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether it is time for the next save."""
        return time.monotonic() - self._last >= self.every

    def load(self, stage: str) -> dict[str, Tensor] | None:
        """Returns the last saved state of a stage, or None."""
        from safetensors import SafetensorError, safe_open

        path = self._path(stage)
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                key = (file.metadata() or {}).get("key")
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        except SafetensorError as error:
            raise InputError(path, "be a checkpoint", but=f"it is damaged: {error}", remedy="Delete it.") from error
        if key != self.key:
            remedy = "Use the settings of the interrupted run, or start over."
            rule = "be a checkpoint of the same data and settings"
            raise InputError(path, rule, but="it belongs to others", remedy=remedy)
        return state

    def save(self, stage: str, state: Mapping[str, Tensor]) -> None:
        """Replaces the saved state of a stage."""
        with write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self._path(stage)) as temporary:
            save_tensors(temporary, state, {"key": self.key})
        self._last = time.monotonic()

    def _path(self, stage: str) -> Path:
        return self.folder / f"{stage.replace('/', ' of ')}.safetensors"  # "backbone 1/2" is no path


def train(
    engine: Engine, stage: str, callback: Callback | None = None, checkpoint: Checkpoint | None = None
) -> History:
    """Trains until all problems have ended, and loads their best states; returns the metrics of all epochs.

    With a checkpoint, training continues where an interrupted run was saved.
    """
    history: History = {}
    epoch, saved = 0, None if checkpoint is None else checkpoint.load(stage)
    if saved is not None:
        epoch = int(saved.pop("epoch"))
        history = {name: values.tolist() for name, values in without_prefix("history.", saved).items()}
        engine.restore(saved)

    def save() -> None:
        if checkpoint is not None:
            curves = {f"history.{name}": torch.tensor(values, dtype=torch.float64) for name, values in history.items()}
            checkpoint.save(stage, {**engine.state(), **curves, "epoch": torch.tensor(epoch)})

    while epoch < engine.epochs and not engine.finished:
        metrics = engine.step()
        epoch += 1
        for name, value in metrics.items():
            history.setdefault(name, []).append(float(value))
        if callback is not None:
            callback(Progress(stage, epoch, engine.epochs, metrics))
        if checkpoint is not None and checkpoint.is_due():
            save()
    save()
    engine.load_best()
    return history
