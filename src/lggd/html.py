"""Escaped HTML, and the cards that notebooks show: without scripts and style sheets, and of bounded size.

All text from users and files passes through `escape_text` or `escape_name`. A card is what `_repr_html_` returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

# Longer names are truncated, so that they cannot break the layout of a page.
MAX_NAME_LENGTH = 80
# Limits of cards.
MAX_ROWS, MAX_BINS, MAX_POINTS = 20, 24, 120
# At most so many values are counted in a picture, evenly spaced among all.
MAX_VALUES = 200_000
WIDTH, HEIGHT = 240, 60
# Readable on light and dark pages, and different from grey for colour-blind eyes.
INK = "#3a7fc1"
CELL = "padding:1px 12px 1px 0;text-align:left;vertical-align:top"
Facts = list[tuple[str, object]]


def escape_text(value: object) -> str:
    """Escapes text for HTML, between tags and in quoted attributes; characters that UTF-8 cannot encode become "?"."""
    return escape(str(value).encode("utf-8", "replace").decode("utf-8").replace("\0", "?"), quote=True)


def escape_name(value: object) -> str:
    """Escapes a name, truncated if it is very long."""
    name = str(value)
    return escape_text(name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…")


def card(title: str, facts: Iterable[tuple[str, object]], *pictures: str, note: str = "") -> str:
    """A title, facts by name, pictures made by this module, and a sentence.

    >>> "<p>a &lt; b</p>" in card("Graph", [("nodes", 3)], note="a < b")
    True
    """
    rows = "".join(
        f'<tr><td style="{CELL};opacity:0.7">{escape_name(name)}</td><td style="{CELL}">{escape_name(value)}</td></tr>'
        for name, value in islice(facts, MAX_ROWS)
    )
    end = f"<p>{escape_text(note)}</p>" if note else ""
    return f"<div><b>{escape_name(title)}</b><table>{rows}</table>{''.join(pictures)}{end}</div>"


def card_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for a card, with a head; rows beyond the first twenty are counted, not shown."""
    rows = list(rows)
    head = "".join(f'<th scope="col" style="{CELL}">{escape_name(name)}</th>' for name in names)
    cells = ("".join(f'<td style="{CELL}">{escape_name(cell)}</td>' for cell in row) for row in rows[:MAX_ROWS])
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    more = f"<p>and {len(rows) - MAX_ROWS:,} more</p>" if len(rows) > MAX_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def histogram(values: ArrayLike, label: str) -> str:
    """Bars of how often values occur, of finite numbers; "" where there are none."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    numbers = numbers[:: max(1, len(numbers) // MAX_VALUES)]
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return ""
    counts, edges = np.histogram(numbers, bins=min(MAX_BINS, len(np.unique(numbers[:MAX_POINTS])) + 1))
    width = WIDTH / len(counts)
    heights = HEIGHT * counts / max(int(counts.max()), 1)
    shapes = "".join(
        f'<rect x="{k * width:.1f}" y="{HEIGHT - height:.1f}" width="{width - 1:.1f}" height="{height:.1f}"/>'
        for k, height in enumerate(heights)
    )
    return _picture(shapes, f"{label}: {edges[0]:.3g} to {edges[-1]:.3g}")


def bars(amounts: Iterable[tuple[str, float]], label: str) -> str:
    """One horizontal bar per name, with its amount."""
    pairs = list(amounts)
    largest = max((amount for _, amount in pairs), default=0) or 1
    rows = "".join(
        f'<tr><td style="{CELL}">{escape_name(name)}</td><td style="{CELL}">'
        f'<span style="display:inline-block;height:0.7em;background:{INK};'
        f'width:{0.6 * WIDTH * max(amount, 0) / largest:.0f}px"></span> {amount:,.4g}</td></tr>'
        for name, amount in pairs[:MAX_ROWS]
    )
    more = f"<p>and {len(pairs) - MAX_ROWS:,} more</p>" if len(pairs) > MAX_ROWS else ""
    return f'<table aria-label="{escape_name(label)}">{rows}</table>{more}' if pairs else ""


def curve(values: Sequence[float], label: str) -> str:
    """A line through values, such as a loss by epoch; "" where fewer than two are finite."""
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[:: max(1, -(-len(numbers) // MAX_POINTS))]
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) < 2:
        return ""
    low, high = float(numbers.min()), float(numbers.max())
    down = (high - numbers) / ((high - low) or 1.0)
    points = " ".join(
        f"{x:.1f},{2 + (HEIGHT - 4) * y:.1f}" for x, y in zip(np.linspace(0, WIDTH, len(down)), down, strict=True)
    )
    line = f'<polyline points="{points}" fill="none" stroke="{INK}" stroke-width="2"/>'
    return _picture(line, f"{label}: {values[0]:.3g} to {values[-1]:.3g}")


def _picture(shapes: str, caption: str) -> str:
    caption = escape_name(caption)
    return (
        f'<svg role="img" aria-label="{caption}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'fill="{INK}">{shapes}</svg><div style="font-size:85%;opacity:0.7">{caption}</div>'
    )
