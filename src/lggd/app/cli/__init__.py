"""The command line. Commands import torch when they run, so that help and completion are fast."""

from __future__ import annotations

import os
import sys

import typer

from lggd.app.cli.compare import compare_command
from lggd.app.cli.distance import distance_command
from lggd.app.cli.graph import graph_app
from lggd.app.cli.model import add_labels_command, predict_command, remove_labels_command, update_command
from lggd.app.cli.options import general_options
from lggd.app.cli.run import features_command, run_command
from lggd.app.cli.studio import studio_command

# How long OpenMP threads spin while they wait for each other. The default is milliseconds: if other processes use the
# same cores, one delayed thread then blocks all others (measured: 35 times slower on two busy cores). A shorter wait
# has no cost on idle cores.
SPIN_COUNT = "10000"

app = typer.Typer(
    name="lggd",
    help="Learned generalized geodesic distances on graphs: classify nodes from a few labels, and add labels later "
    "without training.\n\nStart with: lggd run digits",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.callback()(general_options)
app.command("run")(run_command)
app.command("compare")(compare_command)
app.command("predict")(predict_command)
app.command("add-labels")(add_labels_command)
app.command("remove-labels")(remove_labels_command)
app.command("update")(update_command)
app.command("studio")(studio_command)
app.command("features")(features_command)
app.command("distance")(distance_command)
app.add_typer(graph_app, name="graph")


def main() -> None:
    """Runs the command line. Exit codes: 0 success, 1 failure, 2 invalid usage or input, 130 interrupted."""
    if "torch" not in sys.modules:  # OpenMP reads the variable once, when torch is imported
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    app(prog_name="lggd")
