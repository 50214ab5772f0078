"""Links of the pages lead somewhere, and the checks find those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from building.links import broken_links, broken_markdown_links, markdown_pages, slug

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", markdown_pages(), ids=lambda page: page.stem)
def test_links_of_the_repository(page: Path) -> None:
    assert broken_markdown_links([page]) == []


def test_dead_markdown_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# What next?\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#what-next) [b](other.md#else) [c](gone.md) `[d](e.md)` [f](https://example.org) [g](#no)\n"
    )
    assert broken_markdown_links([page], tmp_path) == [
        "page.md: other.md#else has no such heading",
        "page.md: gone.md is missing",
        "page.md: #no has no such heading",
    ]


def test_dead_links_of_html_are_found_and_so_is_what_pages_load(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text('<h1 id="top">Top</h1>')
    (tmp_path / "page.html").write_text(
        '<a href="other.html#top">a</a><a href="other.html#else">b</a><a href="gone.html">c</a>'
        '<a href="https://example.org">d</a><img src="https://example.org/x.png"><script src="x.js"></script>'
        '<link rel="stylesheet" href="https://example.org/font.css">'
    )
    assert broken_links(tmp_path) == [
        "page.html: loads https://example.org/x.png",
        "page.html: loads https://example.org/font.css",
        "page.html: other.html#else has no such anchor",
        "page.html: gone.html is missing",
        "page.html: x.js is missing",
    ]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [("What next?", "what-next"), ("`lggd run`: a **run**", "lggd-run-a-run"), ("Where do I add …", "where-do-i-add-")],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor
