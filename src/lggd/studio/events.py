"""Server-sent events: every open page hears of every change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any

from lggd.studio.security import RefusedError
from lggd.studio.session import Session, describe

# A comment now and then keeps connections open, and shows those that are closed.
HEARTBEAT = 15.0


class EventStreams:
    """The open streams of a service. A stream that lags keeps the newest event of each kind."""

    def __init__(self, session: Session, most: int) -> None:
        self._session, self._most = session, most
        self._streams: set[_Stream] = set()
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begins to listen; called in the event loop."""
        loop = asyncio.get_running_loop()

        def hear(kind: str, values: dict[str, Any]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._pass_on, kind, values)

        self._unsubscribe = self._session.subscribe(hear)

    def stop(self) -> None:
        """Ends all streams."""
        self._unsubscribe()
        for stream in self._streams:
            stream.ended = True
            stream.news.set()

    def _pass_on(self, kind: str, values: dict[str, Any]) -> None:
        for stream in self._streams:
            stream.put(kind, values)

    def open(self) -> AsyncIterator[str]:
        """A new stream, which begins with the present state."""
        if len(self._streams) >= self._most:
            raise RefusedError(429, "Too many pages are open.")
        stream = _Stream()
        self._streams.add(stream)
        stream.put("labels", describe(self._session.snapshot))
        return self._events(stream)

    async def _events(self, stream: _Stream) -> AsyncIterator[str]:
        try:
            yield "retry: 1000\n\n"
            while True:
                for kind, values in await stream.take():
                    yield f"event: {kind}\nid: {values['revision']}\ndata: {json.dumps(values)}\n\n"
                if stream.ended:
                    return
                yield ": still here\n\n"
        finally:
            self._streams.discard(stream)


class _Stream:
    """What one reader has not heard yet; `news` is set while there is something, or the end."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, Any]] = {}
        self.news, self.ended = asyncio.Event(), False

    def put(self, kind: str, values: dict[str, Any]) -> None:
        self._waiting[kind] = values
        self.news.set()

    async def take(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """What is waiting, or nothing after a while."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.news.wait(), HEARTBEAT)
        self.news.clear()
        waiting, self._waiting = self._waiting, {}
        return waiting.items()
