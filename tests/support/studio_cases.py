"""Small studios for tests: a graph of three classes, its labels in a file, and a service on a free port."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lggd.app.studio import session as sessions
from lggd.app.studio.security import Access
from lggd.app.studio.server import StudioServer
from lggd.app.studio.session import Session
from lggd.app.studio.store import LabelEdit
from lggd.app.studio.studio_graph import StudioGraph
from lggd.closed_form import KernelRidge
from lggd.inputs import NodeData
from support.small_data import blocks

CLASSES = ("red", "green", "blue")
XSS = '<img src=x onerror="document.title=1">'
# The background need not leave the processor to anybody.
sessions.REST = 0.0


@cache
def fitted() -> KernelRidge:
    """A model of the small graph, so that studios have settings to start with."""
    return KernelRidge().fit(blocks(labelled=4))


def small_graph(labelled: int = 4, ids: Sequence[str] | None = None, **changes: Any) -> StudioGraph:
    """Node i has class i % 3. Of each class, the first nodes are labelled and the others held out.

    `changes` replace fields; with `model=None` a studio chooses its settings itself.
    """
    data = blocks(labelled=labelled)
    truth = data.y.numpy()
    visible = np.arange(len(truth)) // 3 < labelled
    names = [f"n{k}" for k in range(len(truth))] if ids is None else list(ids)
    settings = {
        "name": "small", "data": NodeData.read(data).to_pyg(), "ids": names, "classes": CLASSES,
        "labels": np.where(visible, truth, -1), "truth": truth, "held_out": ~visible,
    }  # fmt: skip
    if "model" not in changes:
        settings["model"] = fitted()
    return StudioGraph(**{**settings, **changes})


@contextmanager
def small_session(path: Path, graph: StudioGraph | None = None, settled: bool = True) -> Iterator[Session]:
    graph = small_graph() if graph is None else graph
    session = Session(graph, graph.open_store(path / "labels.sqlite"))
    try:
        if settled:
            settle(session)
        yield session
    finally:
        session.close()


@contextmanager
def small_studio(
    path: Path, graph: StudioGraph | None = None, access: Access | None = None, settled: bool = True
) -> Iterator[StudioServer]:
    graph = small_graph() if graph is None else graph
    session = Session(graph, graph.open_store(path / "labels.sqlite"))
    if settled:
        settle(session)
    with StudioServer(session, Access(port=0) if access is None else access) as server:
        yield server


def settle(session: Session, seconds: float = 120.0) -> None:
    """Waits until settings are chosen, the curves measured and nodes suggested."""
    wait_for(lambda: not session.snapshot.choosing and session.curve and is_measured(session), seconds)


def is_measured(session: Session) -> bool:
    return session.analysed is session.snapshot and session.curve[-1].revision == session.snapshot.revision


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def edits(**labels: str | None) -> list[LabelEdit]:
    """Edits by the names of nodes: edits(n13="red", n14=None)."""
    return [LabelEdit(int(node.removeprefix("n")), label) for node, label in labels.items()]
