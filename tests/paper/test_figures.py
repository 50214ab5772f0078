"""The experiments: their numbers, their drawings, and what they refuse."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread, imsave
from scipy.ndimage import label

from lggd import Graph
from lggd.paper.dragon import dragon
from lggd.paper.figures import draw_geodesic, draw_robustness, save
from lggd.paper.geodesic import geodesic, read_image
from lggd.paper.robustness import Robustness, disk_points, random_edges, robustness, with_edges

SIGNATURES = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


@pytest.fixture(scope="module")
def small() -> Robustness:
    return robustness(points=800, epsilon=0.2, extra_edges=(100, 10), exponents=(1, 2, math.inf), seeds=2)


# -- robustness ---------------------------------------------------------------------------------------------------


def test_points_are_uniform_in_the_disk() -> None:
    radius = np.linalg.norm(disk_points(20_000, np.random.default_rng(0)), axis=1)
    assert radius.max() < 1
    # A quarter of the area lies within half the radius; four standard errors of 20,000 draws.
    assert abs((radius < 0.5).mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 20_000)


def test_result_holds_what_it_says(small: Robustness) -> None:
    assert small.points.shape == (800, 2)
    assert small.extra_edges == (10, 100)
    assert small.exponents == (1, 2, math.inf)
    assert small.unreachable == 0
    for p in small.exponents:
        assert small.distances[p].shape == (3, 800)
        assert small.change[p].shape == (2, 2)
        assert (small.distances[p][:, small.boundary] == 0).all()
        assert (small.distances[p][1:] <= small.distances[p][0] + 1e-12).all()


def test_p_1_bears_wrong_edges_best(small: Robustness) -> None:
    for row in range(2):
        changes = [small.mean_change(p)[row] for p in small.exponents]
        assert changes == sorted(changes)
    assert small.mean_change(1)[0] < 0.05 < small.mean_change(math.inf)[0]


def test_change_is_the_relative_norm(small: Robustness) -> None:
    before, after = small.distances[1.0][0], small.distances[1.0][2]
    assert small.change[1.0][1, 0] == pytest.approx(np.linalg.norm(after - before) / np.linalg.norm(before))


def test_same_seed_same_numbers(small: Robustness) -> None:
    again = robustness(points=800, epsilon=0.2, extra_edges=(10, 100), exponents=(1, 2, math.inf), seeds=2)
    other = robustness(points=800, epsilon=0.2, extra_edges=(10, 100), exponents=(1,), seeds=1, seed=1)
    for p in small.exponents:
        np.testing.assert_array_equal(again.change[p], small.change[p])
        np.testing.assert_array_equal(again.distances[p], small.distances[p])
    assert not np.array_equal(other.points, small.points)


def test_random_edges_are_new_and_distinct() -> None:
    graph = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max", num_nodes=5)
    drawn = random_edges(graph, 8, np.random.default_rng(0))
    assert sorted(zip(*drawn.tolist(), strict=True)) == [
        (0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)
    ]  # fmt: skip
    assert with_edges(graph, drawn).num_edges == 20
    with pytest.raises(ValueError, match="`extra_edges` must be at most the 8 pairs that are not joined yet, got 9"):
        random_edges(graph, 9, np.random.default_rng(0))


def test_progress_reaches_the_end() -> None:
    seen: list[tuple[int, int]] = []
    robustness(
        points=300, epsilon=0.3, extra_edges=(5,), seeds=2, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(k, 6) for k in range(1, 7)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"points": 1}, "`points` must be at least 2, got 1"),
        ({"epsilon": 0.0}, r"`epsilon` must lie in \(0, 1\)"),
        ({"epsilon": math.nan}, r"`epsilon` must lie in \(0, 1\)"),
        ({"epsilon": 1e-9}, "`epsilon` must reach from the rim to a point"),
        ({"epsilon": 0.05}, "`epsilon` must join the rim to points farther inside"),
        ({"extra_edges": ()}, "`extra_edges` must be numbers of at least 1"),
        ({"extra_edges": (0,)}, "`extra_edges` must be numbers of at least 1"),
        ({"exponents": ()}, "`exponents` must hold at least one p"),
        ({"exponents": (0.5,)}, r"`p` must lie in \[1, inf\], got 0.5"),
        ({"seeds": 0}, "`seeds` must be at least 1, got 0"),
        ({"seed": -1}, "`seed` must be at least 0, got -1"),
    ],
)
def test_robustness_refuses(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        robustness(**({"points": 60, "epsilon": 0.4, "extra_edges": (3,), "seeds": 1} | wrong))  # type: ignore[arg-type]


# -- geodesic -----------------------------------------------------------------------------------------------------


def bracket() -> np.ndarray:
    """A C of one-pixel strokes, opening to the right: from one tip to the other it is 9 + 6 + 9 steps, less corners."""
    mask = np.zeros((9, 12), bool)
    mask[1, 1:11] = mask[7, 1:11] = mask[1:8, 1] = True
    return mask


def test_dragon_is_one_piece_and_bends() -> None:
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


def test_largest_piece_is_taken() -> None:
    mask = np.zeros((5, 9), bool)
    mask[0, 0] = mask[2, 2:8] = True
    found = geodesic(mask)
    assert {found.source, found.target} == {(2, 2), (2, 7)}


def test_ends_outside_name_the_nearest_inside() -> None:
    with pytest.raises(ValueError, match=r"`source` .* got 3,6, outside the shape. The nearest one inside is 1,6"):
        geodesic(bracket(), source=(3, 6))
    with pytest.raises(ValueError, match=r"`target` .* got -4,0, off the 9 x 12 image. The nearest one inside is 1,1"):
        geodesic(bracket(), target=(-4, 0))


def test_ends_in_two_pieces() -> None:
    mask = np.array([[True, False, True, True]])
    with pytest.raises(ValueError, match=r"`target` must be joined .* got 0,3 .* The nearest .* joined is 0,0"):
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


def test_images_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.png` must be an image file, but there is none"):
        read_image(tmp_path / "nowhere.png")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(ValueError, match="must be an image such as a PNG or JPEG file"):
        read_image(tmp_path / "text.png")
    with pytest.raises(ValueError, match="`mask` must show two colours"):
        geodesic(np.ones((4, 4)))


# -- drawings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", SIGNATURES)
def test_figures_are_written(tmp_path: Path, small: Robustness, ending: str) -> None:
    for name, figure in (("robust", draw_robustness(small)), ("way", draw_geodesic(geodesic(bracket(), p=1)))):
        path = tmp_path / f"{name}{ending}"
        save(figure, path)
        assert path.read_bytes().startswith(SIGNATURES[ending])
    assert len(list(tmp_path.iterdir())) == 2


def test_drawing_shows_boundary_red_and_centre_yellow(tmp_path: Path, small: Robustness) -> None:
    figure = draw_robustness(small)
    assert [panel.get_title() for panel in figure.axes[:3]] == ["n = 0", "n = 10", "n = 100"]
    save(figure, tmp_path / "robust.png")
    colours = imread(tmp_path / "robust.png")[..., :3].reshape(-1, 3)
    assert (np.abs(colours - (1, 0, 0)).max(1) < 0.02).any()
    assert (np.abs(colours - (1, 1, 0)).max(1) < 0.05).any()


def test_a_point_out_of_reach_is_drawn(tmp_path: Path) -> None:
    result = robustness(points=60, epsilon=0.17, extra_edges=(1,), seeds=1)
    assert result.unreachable > 0
    assert np.isfinite(result.mean_change(1)).all()
    save(draw_robustness(result), tmp_path / "robust.png")


def test_figures_need_a_place(tmp_path: Path, small: Robustness) -> None:
    figure = draw_geodesic(geodesic(bracket()))
    with pytest.raises(ValueError, match=r"must end in \.png, \.pdf, \.svg, got '\.gif'"):
        save(figure, tmp_path / "way.gif")
    with pytest.raises(OSError, match="must lie in a folder that exists"):
        save(figure, tmp_path / "nowhere" / "way.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(OSError, match="must name a file to write, got a folder"):
        save(figure, tmp_path / "folder.png")
