"""Own tables are read as people mean them: what is plausible and unclear is said or refused, never guessed."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

import lggd
from support.command_line import answer, command, refused
from support.table_files import written

ROADS = "source,target,{name}\nhome,mill,1\nmill,work,1\nhome,work,200\n"
WITHOUT = ("--p", "inf", "--symmetrize", "max", "--source", "home")
PEOPLE = "id,kind,age\n" + "".join(f"n{k},{'red' if k < 4 else 'blue'},{k}\n" for k in range(8))
RING = "".join(f"n{k},n{(k + 1) % 8}\n" for k in range(8))


def features(tmp_path: Path, nodes: str, edges: str = RING, *options: object) -> list[object]:
    """The command that reads these tables and solves for distances, without training."""
    edge_path, node_path = written(tmp_path / "edges.csv", edges), written(tmp_path / "nodes.csv", nodes)
    tables = ["--edges", edge_path, "--nodes", node_path, "--label", "kind", "--method", "ggd"]
    return ["features", *tables, "--out", tmp_path / "f.csv", *options]


@pytest.mark.parametrize("name", ["km", "length", "cost", "value", "distance", "strength", "Travel time", "dist_m"])
def test_columns_that_look_like_weights_or_lengths_are_not_ignored(tmp_path: Path, name: str) -> None:
    roads = written(tmp_path / "roads.csv", ROADS.format(name=name))
    said = refused("distance", roads, *WITHOUT)
    quoted = f"'{name}'" if " " in name else name
    for flag in (f"--length {quoted} (longer means farther)", f"--weight {quoted} (larger means closer)"):
        assert flag in said
    assert f"--ignore {quoted}" in said
    assert answer("distance", roads, *WITHOUT, "--length", name)["distances"]["work"] == pytest.approx(2)
    assert answer("distance", roads, *WITHOUT, "--ignore", name)["distances"]["work"] == 1
    weighed = answer("distance", roads, *WITHOUT, "--weight", name, "--unbounded")
    assert weighed["distances"]["work"] == pytest.approx(200**-0.5)


def test_runs_refuse_them_too_and_name_what_they_do_not_use(tmp_path: Path) -> None:
    rows = "".join(f"n{k},n{(k + 1) % 8},{k + 1},monday\n" for k in range(8))
    arguments = features(tmp_path, PEOPLE, "source,target,km,when\n" + rows)
    assert "column 'km'` must be used or ignored, because its name suggests a length. Add --length km" in refused(
        *arguments
    )
    found = answer(*arguments, "--length", "km")
    assert "Columns of edges that were not used: when." in found["notes"]
    assert any("Lengths from 1 to 8 became weights (shortest/length)²" in note for note in found["notes"])


def test_a_split_that_no_option_names_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"n{k},{'red' if k < 4 else 'blue'},{'test' if k % 4 == 3 else 'train'}\n" for k in range(8))
    arguments = features(tmp_path, f"id,kind,split\n{rows}")
    choice = "--split-column split (train, val and test), --ignore split (not used) or --category split (a feature)"
    assert f"Add {choice}." in refused(*arguments)
    assert answer(*arguments, "--split-column", "split")["labelled"] == 6
    assert answer(*arguments, "--ignore", "split")["labelled"] == 8


def test_the_column_of_ids_is_no_label(tmp_path: Path) -> None:
    arguments = features(tmp_path, PEOPLE)
    said = refused(*["id" if argument == "kind" else argument for argument in arguments])
    assert said.startswith("`--label` must name the column of classes, but 'id' is that of the ids. Add `--id-column`")


@pytest.mark.parametrize("text", ["-1", "NA", "nan", "unknown", "", "N/A", "null", "None", "?"])
def test_labels_that_are_none(tmp_path: Path, text: str) -> None:
    nodes = PEOPLE.replace("n0,red", f"n0,{text}").replace("n7,blue", f"n7,{text}")
    found = answer(*features(tmp_path, nodes))
    assert (found["classes"], found["labelled"]) == (["blue", "red"], 6)
    how = f"2 {text!r}; option `unlabelled` for other values" if text else ""
    said = f"Labels: 3 blue, 3 red; 2 of 8 nodes are unlabelled{f' ({how})' if how else ''}."
    assert said in found["notes"]


def test_other_values_may_mean_unlabelled(tmp_path: Path) -> None:
    nodes = PEOPLE.replace("n0,red", "n0,tbd").replace("n7,blue", "n7,unknown")
    found = answer(*features(tmp_path, nodes, RING, "--unlabelled", "tbd"))
    assert (found["classes"], found["labelled"]) == (["blue", "red", "unknown"], 7)
    signs = PEOPLE.replace("red", "-1").replace("blue", "1")
    said = refused(*features(tmp_path, signs))
    assert "must name at least two classes, got only '1' besides 4 '-1', read as unlabelled." in said
    assert "add --unlabelled ''" in said
    assert answer(*features(tmp_path, signs, RING, "--unlabelled", ""))["classes"] == ["-1", "1"]


@pytest.mark.parametrize(
    "header", ["start,end", "Source,Target", "u,v", "node_a,node_b", "FromNodeId,ToNodeId", "head,tail", "i,j"]
)
def test_headers_are_understood(tmp_path: Path, header: str) -> None:
    text = f"{header}\nhome,mill\nmill,work\n"
    found = answer("distance", written(tmp_path / "e.csv", text), *WITHOUT)
    assert found["distances"] == {"home": 0, "mill": 1, "work": 2}


def test_unknown_headers_are_asked_about(tmp_path: Path) -> None:
    path = written(tmp_path / "e.csv", "Stadt A,Stadt B,km\nhome,mill,1\nmill,work,2\n")
    said = refused("distance", path, *WITHOUT)
    assert "got 'Stadt A', 'Stadt B', 'km', which are neither known names of columns nor nodes that occur again" in said
    assert "Add --source-column 'Stadt A' --target-column 'Stadt B' if it names columns, or --no-header if" in said
    named = ("--source-column", "Stadt A", "--target-column", "Stadt B", "--length", "km")
    assert answer("distance", path, *WITHOUT, *named)["distances"] == pytest.approx({"home": 0, "mill": 1, "work": 3})


def test_a_first_line_that_is_an_edge_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "e.csv", "home,mill\nmill,work\n")
    found = answer("distance", path, *WITHOUT)
    assert found["distances"] == {"home": 0, "mill": 1, "work": 2}
    assert any("The first line of the edges was read as an edge" in note for note in found["notes"])
    disjoint = written(tmp_path / "e.csv", "home,mill\ncape,work\n")
    assert "line 1` must name the columns or be an edge" in refused("distance", disjoint, *WITHOUT)
    assert answer("distance", disjoint, *WITHOUT, "--no-header")["nodes"] == 4


@pytest.mark.parametrize(
    ("mark", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars"), (" ", "spaces")]
)
def test_separators_are_detected_and_said(tmp_path: Path, mark: str, name: str) -> None:
    text = "source,target,weight\nhome,mill,0.25\nmill,work,1\n".replace(",", mark)
    found = answer("distance", written(tmp_path / "e.csv", text), *WITHOUT)
    assert found["distances"] == {"home": 0, "mill": 2, "work": 3}
    assert f"e.csv: columns are separated by {name}." in found["notes"]


def test_tables_of_runs_are_detected_too(tmp_path: Path) -> None:
    found = answer(*features(tmp_path, PEOPLE.replace(",", ";"), RING.replace(",", "\t")))
    assert found["nodes"] == 8
    assert "nodes.csv: columns are separated by semicolons." in found["notes"]


def test_missing_values_and_categories_of_nodes(tmp_path: Path) -> None:
    rows = ["n0,red,,x,2024-01-01", "n1,red,1,y,2024-01-02", "n2,blue,3,x,2024-01-03", "n3,blue,,x,2024-01-04"]
    rows += [f"n{k},,5,y,2024-02-01" for k in range(4, 8)]
    nodes = "id,kind,age,colour,born\n" + "\n".join(rows) + "\n"
    said = refused(*features(tmp_path, nodes))
    assert "age: 2 cells are missing, the first in line 2; born: 8 cells are dates, the first '2024-01-01'" in said
    assert "Add --missing mean, or fill them in." in said
    assert "Correct these cells, or add --ignore born." in said
    filled = answer(*features(tmp_path, nodes, RING, "--ignore", "born", "--missing", "mean"))
    assert filled["nodes"] == 8
    assert "Missing values were replaced by the mean of their column: age (2)." in filled["notes"]
    assert any("Column colour has text: each of its 2 values (x, y) became a feature" in n for n in filled["notes"])


def test_different_weights_of_two_directions_are_said(tmp_path: Path) -> None:
    rows = "".join(f"n{k},n{(k + 1) % 8},0.9\n" for k in range(8))
    arguments = features(tmp_path, PEOPLE, f"source,target,weight\n{rows}n1,n0,0.1\n")
    said = "1 pair of nodes has edges of different weights (the first: n0,n1 = 0.9 and n1,n0 = 0.1); the larger is"
    assert any(note.startswith(said) for note in answer(*arguments)["notes"])
    assert not any("different weights" in note for note in answer(*arguments, "--symmetrize", "mean")["notes"])
    wanted = "`--weight` must be symmetric, got 0.9 on (a, b) and 0.1 on (b, a). Pass --symmetrize max or mean"
    assert wanted in refused("distance", written(tmp_path / "e.csv", "a,b,0.9\nb,a,0.1\n"), "--source", "a")


@pytest.mark.parametrize("reverse", [False, True])
def test_directed_distances_are_those_of_networkx(tmp_path: Path, reverse: bool) -> None:
    rng = np.random.default_rng(4)
    graph = nx.DiGraph()
    graph.add_nodes_from(f"v{k}" for k in range(30))
    graph.add_weighted_edges_from(
        ((f"v{i}", f"v{j}", round(float(rng.uniform(0.1, 9)), 3)) for i, j in rng.integers(0, 30, (70, 2)) if i != j),
        weight="km",
    )
    text = "source,target,km\n" + "".join(f"{i},{j},{km}\n" for i, j, km in graph.edges(data="km"))
    options = ["--source", "v3", "--directed", "--p", "inf", "--length", "km", *["--reverse"] * reverse]
    found = answer("distance", written(tmp_path / "streets.csv", text), *options)
    expected = nx.single_source_dijkstra_path_length(graph.reverse() if reverse else graph, "v3", weight="km")
    reached = {name: value for name, value in found["distances"].items() if value is not None}
    assert reached == pytest.approx(dict(expected))
    assert found["direction"] == ("to the sources" if reverse else "from the sources")
    farthest = max(expected, key=lambda name: expected[name])
    path = answer("distance", tmp_path / "streets.csv", *options, "--path-to", farthest)["path"]
    assert path == (
        nx.shortest_path(graph, farthest, "v3", weight="km")
        if reverse
        else nx.shortest_path(graph, "v3", farthest, "km")
    )


def test_graphs_in_one_file(tmp_path: Path) -> None:
    data = lggd.load("karate")
    torch.save(data, tmp_path / "club.pt")
    np.savez(tmp_path / "club.npz", x=data.x.numpy(), y=data.y.numpy(), edge_index=data.edge_index.numpy())
    masked = answer("features", "--file", tmp_path / "club.pt", "--method", "ggd", "--out", tmp_path / "f.csv")
    assert (masked["nodes"], masked["labelled"]) == (34, 10)
    arrays = answer("features", "--file", tmp_path / "club.npz", "--method", "ggd", "--out", tmp_path / "f.csv")
    assert (arrays["nodes"], arrays["labelled"]) == (34, 34)
    for wrong in (("--nodes", tmp_path / "club.npz"), ("--weight", "w"), ("--labels-per-class", "2")):
        assert "must be omitted with --file" in refused("features", "--file", tmp_path / "club.pt", *wrong)


def test_a_run_with_all_of_it_can_be_updated(tmp_path: Path) -> None:
    """Text, missing values and lengths of new nodes and edges are read as in training."""
    rows = [f"n{k},{'red' if k < 4 else 'blue'},{k if k != 2 else ''},{'xy'[k % 2]}" for k in range(8)]
    nodes = written(tmp_path / "nodes.csv", "id,kind,age,letter\n" + "\n".join(rows) + "\n")
    lengths = "".join(f"n{k};n{(k + 1) % 8};{k + 1},5\n" for k in range(8))
    edges = written(tmp_path / "edges.csv", f"start;end;km\n{lengths}")
    options = ["--label", "kind", "--length", "km", "--missing", "mean", "--method", "kernel-ridge", "--no-report"]
    answer("run", "--edges", edges, "--nodes", nodes, *options, "--out", tmp_path / "out")
    new = written(tmp_path / "new.csv", "id,letter,age\nzoe,x,\n")
    links = written(tmp_path / "links.csv", "start,end,km\nzoe,n1,3\nzoe,n2,1.5\n")
    found = answer("update", tmp_path / "out", "--nodes", new, "--edges", links)
    assert (found["new_nodes"], found["new_edges"]) == (1, 2)
    model = lggd.load_model(tmp_path / "out" / "model")
    weights = dict(zip(map(tuple, model.data_.edge_index.T.tolist()), model.data_.edge_weight.tolist(), strict=True))
    assert weights[8, 2] == pytest.approx(1)
    assert weights[8, 1] == pytest.approx(0.25)
    assert model.data_.x[8].tolist() == pytest.approx([0, *model.data_.x[0, 1:].tolist()], abs=1e-6)
    unknown = written(tmp_path / "new.csv", "id,letter,age\neva,z,1\n")
    assert "letter: 1 cell is no category of training, 'z' in line 2. Fill in or" in refused(
        "update", tmp_path / "out", "--nodes", unknown
    )
    short = written(tmp_path / "links.csv", "start,end,km\nn0,n4,1\n")
    assert "must have lengths from 1.5, the shortest of training, got 1" in refused(
        "update", tmp_path / "out", "--edges", short
    )


def test_a_run_of_one_file_is_updated_in_the_units_of_the_file(tmp_path: Path) -> None:
    x, ring = np.arange(16.0).reshape(8, 2) ** 2, np.arange(8)
    edges = np.stack([np.r_[ring, np.roll(ring, 1)], np.r_[np.roll(ring, 1), ring]])
    np.savez(tmp_path / "ring.npz", x=x, y=ring // 4, edge_index=edges, edge_weight=np.full(16, 5.0))
    options = ["--method", "kernel-ridge", "--no-report", "--out", tmp_path / "out"]
    answer("run", "--file", tmp_path / "ring.npz", *options)
    new = written(tmp_path / "new.csv", f"id,0,1\nzoe,{x[3, 0]:g},{x[3, 1]:g}\n")
    links = written(tmp_path / "links.csv", "source,target,weight\nzoe,2,2.5\n")
    answer("update", tmp_path / "out", "--nodes", new, "--edges", links)
    data = lggd.load_model(tmp_path / "out" / "model").data_
    assert data.x[8].tolist() == pytest.approx(data.x[3].tolist(), abs=1e-6)
    assert data.edge_weight[data.edge_index[0] == 8].tolist() == [0.5]


def test_notes_are_printed(tmp_path: Path) -> None:
    result = command(*features(tmp_path, PEOPLE))
    assert result.exit_code == 0
    assert "Labels: 4 blue, 4 red; 0 of 8 nodes are unlabelled." in result.stdout
