"""Server-sent events, which announce every change to every open page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress

from lggd.app.studio.security import RefusedError
from lggd.app.studio.session import Event, Session, describe

# A comment now and then keeps connections open, and shows those that are closed.
HEARTBEAT = 15.0


class EventStreams:
    """The open streams of a service. A stream that lags keeps the newest event of each kind."""

    def __init__(self, session: Session, max_streams: int) -> None:
        self._session, self._max_streams = session, max_streams
        self._streams: set[_Stream] = set()
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Subscribes to the session; called in the event loop."""
        loop = asyncio.get_running_loop()

        def forward(kind: str, values: Event) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._broadcast, kind, values)

        self._unsubscribe = self._session.subscribe(forward)

    def stop(self) -> None:
        """Ends all streams."""
        self._unsubscribe()
        for stream in self._streams:
            stream.ended = True
            stream.ready.set()

    def _broadcast(self, kind: str, values: Event) -> None:
        for stream in self._streams:
            stream.put(kind, values)

    def open(self) -> AsyncGenerator[str, None]:
        """A new stream, which begins with the present state."""
        if len(self._streams) >= self._max_streams:
            raise RefusedError(429, "Too many pages are open.")
        return self._events()

    async def _events(self) -> AsyncGenerator[str, None]:
        # The first time that it is asked for an event: a page that has gone before must not count as open.
        stream = _Stream()
        stream.put("labels", describe(self._session.snapshot))
        self._streams.add(stream)
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
    """The events that one page has not received yet; `ready` is set while there are any, and at the end."""

    def __init__(self) -> None:
        self._pending: dict[str, Event] = {}
        self.ready, self.ended = asyncio.Event(), False

    def put(self, kind: str, values: Event) -> None:
        self._pending[kind] = values
        self.ready.set()

    async def take(self) -> Iterable[tuple[str, Event]]:
        """The pending events, or none after a while."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.ready.wait(), HEARTBEAT)
        self.ready.clear()
        pending, self._pending = self._pending, {}
        return pending.items()
