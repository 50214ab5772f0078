"""Search spaces: the values that a search may try for a setting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lggd.compare.configs import Setting, check_keys
from lggd.errors import InputError

if TYPE_CHECKING:
    from optuna.trial import Trial


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included, in multiples of `step` if it is set, or log-uniform with `log`."""

    low: int | float
    high: int | float
    step: int | float | None = None
    log: bool = False

    @property
    def is_integer(self) -> bool:
        return all(isinstance(value, int) for value in (self.low, self.high, self.step) if value is not None)

    @property
    def ends(self) -> tuple[Setting, ...]:
        return self.low, self.high

    @property
    def middle(self) -> Setting:
        if self.log:
            middle = math.sqrt(self.low * self.high)
            return round(middle) if self.is_integer else middle
        step = self.step or int(self.is_integer)
        span = self.high - self.low
        return self.low + step * math.floor(span / step / 2 + 1e-9) if step else (self.low + self.high) / 2

    def __contains__(self, value: Setting) -> bool:
        if isinstance(value, str) or not self.low <= value <= self.high:
            return False
        steps = (value - self.low) / (self.step or 1)
        return (self.step is None and not self.is_integer) or abs(steps - round(steps)) < 1e-9

    def suggest(self, trial: Trial, name: str) -> Setting:
        if self.is_integer:
            return trial.suggest_int(name, int(self.low), int(self.high), step=int(self.step or 1), log=self.log)
        return trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)


@dataclass(frozen=True)
class Categorical:
    """One of several values."""

    values: tuple[Setting, ...]

    @property
    def ends(self) -> tuple[Setting, ...]:
        return self.values

    @property
    def middle(self) -> Setting:
        return self.values[0]

    def __contains__(self, value: Setting) -> bool:
        return any(type(known) is type(value) and known == value for known in self.values)

    def suggest(self, trial: Trial, name: str) -> Setting:
        return trial.suggest_categorical(name, self.values)  # type: ignore[return-value]


SearchSpace = Range | Categorical


def read_search_space(path: Path, key: str, value: Any) -> SearchSpace:
    """Reads a search space from a list of values, or from a table with low and high."""
    if isinstance(value, list) and value and all(isinstance(each, Setting) for each in value):
        return Categorical(tuple(value))
    if not isinstance(value, dict) or not {"low", "high"} <= value.keys():
        rule = f"give a list of choices or a table with low and high for {key} in [search]"
        raise InputError(str(path), rule, repr(value), f"Write {key} = {{ low = 0.1, high = 0.9, step = 0.1 }}.")
    check_keys(path, f"search.{key}", value, ("low", "high", "step", "log"))
    space = Range(**value)
    numbers = [space.low, space.high, 1 if space.step is None else space.step]
    if not all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in numbers):
        raise InputError(str(path), f"give numbers for {key} in [search]", repr(value), "Write low = 1, high = 2.")
    valid = space.low < space.high and numbers[2] > 0 and isinstance(space.log, bool)
    if not valid or (space.log and (space.low <= 0 or space.step is not None)):
        rule = f"have low < high and step > 0 for {key} in [search], and with log = true low > 0 and no step"
        raise InputError(str(path), rule, repr(value))
    return space
