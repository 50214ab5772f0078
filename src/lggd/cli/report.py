"""lggd report: all results on one page, with figures, tests and what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lggd.cli.terminal import AsJson, Debug, Terminal, flags

FLAGS = flags("results")
PAGE = "REPORT.md"


def report_command(
    results: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the .jsonl files of the experiments lie, and notes.toml.")
    ] = Path("results"),
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The page to write; its figures go into figures/ beside it.",
            show_default="REPORT.md among the results",
        ),
    ] = None,
    configs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where chosen/ tells how many settings were tried.", show_default="lggd's own"
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a page about all results: beside the paper's, beside each other, and whether they show what they should.

    Reads every line that was measured, and writes Markdown and figures. The
    same lines give the same page. Where a result lies below the paper's, the
    page prints the explanation from notes.toml, under "row.dataset" or "row".

    Example:

        lggd report --results results
    """
    with Terminal(as_json=as_json, debug=debug, flags=FLAGS) as terminal:
        with terminal.working("Loading lggd"):
            from lggd.files import check_writable
            from lggd.paper.report_files import write_report
        _check_folder(results)
        page = check_writable(out or results / PAGE)
        with terminal.working(f"Writing {page}"):
            facts = write_report(results, page, configs)
        facts |= {"out": str(page)}
        terminal.answer(facts, _shown(facts))


def _check_folder(results: Path) -> None:
    if not results.is_dir():
        what = "a file" if results.exists() else "nothing there"
        raise NotADirectoryError(f"`results` must be a folder with results, got {what} at {results}.")


def _shown(facts: dict[str, Any]) -> list[Table | Text]:
    table = Table(title="What was to be shown", title_justify="left")
    for column in ("", "what", "because"):
        table.add_column(column, overflow="fold")
    for bar in facts["bars"]:
        style = "green" if bar["reached"] else "red"
        table.add_row(Text("reached" if bar["reached"] else "missed", style), Text(bar["what"]), Text(bar["because"]))
    return [table, Text(f"Wrote {facts['out']} and {len(facts['figures'])} figures")]
