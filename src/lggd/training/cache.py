"""A cache of the most recently used results, and keys for tensors by identity and by content."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class Cache(Generic[T]):
    """Keeps the `capacity` most recently used results. A key of None is never cached.

    >>> cache: Cache[int] = Cache(capacity=2)
    >>> cache("two", lambda: 2), cache("two", lambda: 3)
    (2, 2)
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: OrderedDict[Hashable, T] = OrderedDict()

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the result of this key; calls `make` where there is none."""
        if key is None:
            return make()
        if key not in self._results:
            self._results[key] = make()
        self._results.move_to_end(key)
        result = self._results[key]
        while len(self._results) > self._capacity:
            self._results.popitem(last=False)
        return result

    def clear(self) -> None:
        """Drops all results."""
        self._results.clear()


def content_key(*tensors: Tensor | None) -> tuple[str, ...]:
    """A digest of the entries, dtype, shape, device and layout of each tensor."""
    return tuple("none" if tensor is None else _digest(tensor) for tensor in tensors)


def _digest(tensor: Tensor) -> str:
    plain = tensor.detach().cpu()
    plain = plain if plain.layout == torch.strided else plain.to_dense()
    kind = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.device} {tensor.layout}".encode()
    return hashlib.blake2b(kind + plain.contiguous().numpy().tobytes(), digest_size=16).hexdigest()
