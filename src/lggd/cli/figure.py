"""lggd figure: draws the robustness and geodesic experiments of the paper."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from lggd.cli.options import Seed
from lggd.cli.terminal import AsJson, Debug, Terminal, flags, json_exponent, summary
from lggd.errors import InputError
from lggd.report.formatting import counted

if TYPE_CHECKING:
    from lggd.paper.geodesic import Pixel

figure_app = typer.Typer(help="Draw figures of the paper.", no_args_is_help=True)

ROBUSTNESS_FLAGS = flags("points", "epsilon", extra_edges="--edges")
GEODESIC_FLAGS = flags("source", "target", "p", mask="--image")


@figure_app.command("robustness")
def robustness_command(
    points: Annotated[int, typer.Option(min=2, help="Number of random points in the unit disk.")] = 20_000,
    epsilon: Annotated[float, typer.Option(help="Radius of neighbourhoods, and width of the rim.")] = 0.05,
    edges: Annotated[
        list[int] | None, typer.Option(min=1, help="Wrong edges to add. Can be repeated.", show_default="10, 100, 1000")
    ] = None,
    with_p2: Annotated[bool, typer.Option("--with-p2", help="Also measure p = 2.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of random draws of wrong edges to average over.")] = 5,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output: .png, .pdf or .svg.")] = Path("robustness.png"),
    as_json: AsJson = False,
    debug: Debug = False,
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
    with Terminal(as_json=as_json, debug=debug, flags=ROBUSTNESS_FLAGS) as terminal:
        start = time.perf_counter()
        with terminal.working("Loading lggd"):
            from lggd.paper.figures import check_format, draw_robustness, save
            from lggd.paper.robustness import robustness
        check_format(out)
        with terminal.counting("Measuring distances") as progress:
            result = robustness(
                points=points,
                epsilon=epsilon,
                extra_edges=edges or (10, 100, 1000),
                exponents=(1, 2, math.inf) if with_p2 else (1, math.inf),
                seeds=seeds,
                seed=seed,
                progress=progress,
            )
        with terminal.working(f"Drawing {out}"):
            save(draw_robustness(result), out)
        facts = {
            "points": points, "boundary": int(result.boundary.sum()), "unreachable": result.unreachable,
            "edges": result.num_edges, "epsilon": epsilon, "seeds": seeds, "seed": seed,
            "seconds": round(time.perf_counter() - start, 3),
        }  # fmt: skip
        table = Table("p", *(Column(f"n = {count}", justify="right") for count in result.extra_edges))
        for p in result.distances:
            table.add_row(f"{p:g}", *(f"{100 * mean:.2g} %" for mean in result.mean_change(p)))
        title = f"Relative change after n wrong edges, mean of {counted(seeds, 'draw')}:"
        shown: list[RenderableType] = [summary(facts), Text(title), table, Text(f"Wrote {out}")]
        terminal.answer(facts | {"change": result.changes(), "out": str(out)}, shown)


@figure_app.command("geodesic")
def geodesic_command(
    image: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Image of a dark shape.", show_default="a dragon")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="ROW,COLUMN", help="Start of the geodesic.", show_default="a far end")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="ROW,COLUMN", help="End of the geodesic.", show_default="the farthest pixel")
    ] = None,
    p: Annotated[float, typer.Option(help="Exponent of the distance, from 1 to inf (shortest paths).")] = math.inf,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output: .png, .pdf or .svg.")] = Path("geodesic.png"),
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Draw a shape, the distances of its pixels from a source, and the geodesic to a target.

    Pixels are written as row,column, counted from 0 at the upper left.

    Example: a geodesic through a dragon:

        lggd figure geodesic

    Example: a geodesic through your own image:

        lggd figure geodesic --image maze.png --source 10,12 --out path.png
    """
    with Terminal(as_json=as_json, debug=debug, flags=GEODESIC_FLAGS) as terminal:
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
        terminal.answer(facts, [summary(shown), Text(f"Wrote {out}")])


def _read_pixel(text: str | None, flag: str) -> Pixel | None:
    if text is None:
        return None
    try:
        row, column = (int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(flag, "be two whole numbers row,column such as 120,40", repr(text)) from error
    return row, column
