"""Fixtures of the tests on learning."""

import pytest

from lggd.learning import stacked_mlps
from small_data import blocks


@pytest.fixture(params=[0, 2**62], ids=["in turn", "at once"])
def turns(request, monkeypatch):
    """Networks one after the other, as large ones are evaluated, and all at once, as small ones are."""
    monkeypatch.setattr(stacked_mlps, "SEQUENTIAL_FROM", request.param)


@pytest.fixture(scope="module")
def data():
    return blocks(each=8)
