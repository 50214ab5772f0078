"""The connection to a Ray cluster, whether its nodes can work on a graph, and independent tasks on them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from lggd.errors import InputError, InputFileError, optional_package
from lggd.graph.stored_graph import MANIFEST

# Seconds to wait for the head of a cluster to answer.
PATIENCE = 5.0
# A server that speaks HTTP/2, as Ray's does, answers this greeting with its settings, a frame of type 4.
GREETING, SETTINGS, FRAME_TYPE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 4, 3
# Ray prints errors of results that nobody asks for any more, as those after a lost node. It need not report its use.
QUIET = {"RAY_IGNORE_UNHANDLED_ERRORS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
START = "Start one with `ray start --head`, check the address, or omit it to use this machine alone."

# How often a task is done again when its worker is lost.
RETRIES = 3


def import_ray() -> Any:
    """The package Ray."""
    with optional_package("lggd.cluster", "lggd[cluster]"):
        return import_module("ray")


@contextmanager
def connect(address: str | None = None) -> Iterator[None]:
    """Connects to a Ray cluster for the duration of a `with` block.

    Parameters
    ----------
    address : str, optional
        That of the head of the cluster, as HOST:PORT; or "auto" for the one that this machine belongs to. None starts
        a cluster of this machine alone and stops it at the end.

    Raises
    ------
    InputError
        If there is no cluster at this address, or it runs another version of Ray.

    Examples
    --------
    >>> import lggd
    >>> with lggd.cluster.connect("localhost:1"):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    ...
    lggd.errors.InputError: `address` must be that of a Ray cluster, but nothing answers at localhost:1. ...
    """
    if address not in (None, "auto"):
        _check_address(str(address))
    ray = import_ray()
    if ray.is_initialized():
        remedy = "Leave the other `with connect(...)` block first, or call ray.shutdown()."
        raise InputError("address", "be connected to once", but="this process is connected already", remedy=remedy)
    before = {name: os.environ.get(name) for name in QUIET}
    os.environ.update({name: value for name, value in QUIET.items() if before[name] is None})
    try:
        options = {"include_dashboard": False} if address is None else {}
        try:
            ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            clause = " ".join(str(error).split())[:300]
            raise InputError("address", "be that of a Ray cluster", but=f"{clause}", remedy=START) from error
        yield
    finally:
        ray.shutdown()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


def _check_address(address: str) -> None:
    """Raises where nothing answers, or something other than Ray: it would try for minutes by itself."""
    if address.startswith("ray://"):
        remedy = "Run this on a node of the cluster, for example by `ray job submit`, with --cluster auto."
        raise InputError("address", "be HOST:PORT or auto", address, remedy)
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise InputError("address", "be HOST:PORT or auto", address, "Ray's port is 6379 unless you chose another.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PATIENCE) as connection:
            connection.settimeout(PATIENCE)
            connection.sendall(GREETING)
            answer = connection.recv(FRAME_TYPE + 1)
    except OSError as error:
        clause = f"nothing answers at {address}"
        raise InputError("address", "be that of a Ray cluster", but=clause, remedy=START) from error
    if len(answer) <= FRAME_TYPE or answer[FRAME_TYPE] != SETTINGS:
        clause = f"something else answers at {address}"
        raise InputError("address", "be that of a Ray cluster", but=clause, remedy=START)


@dataclass(frozen=True)
class ClusterNode:
    """A node of the cluster that can compute."""

    id: str
    cpus: int


def alive_nodes() -> list[ClusterNode]:
    """The nodes that are alive and have CPUs."""
    ray = import_ray()
    if not ray.is_initialized():
        remedy = "Use `with lggd.cluster.connect(address):` around it."
        raise InputError("lggd.cluster", "be connected to a cluster", "no connection", remedy)
    cpus = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]}
    alive = [ClusterNode(name, count) for name, count in sorted(cpus.items()) if count]
    if not alive:
        raise InputError("address", "be that of a cluster with CPUs", "none", "Add a node with `ray start --address`.")
    return alive


def check_nodes(nodes: Sequence[ClusterNode], folder: Path | None = None) -> None:
    """Raises unless every node has this version of lggd, and the same graph at the same path."""
    ray = import_ray()

    def describe(path: str | None) -> dict[str, Any]:
        # Sent by value, so that it runs where lggd is missing or old; hence it imports what it needs.
        import hashlib
        import importlib.metadata
        import socket
        from pathlib import Path

        facts: dict[str, Any] = {"host": socket.gethostname(), "lggd": None, "format": None, "manifest": None}
        try:
            facts["lggd"] = importlib.metadata.version("lggd")
            from lggd.graph.stored_graph import VERSION

            facts["format"] = VERSION
        except ImportError:  # that of the version included
            pass
        if path is not None and Path(path).is_file():
            facts["manifest"] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return facts

    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task, path = ray.remote(describe), None if folder is None else str(folder / MANIFEST)
    places = [NodeAffinitySchedulingStrategy(node.id, soft=False) for node in nodes]
    answers = [task.options(num_cpus=0, scheduling_strategy=place).remote(path) for place in places]
    for answer in ray.get(answers):
        check_answer(answer, describe(path), folder)


def check_answer(facts: Mapping[str, Any], expected: Mapping[str, Any], folder: Path | None) -> None:
    """Raises unless the facts about a node are those that this process expects."""
    where = f"the node {facts['host']}"
    if facts["lggd"] != expected["lggd"]:
        value = "no lggd" if facts["lggd"] is None else f"lggd {facts['lggd']}"
        remedy = "Install the same version on all nodes, for example by `setup_commands` of `ray up`."
        raise InputError(where, f"have lggd {expected['lggd']}", value, remedy)
    if facts["format"] != expected["format"]:
        remedy = "Install the same version of lggd on all nodes."
        raise InputError(where, f"read graphs of format {expected['format']}", facts["format"], remedy)
    if folder is None:
        return
    remedy = "Put it on a disk that all nodes share, or copy it to the same path on every node."
    if facts["manifest"] is None:
        raise InputFileError(str(folder), f"be the folder of the graph on {where}", but="there is none", remedy=remedy)
    if facts["manifest"] != expected["manifest"]:
        clause = f"that on {where} has another checksum"
        raise InputFileError(str(folder), "be the same graph on all nodes", but=clause, remedy=remedy)


def run_tasks(function: Callable[..., Any], shared: Any, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Calls `function(shared, number)` on the cluster for each number; yields numbers and results as they arrive.

    A call that raises yields its exception. `shared` is sent to every node once.
    """
    ray = import_ray()
    check_nodes(alive_nodes())
    common, task = ray.put(shared), _remote(ray, function)
    waiting = {task.remote(common, number): number for number in numbers}
    try:
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(done[0]), _result(ray, done[0])
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)


def run_task(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call on the cluster; what it raises is raised here."""
    ray = import_ray()
    result = _result(ray, _remote(ray, function).remote(*arguments))
    if isinstance(result, Exception):
        raise result
    return result


def _remote(ray: Any, function: Callable[..., Any]) -> Any:
    def call(*arguments: Any) -> Any:  # Ray takes functions only, no methods or partial ones
        return function(*arguments)

    return ray.remote(call).options(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return error.cause if isinstance(error.cause, Exception) else error
    except ray.exceptions.RayError as error:
        return error
