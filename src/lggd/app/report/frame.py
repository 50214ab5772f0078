"""The frame of every page: its head, sections, tables and classes, and its style sheets and scripts embedded.

Scripts are ES modules, which a server sends as they are.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from string import Template

from lggd.html import escape_name, escape_text
from lggd.text import timestamp

# Number of classes with a colour in the style sheet; the hues of further classes are spread by the golden angle.
STYLED_CLASSES = 12
# Modules import each other by `import { a, b } from "./name.js";` or `import "./name.js";`, one statement per line.
IMPORT = re.compile(r'^import (?:\{[^}]*\} from )?"\./([\w.]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=class |const |function |async )", re.MULTILINE)
HEADING = re.compile(r'<section id="(\w+)" .*?<h2[^>]*>(.*?)</h2>')
STYLES = ("colours.css", "base.css", "map.css", "page.css")
PAGE_FILES = Path(__file__).parent / "page"


def render_page(
    script: str, sections: Iterable[str], facts: Mapping[str, str], texts: Mapping[str, str],
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
        style="\n".join(map(page_file, STYLES)),
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

    >>> module_names("charts.js")
    ['dom.js', 'charts.js']
    """
    needed = [name for imported in IMPORT.findall(page_file(entry)) for name in module_names(imported)]
    return list(dict.fromkeys([*needed, entry]))


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


def row(head: str, *cells: object) -> str:
    """A row of a table from HTML and numbers, with its head."""
    return f'<tr><th scope="row">{head}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def class_colour(k: int) -> str:
    """The colour of a class, computed as in `colours.js`."""
    return f"var(--class-{k})" if k < STYLED_CLASSES else f"oklch(62% 0.13 {137.508 * k % 360:.1f})"


def class_name(name: str | None, k: int) -> str:
    """The name of a class with its colour; None is a dash."""
    if name is None:
        return '<span class="quiet">–</span>'
    return f'<span class="class"><i style="background:{class_colour(k)}"></i>{escape_name(name)}</span>'
