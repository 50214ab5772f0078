"""The training loop: epochs, progress, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from lggd.training.checkpoint import Checkpoint
from lggd.training.progress import Callback, History, Progress

# The patience of those that never stop early.
FOREVER = 2**62


class Learner(Protocol):
    """Something that learns an epoch at a time, and whose whole state is tensors."""

    epochs: int

    @property
    def finished(self) -> bool:
        """Whether it stopped by itself, before all its epochs."""

    def step(self) -> Mapping[str, float]:
        """Learns for an epoch; gives the numbers worth recording."""

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Goes on from such a state as if it had never stopped."""


def learn(
    learner: Learner, stage: str, callback: Callback | None = None, checkpoint: Checkpoint | None = None
) -> History:
    """Lets the learner learn until it finishes. With a checkpoint it goes on where an interrupted run was saved."""
    history: History = {}
    epoch = 0
    saved = None if checkpoint is None else checkpoint.load(stage)
    if saved is not None:
        epoch, history = _take_history(saved)
        learner.restore(saved)
    while epoch < learner.epochs and not learner.finished:
        measured = learner.step()
        epoch += 1
        for name, value in measured.items():
            history.setdefault(name, []).append(float(value))
        if callback is not None:
            callback(Progress(stage, epoch, learner.epochs, measured))
        if checkpoint is not None and checkpoint.is_due():
            checkpoint.save(stage, _with_history(learner.state(), epoch, history))
    if checkpoint is not None:
        checkpoint.save(stage, _with_history(learner.state(), epoch, history))
    return history


def _with_history(state: dict[str, Tensor], epoch: int, history: History) -> dict[str, Tensor]:
    told = {f"history.{name}": torch.tensor(values, dtype=torch.float64) for name, values in history.items()}
    return {**state, **told, "epoch": torch.tensor(epoch)}


def _take_history(saved: dict[str, Tensor]) -> tuple[int, History]:
    """Takes out of `saved` what `_with_history` put in."""
    epoch = int(saved.pop("epoch"))
    names = [name for name in saved if name.startswith("history.")]
    return epoch, {name.removeprefix("history."): saved.pop(name).tolist() for name in names}
