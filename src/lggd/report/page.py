"""The report as one HTML page that needs nothing else: no network, no other file, no library."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template

from lggd.files import replacing
from lggd.report import sections
from lggd.report.content import RunReport
from lggd.report.embedding import Drawing, embed
from lggd.report.wording import text

# In this order: a script uses only what those before it define.
SCRIPTS = ("colours.js", "data.js", "scatter.js", "legend.js", "map.js", "charts.js", "page.js")


def render(report: RunReport) -> str:
    """The whole page. The same report gives the same text."""
    drawing = Drawing.of(report)
    parts = [
        sections.result(report),
        sections.maps(report, drawing),
        sections.training(report),
        sections.confusion(report),
        sections.doubts(report),
        sections.additions(report),
        sections.settings(report),
        sections.notes(report),
    ]
    script = _script()
    return Template(_part("page.html")).substitute(
        title=text(report.title),
        policy=_policy(script),
        style=_part("page.css"),
        header=sections.header(report),
        contents=_contents(parts),
        main="\n".join(part for part in parts if part),
        footer=sections.footer(report),
        data=embed(report, drawing),
        script=script,
    )


def write(report: RunReport, path: str | Path) -> None:
    """Writes the page to `path`, whole or not at all."""
    page = render(report)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")


@cache
def _part(name: str) -> str:
    return (files("lggd.report") / "page" / name).read_text(encoding="utf-8")


def _script() -> str:
    return "(() => {\n'use strict';\n" + "\n".join(_part(name) for name in SCRIPTS) + "\n})();"


def _policy(script: str) -> str:
    """What the browser shall let this page do: run this very script, and fetch nothing from anywhere."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"


def _contents(parts: list[str]) -> str:
    """Links to the parts that are there, read from their own headings."""
    headings = re.findall(r'<section id="(\w+)" .*?<h2[^>]*>(.*?)</h2>', "\n".join(parts))
    return "".join(f'<a href="#{key}">{title}</a>' for key, title in headings)
