"""Checks links without a network: of built HTML pages, and of Markdown pages as they lie in the repository.

`python docs/building/links.py docs/_build/html` checks both and prints what leads nowhere; then it exits with 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"```.*?```|~~~.*?~~~|`[^`\n]*`", re.S)
TARGET = re.compile(r"\]\(([^)\s]+)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.M)
# What the build of the site makes; a link to it cannot be followed before.
GENERATED = ("docs/generated/", "docs/gallery/")


class Page(HTMLParser):
    """The anchors of an HTML page, its links, and what it loads by itself."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attributes if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if "href" in found:
            is_loaded = tag == "link" and found.get("rel") not in (
                "canonical",
                "index",
                "search",
                "next",
                "prev",
                "author",
            )
            (self.loaded if is_loaded else self.links).append(found["href"])
        if "src" in found:
            self.loaded.append(found["src"])


def broken_links(site: Path) -> list[str]:
    """Returns the dead links of a built site, and anything that a page loads from elsewhere."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    problems = []
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        problems += [f"{where}: loads {link}" for link in page.loaded if urlsplit(link).netloc]
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                problems.append(f"{where}: {link} is missing")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                problems.append(f"{where}: {link} has no such anchor")
    return problems


def slug(heading: str) -> str:
    """Returns the anchor of a heading, as GitHub and the site make it.

    >>> slug("`lggd run digits`: what next?")
    'lggd-run-digits-what-next'
    """
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def markdown_pages() -> list[Path]:
    """Returns the Markdown pages of the repository that people read."""
    return sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("results/*.md")})


def broken_markdown_links(pages: Iterable[Path], root: Path = ROOT) -> list[str]:
    """Returns the links of Markdown pages to files or headings that are not there."""
    problems = []
    for page in pages:
        for link in TARGET.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            if urlsplit(link).scheme:
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            if any((root / folder) in target.parents for folder in GENERATED):
                continue
            if not target.exists():
                problems.append(f"{page.relative_to(root)}: {link} is missing")
            elif anchor and target.suffix == ".md" and anchor not in _anchors(target):
                problems.append(f"{page.relative_to(root)}: {link} has no such heading")
    return problems


def _anchors(page: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return {slug(heading) for heading in HEADING.findall(text)}


def main() -> None:
    problems = broken_markdown_links(markdown_pages())
    for site in map(Path, sys.argv[1:]):
        problems += broken_links(site)
    print("\n".join(problems) or "All links lead somewhere.")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
