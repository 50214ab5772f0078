"""Errors that users can fix: each names the argument, the rule it breaks, the value received and the remedy."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

_MISSING = object()
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class InputError(ValueError):
    """An argument, a file or a setting breaks a rule.

    The message reads "`argument` must rule, got value. remedy".

    Parameters
    ----------
    argument : str or path
        Name of the offending argument, attribute or path.
    rule : str
        The rule, phrased to follow "must".
    value : object, optional
        The value received, phrased to follow "got".
    remedy : str, optional
        How to fix it, in full sentences.
    but : str, optional
        A clause that replaces "got value".
    context : str, optional
        Where the error occurred, such as the name of a model; a prefix of the message.
    nodes : sequence, optional
        Node ids that the texts refer to as `{0}`, `{1}`, and so on.
    hints : mapping of str to str, optional
        Python expressions that the texts refer to by name, as in `{directed}` for "directed=True".

    Notes
    -----
    Other interfaces use `replace` to change the parts of an error instead of editing its message: the command line
    replaces `argument` by a flag, `nodes` by their names and `hints` by flags.

    Examples
    --------
    >>> raise InputError("p", "lie in [1, inf]", 0.5, "Use p=math.inf for shortest paths.")
    Traceback (most recent call last):
    ...
    lggd.errors.InputError: `p` must lie in [1, inf], got 0.5. Use p=math.inf for shortest paths.
    >>> error = InputError("target", "be reachable", but="node {0} is not", remedy="Use {symmetrize}.",
    ...                    nodes=[4], hints={"symmetrize": "symmetrize='max'"})
    >>> print(error)
    `target` must be reachable, but node 4 is not. Use symmetrize='max'.
    >>> print(error.replace(argument="--to", nodes=["home"], hints={"symmetrize": "--symmetrize max"}))
    `--to` must be reachable, but node home is not. Use --symmetrize max.
    """

    _PARTS = ("argument", "rule", "value", "remedy", "but", "context", "nodes", "hints")

    def __init__(
        self,
        argument: object,
        rule: str,
        value: object = _MISSING,
        remedy: str = "",
        *,
        but: str = "",
        context: str = "",
        nodes: Sequence[object] = (),
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self.argument, self.rule, self.value, self.remedy = str(argument), rule, value, remedy
        self.but, self.context, self.nodes, self.hints = but, context, tuple(nodes), dict(hints or {})
        super().__init__(str(self))

    def __str__(self) -> str:
        clause = f", but {self.but}" if self.but else "" if self.value is _MISSING else f", got {self.value}"
        ending = "" if clause.endswith(("?", ".")) else "."
        text = f"must {self.rule}{clause}{ending} {self.remedy}".rstrip()
        if self.nodes or self.hints:
            known = {**self.hints, **{str(k): str(node) for k, node in enumerate(self.nodes)}}
            # Only these placeholders: names in a file may contain braces too.
            text = _PLACEHOLDER.sub(lambda match: known.get(match[1], match[0]), text)
        return f"{f'{self.context}: ' if self.context else ''}`{self.argument}` {text}"

    def replace(self, **changes: Any) -> Self:
        """Returns the same error with some of its parts changed, named as in the constructor."""
        return type(self)(**{**{name: getattr(self, name) for name in self._PARTS}, **changes})

    def __reduce__(self) -> tuple[Any, ...]:
        parts = {name: getattr(self, name) for name in self._PARTS if name != "value"}
        if self.value is not _MISSING:
            parts["value"] = str(self.value)
        return partial(type(self), **parts), ()


class InputTypeError(InputError, TypeError):
    """An argument is of the wrong type."""


class NotSymmetricError(InputError):
    """A graph that must be undirected lacks the reverse of an edge, or weighs the two directions differently."""


class InputFileError(InputError, OSError):
    """A file or a folder is missing, exists already, or cannot be read or written."""


class DiskFullError(InputFileError):
    """A file does not fit on its disk, or into the user's quota there. What was there before is unchanged."""


class MissingPackageError(InputError, ImportError):
    """An optional package is not installed."""


@contextmanager
def optional_package(needed_by: str, install: str) -> Iterator[None]:
    """Around imports of an optional package: where it is missing, the error says what to install.

    >>> with optional_package("table", install="tables"):
    ...     import missing
    Traceback (most recent call last):
    ...
    lggd.errors.MissingPackageError: `table` must import missing, but it is not installed. Run: pip install tables
    """
    try:
        yield
    except ModuleNotFoundError as error:
        rule, remedy = f"import {error.name}", f"Run: pip install {shlex.quote(install)}"
        raise MissingPackageError(needed_by, rule, but="it is not installed", remedy=remedy) from error


@contextmanager
def error_context(name: str) -> Iterator[None]:
    """Prefixes errors about inputs with what they concern, such as the row of a table."""
    try:
        yield
    except InputError as error:
        raise error.replace(context=f"{name}: {error.context}" if error.context else name) from error


class InputWarning(UserWarning):
    """A warning about the input. `{0}` in the message stands for the first of `nodes`, as in `InputError`."""

    def __init__(self, message: str, nodes: Sequence[object] = ()) -> None:
        super().__init__(message, tuple(nodes))
        self.message, self.nodes = message, tuple(nodes)

    def __str__(self) -> str:
        return self.message.format(*self.nodes) if self.nodes else self.message


class NotEnoughMemoryError(MemoryError):
    """A computation does not fit into memory; the message states the memory needed, the memory free and the remedy."""
