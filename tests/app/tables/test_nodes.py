"""Nodes from files: ids, features, labels and splits; errors report file, line and column."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

from lggd.app.tables.graph_files import read_graph_files
from lggd.app.tables.nodes import UNLABELLED, LabelReader, read_node_file, sorted_classes
from lggd.errors import InputError, InputTypeError
from support.table_files import parquet, written

RULE = "have numbers, or texts of few categories, in its columns of features"


def rejected(path: Path, message: str, **options: object) -> None:
    """Reading fails with this message after the file's name."""
    with pytest.raises(InputError, match="must") as error:
        read_node_file(path, **options)  # type: ignore[arg-type]
    assert str(error.value).replace(f"{path.parent}/", "").startswith(message), str(error.value)


def test_columns_by_role(tmp_path: Path) -> None:
    text = "id,kind,age,tall,part\nada, red ,31,TRUE,train\nben,,2e1,false,Validation\ncyd,blue,-0.5,1,\n"
    table = read_node_file(written(tmp_path / "nodes.csv", text), label="kind", split_column="part")
    assert table.ids == ["ada", "ben", "cyd"]
    assert table.feature_names == ["age", "tall"]
    assert table.x.dtype == np.float32
    assert table.x.tolist() == [[31, 1], [20, 0], [-0.5, 1]]
    assert table.labels == ["red", None, "blue"]
    assert table.split == ["train", "val", None]


def test_only_ids(tmp_path: Path) -> None:
    table = read_node_file(written(tmp_path / "nodes.csv", "who\n007\n7\n"))
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
def test_id_column(tmp_path: Path, header: str, options: dict[str, str], ids: list[str]) -> None:
    assert read_node_file(written(tmp_path / "nodes.csv", f"{header}\n1,2\n3,4\n"), **options).ids == ids


def test_tsv_and_ignored_columns(tmp_path: Path) -> None:
    table = read_node_file(written(tmp_path / "nodes.tsv", "id\tnote\tage\na,b\tx, y\t3\n"), ignore=["note"])
    assert (table.ids, table.feature_names, table.x.tolist()) == (["a,b"], ["age"], [[3]])


def test_labels_are_not_normalized(tmp_path: Path) -> None:
    table = read_node_file(written(tmp_path / "nodes.csv", "id,k\na,1\nb,1.0\nc,NaN\nd,null\ne,01\n"), label="k")
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
    table = read_node_file(path, label="kind")
    assert table.ids == ["1", "2", "3"]
    assert table.feature_names == ["age", "tall", "size"]
    assert table.x.tolist() == np.array([[1, 1, 0.1], [2, 0, 0.2], [3, 1, 0.3]], np.float32).tolist()
    assert table.labels == ["1", None, None]
    assert read_node_file(path, label="age", ignore=["kind"]).labels == ["1", "2", "3"]


def test_pandas_index_is_the_first_column(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [3.0, 4.0], "kind": pd.Categorical(["x", "y"])}, index=["a", "b"])
    frame.to_parquet(tmp_path / "nodes.parquet")
    frame.to_csv(tmp_path / "nodes.csv")
    for name in ("nodes.parquet", "nodes.csv"):
        table = read_node_file(tmp_path / name, label="kind")
        assert (table.ids, table.x.tolist(), table.labels) == (["a", "b"], [[3], [4]], ["x", "y"])
    frame.rename_axis("user").to_parquet(tmp_path / "named.parquet")
    assert read_node_file(tmp_path / "named.parquet", label="kind").ids == ["a", "b"]


