"""Fixtures of the tests on learning."""

import pytest

from distance_cases import turns  # noqa: F401 (a fixture)
from small_data import blocks


@pytest.fixture(scope="module")
def data():
    return blocks(each=8)
