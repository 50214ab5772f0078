"""Nodes, labels and results in files: what is read, what is refused and where, and what comes back."""

from __future__ import annotations

import csv
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lggd import Graph
from lggd.data.tables import read_graph, read_labels, read_nodes, write_features, write_predictions

ODD_IDS = ["007", "7", "Zoë, 王", 'say "hi"', "a;b\tc", "-1", "1.0", "nan", "null"]


def written(tmp_path: Path, text: str, name: str = "nodes.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def parquet(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def refused(path: Path, said: str, **options: object) -> None:
    """Reading fails with this message after the file's name."""
    with pytest.raises(ValueError, match="must") as error:
        read_nodes(path, **options)  # type: ignore[arg-type]
    assert str(error.value).replace(f"{path.parent}/", "").startswith(said), str(error.value)


# -- nodes ----------------------------------------------------------------------------------------------------------


def test_every_column_finds_its_place(tmp_path: Path) -> None:
    text = "id,kind,age,tall,part\nada, red ,31,TRUE,train\nben,,2e1,false,Validation\ncyd,blue,-0.5,1,\n"
    table = read_nodes(written(tmp_path, text), label="kind", split_column="part")
    assert table.ids == ["ada", "ben", "cyd"]
    assert table.feature_names == ["age", "tall"]
    assert table.x.dtype == np.float32
    assert table.x.tolist() == [[31, 1], [20, 0], [-0.5, 1]]
    assert table.labels == ["red", None, "blue"]
    assert table.split == ["train", "val", None]


def test_nothing_but_ids(tmp_path: Path) -> None:
    table = read_nodes(written(tmp_path, "who\n007\n7\n"))
    assert (table.ids, table.x.shape, table.feature_names) == (["007", "7"], (2, 0), [])
    assert (table.labels, table.split) == (None, None)


@pytest.mark.parametrize(
    ("header", "options", "ids"),
    [
        ("key,size", {}, ["1", "3"]),
        ("size,ID", {}, ["2", "4"]),
        ("Name,node", {}, ["2", "4"]),
        ("name,size", {"label": "name"}, ["2", "4"]),
        ("name,id", {"ignore": ["id"]}, ["1", "3"]),
        ("id,size", {"id_column": "size"}, ["2", "4"]),
        (",size", {}, ["1", "3"]),
    ],
)
def test_the_column_of_ids(tmp_path: Path, header: str, options: dict[str, str], ids: list[str]) -> None:
    assert read_nodes(written(tmp_path, f"{header}\n1,2\n3,4\n"), **options).ids == ids


def test_tabs_and_columns_left_out(tmp_path: Path) -> None:
    table = read_nodes(written(tmp_path, "id\tnote\tage\na,b\tx, y\t3\n", "nodes.tsv"), ignore=["note"])
    assert (table.ids, table.feature_names, table.x.tolist()) == (["a,b"], ["age"], [[3]])


def test_labels_are_kept_as_written(tmp_path: Path) -> None:
    table = read_nodes(written(tmp_path, "id,k\na,1\nb,1.0\nc,NaN\nd,null\ne,01\n"), label="k")
    assert table.labels == ["1", "1.0", None, None, "01"]


def test_parquet_types(tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "nodes.parquet",
        id=[1, 2, 3],
        age=pa.array([1, 2, 3], pa.int8()),
        tall=[True, False, True],
        size=[0.1, 0.2, 0.3],
        kind=pa.array([1.0, None, float("nan")]),
    )
    table = read_nodes(path, label="kind")
    assert table.ids == ["1", "2", "3"]
    assert table.feature_names == ["age", "tall", "size"]
    assert table.x.tolist() == np.array([[1, 1, 0.1], [2, 0, 0.2], [3, 1, 0.3]], np.float32).tolist()
    assert table.labels == ["1", None, None]
    assert read_nodes(path, label="age", ignore=["kind"]).labels == ["1", "2", "3"]


def test_the_index_of_pandas_is_the_first_column(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [3.0, 4.0], "kind": pd.Categorical(["x", "y"])}, index=["a", "b"])
    frame.to_parquet(tmp_path / "nodes.parquet")
    frame.to_csv(tmp_path / "nodes.csv")
    for name in ("nodes.parquet", "nodes.csv"):
        table = read_nodes(tmp_path / name, label="kind")
        assert (table.ids, table.x.tolist(), table.labels) == (["a", "b"], [[3], [4]], ["x", "y"])
    frame.rename_axis("user").to_parquet(tmp_path / "named.parquet")
    assert read_nodes(tmp_path / "named.parquet", label="kind").ids == ["a", "b"]


