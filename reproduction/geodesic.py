"""The geodesic between two pixels of a shape (paper, teaser)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lggd import Graph, distance, shortest_path
from lggd.errors import InputError, InputFileError
from lggd.graph.geometry import dark_half

Pixel = tuple[int, int]
LUMA = np.array([0.299, 0.587, 0.114])  # of red, green and blue (Rec. 601)
DRAGON = Path(__file__).with_name("dragon.png")  # drawn by docs/draw_dragon.py


@dataclass(frozen=True, eq=False)
class Geodesic:
    """A shape, the distance of its pixels from `source`, and the path from there to `target`.

    `distance` has the shape of `shape`, inf outside and where unreachable. `path` is `[L, 2]`, rows and columns.
    """

    shape: NDArray[np.bool_]
    distance: NDArray[np.float64]
    path: NDArray[np.int64]
    source: Pixel
    target: Pixel
    p: float

    @property
    def length(self) -> float:
        """The distance to the target. For p = ∞ it is the length of the path in pixels, with diagonal steps of √2."""
        return float(self.distance[self.target])


def geodesic(
    shape: NDArray[np.generic], *, source: Pixel | None = None, target: Pixel | None = None, p: float = math.inf
) -> Geodesic:
    """Computes the path from `source` to `target` inside a mask, or inside the dark half of an image.

    Pixels are 8-connected. The default of an end is the pixel farthest from the other end; if both are None, they are
    two far ends of the largest component.
    """
    inside = dark_half(np.asarray(shape))
    first, last = _node(inside, source, "source"), _node(inside, target, "target")
    graph, pixels = Graph.from_grid(inside, connectivity=8, dtype=torch.float64), np.argwhere(inside)

    def farthest(node: int) -> int:
        """Returns the reachable node with the longest shortest path to this one."""
        away = distance(graph, [node], p=math.inf).value
        return int(away.masked_fill(torch.isinf(away), -1).argmax())

    if first is None:
        component = graph.components
        start = int((component == torch.bincount(component).argmax()).nonzero()[0])
        first = farthest(farthest(start) if last is None else last)
    last = farthest(first) if last is None else last
    (top, left), (bottom, right) = pixels[[first, last]].tolist()
    solution = distance(graph, [first], p=p)
    field = np.full(inside.shape, np.inf)
    field[inside] = solution.value.numpy()
    if not math.isfinite(field[bottom, right]):
        remedy = f"The nearest connected pixel is {_nearest(np.isfinite(field), (bottom, right))}."
        raise InputError("target", "be connected to the source", f"{bottom},{right} in another component", remedy)
    path = pixels[shortest_path(graph, solution, last).numpy()]
    return Geodesic(inside, field, path, (top, left), (bottom, right), p)


def read_image(path: str | Path) -> NDArray[np.float64]:
    """Reads grey values `[H, W]` from 0 (black) to 1 (white). Transparent pixels are white."""
    from matplotlib.image import imread

    if not Path(path).is_file():
        raise InputFileError(str(path), "be a file", but="there is none")
    try:
        pixels = np.asarray(imread(path))
    except (ValueError, OSError, SyntaxError) as error:  # damaged PNG files are a SyntaxError to Pillow
        raise InputFileError(str(path), "be an image such as a PNG or JPEG file", but="it cannot be read") from error
    grey = pixels.astype(np.float64) / (np.iinfo(pixels.dtype).max if pixels.dtype.kind in "ui" else 1)
    if grey.ndim == 3:
        colours, opacity = grey[..., :3], grey[..., 3] if grey.shape[2] == 4 else 1.0
        grey = (colours @ LUMA) * opacity + (1 - opacity)
    if grey.min() == grey.max():
        raise InputFileError(str(path), "contain two colours", "one", "Draw a dark shape on a light background.")
    return grey


def _node(inside: NDArray[np.bool_], pixel: Pixel | None, name: str) -> int | None:
    """The number of a pixel among those inside."""
    if pixel is None:
        return None
    (row, column), (height, width) = pixel, inside.shape
    within_image = 0 <= row < height and 0 <= column < width
    if not within_image or not inside[pixel]:
        where = "outside the shape" if within_image else f"outside the {height} x {width} image"
        remedy = f"The nearest pixel inside is {_nearest(inside, pixel)}."
        raise InputError(name, "be a pixel row,column inside the shape", f"{row},{column}, {where}", remedy)
    return int(inside.ravel()[: row * width + column].sum())


def _nearest(candidates: NDArray[np.bool_], pixel: Pixel) -> str:
    pixels = np.argwhere(candidates)
    row, column = pixels[((pixels - np.array(pixel)) ** 2).sum(1).argmin()]
    return f"{row},{column}"