def test_graphml_attributes_are_columns(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_node("007", age=3, kind="red", id="ignored")
    graph.add_node("b", age=4, id="too")
    nx.write_graphml(graph, tmp_path / "nodes.graphml")
    table = read_node_file(tmp_path / "nodes.graphml", label="kind", ignore=["id"])
    assert (table.ids, table.x.tolist(), table.labels) == (["007", "b"], [[3], [4]], ["red", None])
    assert read_node_file(tmp_path / "nodes.graphml", ignore=["id", "age"], missing="mean").feature_names == [
        "kind=red"
    ]
    rejected(tmp_path / "nodes.graphml", "`id_column` must be None for `nodes.graphml`", id_column="id")
    graph.add_node("c", kind="red", id="")
    nx.write_graphml(graph, tmp_path / "nodes.graphml")
    message = f"`nodes.graphml` must {RULE}, but age: 1 cell is missing, in node 'c'."
    rejected(tmp_path / "nodes.graphml", message, label="kind", ignore=["id"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`nodes.csv` must contain at least one node, got an empty file."),
        ("id,age\n", "`nodes.csv` must contain at least one node, got no rows."),
        ("id,age,age\n", "`nodes.csv, column 3` must have a unique name, got 'age' again."),
        ("id,,age\n", "`nodes.csv, column 2` must have a name, got an empty cell."),
        ("id,age\na,1\n\nb\n", "`nodes.csv, line 4` must have 2 cells like the first line, got 1."),
        ("id,age\na,1\n,2\n", "`nodes.csv, line 3, column 'id'` must name the node, got an empty cell."),
        (
            "id,age\na,1\nb,2\n\na,3\n",
            "`nodes.csv, line 5, column 'id'` must be a unique id, got 'a', which is in line 2 too. Remove one.",
        ),
        (
            "id,size,age\na,1,2\nb,1,abc\n",
            f"`nodes.csv` must {RULE}, but age: 1 cell is no number, 'abc' in line 3. "
            "Correct these cells, or add ignore=['age'].",
        ),
        (
            "id,size,age\na,1,2\nb,,2\n",
            f"`nodes.csv` must {RULE}, but size: 1 cell is missing, in line 3. Add missing='mean', or fill them in.",
        ),
        (
            "id,age\na,nan\n",
            f"`nodes.csv` must {RULE}, but age: all cells are empty. Correct these cells, or add ignore",
        ),
        (
            "id,age\na,-inf\n",
            f"`nodes.csv` must {RULE}, but age: 1 cell is not below 3.4e38 in size, '-inf' in line 2.",
        ),
        (
            "id,age\na,1e39\n",
            f"`nodes.csv` must {RULE}, but age: 1 cell is not below 3.4e38 in size, '1e39' in line 2.",
        ),
        ('id,age\na,"1\n', "`nodes.csv, line 2` must be a row of cells"),
    ],
)
def test_errors_report_the_position(tmp_path: Path, text: str, message: str) -> None:
    rejected(written(tmp_path / "nodes.csv", text), message)


def test_errors_in_parquet_report_the_position(tmp_path: Path) -> None:
    path = parquet(tmp_path / "nodes.parquet", id=["a", "b", "c"], age=[1, None, 3])
    rejected(path, f"`nodes.parquet` must {RULE}, but age: 1 cell is missing, in row 2.")
    path = parquet(tmp_path / "nodes.parquet", id=["a", "b", "a"], age=[1, None, 3])
    rejected(path, "`nodes.parquet, row 3, column 'id'` must be a unique id, got 'a', which is in row 1", label="age")
    dates = parquet(tmp_path / "nodes.parquet", id=["a"], born=pa.array([0], pa.date32()))
    rejected(dates, f"`nodes.parquet` must {RULE}, but born: 1 cell is a date, '1970-01-01' in row 1; convert")
    rejected(
        parquet(tmp_path / "nodes.parquet", id=pa.array([], pa.string())), "`nodes.parquet` must contain at least one"
    )


@pytest.mark.parametrize("argument", ["label", "id_column", "split_column", "ignore"])
def test_unknown_columns_are_reported(tmp_path: Path, argument: str) -> None:
    path = written(tmp_path / "nodes.csv", "id,kind,age\na,red,3\n")
    name = "kidn" if argument != "ignore" else ["kidn"]
    rejected(
        path,
        f"`{argument}` must be a column of `nodes.csv` (id, kind, age), got 'kidn'. Did you mean 'kind'?",
        **{argument: name},
    )
    rejected(
        written(tmp_path / "nodes.csv", "id\na\n"),
        "`label` must be a column of `nodes.csv` (id), got 'zzz'. Check",
        label="zzz",
    )


def test_long_column_lists_are_shortened(tmp_path: Path) -> None:
    path = written(tmp_path / "nodes.csv", ",".join(f"c{k}" for k in range(100)) + "\n")
    rejected(
        path,
        f"`label` must be a column of `nodes.csv` ({', '.join(f'c{k}' for k in range(12))} and 88 more)",
        label="x",
    )


def test_a_column_has_only_one_role(tmp_path: Path) -> None:
    path = written(tmp_path / "nodes.csv", "id,kind\na,red\n")
    message = "`split_column` must differ from `label`, got 'kind' for both."
    rejected(path, message, label="kind", split_column="kind")
    rejected(path, "`ignore` must differ from `label`", label="kind", ignore=["kind"])
    rejected(path, "`nodes.csv` must have a column of ids besides id, kind.", label="kind", split_column="id")
    with pytest.raises(TypeError, match=r"`ignore` must be a list of columns, got the text 'kind'\. Pass \['kind'\]"):
        read_node_file(path, ignore="kind")


def test_unknown_split_values_are_rejected(tmp_path: Path) -> None:
    path = written(tmp_path / "nodes.csv", "id,part\na,train\nb,tset\n")
    rejected(
        path, "`nodes.csv, line 3, column 'part'` must be train, val, test or empty, got 'tset'.", split_column="part"
    )


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("split", ["train", "test", "train"]),
        ("Split", [0, 1, 2]),
        ("p", ["TRAIN", "val", "test"]),
        ("p", ["test", "train", ""]),
    ],
)
def test_a_split_is_no_feature_unless_it_is_named_as_one(tmp_path: Path, name: str, cells: list[object]) -> None:
    path = written(tmp_path / "nodes.csv", f"id,{name}\n" + "".join(f"n{k},{cell}\n" for k, cell in enumerate(cells)))
    message = f"`nodes.csv, column '{name}'` must be used or ignored, because it seems to tell which nodes are for "
    choice = f"split_column='{name}' (train, val and test), ignore=['{name}'] (not used) or category=['{name}']"
    rejected(path, f"{message}training. Add {choice} (a feature).")
    assert read_node_file(path, ignore=[name]).feature_names == []
    table = read_node_file(path, category=[name], missing="mean")
    assert len(table.feature_names) > 1
    assert read_node_file(path, categories=table.categories, missing="mean").feature_names == table.feature_names
    if 0 not in cells:
        assert read_node_file(path, split_column=name).feature_names == []


