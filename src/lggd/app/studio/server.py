"""Serves a studio with uvicorn: from the command line in this thread, from Python beside it."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lggd.errors import InputError, optional_package

with optional_package("lggd studio", "lggd[studio]"):
    import uvicorn

    from lggd.app.studio.app import EventStreams, build_app
    from lggd.app.studio.security import Access

from lggd.app.studio.client import Client
from lggd.app.studio.session import Session
from lggd.app.studio.studio_graph import StudioGraph

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["Access", "StudioServer", "open_studio"]
GRACE_SECONDS = 2


class StudioServer:
    """A running studio; as a context manager it is served beside the caller, and closed at the end.

    Parameters
    ----------
    session : Session
        Closed with the server.
    access : Access
        Where to listen; port 0 takes a free one.
    """

    def __init__(self, session: Session, access: Access) -> None:
        self.session = session
        self._socket = listen(access.host, access.port)
        self.access = replace(access, port=self._socket.getsockname()[1])
        self._app = build_app(session, self.access)
        config = uvicorn.Config(
            self._app, log_level="warning", access_log=False, server_header=False, proxy_headers=False,
            timeout_graceful_shutdown=GRACE_SECONDS, timeout_keep_alive=30, lifespan="on",
        )  # fmt: skip
        self._server = _Server(config, self._app.state.streams)
        self._thread: threading.Thread | None = None

    @classmethod
    def open(cls, graph: StudioGraph, store: str | Path, access: Access) -> Self:
        """A server of a graph and the file of its labels, which is closed again if the server cannot listen."""
        session = Session(graph, graph.open_store(store))
        try:
            return cls(session, access)
        except BaseException:
            session.close()
            raise

    @property
    def url(self) -> str:
        """The address for browsers of this machine."""
        host = "127.0.0.1" if self.access.host in ("0.0.0.0", "::") else self.access.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.access.port}/"

    def run(self) -> None:
        """Serves until the process is told to end."""
        try:
            self._server.run([self._socket])
        finally:
            self.session.close()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections, and closes the session."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self.session.close()


class _Server(uvicorn.Server):
    """Ends event streams first: a server that waits for them to end would wait for ever."""

    def __init__(self, config: uvicorn.Config, streams: EventStreams) -> None:
        super().__init__(config)
        self._streams = streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.ended = True
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only where the protocol is named; otherwise every response waits some 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        remedy = "Choose another with --port, or 0 for any."
        raise InputError("port", f"be free on {host}", f"{port}: {error.strerror}", remedy) from error
    return listening


studios_beside: list[StudioServer] = []


def open_studio(
    data: Data,
    store: str | Path,
    *,
    ids: list[str] | None = None,
    classes: list[str] | None = None,
    name: str | None = None,
    port: int = 0,
) -> Client:
    """Start a studio beside this process, on this machine only, and return a client of it.

    Parameters
    ----------
    data : torch_geometric.data.Data
        An undirected graph; labels are `y` where `train_mask`, and held out where `test_mask`. Without `y` it starts
        from nothing.
    store : path
        The file in which labels are saved; created if it does not exist.
    ids : list of str, optional
        Names of nodes, by default their numbers.
    classes : list of str, optional
        Names of classes, by default `data.class_names` or their numbers.
    name : str, optional
        The name that the page shows.
    port : int
        The port to listen on; 0 takes a free one.

    Returns
    -------
    Client
        Its `show()` shows the page in a notebook. The studio ends with the process.

    Examples
    --------
    >>> client = open_studio(lggd.load("karate"), "karate.sqlite")  # doctest: +SKIP
    >>> client.show()  # doctest: +SKIP
    """
    graph = StudioGraph.from_data(data, ids, classes, name)
    server = StudioServer.open(graph, store, Access(port=port))
    studios_beside.append(server.__enter__())
    return Client(server.url)
