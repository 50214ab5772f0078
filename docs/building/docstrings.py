"""Docstrings as people write them, for Sphinx: |x| is an absolute value, and private members are left out."""

from __future__ import annotations

import re
from typing import Any

CODE = re.compile(r"(`[^`]*`)")


def escape_bars(line: str) -> str:
    r"""Escapes vertical bars outside of code, which reStructuredText takes for substitutions.

    >>> print(escape_bars("φ₀ = |network(x)|, as in `a | b`"))
    φ₀ = \|network(x)\|, as in `a | b`
    """
    parts = CODE.split(line)
    return "".join(part if part.startswith("`") else re.sub(r"(?<!\\)\|", r"\\|", part) for part in parts)


def _escape(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else escape_bars(line) for line in lines]


def _skip(app: Any, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    is_private_class = isinstance(obj, type) and obj.__name__.startswith("_")
    is_routing = name.startswith("set_") and name.endswith("_request")  # scikit-learn adds these
    return True if is_private_class or is_routing else None


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _escape)
    app.connect("autodoc-skip-member", _skip)
