"""A progress bar for each stage of training, where to train, and which part of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from lggd.cli.terminal import Terminal
from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd.training import progress as training

TOLD = {
    ("raw", "backbone"): "Training without LGGD",
    ("lggd", "distances"): "Learning distances",
    ("lggd", "backbone"): "Training with LGGD",
}


class PresetName(StrEnum):
    DEFAULT = "default"
    PAPER = "paper"
    RELEASE = "release"


class DeviceName(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


Preset = Annotated[
    PresetName, typer.Option(help="Our settings, those of the paper's text, or those of its authors' code.")
]
Rows = Annotated[
    list[str] | None,
    typer.Option(help="Only these rows, by number, file or title: 01,09. May be repeated.", show_default="all"),
]
Datasets = Annotated[
    list[str] | None,
    typer.Option(help="Only these datasets: cora,photo. May be repeated.", show_default="those of the paper"),
]
Device = Annotated[DeviceName, typer.Option(help="Where to train; auto takes CUDA where there is some.")]


def named(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Names between commas, in one option or in several."""
    return tuple(part.strip() for text in texts or () for part in text.split(",") if part.strip())


def chosen_device(name: DeviceName) -> str:
    """The device that torch knows it by."""
    import torch

    if name is DeviceName.CUDA and not torch.cuda.is_available():
        raise InputError("--device", "be cpu here", "cuda: torch finds no CUDA device", "Leave it out.")
    return "cuda" if name is not DeviceName.CPU and torch.cuda.is_available() else "cpu"


def use_fast_products(device: str) -> None:
    """Lets a GPU multiply matrices in TF32, ten bits of precision for several times the speed. Results say so."""
    import torch

    if device == "cuda":
        torch.set_float32_matmul_precision("high")


@contextmanager
def stages_shown(terminal: Terminal) -> Iterator[Callable[[str, training.Progress], None]]:
    """Bars on stderr, where that is a terminal, moved by calling what it gives with the part and its progress."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bars: dict[tuple[str, str], TaskID] = {}
    with Progress(*columns, console=terminal.err, transient=True, disable=not terminal.err.is_terminal) as shown:

        def move(part: str, told: training.Progress) -> None:
            stage = (part, told.stage)
            if stage not in bars:
                bars[stage] = shown.add_task(TOLD.get(stage, told.stage), total=told.epochs)
            shown.update(bars[stage], completed=told.epoch)

        yield move