def test_graphml_attributes_are_columns(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_node("007", age=3, kind="red", id="ignored")
    graph.add_node("b", age=4, id="too")
    nx.write_graphml(graph, tmp_path / "nodes.graphml")
    table = read_nodes(tmp_path / "nodes.graphml", label="kind", ignore=["id"])
    assert (table.ids, table.x.tolist(), table.labels) == (["007", "b"], [[3], [4]], ["red", None])
    refused(tmp_path / "nodes.graphml", "`nodes.graphml`, node '007', column 'kind': must be a number, got 'red'")
    refused(tmp_path / "nodes.graphml", "`id_column` must be None for `nodes.graphml`", id_column="id")
    graph.add_node("c", kind="red", id="")
    nx.write_graphml(graph, tmp_path / "nodes.graphml")
    said = "`nodes.graphml`, node 'c', column 'age': must be a number, got an empty cell."
    refused(tmp_path / "nodes.graphml", said, label="kind", ignore=["id"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "`nodes.csv` must hold at least one node, got an empty file."),
        ("id,age\n", "`nodes.csv` must hold at least one node, got none."),
        ("id,age,age\n", "`nodes.csv`, line 1, column 3: must have a name of its own, got 'age' again."),
        ("id,,age\n", "`nodes.csv`, line 1, column 2: must have a name, got an empty cell."),
        ("id,age\na,1\n\nb\n", "`nodes.csv`, line 4: must have 2 cells like the first line, got 1."),
        ("id,age\na,1\n,2\n", "`nodes.csv`, line 3, column 'id': must name the node, got an empty cell."),
        (
            "id,age\na,1\nb,2\n\na,3\n",
            "`nodes.csv`, line 5, column 'id': must be an id of its own, got 'a', which is in line 2 too. Remove one.",
        ),
        (
            "id,size,age\na,1,2\nb,1,abc\n",
            "`nodes.csv`, line 3, column 'age': must be a number, got 'abc'. "
            "Remove the column or turn it into numbers.",
        ),
        (
            "id,size,age\na,1,2\nb,,2\n",
            "`nodes.csv`, line 3, column 'size': must be a number, got an empty cell. "
            "Fill it in, or leave the column out with `ignore`.",
        ),
        ("id,age\na,nan\n", "`nodes.csv`, line 2, column 'age': must be a number, got 'nan'. Fill it in"),
        ("id,age\na,-inf\n", "`nodes.csv`, line 2, column 'age': must be a number below 3.4e38 in size, got '-inf'."),
        ("id,age\na,1e39\n", "`nodes.csv`, line 2, column 'age': must be a number below 3.4e38 in size, got '1e39'."),
        ('id,age\na,"1\n', "`nodes.csv`, line 2, must be a row of cells"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    refused(written(tmp_path, text), said)


def test_mistakes_in_parquet_are_named(tmp_path: Path) -> None:
    path = parquet(tmp_path / "nodes.parquet", id=["a", "b", "a"], age=[1, None, 3])
    refused(path, "`nodes.parquet`, row 2, column 'age': must be a number, got an empty cell.")
    refused(
        path, "`nodes.parquet`, row 3, column 'id': must be an id of its own, got 'a', which is in row 1", label="age"
    )
    dates = parquet(tmp_path / "nodes.parquet", id=["a"], born=pa.array([0], pa.date32()))
    refused(dates, "`nodes.parquet`, row 1, column 'born': must be a number, got '1970-01-01'.")
    refused(parquet(tmp_path / "nodes.parquet", id=pa.array([], pa.string())), "`nodes.parquet` must hold at least one")


@pytest.mark.parametrize("argument", ["label", "id_column", "split_column", "ignore"])
def test_unknown_columns_are_named(tmp_path: Path, argument: str) -> None:
    path = written(tmp_path, "id,kind,age\na,red,3\n")
    name = "kidn" if argument != "ignore" else ["kidn"]
    refused(
        path,
        f"`{argument}` must be a column of `nodes.csv` (id, kind, age), got 'kidn'. Did you mean 'kind'?",
        **{argument: name},
    )
    refused(written(tmp_path, "id\na\n"), "`label` must be a column of `nodes.csv` (id), got 'zzz'. Check", label="zzz")


def test_many_columns_are_not_all_listed(tmp_path: Path) -> None:
    path = written(tmp_path, ",".join(f"c{k}" for k in range(100)) + "\n")
    refused(
        path,
        f"`label` must be a column of `nodes.csv` ({', '.join(f'c{k}' for k in range(12))} and 88 more)",
        label="x",
    )


def test_columns_have_one_role(tmp_path: Path) -> None:
    path = written(tmp_path, "id,kind\na,red\n")
    said = "`split_column` and `label` must be different columns, got 'kind' for both."
    refused(path, said, label="kind", split_column="kind")
    refused(path, "`label` and `ignore` must be different columns", label="kind", ignore=["kind"])
    refused(path, "`nodes.csv` must have a column of ids besides id, kind.", label="kind", split_column="id")
    with pytest.raises(TypeError, match=r"`ignore` must be a list of columns, got the text 'kind'\. Pass \['kind'\]"):
        read_nodes(path, ignore="kind")


def test_parts_of_the_split_are_known(tmp_path: Path) -> None:
    path = written(tmp_path, "id,part\na,train\nb,tset\n")
    refused(
        path, "`nodes.csv`, line 3, column 'part': must be train, val, test or empty, got 'tset'.", split_column="part"
    )


def test_unknown_ending(tmp_path: Path) -> None:
    refused(written(tmp_path, "", "nodes.npz"), "`nodes.npz` must end in .csv, .tsv, .parquet or .graphml, got '.npz'.")
    with pytest.raises(OSError, match="but there is none"):
        read_nodes(tmp_path / "nowhere.csv")


# -- graphs ---------------------------------------------------------------------------------------------------------

NODES = "id,kind,age,part\nada,red,31,train\nben,blue,27,train\ncyd,,45,\ndov,blue,1,test\neve,,2,test\n"


def test_edges_and_nodes_are_joined(tmp_path: Path) -> None:
    edges = written(tmp_path, "source,target,weight\nben,ada,0.5\nada,ben,0.25\ncyd,ben,2\n", "edges.csv")
    found = read_graph(edges, written(tmp_path, NODES), label="kind", ignore=["part"])
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


def test_the_split_becomes_masks_of_labelled_nodes(tmp_path: Path) -> None:
    edges = written(tmp_path, "ada,ben\n", "edges.csv")
    data = read_graph(edges, written(tmp_path, NODES), label="kind", split_column="part").data
    assert data.train_mask.tolist() == [True, True, False, False, False]
    assert data.test_mask.tolist() == [False, False, False, True, False]
    assert "val_mask" not in data
    assert "edge_weight" not in data
    nodes = written(tmp_path, NODES.replace("dov,blue,1,test", "dov,blue,1,validation"))
    assert read_graph(edges, nodes, label="kind", split_column="part").data.val_mask.tolist() == [0, 0, 0, 1, 0]


def test_no_features_are_none(tmp_path: Path) -> None:
    nodes = written(tmp_path, "id,kind\na,10\nb,9\nc,\n")
    found = read_graph(written(tmp_path, "a,b\n", "edges.csv"), nodes, label="kind")
    assert found.data.x is None
    assert found.data.num_nodes == 3
    assert found.feature_names == []
    assert found.classes == ["9", "10"]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(["10", "9", "-1.5"], ["-1.5", "9", "10"]), (["10", "9", "x"], ["10", "9", "x"]), (["b", "a", "b"], ["a", "b"])],
)
def test_classes_are_sorted(tmp_path: Path, labels: list[str], classes: list[str]) -> None:
    nodes = written(tmp_path, "id,k\n" + "".join(f"n{i},{label}\n" for i, label in enumerate(labels)))
    assert read_graph(written(tmp_path, "n0,n1\n", "edges.csv"), nodes, label="k").classes == classes


def test_one_graphml_file_holds_both(tmp_path: Path) -> None:
    graph = nx.karate_club_graph()
    for node, side in graph.nodes(data="club"):
        graph.nodes[node]["size"] = node / 2
        if node > 30:
            del graph.nodes[node]["club"]
        assert side
    nx.write_graphml(graph, tmp_path / "club.graphml")
    found = read_graph(tmp_path / "club.graphml", label="club")
    assert found.classes == ["Mr. Hi", "Officer"]
    assert found.ids == [str(node) for node in range(34)]
    assert found.data.x[:, 0].tolist() == [node / 2 for node in range(34)]
    assert found.data.y[31:].tolist() == [-1, -1, -1]
    assert found.data.num_edges == 2 * graph.number_of_edges()
    assert found.data.edge_weight.max() == max(w for _, _, w in graph.edges(data="weight"))
    with pytest.raises(ValueError, match=r"`nodes` must be given, because `.*edges\.csv` holds edges alone"):
        read_graph(written(tmp_path, "a,b\n", "edges.csv"), label="club")


@pytest.mark.parametrize(
    ("edges", "nodes", "said"),
    [
        (
            "ada,ben\nben,adda\n",
            NODES,
            "edges.csv`, line 2, column 2, must be one of the 5 nodes, got 'adda'. Did you mean 'ada'?",
        ),
        ("qqq,ben\n", NODES, "edges.csv`, line 1, column 1, must be one of the 5 nodes, got 'qqq'. Add the node"),
        (
            "a,b\n",
            "id,kind\na,red\nb,red\n",
            "nodes.csv`, column 'kind': must name at least two classes, got only 'red'",
        ),
        (
            "a,b\n",
            "id,kind,age\na,,1\nb,,1\n",
            "nodes.csv`, column 'kind': must name at least two classes, got no label",
        ),
    ],
)
def test_mistakes_in_a_graph_are_named(tmp_path: Path, edges: str, nodes: str, said: str) -> None:
    options = {"ignore": ["part"]} if "part" in nodes else {}
    with pytest.raises(ValueError, match=r"^`") as error:
        read_graph(written(tmp_path, edges, "edges.csv"), written(tmp_path, nodes), label="kind", **options)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (
            "id,kind,part\na,red,train\nb,blue,test\n",
            "nodes.csv`, class 'blue': must have a node whose split says train",
        ),
        ("id,kind,part\na,red,\nb,blue,\n", "nodes.csv`, class 'blue': must have a node whose split says train"),
        (
            "id,kind,part\na,red,train\nb,blue,train\nc,,val\n",
            "nodes.csv`, node 'c': must have a label, because its split",
        ),
    ],
)
def test_mistakes_in_a_split_are_named(tmp_path: Path, nodes: str, said: str) -> None:
    edges, nodes_path = written(tmp_path, "a,b\n", "edges.csv"), written(tmp_path, nodes)
    with pytest.raises(ValueError, match=r"^`") as error:
        read_graph(edges, nodes_path, label="kind", split_column="part")
    assert said in str(error.value)


