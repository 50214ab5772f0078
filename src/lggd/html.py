"""HTML: text that is escaped, numbers as text, tables, the frame of every page, and the cards that notebooks show.

All text from users and files passes through `escape_text`. Pages embed their scripts, which are ES modules; a server
sends them as they are. A card is what `_repr_html_` returns: without scripts and style sheets, and of bounded size.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from html import escape
from itertools import islice
from pathlib import Path
from string import Template

import numpy as np
from numpy.typing import ArrayLike

# Longer names are truncated, so that they cannot break the layout of a page.
MAX_NAME_LENGTH = 80
# Number of classes with a colour in the style sheet; the hues of further classes are spread by the golden angle.
STYLED_CLASSES = 12
# Modules import each other by `import { a, b } from "./name.js";`, one statement per line.
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=class |const |function |async )", re.MULTILINE)
HEADING = re.compile(r'<section id="(\w+)" .*?<h2[^>]*>(.*?)</h2>')
PAGE_FILES = Path(__file__).parent / "app" / "report" / "page"
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


def counted(value: int, noun: str, plural: str = "") -> str:
    """1 node, 12,345 nodes, 2 classes; other plurals are passed, such as those of nouns with their verb.

    >>> counted(1, "row repeats", "rows repeat"), counted(1234, "row repeats", "rows repeat")
    ('1 row repeats', '1,234 rows repeat')
    """
    plural = plural or noun + ("es" if noun.endswith("s") else "s")
    return f"{value:,} {noun if value == 1 else plural}"


def percent(value: float, digits: int = 1) -> str:
    """93.4 %, with a no-break space."""
    return f"{value:.{digits}f}\N{NO-BREAK SPACE}%"


def signed(value: float, digits: int = 1) -> str:
    """+7.3, −0.2, 0.0, with a minus sign instead of a hyphen."""
    rounded = f"{abs(value):.{digits}f}"
    return ("" if float(rounded) == 0 else "+" if value > 0 else "−") + rounded


def number(value: float) -> str:
    """At most four digits: 0.0123, 12.3, 1,234, ∞."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:{',.0f' if 100 <= abs(value) < 1e6 else '.3g'}}".replace("-", "−")


def duration(seconds: float) -> str:
    """0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def timestamp(iso: str) -> str:
    """31 January 2025, 12:00, with the time zone if it is known."""
    at = datetime.fromisoformat(iso)
    return f"{at.day} {at:%B %Y, %H:%M}" + (f" {at.tzname()}" if at.tzinfo else "")


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


def notes_section(notes: Iterable[str]) -> str:
    items = "".join(f"<li>{escape_text(note)}</li>" for note in notes)
    return section("notes", "Notes", f'<ul class="card notes">{items}</ul>') if items else ""


def class_colour(k: int) -> str:
    """The colour of a class, computed as in `colours.js`."""
    return f"var(--class-{k})" if k < STYLED_CLASSES else f"oklch(62% 0.13 {137.508 * k % 360:.1f})"


def class_name(name: str | None, k: int) -> str:
    """The name of a class with its colour; None is a dash."""
    if name is None:
        return '<span class="quiet">–</span>'
    return f'<span class="class"><i style="background:{class_colour(k)}"></i>{escape_name(name)}</span>'


def render_page(
    script: str, styles: Iterable[str], sections: Iterable[str], facts: Mapping[str, str], texts: Mapping[str, str],
    byline: str, data: str = "",
) -> str:  # fmt: skip
    """Fills the frame `page.html` and embeds a script; sections without content, "", are left out.

    `texts` are title, eyebrow, heading, version, machine, and created, a time in ISO 8601. `byline` is HTML below the
    heading, and `data` JSON for the script.
    """
    main, script = "\n".join(filter(None, sections)), inline_script(script)
    return Template(page_file("page.html")).substitute(
        # The browser may run only the script with this hash, and load nothing.
        policy=f"default-src 'none'; script-src {script_hash(script)}; style-src 'unsafe-inline'; img-src data:",
        style="\n".join(map(page_file, styles)),
        facts="".join(f"<div><dt>{escape_text(k)}</dt><dd>{escape_text(v)}</dd></div>" for k, v in facts.items()),
        contents="".join(f'<a href="#{key}">{title}</a>' for key, title in HEADING.findall(main)),
        main=main,
        byline=byline,
        data=f'<script type="application/json" id="report-data">{data}</script>\n' if data else "",
        script=script,
        timestamp=timestamp(texts["created"]),
        **{key: escape_text(text) for key, text in texts.items()},
    )


@cache
def page_file(name: str) -> str:
    """Returns the text of a file of `lggd/app/report/page`."""
    return (PAGE_FILES / name).read_text(encoding="utf-8")


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
