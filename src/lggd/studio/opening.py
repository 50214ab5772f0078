"""Starts a studio from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from lggd.errors import InputError
from lggd.estimator.inputs import check_data, without_labels
from lggd.studio.client import Client
from lggd.studio.security import Access
from lggd.studio.server import StudioServer
from lggd.studio.session import Session
from lggd.studio.studio_graph import StudioGraph
from lggd.validation import check_same_length

_running: list[StudioServer] = []


def open_studio(
    data: Any,
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
        The file where labels live; created where there is none.
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
    graph = _read(data, ids, classes, name)
    server = StudioServer(Session(graph, graph.open_store(store)), Access(port=port))
    _running.append(server.__enter__())
    return Client(server.url)


def _read(data: Any, ids: list[str] | None, classes: list[str] | None, name: str | None) -> StudioGraph:
    check_data(data)
    count, y = data.num_nodes, getattr(data, "y", None)
    truth = y.numpy().astype(np.int64) if isinstance(y, Tensor) else np.full(count, -1, np.int64)
    known = getattr(data, "class_names", None) or [str(k) for k in range(int(truth.max(initial=-1)) + 1)]
    names = list(known if classes is None else classes)
    if len(names) <= truth.max(initial=-1):
        raise InputError("classes", f"name at least {truth.max() + 1} classes", len(names))
    nodes = [str(k) for k in range(count)] if ids is None else list(ids)
    check_same_length("ids", nodes, count, "node")
    train, test = (getattr(data, mask, None) for mask in ("train_mask", "test_mask"))
    visible = (truth >= 0) & (train.numpy() if isinstance(train, Tensor) else True)
    held_out = (truth >= 0) & test.numpy() & ~visible if isinstance(test, Tensor) else np.zeros(count, bool)
    labels = np.where(visible, truth, -1)
    shown = name or getattr(data, "name", None) or "graph"
    return StudioGraph(str(shown), without_labels(data), nodes, tuple(names), labels, truth, held_out)
