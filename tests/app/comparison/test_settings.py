"""Settings in files, and in nested fields: reading and replacing values, objects by name, names in errors."""

from __future__ import annotations

import string
import tomllib
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lggd.app.comparison.settings import (
    FieldPath,
    Modification,
    ObjectChoice,
    apply_settings,
    default_of,
    renamed_arguments,
    toml_line,
)
from lggd.errors import InputError
from lggd.estimator.settings import get_at, has_at, replace_at
from lggd.validation import check_positive

NAMES = st.text(string.ascii_letters + '_-. é"\\', min_size=1)
VALUES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()


@dataclass(frozen=True)
class Round:
    radius: float = 1.0

    def __post_init__(self) -> None:
        check_positive("radius", self.radius)


@dataclass(frozen=True)
class Square:
    side: float = 2.0


@dataclass(frozen=True)
class Box:
    shape: Round | Square = Round()
    sizes: tuple[int, ...] = (3, 4)
    count: int = field(default=1)
    volume: object = None


RULES = {
    "shape": ObjectChoice("shape", {"round": Round(), "square": Square()}),
    "radius": FieldPath(("shape.radius",), conditional=True),
    "side": FieldPath(("shape.side",)),
    "first": FieldPath(("sizes.0",)),
    "both": FieldPath(("sizes.0", "sizes.1")),
    "percent": FieldPath(("count",), lambda percent: percent // 100, lambda count: 100 * count),
    "wrap": Modification("shape", {"no": lambda shape: shape, "yes": lambda shape: Box(shape)}),
}


def test_values_are_read_and_replaced_by_path() -> None:
    box = Box()
    assert (get_at(box, "shape.radius"), get_at(box, "sizes.1")) == (1.0, 4)
    changed = replace_at(replace_at(box, "shape.radius", 2.0), "sizes.1", 5)
    assert changed == Box(Round(2.0), (3, 5))
    assert box == Box()


@pytest.mark.parametrize("path", ["nothing", "shape.side", "sizes.2", "shape.radius.more", "__class__"])
def test_only_fields_are_found(path: str) -> None:
    assert not has_at(Box(), path)
    with pytest.raises(LookupError):
        get_at(Box(), path)


def test_defaults_are_those_of_the_base_or_of_an_object_that_may_be_chosen() -> None:
    defaults = {name: default_of(rule, Box(), RULES) for name, rule in RULES.items()}
    expected = {"shape": "round", "radius": 1.0, "side": 2.0, "first": 3, "both": 3, "percent": 100, "wrap": "no"}
    assert defaults == expected
    assert default_of(RULES["shape"], Box(Square(9.0)), RULES) == "square"


def test_objects_are_chosen_before_fields_are_set_and_modified_after() -> None:
    settings = {"wrap": "yes", "side": 5.0, "shape": "square", "radius": 7.0, "both": 6, "percent": 300, "count": 2}
    assert apply_settings(Box(), RULES, settings) == Box(Box(Square(5.0)), (6, 6), 2)  # type: ignore[arg-type]


def test_fields_that_the_chosen_object_lacks_must_be_zero_unless_conditional() -> None:
    assert apply_settings(Box(), RULES, {"side": 0.0}) == Box()
    with pytest.raises(InputError, match=r"`side` must be 0 here: Round has no side, got 5.0"):
        apply_settings(Box(), RULES, {"side": 5.0})


def test_errors_name_the_setting_and_not_the_field() -> None:
    rules = {"size": FieldPath(("shape.radius",))}
    with pytest.raises(InputError, match="`size` must be positive") as error:
        apply_settings(Box(), rules, {"size": -1.0})
    assert error.value.argument == "size"
    with pytest.raises(InputError, match="`size` must"), renamed_arguments(rules):
        raise InputError("radius", "be small")
    with pytest.raises(InputError, match="`other` must"), renamed_arguments(rules):
        raise InputError("other", "be small")


@given(st.dictionaries(NAMES, VALUES))
def test_what_is_written_as_toml_is_read_back(settings: dict[str, Any]) -> None:
    read = tomllib.loads("\n".join(toml_line(name, value) for name, value in settings.items()))
    assert read == settings
    assert {name: type(value) for name, value in read.items()} == {
        name: type(value) for name, value in settings.items()
    }
