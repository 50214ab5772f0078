"""How many threads compiled loops run on: small work is done sooner by the calling thread alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Result = TypeVar("Result")

# Multiplications below which waking a second thread takes longer than the work itself.
WORTH_A_SECOND_THREAD = 50_000


def on_threads_that_pay(work: int, loop: Callable[..., Result], *given: Any) -> Result:
    """`loop(*given)`, which takes so many multiplications; small ones never wait for another thread."""
    threads = numba.get_num_threads()
    if threads == 1 or work >= WORTH_A_SECOND_THREAD:
        return loop(*given)
    numba.set_num_threads(1)
    try:
        return loop(*given)
    finally:
        numba.set_num_threads(threads)
