"""Draws reproduction/dragon.png, the silhouette of a dragon: a shape with strongly curved geodesics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.path import Path as Outline
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

HEIGHT, WIDTH = 400, 600
Point = tuple[float, float]
Floats, Mask = NDArray[np.float64], NDArray[np.bool_]

# Points are (x, y) in pixels, y downwards. The body runs from the nape to the tip of the tail.
SPINE: Sequence[Point] = (
    (138, 84), (190, 62), (262, 92), (340, 62), (420, 84), (506, 74), (552, 122), (528, 176), (452, 190),
    (372, 172), (290, 200), (206, 178), (112, 190), (62, 238), (86, 294), (160, 312), (240, 294), (322, 322),
    (404, 300), (470, 318), (528, 306), (556, 274), (534, 246), (498, 250),
)  # fmt: skip
# Thickness of the body at some fractions of its length.
GIRTH = ((0.0, 23.0), (0.08, 27.0), (0.4, 29.0), (0.65, 25.0), (0.85, 13.0), (1.0, 4.0))
SPINES_ON_BACK, SPINE_HEIGHT = 64, 13.0

SKULL: Sequence[Point] = (
    (150, 60), (122, 50), (102, 52), (88, 62), (66, 68), (44, 68), (34, 62), (27, 68), (24, 78), (30, 87), (60, 92),
    (84, 96), (98, 104), (84, 112), (60, 116), (40, 114), (31, 119), (40, 128), (64, 133), (92, 132), (118, 124),
    (146, 110),
)  # fmt: skip
TEETH: Sequence[Sequence[Point]] = (
    ((34, 86), (44, 88), (38, 99)), ((54, 90), (62, 92), (57, 102)), ((74, 93), (82, 95), (76, 104)),
    ((44, 116), (52, 117), (49, 107)), ((66, 117), (74, 115), (71, 107)),
)  # fmt: skip
EYE, EYE_RADIUS = (88, 74), 4.5
HORNS: Sequence[Sequence[Point]] = (
    ((112, 54), (128, 36), (150, 24), (176, 20)),
    ((98, 54), (108, 34), (124, 18), (142, 9)),
)
WHISKERS: Sequence[Sequence[Point]] = (
    ((34, 66), (22, 48), (28, 30), (46, 24), (56, 34)),
    ((60, 130), (58, 148), (44, 160), (28, 156), (24, 144)),
)
# Each leg: hip, knee, ankle, and the tips of its claws.
LEGS: Sequence[tuple[Sequence[Point], Sequence[Point]]] = (
    (((236, 100), (224, 122), (240, 138)), ((224, 146), (238, 150), (254, 144))),
    (((446, 100), (462, 122), (446, 138)), ((430, 142), (442, 150), (458, 149))),
    (((150, 330), (138, 354), (156, 370)), ((140, 378), (154, 384), (170, 378))),
    (((380, 326), (400, 352), (382, 370)), ((366, 376), (380, 384), (396, 380))),
)
# (along, across) from the end of the spine.
TAIL_BLADE: Sequence[Point] = ((0, 3), (-9, 17), (10, 10), (40, 0), (10, -10), (-9, -17), (0, -3))


def dragon() -> Mask:
    """A mask `[400, 600]`, True inside the dragon, which is connected. Its head is at the upper left."""
    canvas = np.zeros((HEIGHT, WIDTH), bool)
    length, girth = np.array(GIRTH).T
    spine = _curve(SPINE, 3000)
    thickness = np.interp(np.linspace(0, 1, len(spine)), length, girth)
    _stroke(canvas, spine, thickness)
    for triangle in _back_spines(spine, thickness):
        _fill(canvas, triangle)
    for leg, claws in LEGS:
        _stroke(canvas, _curve(leg, 200), np.linspace(13, 7, 200))
        for claw in claws:
            _stroke(canvas, np.linspace(leg[-1], claw, 60), np.linspace(5, 1.2, 60))
    for horn in HORNS:
        _stroke(canvas, _curve(horn, 200), np.linspace(7.5, 1.2, 200))
    for whisker in WHISKERS:
        _stroke(canvas, _curve(whisker, 300), np.linspace(3.2, 1.2, 300))
    ahead, outwards = _frame(spine)
    along, across = np.array(TAIL_BLADE).T[:, :, None]
    for outline in (spine[-1] + along * ahead[-1] + across * outwards[-1], SKULL, *TEETH):
        _fill(canvas, outline)
    eye = np.zeros_like(canvas)
    _stroke(eye, np.array([EYE], float), np.array([EYE_RADIUS]))
    return canvas & ~eye


def _curve(through: ArrayLike, samples: int) -> Floats:
    """Points `[samples, 2]`, evenly spaced along a smooth curve through the given points."""
    knots = np.asarray(through, float)
    chord = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(knots, axis=0), axis=1))])
    dense = CubicSpline(chord, knots)(np.linspace(0, chord[-1], 10 * samples))
    walked = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(dense, axis=0), axis=1))])
    even = np.linspace(0, walked[-1], samples)
    return np.stack([np.interp(even, walked, dense[:, axis]) for axis in (0, 1)], axis=1)


def _stroke(canvas: Mask, line: Floats, radius: Floats) -> None:
    """Fills a disc around each point of the line."""
    for centre, r in zip(line, radius, strict=True):
        window, x, y = _window(canvas, centre - r, centre + r)
        window |= (x - centre[0]) ** 2 + (y - centre[1]) ** 2 <= r * r


def _fill(canvas: Mask, corners: ArrayLike) -> None:
    """Fills a polygon."""
    outline = np.asarray(corners, float)
    window, x, y = _window(canvas, outline.min(0), outline.max(0))
    pixels = np.stack(np.broadcast_arrays(x, y), axis=-1).reshape(-1, 2)
    window |= Outline(outline).contains_points(pixels).reshape(window.shape)


def _window(canvas: Mask, low: Floats, high: Floats) -> tuple[Mask, NDArray[np.integer], NDArray[np.integer]]:
    """A view of the pixels between two corners, and their x `[1, w]` and y `[h, 1]`."""
    left, top = np.maximum(low.astype(int), 0)
    right, bottom = high.astype(int) + 2
    window = canvas[top:bottom, left:right]
    y, x = np.ogrid[top : top + window.shape[0], left : left + window.shape[1]]
    return window, x, y


def _back_spines(spine: Floats, thickness: Floats) -> list[Floats]:
    """Triangles evenly spaced on one side of the body, leaning towards the tail and shrinking with it."""
    ahead, outwards = _frame(spine)
    back = spine + outwards * (thickness[:, None] - 2)
    walked = np.cumsum(np.linalg.norm(np.diff(back, axis=0, prepend=back[:1]), axis=1))
    at = np.searchsorted(walked, np.linspace(0.02, 0.93, SPINES_ON_BACK) * walked[-1])
    triangles = []
    for foot, along, out, r in zip(back[at], ahead[at], outwards[at], thickness[at], strict=True):
        half, tip = 0.3 * r * along, SPINE_HEIGHT * r / 29 * out
        triangles.append(np.array([foot - half, foot + half, foot + tip + 1.7 * half]))
    return triangles


def _frame(line: Floats) -> tuple[Floats, Floats]:
    """Unit vectors along the line and to its left, `[n, 2]` each."""
    ahead = np.gradient(line, axis=0)
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
    return ahead, np.stack([ahead[:, 1], -ahead[:, 0]], axis=1)


if __name__ == "__main__":
    # Black on white, one bit per pixel; needs Pillow.
    from pathlib import Path

    from PIL import Image

    image = Image.fromarray(np.where(dragon(), 0, 255).astype(np.uint8)).convert("1")
    image.save(Path(__file__).parents[1] / "reproduction" / "dragon.png", optimize=True)