def test_loops_are_dropped_by_name(tmp_path: Path) -> None:
    edges = written(tmp_path, "a,b,0.5\nb,b,1\n", "edges.csv")
    with pytest.warns(UserWarning, match="Self-loops dropped: 1, the first at node 'b'") as warned:
        found = read_graph(edges, written(tmp_path, "id,k\na,x\nb,y\n"), label="k")
    assert warned[0].filename == __file__
    assert found.data.edge_index.tolist() == [[0, 1], [1, 0]]


# -- labels that come later -----------------------------------------------------------------------------------------

IDS, CLASSES = ["a", "b", "007"], ["blue", "red"]


@pytest.mark.parametrize(
    "text", ["id,label\n007,red\na,blue\n", "007,red\n\na, blue\n", "Class,when,Node\nred,now,007\nblue,,a\n"]
)
def test_labels_with_and_without_a_header(tmp_path: Path, text: str) -> None:
    nodes, labels = read_labels(written(tmp_path, text, "labels.csv"), IDS, CLASSES)
    assert (nodes.tolist(), labels.tolist()) == ([2, 0], [1, 0])
    assert nodes.dtype == labels.dtype == np.int64


def test_labels_from_parquet(tmp_path: Path) -> None:
    path = parquet(tmp_path / "labels.parquet", who=[7, 8], what=[1.0, 2.0])
    nodes, labels = read_labels(path, ["8", "7"], ["1", "2"])
    assert (nodes.tolist(), labels.tolist()) == ([1, 0], [0, 1])
    with pytest.raises(ValueError, match=r"labels\.parquet`: must have 2 cells \(id, label\), got 3"):
        read_labels(parquet(path, a=[1], b=[1], c=[1]), ["1"], ["1"])


