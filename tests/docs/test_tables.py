"""The tables of the pages are those of the measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from building.tables import PLACE, TABLES, with_tables

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page: text for page in sorted(DOCS.glob("*.md")) if PLACE.search(text := page.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_are_up_to_date(page: Path) -> None:
    assert with_tables(PAGES[page]) == PAGES[page], "Run: python docs/building/tables.py"


def test_every_table_is_shown_once() -> None:
    shown = [place[2] for text in PAGES.values() for place in PLACE.finditer(text)]
    assert sorted(shown) == sorted(TABLES)


def test_a_changed_number_is_found() -> None:
    text = PAGES[DOCS / "choosing.md"]
    assert "| 84.4 | 82.1 |" in text
    assert with_tables(text.replace("| 84.4 | 82.1 |", "| 85.4 | 82.1 |")) == text
