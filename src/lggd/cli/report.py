"""lggd report: writes a report of all results, with figures and statistical tests."""

from __future__ import annotations

from pathlib import Path

from lggd.cli.options import Configs, command, file, folder
from lggd.cli.terminal import Terminal, flags


@command(flags("results"))
def report_command(
    terminal: Terminal,
    results: Path = folder(Path("results"), "Folder with the measurements."),
    out: Path | None = file(None, "Markdown file to write.", show_default="DIR/REPORT.md"),
    configs: Configs = None,
) -> None:
    """Write a report of all results, compared with the paper and with each other.

    Reads DIR/*.jsonl and writes a Markdown file with tables and paired tests,
    and its figures to figures/ next to it. For results that differ from the
    paper's, the report shows the explanation in DIR/notes.toml under the key
    "row.dataset" or "row".

    Example:

        lggd report --results results
    """
    with terminal.working("Loading lggd"):
        from lggd.paper.report import write_report
        from lggd.system.files import check_writable
    page = results / "REPORT.md" if out is None else check_writable(out)
    with terminal.working(f"Writing {page}"):
        numbers = write_report(results, page, configs) | {"out": str(page)}
    measured, missing = len(numbers["table1"]), len(numbers["missing"])
    below = sum(each["difference"] < 0 for each in numbers["deviations"])
    summary = f"Table 1: {measured} cells measured, {missing} missing, {below} below the paper by more than one sd"
    terminal.answer(numbers, [summary, f"Wrote {page} and {len(numbers['figures'])} figures"])
