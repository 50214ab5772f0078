"""Pages as HTML: numbers and names as text, sections and tables, and the scripts and style sheets around them.

All text from users and files passes through `escape_text`. Scripts are ES modules: a page embeds them, a server sends
them as they are.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template

from lggd.cards import escape_name as escape_name
from lggd.cards import escape_text as escape_text
from lggd.system.files import replacing

# Number of classes with a colour in the style sheet; the hues of further classes are spread by the golden angle.
STYLED_CLASSES = 12
# Modules import each other by `import { a, b } from "./name.js";`, one statement per line.
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=class |const |function |async )", re.MULTILINE)
HEADING = re.compile(r'<section id="(\w+)" .*?<h2[^>]*>(.*?)</h2>')


def counted(value: int, noun: str) -> str:
    """1 node, 12,345 nodes, 2 classes."""
    plural = noun + ("es" if noun.endswith("s") else "s")
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
    name: str, styles: Iterable[str], sections: Iterable[str], facts: Mapping[str, str], texts: Mapping[str, str],
    data: str = "",
) -> str:  # fmt: skip
    """Fills the template `name.html` and embeds `name.js`; sections without content, "", are left out.

    `texts` are what the template names, with the time `created` in ISO 8601; `data` is JSON for the script.
    """
    main, script = "\n".join(filter(None, sections)), inline_script(f"{name}.js")
    return Template(page_file(f"{name}.html")).substitute(
        # The browser may run only the script with this hash, and load nothing.
        policy=f"default-src 'none'; script-src {script_hash(script)}; style-src 'unsafe-inline'; img-src data:",
        style="\n".join(map(page_file, styles)),
        facts="".join(f"<div><dt>{escape_text(k)}</dt><dd>{escape_text(v)}</dd></div>" for k, v in facts.items()),
        contents="".join(f'<a href="#{key}">{title}</a>' for key, title in HEADING.findall(main)),
        main=main,
        data=data,
        script=script,
        timestamp=timestamp(texts["created"]),
        **{key: escape_text(text) for key, text in texts.items()},
    )


def write_page(page: str, path: str | Path) -> None:
    """Writes a page to `path`, completely or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")


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