def test_a_label_may_be_repeated(tmp_path: Path) -> None:
    nodes, labels = read_labels(written(tmp_path, "a,red\na,red\n", "labels.csv"), IDS, CLASSES)
    assert (nodes.tolist(), labels.tolist()) == ([0], [1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "labels.csv` must hold at least one label, got none."),
        ("id,label\n", "labels.csv` must hold at least one label, got none."),
        ("a,red\n07,red\n", "line 2, column 1: must be one of the 3 nodes, got '07'. Did you mean '007'?"),
        (
            "user,kind\na,red\n",
            "line 1, column 1: must be one of the 3 nodes, got 'user'. If the line names the columns",
        ),
        ("a,rde\n", "line 1, column 2: must be one of the classes blue, red, got 'rde'. Did you mean 'red'?"),
        (
            "a,green!!\n",
            "line 1, column 2: must be one of the classes blue, red, got 'green!!'. A new class needs a new fit.",
        ),
        ("a,red\nb,\n", "line 2, column 2: must be one of the classes blue, red, got an empty cell."),
        ("a,red\n,red\n", "line 2, column 1: must be one of the 3 nodes, got an empty cell."),
        (
            "a,red\nb,red\na,blue\n",
            "line 3, column 2: must give the node 'a' one label, got 'blue' after 'red' in line 1.",
        ),
        ("a\n", "line 1: must have 2 cells (id, label), got 1."),
        ("a,red\nb,red,1\n", "line 2: must have 2 cells like the first line, got 3."),
    ],
)
def test_mistakes_in_labels_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^`.*labels\.csv`") as error:
        read_labels(written(tmp_path, text, "labels.csv"), IDS, CLASSES)
    assert said in str(error.value)


