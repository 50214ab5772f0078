"""TOML files: what is written is read back, and folders are checked."""

from __future__ import annotations

import string
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lggd.comparison.configs import configs_folder, toml_line
from lggd.errors import InputFileError

NAMES = st.text(string.ascii_letters + '_-. é"\\', min_size=1)
VALUES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()


@given(st.dictionaries(NAMES, VALUES))
def test_what_is_written_as_toml_is_read_back(settings: dict[str, Any]) -> None:
    read = tomllib.loads("\n".join(toml_line(name, value) for name, value in settings.items()))
    assert read == settings
    assert {name: type(value) for name, value in read.items()} == {
        name: type(value) for name, value in settings.items()
    }


def test_a_folder_without_methods_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="rows/"):
        configs_folder(tmp_path)
