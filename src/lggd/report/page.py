"""The report as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from string import Template

from lggd.files import replacing
from lggd.report import sections
from lggd.report.formatting import duration, escape_text, timestamp
from lggd.report.map_data import DrawnGraph, embed
from lggd.report.run_report import UNKNOWN, RunReport
from lggd.report.sections import page_file

# In order of dependence: a script uses only names defined by earlier ones.
SCRIPTS = ("colours.js", "data.js", "scatter.js", "legend.js", "map.js", "charts.js", "page.js")


def render(report: RunReport) -> str:
    """Returns the page; the same report gives the same text."""
    drawn = DrawnGraph.of(report)
    parts = [
        sections.result(report),
        sections.maps(report, drawn),
        sections.training(report),
        sections.confusion(report),
        sections.uncertain(report),
        sections.additions(report),
        sections.settings(report),
        sections.notes(report),
    ]
    facts = {
        "nodes": f"{report.num_nodes:,}",
        "edges": f"{report.num_edges:,}",
        "classes": f"{report.num_classes:,}",
        "labelled nodes": f"{(report.labels != UNKNOWN).sum():,}",
        "test nodes": f"{report.num_tested:,}",
        "duration": duration(report.seconds),
    }
    main = "\n".join(part for part in parts if part)
    headings = re.findall(r'<section id="(\w+)" .*?<h2[^>]*>(.*?)</h2>', main)
    script = "(() => {\n'use strict';\n" + "\n".join(map(page_file, SCRIPTS)) + "\n})();"
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return Template(page_file("page.html")).substitute(
        title=escape_text(report.title),
        # The browser may run only the script with this hash, and load nothing.
        policy=f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:",
        style=page_file("page.css"),
        dataset=escape_text(report.dataset),
        model=escape_text(report.titles["model"]),
        created=escape_text(report.created),
        timestamp=escape_text(timestamp(report.created)),
        facts="".join(f"<div><dt>{term}</dt><dd>{value}</dd></div>" for term, value in facts.items()),
        contents="".join(f'<a href="#{key}">{title}</a>' for key, title in headings),
        main=main,
        version=escape_text(report.version),
        machine=escape_text(report.machine),
        data=embed(report, drawn),
        script=script,
    )


def write(report: RunReport, path: str | Path) -> None:
    """Writes the page to `path` atomically."""
    page = render(report)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")
