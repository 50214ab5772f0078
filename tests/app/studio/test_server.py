"""The socket of the service: free ports, and answers that are sent at once."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from lggd.app.studio.server import listen, open_studio
from lggd.app.studio.studio_graph import StudioGraph
from lggd.errors import InputError
from support.small_data import blocks


def test_answers_are_sent_at_once() -> None:
    """With Nagle's algorithm every answer of two parts would wait some 40 ms for the first to be acknowledged."""

    async def options_of_a_connection() -> int:
        option: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            option.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = listen("127.0.0.1", 0)
        async with await asyncio.start_server(connected, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            writer.close()
            return await asyncio.wait_for(option, 10)

    assert asyncio.run(options_of_a_connection())


def test_a_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(InputError, match="--port"):
            listen("127.0.0.1", taken.getsockname()[1])


def test_a_studio_that_cannot_listen_closes_its_store(tmp_path: Path) -> None:
    data, store = blocks(labelled=4), tmp_path / "labels.sqlite"
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(InputError, match="--port"):
            open_studio(data, store, port=taken.getsockname()[1])
    StudioGraph.from_data(data).open_store(store).close()  # not locked
