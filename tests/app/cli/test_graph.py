"""lggd graph."""

import json
import shutil

import numpy as np
import pytest

import lggd
from support.command_line import answer, command, refused
from support.small_disk import small_disk


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,weight\nada,ben,0.5\nben,cyd,1\ncyd,cyd,1\nben,ada,0.25\n")
    (tmp_path / "nodes.csv").write_text("id,age,kind\nada,31,red\nben,27,blue\ncyd,45,\ndan,20,red\n")
    return tmp_path


def test_build_and_info(tables):
    options = ("--nodes", tables / "nodes.csv", "--label", "kind", "--memory", "1GiB")
    built = answer("graph", "build", tables / "edges.csv", tables / "graph", *options)
    assert (built["nodes"], built["edges"], built["weighted"], built["lines"]) == (4, 2, True, 4)
    assert built["classes"] == {"blue": 1, "red": 2}
    assert built["neighbours"] == {"min": 0, "median": 1.0, "mean": 1.0, "max": 2, "isolated": 1}
    assert any("Self-loops dropped: 1" in note for note in built["notes"])
    assert any("1 of 4 lines repeats an edge" in note for note in built["notes"])
    found = answer("graph", "info", tables / "graph", "--verify")
    assert found["checksums"] == "match"
    assert {key: found[key] for key in ("nodes", "edges", "bytes", "features")} == {
        key: built[key] for key in ("nodes", "edges", "bytes", "features")
    }
    shown = command("graph", "info", tables / "graph").stdout
    for text in ("4, 1 without edges", "2 undirected, weighted", "--verify compares them", "red", "Self-loops"):
        assert text in shown
    weight = lggd.Graph.open(tables / "graph").weight
    assert sorted(weight.tolist()) == [0.5, 0.5, 1, 1]


def test_several_files_and_directions(tables):
    shutil.copy(tables / "edges.csv", tables / "more.csv")
    files = tables / "edges.csv", tables / "more.csv"
    built = answer("graph", "build", *files, tables / "graph", "--directed")
    assert (built["lines"], built["edges"], built["directed"]) == (8, 3, True)


def test_errors_name_options(tables):
    def message(text, *options):
        (tables / "wrong.csv").write_text(text)
        return refused("graph", "build", tables / "wrong.csv", tables / "graph", *options)

    assert "Add --length km" in message("source,target,km\na,b,1\n")
    assert "--unbounded" in message("source,target,weight\na,b,2\n")
    assert "`--memory` must be a size such as 4GiB" in message("a,b\n", "--memory", "lots")
    assert "got no such table. Pass `--nodes` as well." in message("a,b\n", "--label", "kind")
    (tables / "odd.csv").write_text("id,when\nada,2001-01-01\nben,2002-01-01\n")
    assert "--ignore when" in message("source,target\nada,ben\n", "--nodes", tables / "odd.csv")
    assert not (tables / "graph").exists()


def test_a_graph_is_replaced_and_nothing_else(tables):
    answer("graph", "build", tables / "edges.csv", tables / "graph")
    (tables / "pairs.csv").write_text("source,target\nada,ben\n")
    assert answer("graph", "build", tables / "pairs.csv", tables / "graph")["nodes"] == 2
    assert "must be new, empty or contain graph.json" in refused("graph", "build", tables / "pairs.csv", tables)


def test_folders_that_are_no_graph(tables):
    assert "must be the folder of a graph" in refused("graph", "info", tables)
    answer("graph", "build", tables / "edges.csv", tables / "graph")
    indices = tables / "graph" / "indices.npy"
    content = bytearray(indices.read_bytes())
    content[-1] ^= 1
    indices.write_bytes(content)
    assert "must match its checksum" in refused("graph", "info", tables / "graph", "--verify")
    indices.write_bytes(content[:-1])
    assert "It was truncated or replaced" in refused("graph", "info", tables / "graph")
    (tables / "graph" / "graph.json").write_text(json.dumps({"format": "another"}))
    assert "must have the format 'lggd graph'" in refused("graph", "info", tables / "graph")


def test_a_full_disk(tmp_path):
    ends = np.random.default_rng(0).integers(0, 1000, (300_000, 2))
    np.savetxt(tmp_path / "edges.csv", ends, "%d", ",", header="source,target", comments="")
    with small_disk(tmp_path / "disk", size="2m") as disk:
        build = ("graph", "build", tmp_path / "edges.csv", disk.folder / "graph", "--memory", "300MiB")
        status, _, errors = disk.lggd(*build)
        assert status == 1
        assert "must fit on its disk" in errors
        assert "run it again with --resume" in errors
        assert "Traceback" not in errors
        assert disk.sh("test ! -e graph") == 0
        assert disk.sh("mount -o remount,size=64m $0") == 0
        status, out, _ = disk.lggd(*build, "--resume", "--json")
        assert (status, json.loads(out)["nodes"]) == (0, 1000)
        assert disk.sh('test "$(ls -A)" = graph') == 0
