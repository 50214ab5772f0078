"""lggd distance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from support.command_line import answer, command, refused


@pytest.fixture
def roads(tmp_path: Path) -> Path:
    path = tmp_path / "roads.csv"
    path.write_text("source,target,weight\nhome,mill,1\nmill,work,0.25\nwork,home,0.01\nisle,cape,1\n")
    return path


def test_distance_prints_a_table(roads: Path) -> None:
    result = command("distance", roads, "--source", "home", "--symmetrize", "max", "--p", "inf", "--path-to", "work")
    assert result.exit_code == 0
    assert result.stderr == ""
    for part in ("5", "4 undirected", "Dijkstra", "3 of 5 nodes", "isle", "unreachable", "home → mill → work"):
        assert part in result.stdout


def test_distance_answer(roads: Path) -> None:
    found = answer("distance", roads, "--source", "home", "--symmetrize", "max", "--p", "inf", "--path-to", "work")
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
        "direction": "from the sources",
        "notes": [],
        "distances": {"home": 0.0, "mill": 1.0, "work": 3.0, "isle": None, "cape": None},
    }


def test_distance_to_a_file(roads: Path, tmp_path: Path) -> None:
    out = tmp_path / "far.csv"
    found = answer("distance", roads, "--source", "home", "--symmetrize", "max", "--p", "inf", "--out", out)
    assert found["out"] == str(out)
    assert found["distances"] is None
    assert out.read_text() == "node,distance\nhome,0.0\nmill,1.0\nwork,3.0\nisle,inf\ncape,inf\n"


def test_sources_add_up(roads: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("cape\nhome\n")
    options = ("--source", "home", "--source", "mill", "--sources-file", tmp_path / "more.txt")
    found = answer("distance", roads, *options, "--symmetrize", "max")
    assert found["sources"] == ["home", "mill", "cape"]
    assert found["status"] == "EXACT"


@pytest.mark.parametrize("solver", ["auto", "marching", "iterative"])
def test_solvers_and_potential_agree(roads: Path, solver: str) -> None:
    options = ("--source", "home", "--symmetrize", "max", "--p", "2", "--alpha", "-1", "--solver", solver)
    found = answer("distance", roads, *options)
    assert found["distances"]["mill"] == pytest.approx(1.25)  # its degree is 1 + 1/4


def test_directed_paths_follow_the_edges(roads: Path) -> None:
    found = answer("distance", roads, "--source", "work", "--directed", "--p", "inf")
    assert found["directed"] is True
    assert found["edges"] == 4
    assert found["distances"] == {"home": 10.0, "mill": 11.0, "work": 0.0, "isle": None, "cape": None}
    back = answer("distance", roads, "--source", "work", "--directed", "--reverse", "--p", "inf", "--path-to", "home")
    assert back["distances"] == {"home": 3.0, "mill": 2.0, "work": 0.0, "isle": None, "cape": None}
    assert back["path"] == ["home", "mill", "work"]
    assert "`--reverse` must be used with --directed" in refused("distance", roads, "--source", "work", "--reverse")


def test_unbounded_and_mean(tmp_path: Path) -> None:
    (tmp_path / "heavy.csv").write_text("a,b,4\nb,a,28\n")
    found = answer("distance", tmp_path / "heavy.csv", "--source", "a", "--symmetrize", "mean", "--unbounded")
    assert found["distances"] == {"a": 0.0, "b": 0.25}


def test_edges_listed_again_with_another_weight_are_reported(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("source,target,km\na,b,1\na,b,3\nb,c,2\n")
    found = answer("distance", tmp_path / "e.csv", "--source", "a", "--directed", "--length", "km", "--p", "inf")
    assert found["distances"] == pytest.approx({"a": 0, "b": 1, "c": 3})
    said = "1 pair of nodes has edges of different lengths (the first: a,b = 1 and a,b = 3); the shorter is kept."
    assert said in found["notes"]


def test_distance_of_a_matrix(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "path.npz", sp.diags_array([np.ones(2), np.ones(2)], offsets=[-1, 1]))
    found = answer("distance", tmp_path / "path.npz", "--source", "0")
    assert found["distances"] == {"0": 0.0, "1": 1.0, "2": 2.0}


def test_long_tables_are_cut(tmp_path: Path) -> None:
    (tmp_path / "path.csv").write_text("".join(f"n{k},n{k + 1}\n" for k in range(30)))
    result = command("distance", tmp_path / "path.csv", "--source", "n0", "--symmetrize", "max")
    assert "n9" in result.stdout
    assert "n10" not in result.stdout
    assert "21 more" in result.stdout


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("", [], "must contain at least one edge, got an empty file"),
        ("a,b,1\nb,c,heavy\n", [], "column 3` must be a positive weight, got 'heavy'"),
        ("a,b\nb,c\n", [], "`EDGES` must be symmetric, got (a, b) without (b, a). Pass --symmetrize max or mean"),
        ("a,b,3\nb,a,3\n", [], "`--weight` must lie in (0, 1], got 3 on edge (a, b)."),
        ("a,b,3\nb,a,3\n", [], "pass --unbounded to allow any positive weight, or --length COLUMN for lengths."),
        ("a,b\nb,a\n", ["--p", "0.5"], "`--p` must lie in [1, inf], got 0.5. Use --p inf for shortest paths."),
        ("a,b\nb,a\n", ["--p", "nan"], "`--p` must lie in [1, inf], got nan."),
        ("a,b\nb,a\n", ["--source", "z"], "`--source` must be one of the 2 nodes, got 'z'."),
        ("a,b\nb,a\n", ["--path-to", "z"], "`--path-to` must be one of the 2 nodes, got 'z'."),
        (
            "a,b\nb,a\nc,d\nd,c\n",
            ["--path-to", "d"],
            "`--path-to` must be reachable, but no path joins node d and a source.",
        ),
        (
            "a,b\nb,a\n",
            ["--solver", "dijkstra"],
            "`--p` must be inf for Dijkstra, which finds shortest paths, got 1.0. Use --solver marching.",
        ),
        (
            "a,b\nb,a\n",
            ["--directed", "--symmetrize", "max"],
            "must be omitted with --directed, which keeps edge directions",
        ),
        ("a,b\nb,a\nb,c\nc,b\n", ["--alpha", "inf"], "`--alpha` must be a finite number, got inf"),
        ("a,b,-1\n", [], "must be a positive weight, got '-1'. There are no negative similarities; shift or rescale"),
        ("a,007\n007,a\n", ["--path-to", "7"], "got '7'. Did you mean '007'?"),
        ("a,b\nb,a\n", ["--out", "nowhere/far.csv"], "must lie in a folder that exists, got nowhere. Create it first."),
        ("a,b\nb,a\n", ["--out", "."], "must name a file to write, got a folder."),
        ("a,b\nb,a\n", ["--sources-file", "nowhere.txt"], "`nowhere.txt` must be a file, but there is none."),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, text: str, options: list[str], expected: str) -> None:
    (tmp_path / "edges.csv").write_text(text)
    arguments = ("distance", tmp_path / "edges.csv", "--source", "a", *options)
    assert expected in refused(*arguments)


def test_a_source_is_needed(roads: Path) -> None:
    assert "`--source` must be used at least once" in refused("distance", roads, "--symmetrize", "max")
