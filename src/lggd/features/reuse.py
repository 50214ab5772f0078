"""Reuse of learned distances: experiments train several readouts on the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from lggd.estimator.fit_task import input_tensors
from lggd.training.cache import Cache, content_key

if TYPE_CHECKING:
    from lggd.features.distance_problems import DistanceRequest

# Enough for ten splits of four settings with three networks each.
CAPACITY = 120
_active: ContextVar[Cache[Any] | None] = ContextVar("learned distances", default=None)


@contextmanager
def reuse_distances(capacity: int = CAPACITY) -> Iterator[Cache[Any]]:
    """Inside, distances with the same data, labels, settings and seed are learned only once.

    >>> import lggd
    >>> data, few = lggd.load("karate"), lggd.Optimization(epochs=5)
    >>> with reuse_distances():
    ...     first = lggd.LGGD(times=(1,), optimization=few).fit(data)
    ...     second = lggd.LGGD(times=(1,), optimization=few, scale=lggd.MaxScale()).fit(data)
    >>> first._problems is second._problems
    True
    """
    cache: Cache[Any] = Cache(capacity)
    token = _active.set(cache)
    try:
        yield cache
    finally:
        _active.reset(token)


def reusable(request: DistanceRequest) -> tuple[Cache[Any] | None, Any]:
    """The active cache and the key of a request; no cache where none is active or the settings cannot be compared."""
    cache = _active.get()
    if cache is None:
        return None, None
    model, labels = request.model, request.labels
    tensors = [*input_tensors(request.task.data), labels.train, labels.validation]
    settings = (model.p, model.potential, model.initial, model.per_time, model.scheme, model.optimization)
    key = (content_key(*tensors), labels.num_classes, request.seed, request.times, *settings)
    try:
        hash(key)
    except TypeError:  # a user's tensor or function
        return None, None
    return cache, key
