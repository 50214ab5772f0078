"""The figures of the paper and of the measured accuracies."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from lggd.errors import InputError, InputFileError
from reproduction.figures import (
    draw_ablation,
    draw_backbones,
    draw_dynamic,
    draw_geodesic,
    draw_robustness,
    draw_table,
    save,
)
from reproduction.geodesic import geodesic
from reproduction.measurements import DATASETS
from reproduction.robustness import Robustness, robustness
from support.result_lines import all_lines, measured

SIGNATURES = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
DOTS_PER_INCH = 60
SHAPE = np.array([[True, True, True], [True, False, False], [True, True, True]])


@pytest.fixture(scope="module")
def small() -> Robustness:
    return robustness(points=800, epsilon=0.2, extra_edges=(100, 10), exponents=(1, math.inf), seeds=1)


def test_figures_are_written(tmp_path: Path) -> None:
    figure = draw_geodesic(geodesic(SHAPE, p=1))
    for ending, signature in SIGNATURES.items():
        save(figure, tmp_path / f"path{ending}", DOTS_PER_INCH)
        assert (tmp_path / f"path{ending}").read_bytes().startswith(signature)
    assert len(list(tmp_path.iterdir())) == 3


def test_drawing_shows_boundary_red_and_centre_yellow(tmp_path: Path, small: Robustness) -> None:
    figure = draw_robustness(small)
    assert [panel.get_title() for panel in figure.axes[:3]] == ["n = 0", "n = 10", "n = 100"]
    save(figure, tmp_path / "robust.png", DOTS_PER_INCH)
    colours = imread(tmp_path / "robust.png")[..., :3].reshape(-1, 3)
    assert (np.abs(colours - (1, 0, 0)).max(1) < 0.02).any()
    assert (np.abs(colours - (1, 1, 0)).max(1) < 0.05).any()


def test_unreachable_points_are_drawn(tmp_path: Path) -> None:
    result = robustness(points=60, epsilon=0.17, extra_edges=(1,), seeds=1)
    assert result.unreachable > 0
    assert np.isfinite(result.mean_change(1)).all()
    save(draw_robustness(result), tmp_path / "robust.png", DOTS_PER_INCH)


def test_invalid_paths_are_refused(tmp_path: Path) -> None:
    figure = draw_geodesic(geodesic(SHAPE))
    with pytest.raises(InputError, match=r"must end in \.png, \.pdf, \.svg, got '\.gif'"):
        save(figure, tmp_path / "path.gif")
    with pytest.raises(OSError, match="must lie in a folder that exists"):
        save(figure, tmp_path / "nowhere" / "path.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputFileError, match="must name a file to write, got a folder"):
        save(figure, tmp_path / "folder.png")


def test_figures_show_what_was_measured(tmp_path: Path) -> None:
    found = measured(tmp_path, all_lines())
    table, backbones, dynamic, ablation = (
        draw(found) for draw in (draw_table, draw_backbones, draw_dynamic, draw_ablation)
    )
    assert [panel.get_title() for panel in table.axes] == list(DATASETS.values())
    assert [len(panel.containers) for panel in table.axes] == [2] * 5
    assert [len(panel.patches) for panel in backbones.axes] == [12] * 5
    assert [len(panel.lines) for panel in dynamic.axes] == [3] * 3
    assert [bar.get_width() for bar in ablation.axes[0].patches] == pytest.approx([1.5, -2, 1.5, -2])
