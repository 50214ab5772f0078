"""What was learned before, for experiments that come back to it: the same distances below another readout."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from lggd.estimator.fit_task import FitTask, digest, inputs_of
from lggd.features.problems import Problems
from lggd.features.settings import Settings
from lggd.training.progress import History

# As many models as ten splits of four settings with three networks each.
MODELS = 120
Learned = tuple[Problems, History]


class Recollection:
    """The last models that were learned, by all that learning depends on."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._learned: OrderedDict[Any, Learned] = OrderedDict()
        self._digests = WeakIdKeyDictionary()

    def find(self, key: Any) -> Learned | None:
        """What was learned under this key, where it is still known."""
        if key in self._learned:
            self._learned.move_to_end(key)
        return self._learned.get(key)

    def keep(self, key: Any, learned: Learned) -> None:
        """Remembers it, and forgets the one that was asked for the longest time ago where there are too many."""
        self._learned[key] = learned
        while len(self._learned) > self.most:
            self._learned.popitem(last=False)

    def key(self, settings: Settings, given: FitTask) -> Any:
        """All that learning depends on; None where that cannot be told, as for modules and functions of the user's."""
        labels = given.labels
        tensors = [*inputs_of(given.data), labels.train, labels.validation]
        learning = (settings.times, settings.p, settings.potential, settings.initial, settings.horizons)
        key = (
            tuple(None if one is None else self._digest(one) for one in tensors),
            labels.num_classes,
            given.seed,
            *learning,
            settings.scheme,
            settings.optimization,
        )
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def _digest(self, tensor: Tensor) -> str:
        """That of a tensor, worked out once, until its entries change."""
        version = None if tensor.is_inference() else tensor._version
        known: tuple[int | None, str] | None = self._digests.get(tensor)  # type: ignore[no-untyped-call]
        if known is None or version is None or known[0] != version:
            known = version, digest(tensor)
            self._digests[tensor] = known
        return known[1]


_in_use: ContextVar[Recollection | None] = ContextVar("learned distances", default=None)


@contextmanager
def remembering(most: int = MODELS) -> Iterator[Recollection]:
    """Inside, distances that were learned from the same data, labels, settings and seed are not learned again.

    >>> import lggd
    >>> data, few = lggd.load("karate"), lggd.Optimization(epochs=5)
    >>> with remembering():
    ...     one = lggd.LGGD(times=(1,), optimization=few).fit(data)
    ...     other = lggd.LGGD(times=(1,), optimization=few, scale=lggd.MaxScale()).fit(data)
    >>> one._networks is other._networks
    True
    """
    token = _in_use.set(recollection := Recollection(most))
    try:
        yield recollection
    finally:
        _in_use.reset(token)


def recollection_in_use() -> Recollection | None:
    """What remembers now, if anything does."""
    return _in_use.get()
