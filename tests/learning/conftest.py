"""Fixtures of the tests on learning."""

import pytest

from support.distance_cases import turns  # noqa: F401 (a fixture)
from support.small_data import blocks


@pytest.fixture(scope="module")
def data():
    return blocks(each=8)
