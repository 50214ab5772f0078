"""Building blocks of pages: sections, tables and names of classes."""

from __future__ import annotations

from collections.abc import Iterable

from lggd.report.formatting import escape_name

# Number of classes with a colour in the style sheet; the hues of further classes are spread by the golden angle.
STYLED_CLASSES = 12


def section(key: str, title: str, content: str, lead: str = "") -> str:
    lead = f'<p class="lead">{lead}</p>' if lead else ""
    heading = f'<h2 id="{key}-title">{title}</h2>'
    return f'<section id="{key}" aria-labelledby="{key}-title">{heading}{lead}{content}</section>'


def table(kind: str, columns: str, rows: Iterable[str], label: str = "") -> str:
    """A table with a label can be scrolled by keyboard."""
    region = f' tabindex="0" role="region" aria-label="{label}"' if label else ""
    head = f"<thead><tr>{columns}</tr></thead>" if columns else ""
    return f'<div class="scroll"{region}><table class="{kind}">{head}<tbody>{"".join(rows)}</tbody></table></div>'


def columns(*names: str) -> str:
    return "".join(f'<th scope="col">{name}</th>' for name in names)


def class_colour(k: int) -> str:
    """The colour of a class, computed as in `colours.js`."""
    return f"var(--class-{k})" if k < STYLED_CLASSES else f"oklch(62% 0.13 {137.508 * k % 360:.1f})"


def class_name(name: str | None, k: int) -> str:
    """The name of a class with its colour; None is a dash."""
    if name is None:
        return '<span class="quiet">–</span>'
    return f'<span class="class"><i style="background:{class_colour(k)}"></i>{escape_name(name)}</span>'