# -- results --------------------------------------------------------------------------------------------------------


def test_predictions_read_as_they_were_meant(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_predictions(path, ["007", "a, b"], ["x", "y z"], torch.tensor([[0.9, 0.1], [0.25, 0.75]]), [-1, 0])
    assert path.read_text(encoding="utf-8") == (
        'node,predicted,probability,labelled,p(x),p(y z)\n007,x,0.9,,0.9,0.1\n"a, b",y z,0.75,x,0.25,0.75\n'
    )
    write_predictions(tmp_path / "out.parquet", ["007"], ["x", "y"], np.array([[0.5, 0.5]]))
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [
        {"node": "007", "predicted": "x", "probability": 0.5, "labelled": "", "p(x)": 0.5, "p(y)": 0.5}
    ]


@pytest.mark.parametrize("name", ["features.parquet", "features.csv", "features.tsv"])
def test_features_come_back_bit_by_bit(tmp_path: Path, name: str) -> None:
    features = torch.randn(len(ODD_IDS), 3, generator=torch.Generator().manual_seed(0))
    write_features(tmp_path / name, ODD_IDS, ["d(x)", "d(y, z)", "id2"], features)
    table = read_nodes(tmp_path / name)
    assert table.ids == ODD_IDS
    assert table.feature_names == ["d(x)", "d(y, z)", "id2"]
    assert np.array_equal(table.x, features.numpy())
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


# Space around a name is not kept, and neither are marks that end a line or a file.
NAMES = st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1).filter(lambda s: s == s.strip())


