"""The files of pages: scripts, which are ES modules, and style sheets. The report embeds them, a server sends them."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

# Modules import each other by `import { a, b } from "./name.js";`, one statement per line.
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=class |const |function |async )", re.MULTILINE)


@cache
def page_file(name: str) -> str:
    """Returns the text of a file of `lggd/report/page`."""
    return (files("lggd.report") / "page" / name).read_text(encoding="utf-8")


def module_names(entry: str) -> list[str]:
    """Returns the modules that `entry` needs, itself last: a module comes after those it imports.

    >>> module_names("map_view.js")
    ['map_view.js']
    >>> module_names("charts.js")
    ['dom.js', 'charts.js']
    """
    found: list[str] = []

    def visit(name: str) -> None:
        for imported in IMPORT.findall(page_file(name)):
            if imported not in found:
                visit(imported)
        found.append(name)

    visit(entry)
    return found


@cache
def inline_script(entry: str) -> str:
    """Returns `entry` and the modules that it needs as the text of one module, without imports and exports.

    All share one scope; a browser rejects a name that is defined twice.
    """
    return "\n".join(EXPORT.sub("", IMPORT.sub("", page_file(name))) for name in module_names(entry))


def script_hash(script: str) -> str:
    """Returns the hash of an embedded script for a content security policy."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
