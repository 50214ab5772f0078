"""The site has every public name, and its builders' examples run; Sphinx itself checks links and names: `make docs`."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from support.public_names import public_modules

DOCS = Path(__file__).parents[2] / "docs"


def test_every_public_module_is_listed() -> None:
    """Autosummary lists what is in their `__all__`."""
    listed = set(re.findall(r"^   (lggd[\w.]*)$", (DOCS / "api.md").read_text(), re.M))
    assert {"lggd", "lggd.errors"} | set(public_modules().values()) == listed


@pytest.mark.parametrize("name", ["docstrings", "mathml"])
def test_examples_of_the_builders_run(name: str) -> None:
    if name == "mathml":
        pytest.importorskip("sphinx", reason="the site is not installed: make docs")
    assert doctest.testmod(importlib.import_module(f"building.{name}")).failed == 0
