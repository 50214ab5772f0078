"""An LRU cache, and cache keys for tensors by identity and by content."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

T = TypeVar("T")
# Cached digests of tensors, with the versions that they were computed from.
_digests = WeakIdKeyDictionary()


class Cache(Generic[T]):
    """An LRU cache of `capacity` results. A key of None is never cached; copies start empty.

    >>> cache: Cache[int] = Cache(capacity=2)
    >>> cache("two", lambda: 2), cache("two", lambda: 3)
    (2, 2)
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: OrderedDict[Hashable, T] = OrderedDict()

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the cached result of a key; on a miss, calls `make` and caches its result."""
        result = self.get(key)
        if result is None:
            result = make()
            self.put(key, result)
        return result

    def get(self, key: Hashable) -> T | None:
        if key is None or key not in self._results:
            return None
        self._results.move_to_end(key)
        return self._results[key]

    def put(self, key: Hashable, result: T) -> None:
        """Caches a result, and evicts the least recently used one beyond the capacity."""
        if key is not None:
            self._results[key] = result
        if len(self._results) > self._capacity:
            self._results.popitem(last=False)

    def clear(self) -> None:
        self._results.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._capacity,)


class _Identity:
    """Equal for the same tensor objects in the same memory, not changed in place since the key was created."""

    def __init__(self, tensors: tuple[Tensor | None, ...]) -> None:
        # References to the tensors keep their ids from being reused. Sparse tensors have no address of their own.
        self.tensors = tensors
        self.state = [
            None if x is None else (x._version, x.data_ptr() if x.layout == torch.strided else None) for x in tensors
        ]

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.tensors)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Identity)
            and [*map(id, self.tensors)] == [*map(id, other.tensors)]
            and self.state == other.state
        )


def identity_key(*tensors: Tensor | None) -> Hashable:
    """A key for these tensor objects, which any in-place change invalidates.

    None where changes cannot be detected: for inference tensors, and for tensors that are being trained.
    """
    present = [tensor for tensor in tensors if tensor is not None]
    return None if any(x.is_inference() or x.requires_grad for x in present) else _Identity(tensors)


def content_key(*tensors: Tensor | None) -> tuple[str, ...]:
    """A digest of the entries, dtype, shape, device and layout of each tensor."""
    return tuple("none" if tensor is None else _digest(tensor) for tensor in tensors)


def _digest(tensor: Tensor) -> str:
    version = None if tensor.is_inference() else tensor._version
    cached: tuple[int, str] | None = _digests.get(tensor)  # type: ignore[no-untyped-call]
    if cached is not None and version is not None and cached[0] == version:
        return cached[1]
    dense = tensor.detach().cpu()
    dense = dense if dense.layout == torch.strided else dense.to_dense()
    kind = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.device} {tensor.layout}".encode()
    digest = hashlib.blake2b(kind + dense.contiguous().numpy().tobytes(), digest_size=16).hexdigest()
    if version is not None:
        _digests[tensor] = version, digest
    return digest