@given(ids=st.lists(NAMES, min_size=1, unique=True), classes=st.lists(NAMES, min_size=2, max_size=4, unique=True))
def test_any_names_survive_a_file(tmp_path_factory: pytest.TempPathFactory, ids: list[str], classes: list[str]) -> None:
    folder = tmp_path_factory.mktemp("names")
    given_labels = np.arange(len(ids)) % (len(classes) + 1) - 1
    chances = np.eye(len(classes))[np.arange(len(ids)) % len(classes)]
    for ending in ("csv", "tsv"):
        path = folder / f"out.{ending}"
        write_predictions(path, ids, classes, chances, given_labels)
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter={"csv": ",", "tsv": "\t"}[ending]))
        assert [row["node"] for row in rows] == ids
        assert [row["predicted"] for row in rows] == [classes[k % len(classes)] for k in range(len(ids))]
        assert [row["labelled"] for row in rows] == ["" if k < 0 else classes[k] for k in given_labels]
    for ending in ("csv", "parquet"):
        path = folder / f"features.{ending}"
        write_features(path, ids, ["f"], np.zeros((len(ids), 1)))
        assert read_nodes(path).ids == ids


@pytest.mark.parametrize(
    ("write", "kind", "said"),
    [
        (lambda p: write_features(p, ["a"], ["x"], np.zeros((2, 1))), ValueError, r"shape \[1, 1\], got \[2, 1\]"),
        (lambda p: write_features(p, ["a"], ["node"], [[0]]), ValueError, "different names, got 'node' twice"),
        (lambda p: write_features(p, ["a"], ["x"], [["b"]]), TypeError, "`features` must be numbers"),
        (
            lambda p: write_features(p.with_suffix(".xls"), ["a"], ["x"], [[0]]),
            ValueError,
            r"must end in \.csv, \.tsv or",
        ),
        (
            lambda p: write_predictions(p, ["a"], ["x", "y"], [[1]]),
            ValueError,
            r"`probabilities` .* \[1, 2\], got \[1, 1\]",
        ),
        (lambda p: write_predictions(p, ["a"], [], np.zeros((1, 0))), ValueError, "`classes` must name at least one"),
        (lambda p: write_predictions(p, ["a"], ["x"], [[1]], [1]), ValueError, r"`given` must lie in -1\.\.0, got 1"),
        (lambda p: write_predictions(p, ["a"], ["x"], [[1]], [-2]), ValueError, r"`given` must lie in -1\.\.0, got -2"),
        (
            lambda p: write_predictions(p, ["a"], ["x"], [[1]], ["x"]),
            ValueError,
            r"`given` must be .* integers \[1\], got",
        ),
        (
            lambda p: write_predictions(p.parent / "no" / "x.csv", ["a"], ["x"], [[1]]),
            OSError,
            "Create it first",
        ),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path: Path, write: object, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        write(tmp_path / "out.csv")  # type: ignore[operator]
    assert list(tmp_path.iterdir()) == []


def test_the_example_of_the_documentation_is_true(tmp_path: Path) -> None:
    edges = written(tmp_path, "source,target\nada,ben\nben,cyd\n", "edges.csv")
    nodes = written(tmp_path, "id,kind,age,split\nada,red,31,train\nben,blue,27,train\ncyd,,45,\n")
    graph = read_graph(edges, nodes, label="kind", split_column="split")
    assert (graph.classes, graph.feature_names, graph.data.y.tolist()) == (["blue", "red"], ["age"], [1, 0, -1])
    added = read_labels(written(tmp_path, "id,label\ncyd,red\n", "labels.csv"), graph.ids, graph.classes)
    assert [part.tolist() for part in added] == [[2], [1]]
