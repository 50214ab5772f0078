"""Geodesics through shapes: their ends, the images they are read from, and what is refused."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imsave
from scipy.ndimage import label

from lggd.errors import InputError
from reproduction.geodesic import DRAGON, geodesic, read_image


def dragon() -> np.ndarray:
    return read_image(DRAGON) <= 0.5


def bracket() -> np.ndarray:
    """A C of one-pixel strokes, open to the right: 9 + 6 + 9 steps from one tip to the other, minus the corners."""
    mask = np.zeros((9, 12), bool)
    mask[1, 1:11] = mask[7, 1:11] = mask[1:8, 1] = True
    return mask


def test_dragon_is_connected_and_curved() -> None:
    shape = dragon()
    assert shape.shape == (400, 600)
    assert label(shape, np.ones((3, 3)))[1] == 1
    found = geodesic(shape)
    straight = math.dist(found.source, found.target)
    assert found.length > 3 * straight


def test_ends_are_found() -> None:
    found = geodesic(bracket())
    assert {found.source, found.target} == {(1, 10), (7, 10)}
    # Two diagonal steps cut the corners.
    assert found.length == pytest.approx(20 + 2 * math.sqrt(2))
    assert tuple(found.path[0]) == found.source
    assert tuple(found.path[-1]) == found.target
    assert bracket()[tuple(found.path.T)].all()
    assert (np.abs(np.diff(found.path, axis=0)).max(1) == 1).all()
    assert np.isinf(found.distance[~found.shape]).all()


def test_one_end_given() -> None:
    assert geodesic(bracket(), source=(1, 10)).target == (7, 10)
    assert geodesic(bracket(), target=(1, 10)).source == (7, 10)
    assert geodesic(bracket(), source=(4, 1), target=(4, 1)).path.tolist() == [[4, 1]]


def test_largest_component_is_used() -> None:
    mask = np.zeros((5, 9), bool)
    mask[0, 0] = mask[2, 2:8] = True
    found = geodesic(mask)
    assert {found.source, found.target} == {(2, 2), (2, 7)}


def test_ends_outside_name_the_nearest_inside() -> None:
    with pytest.raises(InputError, match=r"`source` .* got 3,6, outside the shape. The nearest pixel inside is 1,6"):
        geodesic(bracket(), source=(3, 6))
    with pytest.raises(
        InputError, match=r"`target` .* got -4,0, outside the 9 x 12 image. The nearest pixel inside is 1,1"
    ):
        geodesic(bracket(), target=(-4, 0))


def test_ends_in_two_components() -> None:
    mask = np.array([[True, False, True, True]])
    with pytest.raises(
        InputError, match=r"`target` must be connected .* got 0,3 .* The nearest connected pixel is 0,0"
    ):
        geodesic(mask, source=(0, 0), target=(0, 3))


def test_images_are_read_as_grey_on_white(tmp_path: Path) -> None:
    pixels = np.ones((2, 3, 4))
    pixels[0, 0] = (0, 0, 0, 1)  # black
    pixels[0, 1] = (0, 0, 0, 0)  # transparent
    pixels[0, 2] = (0, 1, 0, 1)  # green
    imsave(tmp_path / "shape.png", pixels)
    grey = read_image(tmp_path / "shape.png")
    assert grey == pytest.approx(np.array([[0, 1, 0.587], [1, 1, 1]]))
    imsave(tmp_path / "shape.jpg", np.stack([~dragon() * 255] * 3, axis=2).astype(np.uint8))
    dark = read_image(tmp_path / "shape.jpg") <= 0.5
    assert (dark != dragon()).mean() < 0.01


def test_invalid_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"nowhere\.png` must be a file"):
        read_image(tmp_path / "nowhere.png")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(InputError, match="must be an image such as a PNG or JPEG file"):
        read_image(tmp_path / "text.png")
    with pytest.raises(InputError, match="`mask` must contain two colours"):
        geodesic(np.ones((4, 4)))


def test_committed_dragon_is_the_one_that_is_drawn() -> None:
    drawing = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "draw_dragon.py"))
    np.testing.assert_array_equal(drawing["dragon"](), dragon())
