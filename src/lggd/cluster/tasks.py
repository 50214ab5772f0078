"""Independent pieces of work on the nodes of a cluster: trials of a search, fits of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lggd.cluster.connection import alive_nodes, check_nodes, import_ray

# How often a piece of work is done again when its worker is lost.
RETRIES = 3


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
