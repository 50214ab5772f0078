"""Columns of nodes as features: categories, missing values, and one error for all that is neither."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pandas as pd
import pytest

from lggd.app.tables.node_features import MAX_CATEGORIES
from lggd.app.tables.nodes import read_node_file
from lggd.errors import InputError
from support.table_files import written


def nodes(tmp_path: Path, text: str) -> Path:
    return written(tmp_path / "nodes.csv", text)


def test_texts_become_one_feature_each(tmp_path: Path) -> None:
    table = read_node_file(nodes(tmp_path, "id,colour,size\na,red,1\nb,blue,2\nc,red,3\n"))
    assert table.feature_names == ["colour=blue", "colour=red", "size"]
    assert table.x.tolist() == [[0, 1, 1], [1, 0, 2], [0, 1, 3]]
    assert table.categories == {"colour": ["blue", "red"]}
    said = "Column colour has text: each of its 2 values (blue, red) became a feature, 1 or 0."
    assert said in table.notes


def test_numbers_may_be_categories(tmp_path: Path) -> None:
    path = nodes(tmp_path, "id,zip\na,10\nb,20\nc,none\n")
    table = read_node_file(path, category=["zip"])
    assert table.feature_names == ["zip=10", "zip=20", "zip=none"]
    with pytest.raises(InputError, match="zip: 1 cell is missing, 'none' in line 4"):
        read_node_file(path)
    with pytest.raises(TypeError, match=r"Pass \['zip'\]"):
        read_node_file(path, category="zip")


def test_missing_values(tmp_path: Path) -> None:
    text = "id,kind,size,colour\na,x,1,red\nb,y,,red\nc,x,3,\nd,y,8,blue\n"
    path = nodes(tmp_path, text)
    with pytest.raises(InputError) as error:
        read_node_file(path, label="kind")
    assert "size: 1 cell is missing, in line 3; colour: 1 cell is missing, in line 4." in str(error.value)
    filled = read_node_file(path, label="kind", missing="mean")
    assert filled.x[:, 0].tolist() == [1, 4, 3, 8]
    assert filled.x[2, 1:].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert filled.fill is not None
    assert filled.fill["size"] == 4
    with pytest.raises(InputError, match="`missing` must be one of error, mean, got 'median'"):
        read_node_file(path, label="kind", missing="median")


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    rows = "".join(
        f"n{k},{k if k else 'old'},remark {k},2024-01-{k + 1:02},,{k if k % 2 else 'NA'}\n" for k in range(20)
    )
    with pytest.raises(InputError) as error:
        read_node_file(nodes(tmp_path, f"id,age,note,born,empty,part\n{rows}"))
    said = str(error.value)
    for part in (
        "part: 10 cells are missing, the first 'NA' in line 2",
        "age: 1 cell is no number, 'old' in line 2",
        "note: only different texts, the first 'remark 0'",
        "born: 20 cells are dates, the first '2024-01-01' in line 2; convert them to numbers, such as days",
        "empty: all cells are empty",
        "ignore=['age', 'note', 'born', 'empty']",
    ):
        assert part in said


def test_many_texts_are_no_categories(tmp_path: Path) -> None:
    count = MAX_CATEGORIES + 1
    rows = "".join(f"n{k},text {k % count}\n" for k in range(2 * count))
    path = nodes(tmp_path, f"id,note\n{rows}")
    with pytest.raises(InputError, match=f"note: {count} different texts, the first 'text 0'"):
        read_node_file(path)
    assert len(read_node_file(path, category=["note"]).feature_names) == count


def test_new_nodes_look_like_old_ones(tmp_path: Path) -> None:
    old = read_node_file(nodes(tmp_path, "id,c,size\na,red,1\nb,blue,3\nc,,\n"), missing="mean")
    encoding = {"categories": old.categories, "fill": old.fill, "missing": "mean"}
    new = read_node_file(nodes(tmp_path, "id,c,size\nz,red,\n"), **encoding)  # type: ignore[arg-type]
    assert (new.feature_names, new.x.tolist()) == (old.feature_names, [[0, 1, 2]])
    with pytest.raises(InputError, match="c: 1 cell is no category of training, 'green' in line 2"):
        read_node_file(nodes(tmp_path, "id,c,size\nz,green,1\n"), **encoding)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="size: 2 cells are no numbers, the first 'small' in line 2"):
        read_node_file(nodes(tmp_path, "id,c,size\ny,red,small\nz,red,big\n"), **encoding)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="size: 1 cell is no number, 'small' in line 2"):
        read_node_file(nodes(tmp_path, "id,size\nz,small\n"), categories={})


def test_nodes_without_a_header(tmp_path: Path) -> None:
    table = read_node_file(nodes(tmp_path, "31336,0,1,Theory\n10169,1,0,Rules\n"), label="4")
    assert (table.ids, table.feature_names, table.labels) == (["31336", "10169"], ["2", "3"], ["Theory", "Rules"])
    assert "The first line of the nodes was read as a node; columns are numbered from 1." in table.notes
    numbered = read_node_file(nodes(tmp_path, "id,0,1\na,5,6\n"))
    assert numbered.feature_names == ["0", "1"]
    assert read_node_file(nodes(tmp_path, "a,red\nb,blue\n"), label="2").ids == ["a", "b"]


def test_tables_in_memory() -> None:
    frame = pd.DataFrame({"age": [3, None], "kind": ["x", pd.NA]}, index=["a", "b"])
    table = read_node_file(frame, label="kind", missing="mean")
    assert (table.ids, table.x.tolist(), table.labels) == (["a", "b"], [[3], [3]], ["x", None])
    graph = nx.Graph()
    graph.add_node("a", age=3)
    assert read_node_file(graph).x.tolist() == [[3]]
