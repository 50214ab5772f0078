"""What commands say and how they end."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from lggd.cli.wording import on_command_line

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
# A full disk is a failure; these are paths that cannot be right.
WRONG_PATHS = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Debug = Annotated[bool, typer.Option("--debug", envvar="LGGD_DEBUG", help="Show the traceback of an error.")]


class Terminal:
    """Answers go to stdout, everything else to stderr. As a context it turns errors into a sentence and an exit code.

    `flags` are the phrases of the library's errors that this command calls otherwise; `node_names` may be set later.
    """

    def __init__(self, *, as_json: bool, debug: bool, flags: Mapping[str, str]) -> None:
        self.as_json, self.debug, self.flags = as_json, debug, flags
        self.node_names: Sequence[str] | None = None
        self.out, self.err = Console(), Console(stderr=True)
        self._warnings = warnings.catch_warnings()

    def __enter__(self) -> Terminal:
        self._warnings.__enter__()
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: self.say(str(message), "yellow")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._warnings.__exit__(kind, error, trace)
        if isinstance(error, KeyboardInterrupt):
            self.say("Interrupted.", "red")
            raise typer.Exit(INTERRUPTED) from error
        # typer ends the program on its own signals and on a closed pipe.
        if isinstance(error, (typer.Exit, typer.Abort, BrokenPipeError)) or not isinstance(error, Exception):
            return
        if self.debug:
            self.err.print_exception()
        if _is_about_input(error):
            self.say(str(error), "red")
            raise typer.Exit(BAD_INPUT) from error
        if isinstance(error, MemoryError) and str(error):
            self.say(str(error), "red")
            raise typer.Exit(FAILED) from error
        hint = "" if self.debug else " Run it again with --debug or LGGD_DEBUG=1 to see where."
        self.say(
            f"Failed unexpectedly with {type(error).__name__}: {str(error).rstrip('.') or 'no message'}.{hint}", "red"
        )
        raise typer.Exit(FAILED) from error

    def say(self, sentence: str, style: str) -> None:
        """One line on stderr, in the words of the command line."""
        text = on_command_line(sentence, self.flags, self.node_names)
        self.err.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def answer(self, value: Mapping[str, Any], shown: Iterable[RenderableType]) -> None:
        """Prints `value` as one JSON object if that was asked for, otherwise what is to be `shown`."""
        if self.as_json:
            typer.echo(json.dumps(value, allow_nan=False))
            return
        for part in shown:
            self.out.print(part, highlight=False)

    def working(self, what: str) -> AbstractContextManager[Status]:
        """A spinner on stderr, where that is a terminal."""
        return self.err.status(Text(what))  # a path may look like markup

    @contextmanager
    def counting(self, what: str) -> Iterator[Any]:
        """A progress bar on stderr, moved by calling what it gives with the number done and the number of all."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.err, transient=True, disable=not self.err.is_terminal) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def summary(rows: Mapping[str, object]) -> Table:
    """Names and values in two columns."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(str(value)))
    return table


def json_number(value: float) -> float | None:
    """JSON knows no infinity: None, which it calls null."""
    return value if math.isfinite(value) else None


def json_exponent(p: float) -> float | str:
    """As people type it: 1, 1.5, "inf"."""
    return "inf" if math.isinf(p) else int(p) if float(p).is_integer() else p


def _is_about_input(error: Exception) -> bool:
    """Whether the user can mend it: a path that cannot be right, or an error that names the argument in backticks."""
    return isinstance(error, WRONG_PATHS) or (isinstance(error, (ValueError, TypeError)) and "`" in str(error))
