"""The command line. What is slow to import is imported by the command that needs it, so that help comes at once."""

from __future__ import annotations

from typing import Annotated

import typer

from lggd.cli.distance import distance_command
from lggd.cli.features import features_command
from lggd.cli.figure import figure_app
from lggd.cli.model import add_labels_command, predict_command
from lggd.cli.report import report_command
from lggd.cli.reproduce import reproduce_command
from lggd.cli.run import run_command
from lggd.cli.sweep import sweep_command

app = typer.Typer(
    name="lggd",
    help="Learned generalized geodesic distances on graphs: classify nodes from a few labels, and add more at once.\n\n"
    "Start with: lggd run digits",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run_command)
app.command("predict")(predict_command)
app.command("add-labels")(add_labels_command)
app.command("features")(features_command)
app.command("distance")(distance_command)
app.add_typer(figure_app, name="figure")
app.command("reproduce")(reproduce_command)
app.command("report")(report_command)
app.command("sweep")(sweep_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from lggd import __version__

        typer.echo(f"lggd {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line: exit code 0 done, 1 failed, 2 bad usage or input, 130 interrupted."""
    app()
