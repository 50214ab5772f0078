"""The geodesic between two pixels of a shape (paper, teaser)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lggd.distances import distance, shortest_path
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.graph.geometry import dark_half

Pixel = tuple[int, int]
# How bright red, green and blue look (Rec. 601).
BRIGHTNESS = np.array([0.299, 0.587, 0.114])


@dataclass(frozen=True, eq=False)
class Geodesic:
    """A shape, the distance of its pixels from `source`, and the way from there to `target`.

    `distance` has the shape of `shape`, inf outside and out of reach. `path` is `[L, 2]`, rows and columns.
    """

    shape: NDArray[np.bool_]
    distance: NDArray[np.float64]
    path: NDArray[np.int64]
    source: Pixel
    target: Pixel
    p: float

    @property
    def length(self) -> float:
        """The distance of the target. For p = ∞ it is the length of the path in pixels, diagonal steps being √2."""
        return float(self.distance[self.target])


def geodesic(
    shape: NDArray[np.generic], *, source: Pixel | None = None, target: Pixel | None = None, p: float = math.inf
) -> Geodesic:
    """Walks from `source` to `target` inside a mask, or the dark half of an image; pixels touch at corners too.

    A missing end is the pixel farthest from the other one; where both are missing, they are two far ends of the largest
    piece of the shape.
    """
    inside = dark_half(np.asarray(shape))
    for name, pixel in (("source", source), ("target", target)):
        if pixel is not None:
            _check_inside(inside, pixel, name)
    graph = Graph.from_grid(inside, connectivity=8, dtype=torch.float64)
    pixels = np.argwhere(inside)
    number = np.full(inside.shape, -1, np.int64)
    number[inside] = np.arange(len(pixels))
    if source is None:
        start = _farthest(graph, number[target] if target is not None else _farthest(graph, _in_largest_piece(graph)))
        source = _as_pixel(pixels[start])
    if target is None:
        target = _as_pixel(pixels[_farthest(graph, number[source])])
    solution = distance(graph, [int(number[source])], p=p)
    field = np.full(inside.shape, np.inf)
    field[inside] = solution.value.numpy()
    if not math.isfinite(field[target]):
        nearest = _nearest(np.isfinite(field), target)
        raise InputError(
            "target",
            "be joined to the source by the shape",
            f"{_written(target)} in another piece of it",
            f"The nearest pixel that is joined is {_written(nearest)}.",
        )
    path = pixels[shortest_path(graph, solution, int(number[target])).numpy()]
    return Geodesic(inside, field, path, source, target, p)


def read_image(path: str | Path) -> NDArray[np.float64]:
    """Grey values `[H, W]` from 0, black, to 1, white. What is transparent shows white paper."""
    from matplotlib.image import imread

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"`{path}` must be an image file, but there is none. Check the name and the folder.")
    try:
        pixels = np.asarray(imread(path))
    except (ValueError, OSError, SyntaxError) as wrong:  # damaged PNG files are a SyntaxError to Pillow
        raise InputError(path, "be an image such as a PNG or JPEG file", but="it cannot be read") from wrong
    grey = pixels.astype(np.float64) / (np.iinfo(pixels.dtype).max if pixels.dtype.kind in "ui" else 1)
    if grey.ndim == 3:
        colours, opacity = grey[..., :3], grey[..., 3] if grey.shape[2] == 4 else 1.0
        grey = (colours @ BRIGHTNESS) * opacity + (1 - opacity)
    return grey


def _check_inside(inside: NDArray[np.bool_], pixel: Pixel, name: str) -> None:
    height, width = inside.shape
    row, column = pixel
    if 0 <= row < height and 0 <= column < width and inside[pixel]:
        return
    where = "outside the shape" if 0 <= row < height and 0 <= column < width else f"off the {height} x {width} image"
    raise InputError(
        name,
        "be a pixel row,column inside the shape",
        f"{_written(pixel)}, {where}",
        f"The nearest one inside is {_written(_nearest(inside, pixel))}.",
    )


def _nearest(among: NDArray[np.bool_], pixel: Pixel) -> Pixel:
    candidates = np.argwhere(among)
    return _as_pixel(candidates[((candidates - np.array(pixel)) ** 2).sum(1).argmin()])


def _in_largest_piece(graph: Graph) -> int:
    piece = graph.components
    return int((piece == torch.bincount(piece).argmax()).nonzero()[0])


def _farthest(graph: Graph, node: int | np.integer) -> int:
    """The node with the longest shortest path to `node`, among those that have one."""
    away = distance(graph, [int(node)], p=math.inf).value
    return int(away.masked_fill(torch.isinf(away), -1).argmax())


def _as_pixel(place: NDArray[np.integer]) -> Pixel:
    return int(place[0]), int(place[1])


def _written(pixel: Pixel) -> str:
    return f"{pixel[0]},{pixel[1]}"
