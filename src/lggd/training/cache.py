"""A cache of the most recently used results, and keys for tensors by identity and by content."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

T = TypeVar("T")
# Digests of tensors that were digested before, with the version of their entries.
_digests = WeakIdKeyDictionary()


class Cache(Generic[T]):
    """Keeps the `capacity` most recently used results. A key of None is never cached; copies start empty.

    >>> cache: Cache[int] = Cache(capacity=2)
    >>> cache("two", lambda: 2), cache("two", lambda: 3)
    (2, 2)
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: OrderedDict[Hashable, T] = OrderedDict()

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the result of this key; calls `make` where there is none."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def get(self, key: Hashable) -> T | None:
        """The result of this key; None where there is none."""
        if key is None or key not in self._results:
            return None
        self._results.move_to_end(key)
        return self._results[key]

    def put(self, key: Hashable, result: T) -> None:
        """Keeps a result, and drops the least recently used one where there are too many."""
        if key is None:
            return
        self._results[key] = result
        while len(self._results) > self._capacity:
            self._results.popitem(last=False)

    def clear(self) -> None:
        """Drops all results."""
        self._results.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._capacity,)


class _Identity:
    """Tensors as they were when the key was made: the same objects, in the same memory, not changed in place since."""

    def __init__(self, tensors: tuple[Tensor | None, ...]) -> None:
        # Holding the tensors keeps their identity from being used again.
        self.tensors = tensors
        self.state = [None if one is None else (one._version, _address(one)) for one in tensors]

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.tensors)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Identity)
            and len(self.tensors) == len(other.tensors)
            and all(mine is its for mine, its in zip(self.tensors, other.tensors, strict=True))
            and self.state == other.state
        )


def identity_key(*tensors: Tensor | None) -> Hashable:
    """A key for these very tensors, which any change in place makes another one.

    None where they cannot be told apart over time: tensors of inference mode, and those that are being trained.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    if any(tensor.is_inference() or tensor.requires_grad for tensor in given):
        return None
    return _Identity(tensors)


def _address(tensor: Tensor) -> int | None:
    # Sparse tensors have no address of their own.
    return tensor.data_ptr() if tensor.layout == torch.strided else None


def content_key(*tensors: Tensor | None) -> tuple[str, ...]:
    """A digest of the entries, dtype, shape, device and layout of each tensor."""
    return tuple("none" if tensor is None else _digest(tensor) for tensor in tensors)


def _digest(tensor: Tensor) -> str:
    version = None if tensor.is_inference() else tensor._version
    known: tuple[int, str] | None = _digests.get(tensor)  # type: ignore[no-untyped-call]
    if known is not None and version is not None and known[0] == version:
        return known[1]
    plain = tensor.detach().cpu()
    plain = plain if plain.layout == torch.strided else plain.to_dense()
    kind = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.device} {tensor.layout}".encode()
    digest = hashlib.blake2b(kind + plain.contiguous().numpy().tobytes(), digest_size=16).hexdigest()
    if version is not None:
        _digests[tensor] = version, digest
    return digest
