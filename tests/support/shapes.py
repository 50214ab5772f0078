"""Shapes in annotations, such as `Float[Tensor, "n k"]`, checked at each call while tests run.

The library only writes them down: it never imports jaxtyping. A call is checked after it returned, so that bad input
meets the library's own errors. n and e are the nodes and edges of the graph among the arguments.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import jaxtyping
import torch
from beartype.door import is_bearable

from lggd.graph import Graph
from lggd.graph.csr import CSR

MODULES = (
    "graph.csr", "graph.graph", "equation", "_kernels", "solvers.adjoint", "solvers.cauchy", "solvers.dijkstra",
    "solvers.eikonal_problem", "solvers.evolution", "results", "distances",
)  # fmt: skip
NAMES = {name: getattr(jaxtyping, name) for name in ("Bool", "Float", "Float64", "Int", "Int64", "Shaped")}
SIZES = jaxtyping.Shaped[torch.Tensor, "n e"]


@functools.cache
def _of_size(nodes: int, edges: int) -> torch.Tensor:
    """A tensor without memory, whose check binds n and e."""
    return torch.empty(nodes, edges, device="meta")


class ShapeError(AssertionError):
    """A tensor does not have the shape or the type of its annotation."""


def check_shapes() -> int:
    """Checks the annotated functions and methods of `MODULES` from now on; returns their number."""
    loaded = [importlib.import_module(f"lggd.{name}") for name in MODULES]
    replaced: dict[int, Callable[..., Any]] = {}
    for module in loaded:
        for owner, name, function in _functions(module):
            if "Tensor, " not in str(inspect.get_annotations(function)):
                continue
            wrapped = replaced[id(function)] = checked(function, vars(module))
            setattr(owner, name, _like(vars(owner)[name], wrapped))
    for module in [module for name, module in sys.modules.items() if name.split(".")[0] == "lggd"]:
        for name, value in list(vars(module).items()):
            if id(value) in replaced:
                setattr(module, name, replaced[id(value)])
    return len(replaced)


def _functions(module: ModuleType) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Functions and methods that a module defines, with their owner and their name there."""
    for owner in (module, *(value for value in vars(module).values() if inspect.isclass(value))):
        if getattr(owner, "__module__", module.__name__) != module.__name__:
            continue
        for name, value in list(vars(owner).items()):
            function = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                yield owner, name, function


def _like(attribute: Any, function: Callable[..., Any]) -> Any:
    """The function as the property, class method or plain method that the attribute was."""
    if isinstance(attribute, property | classmethod | staticmethod):
        return type(attribute)(function)
    if isinstance(attribute, functools.cached_property):
        again = functools.cached_property(function)
        again.attrname = attribute.attrname
        return again
    return function


def checked(function: Callable[..., Any], namespace: dict[str, Any]) -> Callable[..., Any]:
    """The function, whose arguments and result must match those annotations that have a shape."""
    shaped = {name: text for name, text in inspect.get_annotations(function).items() if "Tensor, " in str(text)}
    hints = {name: eval(text, {**namespace, **NAMES}) for name, text in shaped.items()}
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        values = {**dict(zip(names, args, strict=False)), **kwargs, "return": result}
        with jaxtyping.jaxtyped("context"):
            for value in args[:2]:
                holder = getattr(value, "graph", None) or getattr(value, "__dict__", {}).get("csr", value)
                if isinstance(holder, Graph | CSR):
                    is_bearable(_of_size(holder.num_nodes, holder.num_edges), SIZES)
            for name, hint in hints.items():
                if name in values and not is_bearable(values[name], hint):
                    value = values[name]
                    got = f"{value.dtype} {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value)
                    raise ShapeError(f"{function.__qualname__}: {name} must be {shaped[name]}, got {got}")
        return result

    return call
