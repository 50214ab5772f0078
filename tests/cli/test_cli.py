"""The command line: what it prints where, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.image import imsave
from typer.testing import CliRunner

import lggd
from lggd.cli import app

PNG = b"\x89PNG"
SMALL = ("--points", "800", "--epsilon", "0.2", "--seeds", "2", "--edges", "10", "--edges", "100")


def run(*arguments: object, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=env)


def refused(*arguments: object) -> str:
    """The one sentence on stderr of a command that must end with exit code 2 and say nothing on stdout."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1
    return str(result.stderr)


def as_json(*arguments: object) -> dict[str, Any]:
    """What is on stdout, which must be one JSON object without NaN or Infinity."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output

    def forbid(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    found = json.loads(result.stdout, parse_constant=forbid)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def roads(tmp_path: Path) -> Path:
    path = tmp_path / "roads.csv"
    path.write_text("source,target,weight\nhome,mill,1\nmill,work,0.25\nwork,home,0.01\nisle,cape,1\n")
    return path


@pytest.fixture
def bracket(tmp_path: Path) -> Path:
    """A picture of a C: black strokes on white."""
    mask = np.zeros((9, 12), bool)
    mask[1, 1:11] = mask[7, 1:11] = mask[1:8, 1] = True
    imsave(tmp_path / "c.png", ~mask, cmap="gray")
    return tmp_path / "c.png"


# -- the program --------------------------------------------------------------------------------------------------


def test_version() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"lggd {lggd.__version__}\n"


@pytest.mark.parametrize("command", [["distance"], ["figure", "robustness"], ["figure", "geodesic"]])
def test_help_teaches_by_example(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"lggd {' '.join(command)}" in result.stdout
    assert "--json" in result.stdout


def test_usage_errors(roads: Path) -> None:
    for wrong in (
        ["nonsense"],
        ["distance"],
        ["distance", roads, "--p", "many"],
        ["distance", roads, "--solver", "luck"],
    ):
        result = run(*wrong)
        assert result.exit_code == 2
        assert result.stdout == ""


def test_program_ends_with_the_code_and_one_sentence(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", "from lggd.cli import main; main()", "distance", "nowhere.csv", "--source", "a"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(lggd.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "`nowhere.csv` must be a file, but there is none. Check the name and the folder.\n"


def test_failure_hints_at_debug(roads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("operands do not fit")

    monkeypatch.setattr(lggd, "distance", fail)
    wanted = ("distance", roads, "--source", "home", "--symmetrize", "max")
    quiet = run(*wanted)
    assert quiet.exit_code == 1
    assert quiet.stdout == ""
    assert quiet.stderr.startswith(
        "Failed unexpectedly with ValueError: operands do not fit. Run it again with --debug"
    )
    for loud in (run(*wanted, "--debug"), run(*wanted, env={"LGGD_DEBUG": "1"})):
        assert loud.exit_code == 1
        assert "Traceback" in loud.stderr


def test_debug_shows_where_bad_input_was_found(tmp_path: Path) -> None:
    result = run("distance", tmp_path / "nowhere.csv", "--source", "a", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


def test_interrupt(roads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lggd, "distance", interrupt)
    result = run("distance", roads, "--source", "home", "--symmetrize", "max")
    assert result.exit_code == 130
    assert result.stdout == ""


# -- distance -----------------------------------------------------------------------------------------------------


def test_distance_prints_a_table(roads: Path) -> None:
    result = run("distance", roads, "--source", "home", "--symmetrize", "max", "--p", "inf", "--path-to", "work")
    assert result.exit_code == 0
    assert result.stderr == ""
    for part in ("5", "4 undirected", "Dijkstra", "3 of 5 nodes", "isle", "out of reach", "home → mill → work"):
        assert part in result.stdout


def test_distance_as_json(roads: Path) -> None:
    found = as_json("distance", roads, "--source", "home", "--symmetrize", "max", "--p", "inf", "--path-to", "work")
    assert found.pop("seconds") > 0
    assert found == {
        "nodes": 5,
        "edges": 4,
        "directed": False,
        "p": "inf",
        "method": "Dijkstra",
        "status": "UNREACHABLE",
        "reachable": 3,
        "max": 3.0,
        "sources": ["home"],
        "out": None,
        "path": ["home", "mill", "work"],
        "distances": {"home": 0.0, "mill": 1.0, "work": 3.0, "isle": None, "cape": None},
    }


def test_distance_to_a_file(roads: Path, tmp_path: Path) -> None:
    out = tmp_path / "far.csv"
    found = as_json("distance", roads, "--source", "home", "--symmetrize", "max", "--p", "inf", "--out", out)
    assert found["out"] == str(out)
    assert found["distances"] is None
    assert out.read_text() == "node,distance\nhome,0.0\nmill,1.0\nwork,3.0\nisle,inf\ncape,inf\n"


def test_sources_add_up(roads: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("cape\nhome\n")
    options = ("--source", "home", "--source", "mill", "--sources-file", tmp_path / "more.txt")
    found = as_json("distance", roads, *options, "--symmetrize", "max")
    assert found["sources"] == ["home", "mill", "cape"]
    assert found["status"] == "EXACT"


@pytest.mark.parametrize("solver", ["auto", "marching", "iterative"])
def test_solvers_and_potential_agree(roads: Path, solver: str) -> None:
    options = ("--source", "home", "--symmetrize", "max", "--p", "2", "--alpha", "-1", "--solver", solver)
    found = as_json("distance", roads, *options)
    assert found["distances"]["mill"] == pytest.approx(1.25)  # its degree is 1 + 1/4


def test_directed_walks_along_the_arrows(roads: Path) -> None:
    found = as_json("distance", roads, "--source", "work", "--directed", "--p", "inf")
    assert found["directed"] is True
    assert found["edges"] == 4
    assert found["distances"] == {"home": 3.0, "mill": 2.0, "work": 0.0, "isle": None, "cape": None}


def test_unbounded_and_mean(tmp_path: Path) -> None:
    (tmp_path / "heavy.csv").write_text("a,b,4\nb,a,28\n")
    found = as_json("distance", tmp_path / "heavy.csv", "--source", "a", "--symmetrize", "mean", "--unbounded")
    assert found["distances"] == {"a": 0.0, "b": 0.25}


def test_distance_of_a_matrix(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "path.npz", sp.diags_array([np.ones(2), np.ones(2)], offsets=[-1, 1]))
    found = as_json("distance", tmp_path / "path.npz", "--source", "0")
    assert found["distances"] == {"0": 0.0, "1": 1.0, "2": 2.0}


def test_warnings_stay_off_stdout(tmp_path: Path) -> None:
    (tmp_path / "loop.csv").write_text("a,b\nb,a\nb,b\n")
    result = run("distance", tmp_path / "loop.csv", "--source", "a", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["distances"] == {"a": 0.0, "b": 1.0}
    assert result.stderr.startswith("Self-loops dropped: 1, the first at node b.")


def test_long_tables_are_cut(tmp_path: Path) -> None:
    (tmp_path / "path.csv").write_text("".join(f"n{k},n{k + 1}\n" for k in range(30)))
    result = run("distance", tmp_path / "path.csv", "--source", "n0", "--symmetrize", "max")
    assert "n9" in result.stdout
    assert "n10" not in result.stdout
    assert "21 more" in result.stdout


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", [], "must hold at least one edge, got an empty file"),
        ("a,b,1\nb,c,heavy\n", [], "line 2, column 3, must be a positive weight, got 'heavy'"),
        ("a,b\nb,c\n", [], "The edges must be symmetric, got (a, b) without (b, a). Pass --symmetrize max or mean"),
        ("a,b,3\nb,a,3\n", [], "The weights must lie in (0, 1], got 3 on edge (a, b)."),
        ("a,b,3\nb,a,3\n", [], "pass --unbounded"),
        ("a,b\nb,a\n", ["--p", "0.5"], "`--p` must lie in [1, inf], got 0.5. Use --p inf for shortest paths."),
        ("a,b\nb,a\n", ["--p", "nan"], "`--p` must lie in [1, inf], got nan."),
        ("a,b\nb,a\n", ["--source", "z"], "`--source` must be one of the 2 nodes there are, got 'z'."),
        ("a,b\nb,a\n", ["--path-to", "z"], "`--path-to` must be one of the 2 nodes there are, got 'z'."),
        (
            "a,b\nb,a\nc,d\nd,c\n",
            ["--path-to", "d"],
            "`--path-to` must be reachable, but node d has no way to a source.",
        ),
        ("a,b\nb,a\n", ["--solver", "dijkstra"], "`--solver dijkstra` finds shortest paths, p = inf, got p=1.0."),
        ("a,b\nb,a\n", ["--directed", "--symmetrize", "max"], "`--directed` keeps the arrows that --symmetrize max"),
        ("a,b\nb,a\nb,c\nc,b\n", ["--alpha", "inf"], "The potential degree^alpha must be positive and finite, got inf"),
        ("a,b\nb,a\n", ["--out", "nowhere/far.csv"], "must lie in a folder that exists, got nowhere. Create it first."),
        ("a,b\nb,a\n", ["--out", "."], "must name a file to write, got a folder."),
        ("a,b\nb,a\n", ["--sources-file", "nowhere.txt"], "`nowhere.txt` must be a file, but there is none."),
    ],
)
def test_bad_input_is_told_in_one_sentence(tmp_path: Path, text: str, options: list[str], said: str) -> None:
    (tmp_path / "edges.csv").write_text(text)
    arguments = ("distance", tmp_path / "edges.csv", "--source", "a", *options)
    assert said in refused(*arguments)


def test_a_source_is_needed(roads: Path) -> None:
    assert "`--source` must be given at least once" in refused("distance", roads, "--symmetrize", "max")


# -- figures ------------------------------------------------------------------------------------------------------


def test_robustness_draws_and_tells(tmp_path: Path) -> None:
    out = tmp_path / "robust.png"
    result = run("figure", "robustness", *SMALL, "--with-p2", "--out", out)
    assert result.exit_code == 0
    assert result.stderr == ""
    for part in ("n = 10", "n = 100", "inf", " %", "mean of 2 draws"):
        assert part in result.stdout
    assert out.read_bytes().startswith(PNG)


def test_robustness_as_json_is_the_same_each_time(tmp_path: Path) -> None:
    out = tmp_path / "robust.png"
    first, second = (as_json("figure", "robustness", *SMALL, "--out", out) for _ in range(2))
    assert [(row["p"], row["extra_edges"]) for row in first["change"]] == [(1, 10), (1, 100), ("inf", 10), ("inf", 100)]
    assert all(row["mean"] == pytest.approx(np.mean(row["each"])) for row in first["change"])
    for found in (first, second):
        assert found.pop("seconds") > 0
    assert first == second
    assert first["points"] == 800
    assert first["out"] == str(out)


def test_geodesic_draws_and_tells(tmp_path: Path, bracket: Path) -> None:
    out = tmp_path / "way.png"
    result = run("figure", "geodesic", "--image", bracket, "--out", out)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "22.8284, p = inf" in result.stdout
    assert out.read_bytes().startswith(PNG)


def test_geodesic_as_json(tmp_path: Path, bracket: Path) -> None:
    options = ("--image", bracket, "--source", "1,10", "--target", "1,7", "--p", "1", "--out", tmp_path / "way.png")
    found = as_json("figure", "geodesic", *options)
    assert (found["height"], found["width"], found["pixels"]) == (9, 12, 25)
    assert (found["source"], found["target"], found["p"]) == ([1, 10], [1, 7], 1)
    assert found["path"] == [[1, 10], [1, 9], [1, 8], [1, 7]]
    assert found["distance"] == pytest.approx(3)


def test_geodesic_through_the_dragon(tmp_path: Path) -> None:
    found = as_json("figure", "geodesic", "--out", tmp_path / "way.png")
    assert found["image"] is None
    assert found["distance"] > 1000


def test_figures_refuse(tmp_path: Path, bracket: Path) -> None:
    imsave(tmp_path / "blank.png", np.ones((4, 4, 3)))
    out = tmp_path / "way.png"

    def said(*options: object) -> str:
        return refused("figure", "geodesic", "--out", out, *options)

    assert "`--image` must show two colours, got 1 in every pixel. Draw a dark" in said(
        "--image", tmp_path / "blank.png"
    )
    assert "nowhere.png` must be an image file" in said("--image", tmp_path / "nowhere.png")
    assert "`--source` must be two whole numbers row,column" in said("--source", "12")
    assert "The nearest one inside is 1,6." in said("--image", bracket, "--source", "3,6")
    assert "`--target` must be a pixel row,column inside" in said("--image", bracket, "--target", "99,0")
    assert "`--p` must lie in [1, inf], got 0.5" in said("--image", bracket, "--p", "0.5")
    assert "must end in .png" in said("--out", tmp_path / "way.bmp")
    assert "must lie in a folder that exists" in refused("figure", "robustness", "--out", tmp_path / "no" / "x.png")
    assert "`--epsilon` must lie in (0, 1)" in refused("figure", "robustness", "--epsilon", "2", "--out", out)
    assert not out.exists()
