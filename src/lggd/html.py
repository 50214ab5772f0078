"""Escaped HTML, and the cards that notebooks show: without scripts and style sheets, and of bounded size.

All text from users and files passes through `escape_text` or `escape_name`. A card is what `_repr_html_` returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Longer names are truncated, so that they cannot break the layout of a page.
MAX_NAME_LENGTH = 80
# Limits of cards, and of the values that a histogram counts, evenly spaced among all.
MAX_ROWS, MAX_BINS, MAX_POINTS, MAX_VALUES = 20, 24, 120, 200_000
WIDTH, HEIGHT = 240, 60
# Readable on light and dark pages, and different from grey for colour-blind eyes.
INK = "#3a7fc1"
CELL = "padding:1px 12px 1px 0;text-align:left;vertical-align:top"
BAR = f"display:inline-block;height:0.7em;background:{INK};"
Facts = list[tuple[str, object]]


def escape_text(value: object) -> str:
    """Escapes text for HTML, between tags and in quoted attributes; characters that UTF-8 cannot encode become "?"."""
    return escape(str(value).encode("utf-8", "replace").decode("utf-8").replace("\0", "?"), quote=True)


def escape_name(value: object) -> str:
    """Escapes a name, truncated if it is very long."""
    name = str(value)
    return escape_text(name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…")


def card(title: str, facts: Facts, *pictures: str, note: str = "") -> str:
    """A title, facts by name, pictures made by this module, and a sentence.

    >>> "<p>a &lt; b</p>" in card("Graph", [("nodes", 3)], note="a < b")
    True
    """
    rows = _table([escape_name(name), escape_name(value)] for name, value in facts)
    end = f"<p>{escape_text(note)}</p>" if note else ""
    return f"<div><b>{escape_name(title)}</b>{rows}{''.join(pictures)}{end}</div>"


def card_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for a card, with a head."""
    return _table((map(escape_name, row) for row in rows), map(escape_name, names))


def bars(amounts: Iterable[tuple[str, float]], label: str) -> str:
    """One horizontal bar per name, with its amount."""
    pairs = list(amounts)
    largest = max((amount for _, amount in pairs), default=0) or 1
    rows = (
        [escape_name(name), f'<span style="{BAR}width:{144 * max(amount, 0) / largest:.0f}px"></span> {amount:,.4g}']
        for name, amount in pairs
    )
    return _table(rows, ("", escape_name(label))) if pairs else ""


def _table(rows: Iterable[Iterable[str]], head: Iterable[str] = ()) -> str:
    """A table of HTML; rows beyond the first twenty are counted, not shown."""
    rows, names = list(rows), "".join(f'<th scope="col" style="{CELL}">{name}</th>' for name in head)
    cells = ("".join(f'<td style="{CELL}">{cell}</td>' for cell in row) for row in rows[:MAX_ROWS])
    more = f"<p>and {len(rows) - MAX_ROWS:,} more</p>" if len(rows) > MAX_ROWS else ""
    return f"<table><thead><tr>{names}</tr></thead>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>{more}"


def histogram(values: ArrayLike, label: str) -> str:
    """Bars of how often values occur, of finite numbers; "" where there are none."""
    numbers = _finite(values, MAX_VALUES)
    if not len(numbers):
        return ""
    counts, edges = np.histogram(numbers, bins=min(MAX_BINS, len(np.unique(numbers[:MAX_POINTS])) + 1))
    left, top = WIDTH * np.arange(len(counts)) / len(counts), HEIGHT * (1 - counts / max(int(counts.max()), 1))
    right = left + WIDTH / len(counts) - 1
    shapes = (f"M{a:.1f} {HEIGHT}V{y:.1f}H{b:.1f}V{HEIGHT}" for a, b, y in zip(left, right, top, strict=True))
    return _picture(f'<path d="{"".join(shapes)}"/>', f"{label}: {edges[0]:.3g} to {edges[-1]:.3g}")


def curve(values: Sequence[float], label: str) -> str:
    """A line through values, such as a loss by epoch; "" where fewer than two are finite."""
    numbers = _finite(values, MAX_POINTS)
    if len(numbers) < 2:
        return ""
    y = 2 + (HEIGHT - 4) * (numbers.max() - numbers) / (np.ptp(numbers) or 1.0)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(np.linspace(0, WIDTH, len(y)), y, strict=True))
    line = f'<polyline points="{points}" fill="none" stroke="{INK}" stroke-width="2"/>'
    return _picture(line, f"{label}: {values[0]:.3g} to {values[-1]:.3g}")


def _finite(values: ArrayLike, limit: int) -> NDArray[np.float64]:
    """The finite ones of at most `limit` values, evenly spaced among all."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    numbers = numbers[:: max(1, -(-len(numbers) // limit))]
    return numbers[np.isfinite(numbers)]


def _picture(shapes: str, caption: str) -> str:
    caption = escape_name(caption)
    return (
        f'<svg role="img" aria-label="{caption}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'fill="{INK}">{shapes}</svg><div style="font-size:85%;opacity:0.7">{caption}</div>'
    )
