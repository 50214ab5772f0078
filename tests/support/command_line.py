"""Runs the command line as a user would, and reads its output."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lggd
from lggd.app.cli import app

ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
SOURCE = os.pathsep.join((str(Path(lggd.__file__).parents[1]), str(Path(__file__).parents[2])))


def command(*arguments: object, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=env)


def answer(*arguments: object) -> dict[str, Any]:
    """Returns the result on stdout, which must be one JSON object without NaN or Infinity."""
    result = command(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert isinstance(found, dict)
    return found


def refused(*arguments: object) -> str:
    """Returns the one line on stderr of a command that must exit with code 2 and print nothing to stdout."""
    result = command(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    return str(result.stderr)


def program(*arguments: object) -> list[str]:
    """Returns the command line of a new process."""
    return [sys.executable, "-m", "lggd", *map(str, arguments)]


def environment(**changes: str) -> dict[str, str]:
    """Returns the environment of a new process: this source, one thread."""
    return {**os.environ, "PYTHONPATH": SOURCE, **ONE_THREAD, **changes}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def files_of(folder: Path) -> dict[str, bytes]:
    """Returns the contents of all files by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
