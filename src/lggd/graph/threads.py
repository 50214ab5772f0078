"""Threads for compiled loops: small amounts of work are faster on a single thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Result = TypeVar("Result")

# Multiplications below which waking a second thread takes longer than the work itself.
MIN_PARALLEL_WORK = 50_000


def on_threads_that_pay(work: int, loop: Callable[..., Result], *arguments: Any) -> Result:
    """Calls `loop(*arguments)`, which does `work` multiplications, on one thread where that is faster."""
    threads = numba.get_num_threads()
    if threads == 1 or work >= MIN_PARALLEL_WORK:
        return loop(*arguments)
    numba.set_num_threads(1)
    try:
        return loop(*arguments)
    finally:
        numba.set_num_threads(threads)
