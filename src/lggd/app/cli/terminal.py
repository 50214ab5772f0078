"""Output, progress bars and exit codes of the commands."""

from __future__ import annotations

import ast
import errno
import json
import math
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from lggd.errors import DiskFullError, InputError, InputWarning
from lggd.progress import Callback, Progress

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
# Errors about paths, which the user can correct. Other OSErrors, such as a full disk, are failures.
PATH_ERRORS = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
# Reported by the system when anything is written that `lggd._system.files` does not write, such as stdout.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# Maps hints of library errors (`InputError.hints`) to options.
HINTS = {
    "symmetrize": "--symmetrize max or mean", "directed": "--directed", "unbounded": "--unbounded", "p": "--p inf",
    "solver": "--solver marching", "resume": "--resume", "lengths": "--length COLUMN",
    "models": 'plug-ins: entry points of the group "lggd.methods"',
}  # fmt: skip


def as_flags(hint: str) -> str:
    """Turns an argument into options.

    >>> as_flags("weight='travel time'"), as_flags("ignore=['km', 'cost']"), as_flags("header=False")
    ("--weight 'travel time'", '--ignore km --ignore cost', '--no-header')
    """
    name, _, value = hint.partition("=")
    flag = name.replace("_", "-")
    parsed = ast.literal_eval(value)
    if isinstance(parsed, bool):
        return f"--{flag}" if parsed else f"--no-{flag}"
    values = parsed if isinstance(parsed, list) else [parsed]
    return " ".join(f"--{flag} {shlex.quote(str(each))}" for each in values)


class Terminal:
    """Prints results to stdout and everything else to stderr; as a context manager, turns errors into exit codes.

    `flags` maps arguments named by library errors to options of the command. Set `node_names` after reading the graph,
    so that errors show the names of nodes.
    """

    def __init__(self, *, as_json: bool, debug: bool, flags: Mapping[str, str]) -> None:
        self.as_json, self.debug, self.flags = as_json, debug, flags
        self.node_names: Sequence[str] | None = None
        self.out, self.err = Console(), Console(stderr=True)
        self._warnings = warnings.catch_warnings()

    def __enter__(self) -> Terminal:
        self._warnings.__enter__()
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = self._warning
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._warnings.__exit__(None, None, None)
        if isinstance(error, KeyboardInterrupt):
            self.say("Interrupted.", "red")
            raise typer.Exit(INTERRUPTED) from error
        # typer handles its own exceptions and closed pipes.
        if isinstance(error, (typer.Exit, typer.Abort, BrokenPipeError)) or not isinstance(error, Exception):
            return
        if self.debug:
            self.err.print_exception()
        self.say(self.message(error), "red")
        is_input = isinstance(error, (InputError, *PATH_ERRORS)) and not isinstance(error, DiskFullError)
        raise typer.Exit(BAD_INPUT if is_input else FAILED) from error

    def message(self, error: Exception) -> str:
        """Returns the message of an error, with options instead of arguments and names instead of node numbers."""
        if isinstance(error, InputError):
            argument = self.flags.get(error.argument, error.argument)
            hints = {name: HINTS.get(name) or self._as_flags(text) for name, text in error.hints.items()}
            return str(error.replace(argument=argument, hints=hints, nodes=self._names(error.nodes)))
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            return f"There is no space left on the disk{f' for {error.filename}' if error.filename else ''}. Free some."
        if isinstance(error, PATH_ERRORS) or (isinstance(error, MemoryError) and str(error)):
            return str(error)
        hint = "" if self.debug else " Run it again with --debug or LGGD_DEBUG=1 to see the traceback."
        return f"Failed unexpectedly with {type(error).__name__}: {str(error).rstrip('.') or 'no message'}.{hint}"

    def _as_flags(self, hint: str) -> str:
        """Turns an argument of the library, with or without a value, into an option, if the command has it."""
        if hint in self.flags:
            return self.flags[hint]
        return as_flags(hint) if hint.partition("=")[0] in self.flags else hint

    def _warning(self, message: Warning | str, *_: object, **__: object) -> None:
        if isinstance(message, InputWarning):
            message = InputWarning(message.message, self._names(message.nodes))
        self.say(str(message), "yellow")

    def _names(self, nodes: Sequence[Any]) -> list[Any]:
        return [node if self.node_names is None else self.node_names[node] for node in nodes]

    def say(self, sentence: str, style: str) -> None:
        """Prints a message to stderr."""
        self.err.print(sentence, style=style, markup=False, highlight=False, soft_wrap=True)

    def print_result(self, value: Mapping[str, Any], shown: Iterable[Table | str]) -> None:
        """Prints the result: `value` as one JSON object with --json, otherwise the tables and sentences `shown`."""
        if self.as_json:
            typer.echo(json.dumps(value, allow_nan=False))
        else:
            for part in shown:
                self.out.print(Text(part) if isinstance(part, str) else part, highlight=False)

    def working(self, what: str) -> AbstractContextManager[Status]:
        """Shows a spinner on stderr, if it is a terminal."""
        return self.err.status(Text(what))  # Text, because a path may contain markup

    @contextmanager
    def bars(self) -> Iterator[Bars]:
        """Shows progress bars on stderr, if it is a terminal."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Bars(*columns, console=self.err, transient=True, disable=not self.err.is_terminal) as bars:
            yield bars

    @contextmanager
    def progress(self) -> Iterator[Callback]:
        """Shows one progress bar per stage; yields a callback that updates it."""
        tasks: dict[str, TaskID] = {}
        with self.bars() as bars:

            def update(now: Progress) -> None:
                if now.stage not in tasks:
                    for task in bars.tasks:
                        if task.total is None:
                            bars.update(task.id, total=1, completed=1)
                    tasks[now.stage] = bars.add_task(now.stage[:1].upper() + now.stage[1:], total=now.total)
                bars.update(tasks[now.stage], completed=now.done, total=now.total)

            yield update


def table(*columns: Column | str, rows: Iterable[Iterable[str]], title: str | None = None, **style: Any) -> Table:
    """A table of text without markup."""
    shown = Table(*columns, title=title, title_justify="left", **style)
    for cells in rows:
        shown.add_row(*map(Text, cells))
    return shown


def summary(**rows: object) -> Table:
    """A table of names and values in two columns."""
    cells = ((name, str(value)) for name, value in rows.items())
    columns = Column(style="bold"), Column(overflow="fold")
    return table(*columns, rows=cells, show_header=False, box=None, pad_edge=False)


def json_exponent(p: float) -> float | str:
    """Returns p for JSON: 1, 1.5, "inf"."""
    return "inf" if math.isinf(p) else int(p) if float(p).is_integer() else p
