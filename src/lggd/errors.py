"""The errors that users can mend: each names the argument, the rule it breaks, the value received and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

_MISSING = object()


class InputError(ValueError):
    """An argument, a file or a setting breaks a rule.

    The message reads "`argument` must rule, got value. remedy". Where a clause says more than the value does, `but`
    takes the place of "got value".

    Parameters
    ----------
    argument : str
        The name of what is wrong: an argument, an attribute of the data, a path.
    rule : str
        What must hold, as it follows "must".
    value : object, optional
        What was received instead, as it follows "got".
    remedy : str, optional
        What to do about it, in whole sentences.
    but : str, optional
        A clause in place of "got value".
    context : str, optional
        Where it happened, such as the model's name; it stands before the message.

    Examples
    --------
    >>> raise InputError("p", "lie in [1, inf]", 0.5, "Use p=math.inf for shortest paths.")
    Traceback (most recent call last):
    ...
    lggd.errors.InputError: `p` must lie in [1, inf], got 0.5. Use p=math.inf for shortest paths.
    """

    def __init__(
        self, argument: str, rule: str, value: object = _MISSING, remedy: str = "", *, but: str = "", context: str = ""
    ) -> None:
        self.argument, self.rule, self.value, self.remedy = argument, rule, value, remedy
        self.but, self.context = but, context
        super().__init__(str(self))

    def __str__(self) -> str:
        found = f", but {self.but}" if self.but else "" if self.value is _MISSING else f", got {self.value}"
        ending = "" if found.endswith(("?", ".")) else "."
        before = f"{self.context}: " if self.context else ""
        return f"{before}`{self.argument}` must {self.rule}{found}{ending} {self.remedy}".rstrip()

    def replace(self, **changes: Any) -> Self:
        """The same error with another argument, rule, value, remedy, clause or context."""
        given = {name: getattr(self, name) for name in ("argument", "rule", "value", "remedy", "but", "context")}
        return type(self)(**{**given, **changes})

    def __reduce__(self) -> tuple[Any, ...]:
        given = {name: getattr(self, name) for name in ("argument", "rule", "remedy", "but", "context")}
        if self.value is not _MISSING:
            given["value"] = str(self.value)
        return _restored, (type(self), given)


class InputTypeError(InputError, TypeError):
    """An argument is of the wrong type."""


class NotSymmetricError(InputError):
    """A graph that must be undirected lacks the reverse of an edge, or weighs the two directions differently."""


class InputFileError(InputError, OSError):
    """A file or a folder is missing, is there already, or cannot be read or written."""


class NotEnoughMemoryError(MemoryError):
    """A computation does not fit; the message says how much it takes, how much is free, and the remedy."""


def _restored(kind: type[InputError], given: dict[str, Any]) -> InputError:
    return kind(**given)


@contextmanager
def error_context(name: str) -> Iterator[None]:
    """Prefixes errors from inside with the name of the model or table row that they concern; "" leaves them alone."""
    try:
        yield
    except InputError as error:
        if not name:
            raise
        context = f"{name}: {error.context}" if error.context else name
        raise error.replace(context=context) from error
    except Exception as error:
        # Such as torch's own, from inside a user's module.
        if name:
            error.add_note(f"This happened in {name}.")
        raise
