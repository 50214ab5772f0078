"""lggd figure: draws the robustness and geodesic experiments of the paper."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Column

from lggd.cli.options import Seed, command, file, option
from lggd.cli.terminal import Terminal, flags, json_exponent, summary, table
from lggd.errors import InputError
from lggd.report.html import counted

if TYPE_CHECKING:
    from lggd.paper.geodesic import Pixel

figure_app = typer.Typer(help="Draw figures of the paper.", no_args_is_help=True)

EDGES = "Wrong edges to add. Can be repeated."


@figure_app.command("robustness")
@command(flags("points", "epsilon", extra_edges="--edges"))
def robustness_command(
    terminal: Terminal,
    points: int = option(20_000, "Number of random points in the unit disk.", min=2),
    epsilon: float = option(0.05, "Radius of neighbourhoods, and width of the rim."),
    edges: list[int] | None = option(None, EDGES, min=1, show_default="10, 100, 1000"),
    with_p2: bool = option(False, "Also measure p = 2.", "--with-p2"),
    seeds: int = option(5, "Number of random draws of wrong edges to average over.", min=1),
    seed: Seed = 0,
    out: Path = file(Path("robustness.png"), "Output: .png, .pdf or .svg."),
) -> None:
    """Show how wrong edges change distances: p = 1 is robust, shortest paths collapse.

    Connects nearby points of a disk, adds random edges, and colours each point
    by its distance from the rim. The table shows the relative change
    |f_n - f_0| / |f_0| with n wrong edges, averaged over the draws; the figure
    shows the first draw.

    Example: the figure of the paper:

        lggd figure robustness

    Example: a smaller graph, also with p = 2:

        lggd figure robustness --points 2000 --epsilon 0.15 --with-p2
    """
    start = time.perf_counter()
    with terminal.working("Loading lggd"):
        from lggd.paper.figures import check_format, draw_robustness, save
        from lggd.paper.robustness import robustness
    check_format(out)
    with terminal.counting("Measuring distances") as progress:
        exponents, counts = (1, 2, math.inf) if with_p2 else (1, math.inf), edges or (10, 100, 1000)
        graph = {"points": points, "epsilon": epsilon, "extra_edges": counts, "exponents": exponents}
        result = robustness(**graph, seeds=seeds, seed=seed, progress=progress)  # type: ignore[arg-type]
    with terminal.working(f"Drawing {out}"):
        save(draw_robustness(result), out)
    facts = {
        "points": points, "boundary": int(result.boundary.sum()), "unreachable": result.unreachable,
        "edges": result.num_edges, "epsilon": epsilon, "seeds": seeds, "seed": seed,
        "seconds": round(time.perf_counter() - start, 3),
    }  # fmt: skip
    columns = (Column(f"n = {count}", justify="right") for count in result.extra_edges)
    rows = ([f"{p:g}", *(f"{100 * mean:.2g} %" for mean in result.mean_change(p))] for p in result.distances)
    title = f"Relative change after n wrong edges, mean of {counted(seeds, 'draw')}:"
    more = {"change": result.changes(), "out": str(out)}
    terminal.answer(facts | more, [summary(**facts), title, table("p", *columns, rows=rows), f"Wrote {out}"])


@figure_app.command("geodesic")
@command(flags("source", "target", "p", mask="--image"))
def geodesic_command(
    terminal: Terminal,
    image: Path | None = file(None, "Image of a dark shape.", show_default="a dragon"),
    source: str | None = option(None, "Start of the geodesic.", metavar="ROW,COLUMN", show_default="a far end"),
    target: str | None = option(None, "End of the geodesic.", metavar="ROW,COLUMN", show_default="the farthest pixel"),
    p: float = option(math.inf, "Exponent of the distance, from 1 to inf (shortest paths)."),
    out: Path = file(Path("geodesic.png"), "Output: .png, .pdf or .svg."),
) -> None:
    """Draw a shape, the distances of its pixels from a source, and the geodesic to a target.

    Pixels are written as row,column, counted from 0 at the upper left.

    Example: a geodesic through a dragon:

        lggd figure geodesic

    Example: a geodesic through your own image:

        lggd figure geodesic --image maze.png --source 10,12 --out path.png
    """
    start = time.perf_counter()
    with terminal.working("Loading lggd"):
        from lggd.paper.figures import check_format, draw_geodesic, save
        from lggd.paper.geodesic import DRAGON, geodesic, read_image
    check_format(out)
    ends = {"source": _read_pixel(source, "--source"), "target": _read_pixel(target, "--target")}
    with terminal.working("Measuring distances"):
        result = geodesic(read_image(DRAGON if image is None else image), p=p, **ends)
    with terminal.working(f"Drawing {out}"):
        save(draw_geodesic(result), out)
    height, width = result.shape.shape
    facts = {
        "image": None if image is None else str(image), "height": height, "width": width,
        "pixels": int(result.shape.sum()), "source": list(result.source), "target": list(result.target),
        "p": json_exponent(p), "distance": result.length, "seconds": round(time.perf_counter() - start, 3),
    }  # fmt: skip
    shown = facts | {"distance": f"{result.length:.6g}", "path": f"{len(result.path):,} pixels"}
    facts |= {"path": result.path.tolist(), "out": str(out)}
    terminal.answer(facts, [summary(**shown), f"Wrote {out}"])


def _read_pixel(text: str | None, flag: str) -> Pixel | None:
    if text is None:
        return None
    try:
        row, column = (int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(flag, "be two whole numbers row,column such as 120,40", repr(text)) from error
    return row, column
