"""Settings shared by all tests: hypothesis draws the same examples every time and is never timed."""

import gc
import os
import sys
from collections.abc import Iterator

import numba
import pytest
import torch
from hypothesis import settings

from support import shapes

if not torch.cuda.is_available():
    # Must be said before Triton's kernels are first imported: they then run on the CPU, slowly, to be tested.
    os.environ.setdefault("TRITON_INTERPRET", "1")
settings.register_profile("lggd", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("lggd")
shapes.check_shapes()  # before tests import the functions that are checked


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Graphs of ten nodes are not worth waking a second thread for, least of all when tests run side by side."""
    numba.set_num_threads(1)
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def frozen() -> Iterator[list[int]]:
    """The number of modules whose objects are frozen; at the end all may be collected again, or packages complain."""
    yield [0]
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _freeze(frozen: list[int]) -> None:
    """Collecting garbage, as comparisons do around every fit, does not look at modules: that takes seconds."""
    if len(sys.modules) > frozen[-1] + 100:
        gc.collect()
        gc.freeze()
        frozen.append(len(sys.modules))


@pytest.fixture
def all_threads() -> Iterator[None]:
    """For tests of what more than one thread could spoil."""
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    yield
    numba.set_num_threads(1)


@pytest.fixture
def fewer_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the code of pages and examples: the first handwritten digits stand for all 1,797."""
    from support import few_digits

    monkeypatch.setattr("sklearn.datasets.load_digits", few_digits.load_digits)
