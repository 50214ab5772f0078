"""lggd figure: the paper's experiments, drawn."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lggd.cli.terminal import AsJson, Debug, Terminal, flags, json_exponent, summary
from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd.paper.geodesic import Geodesic, Pixel
    from lggd.paper.robustness import Robustness

WRONG_EDGES = (10, 100, 1000)

figure_app = typer.Typer(help="Draw the experiments of the paper.", no_args_is_help=True)

ROBUSTNESS_FLAGS = flags("points", "epsilon", extra_edges="--edges")
GEODESIC_FLAGS = flags("source", "target", "p", mask="--image")


@figure_app.command("robustness")
def robustness_command(
    points: Annotated[int, typer.Option(min=2, help="How many points to draw in the unit disk.")] = 20_000,
    epsilon: Annotated[float, typer.Option(help="Join points within this distance; as wide is the boundary.")] = 0.05,
    edges: Annotated[
        list[int] | None,
        typer.Option(min=1, help="A number of wrong edges. Repeat it for more.", show_default="10, 100 and 1000"),
    ] = None,
    with_p2: Annotated[bool, typer.Option("--with-p2", help="Add p = 2, which lies between.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Average over this many draws of the wrong edges.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="What the points and the draws depend on.")] = 0,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .png, .pdf or .svg file.")] = Path("robustness.png"),
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare how distances bear wrong edges: p = 1 hardly changes, shortest paths collapse.

    Draws points in a disk, joins near ones, adds random edges, and colours
    each point by its distance from the rim. The table shows
    |f_n - f_0| / |f_0| with n wrong edges, averaged over the draws; the figure
    shows the first of them.

    Example, as in the paper:

        lggd figure robustness

    Example, smaller and with p = 2:

        lggd figure robustness --points 2000 --epsilon 0.15 --with-p2
    """
    with Terminal(as_json=as_json, debug=debug, flags=ROBUSTNESS_FLAGS) as terminal:
        began = time.perf_counter()
        with terminal.working("Loading lggd"):
            from lggd.files import check_writable
            from lggd.paper.figures import check_format, draw_robustness, save
            from lggd.paper.robustness import robustness
        check_writable(check_format(out))
        exponents = (1, 2, math.inf) if with_p2 else (1, math.inf)
        with terminal.counting("Measuring distances") as progress:
            result = robustness(
                points=points,
                epsilon=epsilon,
                extra_edges=edges or WRONG_EDGES,
                exponents=exponents,
                seeds=seeds,
                seed=seed,
                progress=progress,
            )
        with terminal.working(f"Drawing {out}"):
            save(draw_robustness(result), out)
        facts = {
            "points": points,
            "epsilon": epsilon,
            "edges": result.num_edges,
            "boundary": int(result.boundary.sum()),
            "unreachable": result.unreachable,
            "seeds": seeds,
            "seed": seed,
            "change": _changes(result),
            "seconds": time.perf_counter() - began,
            "out": str(out),
        }
        terminal.answer(facts, _robustness_tables(facts, result))


@figure_app.command("geodesic")
def geodesic_command(
    image: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A picture whose dark half is the shape. Without it, a dragon.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="ROW,COLUMN", help="Where distances start. Without it, a far end of the shape."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="ROW,COLUMN", help="Where the geodesic leads. Without it, the farthest pixel.")
    ] = None,
    p: Annotated[float, typer.Option(help="inf is the shortest path; 1 is the other end of the family.")] = math.inf,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .png, .pdf or .svg file.")] = Path("geodesic.png"),
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Find the way through a shape: its distance map from one pixel, and the geodesic to another.

    Pixels are counted from the upper left, from 0, rows first.

    Example, through a dragon:

        lggd figure geodesic

    Example, through a picture of your own:

        lggd figure geodesic --image maze.png --source 10,12 --out way.png
    """
    with Terminal(as_json=as_json, debug=debug, flags=GEODESIC_FLAGS) as terminal:
        began = time.perf_counter()
        with terminal.working("Loading lggd"):
            from lggd.files import check_writable
            from lggd.paper.dragon import dragon
            from lggd.paper.figures import check_format, draw_geodesic, save
            from lggd.paper.geodesic import geodesic, read_image
        check_writable(check_format(out))
        ends = {"source": _read_pixel(source, "--source"), "target": _read_pixel(target, "--target")}
        with terminal.working("Finding the way"):
            result = geodesic(dragon() if image is None else read_image(image), p=p, **ends)
        with terminal.working(f"Drawing {out}"):
            save(draw_geodesic(result), out)
        facts = {
            "image": None if image is None else str(image),
            "height": result.shape.shape[0],
            "width": result.shape.shape[1],
            "pixels": int(result.shape.sum()),
            "source": list(result.source),
            "target": list(result.target),
            "p": json_exponent(p),
            "distance": result.length,
            "path": result.path.tolist(),
            "seconds": time.perf_counter() - began,
            "out": str(out),
        }
        terminal.answer(facts, _geodesic_tables(facts, result))


def _read_pixel(text: str | None, flag: str) -> Pixel | None:
    if text is None:
        return None
    try:
        row, column = (int(part) for part in text.split(","))
    except ValueError as wrong:
        raise InputError(flag, "be two whole numbers row,column such as 120,40", repr(text)) from wrong
    return row, column


def _changes(result: Robustness) -> list[dict[str, Any]]:
    return [
        {"p": json_exponent(p), "extra_edges": count, "mean": float(values.mean()), "each": values.tolist()}
        for p in result.exponents
        for count, values in zip(result.extra_edges, result.change[p], strict=True)
    ]


def _robustness_tables(facts: dict[str, Any], result: Robustness) -> list[Table | Text]:
    lost = f"{facts['unreachable']:,}" if facts["unreachable"] else "none"
    shown = summary(
        {
            "points": f"{facts['points']:,}, {facts['boundary']:,} of them on the boundary, {lost} out of its reach",
            "edges": f"{facts['edges']:,} undirected, between points within {facts['epsilon']:g}",
            "seconds": f"{facts['seconds']:.3g}",
        }
    )
    seeds = facts["seeds"]
    table = Table(
        title=f"Relative change by n wrong edges, mean of {seeds} draw{'s' * (seeds > 1)}", title_justify="left"
    )
    table.add_column("p")
    for count in result.extra_edges:
        table.add_column(f"n = {count}", justify="right")
    for p in result.exponents:
        table.add_row(f"{p:g}", *(f"{100 * mean:.2g} %" for mean in result.mean_change(p)))
    return [shown, table, Text(f"Wrote {facts['out']}")]


def _geodesic_tables(facts: dict[str, Any], result: Geodesic) -> list[Table | Text]:
    shown = summary(
        {
            "shape": f"{facts['pixels']:,} of {facts['height']} x {facts['width']} pixels",
            "source": "{},{}".format(*result.source),
            "target": "{},{}".format(*result.target),
            "distance": f"{facts['distance']:.6g}, p = {facts['p']}",
            "path": f"{len(result.path):,} pixels",
            "seconds": f"{facts['seconds']:.3g}",
        }
    )
    return [shown, Text(f"Wrote {facts['out']}")]
