"""The names of `lggd` as type checkers read them."""

import ast
from pathlib import Path

import lggd


def names_of_type_checkers() -> dict[str, str]:
    """Each public name, with the module that it is imported from."""
    tree = ast.parse(Path(lggd.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports for alias in node.names if node.module}


def public_modules() -> dict[str, str]:
    """The modules among them, by name: `studio` is `lggd.app.studio`."""
    return {name: f"{module}.{name}" for name, module in names_of_type_checkers().items() if name not in lggd.__all__}
