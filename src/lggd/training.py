"""Learning an epoch at a time: what is told of it, and how to put it down and pick it up again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from lggd.data.files import replacing

# Numbers by name, an entry an epoch: what training curves are drawn from.
History = dict[str, list[float]]
# Longer than anybody waits: the patience of those who never stop.
FOREVER = 2**62


@dataclass(frozen=True)
class Progress:
    """An epoch that has just ended, of at most `epochs`, with the numbers that the learner measured in it."""

    stage: str
    epoch: int
    epochs: int
    measured: Mapping[str, float] = field(default_factory=dict)


Callback = Callable[[Progress], None]


@dataclass(frozen=True)
class Optimization:
    """How Adam is run: at most `epochs`, stopping after `patience` of them without a better validation (None: never).

    Weight decay is L2 regularisation. The defaults are the paper's for backbones.
    """

    lr: float = 0.01
    weight_decay: float = 1e-6
    epochs: int = 5000
    patience: int | None = 100

    def __post_init__(self) -> None:
        if not 0 < self.lr < math.inf:
            raise ValueError(f"`lr` must be positive, got {self.lr}.")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"`weight_decay` must be 0 or above, got {self.weight_decay}.")
        for name, least in (("epochs", 1), ("patience", 1)):
            value = getattr(self, name)
            if value is None and name == "patience":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"`{name}` must be a whole number from {least}, got {value!r}.")


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


class Checkpoint:
    """Unfinished learning, kept in a folder: a file a stage, written whole or not at all.

    `key` stands for all that the result depends on. Learning saved under another key is refused, not continued.
    `every` is in seconds; 0 saves after every epoch.
    """

    def __init__(self, folder: str | Path, key: str, every: float = 5.0) -> None:
        self.folder, self.key, self.every = Path(folder), key, every
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether the last save lies long enough back."""
        return time.monotonic() - self._last >= self.every

    def load(self, stage: str) -> dict[str, Tensor] | None:
        """The state last saved; None where there is none."""
        from safetensors import SafetensorError, safe_open

        path = self._path(stage)
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                key = (file.metadata() or {}).get("key")
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        except SafetensorError as wrong:
            raise ValueError(f"`{path}` must be saved training, but it is damaged: {wrong}. Delete it.") from wrong
        if key != self.key:
            raise ValueError(
                f"`{path}` must be saved training of the same data and settings, but it is of others. "
                "Repeat the settings of the interrupted run, or start anew."
            )
        return state

    def save(self, stage: str, state: Mapping[str, Tensor]) -> None:
        """Replaces what was saved of this stage."""
        from safetensors.torch import save_file

        self.folder.mkdir(parents=True, exist_ok=True)
        plain = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
        with replacing(self._path(stage)) as temporary:
            save_file(plain, temporary, metadata={"key": self.key})
        self._last = time.monotonic()

    def _path(self, stage: str) -> Path:
        return self.folder / f"{stage}.safetensors"


def seed_of(seed: int | torch.Generator) -> int:
    """A whole number to seed with: the one given, or the next that a generator draws."""
    if isinstance(seed, torch.Generator):
        return int(torch.randint(2**31 - 1, (1,), generator=seed, device=seed.device))
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"`seed` must be a whole number from 0, or a torch.Generator, got {seed!r}.")
    return seed


class Randomness:
    """Random numbers of one's own. While in use they are torch's global ones, which are put back afterwards.

    For modules that draw from nowhere else, as dropout and the initialisation of layers do.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self.states = {"cpu": torch.Generator().manual_seed(seed).get_state()}
        self._devices = []
        if device.type == "cuda":
            self._devices = [device]
            self.states["cuda"] = torch.Generator(device).manual_seed(seed).get_state()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Lets torch draw from here."""
        with torch.random.fork_rng(self._devices):
            torch.set_rng_state(self.states["cpu"])
            for device in self._devices:
                torch.cuda.set_rng_state(self.states["cuda"], device)
            yield
            self.states = {"cpu": torch.get_rng_state()}
            for device in self._devices:
                self.states["cuda"] = torch.cuda.get_rng_state(device)
