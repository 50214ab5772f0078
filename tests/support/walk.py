"""Counts the modules that a command walks through: those of `lggd` in which some function runs.

`python tests/support/walk.py run digits --out DIR` prints them in the order in which they are first entered.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any


class Walk:
    """Records the modules of the package that run between `__enter__` and `__exit__`, in order of first entry."""

    def __init__(self, package: Path) -> None:
        self.package, self.modules = package, list[str]()
        self._known: dict[str, str | None] = {}

    def __enter__(self) -> Walk:
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _enter(self, frame: FrameType, event: str, argument: Any) -> None:
        # The bodies of modules and classes run on import; only functions count.
        if event != "call" or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return
        file = frame.f_code.co_filename
        if file not in self._known:
            self._known[file] = self._module(Path(file))
        name = self._known[file]
        if name is not None and name not in self.modules:
            self.modules.append(name)

    def _module(self, path: Path) -> str | None:
        if not path.is_relative_to(self.package):
            return None
        parts = (self.package.name, *path.relative_to(self.package).with_suffix("").parts)
        return ".".join(part for part in parts if part != "__init__")


def walk(arguments: list[str]) -> list[str]:
    """Returns the modules that a command enters."""
    import lggd
    from lggd.app.cli import app

    for module in pkgutil.walk_packages(lggd.__path__, "lggd."):
        if module.name != "lggd.__main__":
            importlib.import_module(module.name)  # decorators that run on import are no part of the walk
    with Walk(Path(lggd.__file__).parent) as taken:
        app(arguments, standalone_mode=False)
    return taken.modules


if __name__ == "__main__":
    modules = walk(sys.argv[1:])
    rooms = [module.split(".")[1] if "." in module else module for module in modules]
    sys.stdout.write("\n".join(modules))
    sys.stdout.write(f"\n{len(modules)} modules of {len(set(rooms))} rooms\n")
