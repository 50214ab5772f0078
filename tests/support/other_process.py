"""Other processes that hold a lock or a claim on work, for tests of how processes share them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.processes import Forked, start

HOLD = """
import sys
from lggd._system.files import locked_folder
with locked_folder(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""
CLAIM = """
import sys
from reproduction.jobs import Claims
with Claims(sys.argv[1]).on(sys.argv[2], wait=True):
    print("claimed", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def claimed_elsewhere(folder: Path, name: str) -> Iterator[Forked]:
    """Another process that holds a claim until it reads a line, or dies."""
    with start(folder, name, code=CLAIM) as other:
        assert other.stdout.readline() == "claimed\n"
        try:
            yield other
        finally:
            other.kill()


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[Forked]:
    """Another process that holds the lock of a folder until it reads a line, or dies."""
    with start(folder, code=HOLD) as other:
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.kill()
