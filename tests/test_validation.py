"""Checks of arguments: what they accept, and the errors they raise."""

import numpy as np
import pytest

from lggd.errors import InputError
from lggd.validation import check_int, check_name, check_real, listed, suggestion


@pytest.mark.parametrize("value", [2, np.int64(3)])
def test_whole_numbers_become_ints(value):
    assert type(check_int("n", value, minimum=2)) is int


@pytest.mark.parametrize(("value", "is_type"), [(1, False), (True, True), (2.0, True), ("2", True), (None, True)])
def test_what_is_no_whole_number_is_refused_as_a_type_and_a_small_one_as_a_value(value, is_type):
    with pytest.raises(InputError, match=f"`n` must be a whole number from 2, got {value!r}. Use two.") as refused:
        check_int("n", value, 2, "Use two.")
    assert isinstance(refused.value, TypeError) == is_type


@pytest.mark.parametrize("value", [0, 0.5, np.float32(0.25), np.int64(0)])
def test_numbers_become_floats(value):
    assert type(check_real("x", value, 0, 1, closed="left")) is float


@pytest.mark.parametrize(
    ("value", "is_type"), [(1, False), (-0.1, False), (float("nan"), False), (True, True), ("0", True), (1j, True)]
)
def test_numbers_outside_an_interval_and_other_types_are_refused(value, is_type):
    with pytest.raises(InputError, match=r"`x` must lie in \[0, 1\), got") as refused:
        check_real("x", value, 0, 1, closed="left")
    assert isinstance(refused.value, TypeError) == is_type


@pytest.mark.parametrize(("closed", "accepted"), [("both", [0, 1]), ("left", [0]), ("right", [1]), ("neither", [])])
def test_ends_of_an_interval(closed, accepted):
    for value in (0, 1):
        if value in accepted:
            check_real("x", value, 0, 1, closed=closed)
        else:
            with pytest.raises(InputError):
                check_real("x", value, 0, 1, closed=closed)


def test_names_are_suggested():
    with pytest.raises(InputError, match=r"must be one of gcn, gat, got 'GTA'\. Did you mean 'gat'\?"):
        check_name("backbone", "GTA", ("gcn", "gat"))
    assert suggestion("cats", ["dog"], "Use a dog.") == "Use a dog."


def test_of_many_names_the_first_are_listed():
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(k) for k in range(14)]).endswith("10, 11 and 2 more")
