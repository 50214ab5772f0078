"""The reproduction stands on the library, not the other way round, and hardly on what is private there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Results kept for equal inputs; memory given back, and errors of writing, between jobs.
PRIVATE = {"baselines/gaug.py": {"lggd._system.memory"}, "jobs.py": {"lggd._system.memory", "lggd._system.files"}}


def imports(folder: Path) -> Iterator[tuple[str, str]]:
    """The file and the module of every import in a folder."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            yield from ((path.relative_to(folder).as_posix(), name) for name in names)


def test_the_library_does_not_import_it() -> None:
    modules = {name for _, name in imports(ROOT / "src/lggd")}
    assert "lggd.errors" in modules
    assert not any(name.split(".")[0] == "reproduction" for name in modules)


def test_it_imports_hardly_anything_private() -> None:
    private: dict[str, set[str]] = {}
    for file, name in imports(ROOT / "reproduction"):
        if name.startswith("lggd.") and "._" in name:
            private.setdefault(file, set()).add(name)
    assert private == PRIVATE
