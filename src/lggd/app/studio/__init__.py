"""The label studio: label nodes in a browser while the predictions of the whole graph follow.

`lggd studio` on the command line starts one. `Client` talks to it from Python; `open_studio` starts one from Python.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lggd.app.studio.client import Client, StudioError
    from lggd.app.studio.server import open_studio

# The client needs the standard library alone; the service needs the extra `studio`.
_MODULE_OF = {"Client": "client", "StudioError": "client", "open_studio": "server"}
__all__ = ["Client", "StudioError", "open_studio"]


def __getattr__(name: str) -> Any:
    """Imports a public name on first use (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'lggd.app.studio' has no attribute {name!r}")
    return getattr(import_module(f"lggd.app.studio.{_MODULE_OF[name]}"), name)
