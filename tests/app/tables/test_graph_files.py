"""Graphs from files, and files of ids and labels that refer to them."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
import scipy.sparse as sp
import torch

from lggd import Graph
from lggd.app.tables.graph_files import read_graph_files, read_id_file, read_label_file
from lggd.errors import InputError
from support.table_files import parquet, written

NODES = "id,kind,age,part\nada,red,31,train\nben,blue,27,train\ncyd,,45,\ndov,blue,1,test\neve,,2,test\n"

IDS, CLASSES = ["a", "b", "007"], ["blue", "red"]


def test_graph_from_edges_and_nodes(tmp_path: Path) -> None:
    edges = written(tmp_path / "edges.csv", "source,target,weight\nben,ada,0.5\nada,ben,0.25\ncyd,ben,2\n")
    found = read_graph_files(edges, written(tmp_path / "nodes.csv", NODES), label="kind", ignore=["part"])
    assert (found.ids, found.classes) == (["ada", "ben", "cyd", "dov", "eve"], ["blue", "red"])
    assert found.feature_names == ["age"]
    data = found.data
    assert data.x.tolist() == [[31], [27], [45], [1], [2]]
    assert data.y.tolist() == [1, 0, -1, 0, -1]
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert data.edge_weight.tolist() == [0.5, 0.5, 2, 2]
    assert (data.x.dtype, data.edge_weight.dtype, data.y.dtype, data.edge_index.dtype) == (
        torch.float32,
        torch.float32,
        torch.int64,
        torch.int64,
    )
    assert data.num_nodes == 5
    assert (data.num_classes, data.class_names) == (2, ["blue", "red"])
    assert not {"train_mask", "val_mask", "test_mask"} & set(data.to_dict())
    assert Graph.from_pyg(data, unbounded=True).degree.tolist() == [0.5, 2.5, 2, 0, 0]


def test_split_column_becomes_masks(tmp_path: Path) -> None:
    edges = written(tmp_path / "edges.csv", "ada,ben\n")
    data = read_graph_files(edges, written(tmp_path / "nodes.csv", NODES), label="kind", split_column="part").data
    assert data.train_mask.tolist() == [True, True, False, False, False]
    assert data.test_mask.tolist() == [False, False, False, True, False]
    assert "val_mask" not in data
    assert "edge_weight" not in data
    nodes = written(tmp_path / "nodes.csv", NODES.replace("dov,blue,1,test", "dov,blue,1,validation"))
    assert read_graph_files(edges, nodes, label="kind", split_column="part").data.val_mask.tolist() == [0, 0, 0, 1, 0]


def test_x_is_none_without_features(tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.csv", "id,kind\na,10\nb,9\nc,\n")
    found = read_graph_files(written(tmp_path / "edges.csv", "a,b\n"), nodes, label="kind")
    assert found.data.x is None
    assert found.data.num_nodes == 3
    assert found.feature_names == []
    assert found.classes == ["9", "10"]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(["10", "9", "-1.5"], ["-1.5", "9", "10"]), (["10", "9", "x"], ["10", "9", "x"]), (["b", "a", "b"], ["a", "b"])],
)
def test_classes_are_sorted(tmp_path: Path, labels: list[str], classes: list[str]) -> None:
    nodes = written(tmp_path / "nodes.csv", "id,k\n" + "".join(f"n{i},{label}\n" for i, label in enumerate(labels)))
    assert read_graph_files(written(tmp_path / "edges.csv", "n0,n1\n"), nodes, label="k").classes == classes


def test_graphml_holds_nodes_and_edges(tmp_path: Path) -> None:
    graph = nx.karate_club_graph()
    for node, side in graph.nodes(data="club"):
        graph.nodes[node]["size"] = node / 2
        if node > 30:
            del graph.nodes[node]["club"]
        assert side
    nx.write_graphml(graph, tmp_path / "club.graphml")
    found = read_graph_files(tmp_path / "club.graphml", label="club")
    assert found.classes == ["Mr. Hi", "Officer"]
    assert found.ids == [str(node) for node in range(34)]
    assert found.data.x[:, 0].tolist() == [node / 2 for node in range(34)]
    assert found.data.y[31:].tolist() == [-1, -1, -1]
    assert found.data.num_edges == 2 * graph.number_of_edges()
    assert found.data.edge_weight.max() == max(w for _, _, w in graph.edges(data="weight"))
    with pytest.raises(InputError, match=r"`nodes` must be a file, because `.*edges\.csv` has only edges"):
        read_graph_files(written(tmp_path / "edges.csv", "a,b\n"), label="club")


def test_attributes_of_edges_are_ignored_in_graphs_too(tmp_path: Path) -> None:
    graph = nx.Graph([("a", "b", {"distance": 2.0}), ("b", "c", {"distance": 3.0})])
    nx.set_node_attributes(graph, {"a": "red", "b": "blue", "c": "red"}, "kind")
    nx.set_node_attributes(graph, 1, "note")
    nx.write_graphml(graph, tmp_path / "roads.graphml")
    nodes = written(tmp_path / "nodes.csv", "id,kind,note\na,red,1\nb,blue,2\nc,red,1\n")
    for edges in (graph, tmp_path / "roads.graphml"):
        for table in (None, nodes):
            with pytest.raises(InputError, match=r"or ignore=\['distance'\]"):
                read_graph_files(edges, table, label="kind")
            found = read_graph_files(edges, table, label="kind", ignore=["distance", "note"])
            assert (found.feature_names, found.data.num_edges) == ([], 4)
    with pytest.raises(InputError, match=r"`ignore` must be a column of .*got 'distanc'"):
        read_graph_files(graph, label="kind", ignore=["distanc"])


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        (
            "ada,ben\nben,adda\n",
            NODES,
            "edges.csv, line 2, column 2` must be one of the 5 nodes, got 'adda'. Did you mean 'ada'?",
        ),
        ("qqq,ben\n", NODES, "edges.csv, line 1, column 1` must be one of the 5 nodes, got 'qqq'. Add the node"),
        (
            "a,b\n",
            "id,kind\na,red\nb,red\n",
            "nodes.csv, column 'kind'` must name at least two classes, got only 'red'",
        ),
        (
            "a,b\n",
            "id,kind,age\na,,1\nb,,1\n",
            "nodes.csv, column 'kind'` must name at least two classes, got no label",
        ),
    ],
)
def test_inconsistent_files_are_rejected(tmp_path: Path, edges: str, nodes: str, message: str) -> None:
    options = {"ignore": ["part"]} if "part" in nodes else {}
    with pytest.raises(InputError, match=r"^`") as error:
        read_graph_files(
            written(tmp_path / "edges.csv", edges), written(tmp_path / "nodes.csv", nodes), label="kind", **options
        )
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            "id,kind,part\na,red,train\nb,blue,test\n",
            "nodes.csv, class 'blue'` must have a node whose split is train",
        ),
        ("id,kind,part\na,red,\nb,blue,\n", "nodes.csv, class 'blue'` must have a node whose split is train"),
        (
            "id,kind,part\na,red,train\nb,blue,train\nc,,val\n",
            "nodes.csv, node 'c'` must have a label, because its split",
        ),
    ],
)
def test_invalid_splits_are_rejected(tmp_path: Path, nodes: str, message: str) -> None:
    edges, nodes_path = written(tmp_path / "edges.csv", "a,b\n"), written(tmp_path / "nodes.csv", nodes)
    with pytest.raises(InputError, match=r"^`") as error:
        read_graph_files(edges, nodes_path, label="kind", split_column="part")
    assert message in str(error.value)


def test_a_split_needs_labels(tmp_path: Path) -> None:
    edges, nodes = (
        written(tmp_path / "edges.csv", "a,b\n"),
        written(tmp_path / "nodes.csv", "id,part\na,train\nb,test\n"),
    )
    with pytest.raises(InputError, match=r"node 'a'` must have a label, because its split is train"):
        read_graph_files(edges, nodes, label=None, split_column="part", fewest_classes=0)


def test_self_loops_are_dropped_with_a_warning(tmp_path: Path) -> None:
    edges = written(tmp_path / "edges.csv", "a,b,0.5\nb,b,1\n")
    with pytest.warns(UserWarning, match="Self-loops dropped: 1, the first at node 'b'") as warned:
        found = read_graph_files(edges, written(tmp_path / "nodes.csv", "id,k\na,x\nb,y\n"), label="k")
    assert warned[0].filename == __file__
    assert found.data.edge_index.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("text", ["source,target\na,a\n", "source,target,weight\na,a,0.5\n"])
def test_a_graph_of_self_loops_has_no_edges(tmp_path: Path, text: str) -> None:
    nodes = written(tmp_path / "nodes.csv", "id,kind\na,red\nb,blue\n")
    with pytest.warns(UserWarning, match="Self-loops dropped: 1"):
        found = read_graph_files(written(tmp_path / "edges.csv", text), nodes, label="kind")
    assert found.data.edge_index.shape == (2, 0)


def test_columns_are_ignored_beside_a_matrix(tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.csv", "id,kind,age\n0,red,1\n1,blue,old\n")
    found = read_graph_files(sp.csr_array([[0, 1], [1, 0]]), nodes, label="kind", ignore=["age"])
    assert (found.data.edge_index.tolist(), found.feature_names) == ([[0, 1], [1, 0]], [])


def test_id_file(tmp_path: Path) -> None:
    assert read_id_file(written(tmp_path / "ids.txt", "\ufeffa\n\n b \nc, d\n")) == ["a", "b", "c, d"]
    with pytest.raises(InputError, match="must name at least one node, got an empty file"):
        read_id_file(written(tmp_path / "none.txt", "\n"))


@pytest.mark.parametrize(
    "text", ["id,label\n007,red\na,blue\n", "007,red\n\na, blue\n", "Class,when,Node\nred,now,007\nblue,,a\n"]
)
def test_labels_with_and_without_a_header(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "labels.csv", text)
    assert read_label_file(path, IDS, CLASSES) == read_label_file(path, IDS) == {2: "red", 0: "blue"}


def test_labels_from_parquet(tmp_path: Path) -> None:
    path = parquet(tmp_path / "labels.parquet", who=[7, 8], what=[1.0, 2.0])
    assert read_label_file(path, ["8", "7"], ["1", "2"]) == {1: "1", 0: "2"}
    with pytest.raises(InputError, match=r"labels\.parquet` must have 2 columns \(id, label\), got 3"):
        read_label_file(parquet(path, a=[1], b=[1], c=[1]), ["1"], ["1"])


def test_repeated_labels_are_accepted(tmp_path: Path) -> None:
    assert read_label_file(written(tmp_path / "labels.csv", "a,red\na,red\n"), IDS, CLASSES) == {0: "red"}


def test_labels_of_any_class(tmp_path: Path) -> None:
    assert read_label_file(written(tmp_path / "labels.csv", "a;green\nb;red\n"), IDS) == {0: "green", 1: "red"}
    with pytest.raises(InputError, match="line 1, column 2` must name a class, got an empty cell"):
        read_label_file(written(tmp_path / "labels.csv", "a,\nb,red\n"), IDS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "labels.csv` must contain at least one label, got an empty file."),
        ("id,label\n", "labels.csv` must contain at least one label, got no rows."),
        ("a,red\n07,red\n", "line 2, column 1` must be one of the 3 nodes, got '07'. Did you mean '007'?"),
        (
            "user,kind\na,red\n",
            "line 1, column 1` must be one of the 3 nodes, got 'user'. Name the columns id,label.",
        ),
        ("id,label\nxyz,red\n", "line 2, column 'id'` must be one of the 3 nodes, got 'xyz'."),
        ("a,rde\n", "line 1, column 2` must be one of the classes blue, red, got 'rde'. Did you mean 'red'?"),
        (
            "a,green!!\n",
            "line 1, column 2` must be one of the classes blue, red, got 'green!!'. Fit a new model.",
        ),
        ("a,red\nb,\n", "line 2, column 2` must be one of the classes blue, red, got an empty cell."),
        ("a,red\n,red\n", "line 2, column 1` must be one of the 3 nodes, got an empty cell."),
        (
            "a,red\nb,red\na,blue\n",
            "line 3, column 2` must give the node 'a' one label, got 'blue' after 'red' in line 1.",
        ),
        ("a\n", "must have 2 columns (id, label), got 1."),
        ("a;b,red\nb;a,red\n", "and by semicolons. Name the columns in a first line: id,label."),
        ("a,red\nb,red,1\n", "line 2` must have 2 cells like the first line, got 3."),
    ],
)
def test_invalid_label_files_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=r"^`.*labels\.csv") as error:
        read_label_file(written(tmp_path / "labels.csv", text), IDS, CLASSES)
    assert message in str(error.value)


def test_documented_example(tmp_path: Path) -> None:
    edges = written(tmp_path / "edges.csv", "source,target\nada,ben\nben,cyd\n")
    nodes = written(tmp_path / "nodes.csv", "id,kind,age,split\nada,red,31,train\nben,blue,27,train\ncyd,,45,\n")
    graph = read_graph_files(edges, nodes, label="kind", split_column="split")
    assert (graph.classes, graph.feature_names, graph.data.y.tolist()) == (["blue", "red"], ["age"], [1, 0, -1])
    added = read_label_file(written(tmp_path / "labels.csv", "id,label\ncyd,red\n"), graph.ids, graph.classes)
    assert added == {2: "red"}
