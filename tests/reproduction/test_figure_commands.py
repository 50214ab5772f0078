"""python -m reproduction figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imsave

from support.reproducing import answer, command, refused

PNG = b"\x89PNG"
SMALL = ("--points", "800", "--epsilon", "0.2", "--seeds", "2", "--edges", "10", "--edges", "100")


@pytest.fixture
def bracket(tmp_path: Path) -> Path:
    """A picture of a C: black strokes on white."""
    mask = np.zeros((9, 12), bool)
    mask[1, 1:11] = mask[7, 1:11] = mask[1:8, 1] = True
    imsave(tmp_path / "c.png", ~mask, cmap="gray")
    return tmp_path / "c.png"


def test_robustness_draws_and_prints(tmp_path: Path) -> None:
    out = tmp_path / "robust.png"
    result = command("figure", "robustness", *SMALL, "--with-p2", "--out", out)
    assert result.exit_code == 0
    assert result.stderr == ""
    for part in ("n = 10", "n = 100", "inf", " %", "mean of 2 draws"):
        assert part in result.stdout
    assert out.read_bytes().startswith(PNG)


def test_robustness_as_json_is_the_same_each_time(tmp_path: Path) -> None:
    out = tmp_path / "robust.png"
    first, second = (answer("figure", "robustness", *SMALL, "--out", out) for _ in range(2))
    assert [(row["p"], row["extra_edges"]) for row in first["change"]] == [(1, 10), (1, 100), ("inf", 10), ("inf", 100)]
    assert all(row["mean"] == pytest.approx(np.mean(row["each"])) for row in first["change"])
    for found in (first, second):
        assert found.pop("seconds") > 0
    assert first == second
    assert first["points"] == 800
    assert first["out"] == str(out)


def test_geodesic_draws_and_prints(tmp_path: Path, bracket: Path) -> None:
    out = tmp_path / "path.png"
    result = command("figure", "geodesic", "--image", bracket, "--out", out)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "22.8284" in result.stdout
    assert out.read_bytes().startswith(PNG)


def test_geodesic_answer(tmp_path: Path, bracket: Path) -> None:
    options = ("--image", bracket, "--source", "1,10", "--target", "1,7", "--p", "1", "--out", tmp_path / "path.png")
    found = answer("figure", "geodesic", *options)
    assert (found["height"], found["width"], found["pixels"]) == (9, 12, 25)
    assert (found["source"], found["target"], found["p"]) == ([1, 10], [1, 7], 1)
    assert found["path"] == [[1, 10], [1, 9], [1, 8], [1, 7]]
    assert found["distance"] == pytest.approx(3)


def test_geodesic_through_the_dragon(tmp_path: Path) -> None:
    found = answer("figure", "geodesic", "--out", tmp_path / "path.png")
    assert found["image"] is None
    assert found["distance"] > 1000


def test_invalid_arguments_are_refused(tmp_path: Path, bracket: Path) -> None:
    imsave(tmp_path / "blank.png", np.ones((4, 4, 3)))
    out = tmp_path / "path.png"

    def message(*options: object) -> str:
        return refused("figure", "geodesic", "--out", out, *options)

    assert "blank.png` must contain two colours, got one. Draw a dark" in message("--image", tmp_path / "blank.png")
    assert "nowhere.png` must be a file" in message("--image", tmp_path / "nowhere.png")
    assert "`--source` must be two whole numbers row,column" in message("--source", "12")
    assert "The nearest pixel inside is 1,6." in message("--image", bracket, "--source", "3,6")
    assert "`--target` must be a pixel row,column inside" in message("--image", bracket, "--target", "99,0")
    assert "`--p` must lie in [1, inf], got 0.5" in message("--image", bracket, "--p", "0.5")
    assert "must end in .png" in message("--out", tmp_path / "path.bmp")
    assert "must lie in a folder that exists" in refused("figure", "robustness", "--out", tmp_path / "no" / "x.png")
    assert "`--epsilon` must lie in (0, 1)" in refused("figure", "robustness", "--epsilon", "2", "--out", out)
    assert not out.exists()