def test_texts_that_are_no_split_are_features(tmp_path: Path) -> None:
    path = written(tmp_path / "nodes.csv", "id,ride,exam\na,train,test\nb,bus,\n")
    assert read_node_file(path, missing="mean").feature_names == ["ride=bus", "ride=train", "exam=test"]


def test_the_column_of_ids_has_no_classes(tmp_path: Path) -> None:
    path = written(tmp_path / "nodes.csv", "id,kind\na,red\nb,blue\n")
    message = "`label` must name the column of classes, but 'id' is that of the ids. Add `id_column` if another column"
    rejected(path, message, label="id")
    assert read_node_file(path, label="id", id_column="kind").labels == ["a", "b"]
    other = written(tmp_path / "other.csv", "kind,person\nred,a\nblue,b\n")
    assert read_node_file(other, label="kind").ids == ["a", "b"]


def test_spaces_between_columns_are_suspected(tmp_path: Path) -> None:
    table = written(tmp_path / "n.csv", "id kind\na red\nb blue\n")
    with pytest.raises(InputError, match="Add delimiter='space' if spaces separate the columns"):
        read_node_file(table, label="kind")
    assert read_node_file(table, label="kind", delimiter="space").labels == ["red", "blue"]


@pytest.mark.parametrize("text", ["", *UNLABELLED, "NA", "NaN", "Unknown", None, float("nan"), -1, -1.0])
def test_cells_without_a_class(text: object) -> None:
    assert LabelReader().read(text) is None


@pytest.mark.parametrize("text", ["0", "1", "-2", "nana", "no", "false", "na na", "nothing"])
def test_classes(text: str) -> None:
    assert LabelReader().read(text) == text


def test_named_values_replace_the_usual_ones() -> None:
    reader = LabelReader(["tbd", " x "])
    assert [reader.read(text) for text in ("tbd", "x", "", "TBD", "unknown", "-1")] == [
        None, None, None, "TBD", "unknown", "-1",
    ]  # fmt: skip
    with pytest.raises(InputTypeError, match="`unlabelled` must be a list of values, got the text 'tbd'"):
        LabelReader("tbd")


def test_named_values_that_surprise_are_said() -> None:
    reader = LabelReader(["tbd", "x,y", ""])
    for text in ("red", "tbd", "NA", "nan", "blue"):
        reader.read(text)
    assert reader.notes()[1:] == (
        "'NA', 'nan' are classes, because option `unlabelled` names other values; repeat it for each.",
        "No label is 'x,y', which option `unlabelled` names.",
    )
    plain = LabelReader(["tbd"])
    assert [plain.read(text) for text in ("red", "tbd", "blue")] == ["red", None, "blue"]
    assert len(plain.notes()) == 1


def test_what_was_read_is_said() -> None:
    reader = LabelReader()
    for text in ("red", "NA", "red", "", "-1", "NA", "blue", "Red"):
        reader.read(text)
    assert reader.notes() == (
        "Labels: 1 Red, 1 blue, 2 red; 4 of 8 nodes are unlabelled (2 'NA', 1 empty, 1 '-1'; option `unlabelled` for "
        "other values).",
        "Classes 'Red' and 'red' differ only in case or format.",
    )
    assert sorted_classes({"10", "9", "1.5"}) == ["1.5", "9", "10"]


def test_too_few_classes_show_the_remedy(tmp_path: Path) -> None:
    edges = written(tmp_path / "e.csv", "source,target\na,b\n")
    nodes = written(tmp_path / "n.csv", "id,k\na,1\nb,-1\n")
    with pytest.raises(InputError, match=r"got only '1' besides 1 '-1', read as unlabelled.*unlabelled=\[''\]"):
        read_graph_files(edges, nodes, label="k")
    assert read_graph_files(edges, nodes, label="k", unlabelled=[""]).classes == ["-1", "1"]
