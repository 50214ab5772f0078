"""Other processes that hold a claim on work, for tests of how processes share it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.processes import Forked, start

HOLD = """
import sys
from lggd.app.comparison.results import Claims
with Claims(sys.argv[1]).on(sys.argv[2], wait=True):
    print("claimed", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def claimed_elsewhere(folder: Path, name: str) -> Iterator[Forked]:
    """Another process that holds a claim until it reads a line, or dies."""
    with start(folder, name, code=HOLD) as other:
        assert other.stdout.readline() == "claimed\n"
        try:
            yield other
        finally:
            other.kill()
