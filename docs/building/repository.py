"""Pages of the repository outside docs/, such as results/REPORT.md, as pages of the site; links between both."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
COPIES = DOCS / "generated" / "repository"
# [text](target "title") and ![text](target): the target; not inside of code.
LINK = re.compile(r"(?P<code>```.*?```|`[^`\n]*`)|(?P<before>\]\()(?P<target>[^)\s]+)", re.S)


def pages() -> list[Path]:
    """Returns the Markdown pages of the repository that the site contains as copies."""
    return sorted({*ROOT.glob("*.md"), *ROOT.glob("results/*.md")} - {ROOT / "README.md"})


def change_links(text: str, change: Callable[[str], str]) -> str:
    """Changes the targets of the links of a Markdown text.

    >>> change_links("[a](b.md#c) and `[a](b)`", str.upper)
    '[a](B.MD#C) and `[a](b)`'
    """
    return LINK.sub(lambda m: m["code"] or f"{m['before']}{change(m['target'])}", text)


def on_the_site(target: str, source: Path, written: Path) -> str:
    """Returns the target of a link in `source`, as seen from the page `written` of the site.

    >>> on_the_site("../results/REPORT.md#table-1", DOCS / "choosing.md", DOCS / "choosing.md")
    'generated/repository/results/REPORT.md#table-1'
    >>> on_the_site("docs/studio.md", ROOT / "CHANGELOG.md", COPIES / "CHANGELOG.md")
    '../../studio.md'
    """
    path, anchor = (*target.split("#", 1), "")[:2]
    if not path or ":" in path or path.startswith("/"):
        return target
    found = Path(os.path.normpath(source.parent / path))
    if found == ROOT / "README.md":
        found = DOCS / "index.md"
    elif found == ROOT / "examples":
        found = DOCS / "gallery" / "index.rst"
    elif found in pages():
        found = COPIES / found.relative_to(ROOT)
    return os.path.relpath(found, written.parent) + (f"#{anchor}" if anchor else "")


def write(folder: Path) -> None:
    """Writes the copies, with links that work from there."""
    for page in pages():
        copy = folder / page.relative_to(ROOT)
        text = page.read_text(encoding="utf-8")
        write_if_changed(copy, change_links(text, lambda target, page=page, copy=copy: on_the_site(target, page, copy)))


def write_if_changed(path: Path, text: str) -> None:
    """Writes a file unless it has this text already: Sphinx reads again only what has changed."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _read_source(app: Any, name: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(name))
    if page.parent == DOCS and page.suffix == ".md":
        source[0] = change_links(source[0], lambda target: on_the_site(target, page, page))


def setup(app: Any) -> None:
    app.connect("source-read", _read_source)
