"""Columns of edges: names of the ends, weights, lengths, and columns that are not used."""

from __future__ import annotations

import math
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from lggd import Graph, distance
from lggd.app.tables.edge_columns import EdgeFormat
from lggd.app.tables.edges import read_edge_file
from lggd.errors import InputError
from support.table_files import parquet, written

ROWS = "home,mill,4\nmill,work,0.5\n"


def read(tmp_path: Path, text: str, **format: object) -> object:
    return read_edge_file(written(tmp_path / "e.csv", text), format=EdgeFormat(**format))  # type: ignore[arg-type]


def test_a_length_is_a_weight_of_one_over_its_square(tmp_path: Path) -> None:
    """For p = ∞ the distance is the sum of the lengths, as in networkx."""
    rng = np.random.default_rng(0)
    graph = nx.gnm_random_graph(40, 90, seed=1)
    for i, j in graph.edges:
        graph[i][j]["km"] = float(rng.uniform(0.01, 300))
    text = "source,target,km\n" + "".join(f"{i},{j},{km!r}\n" for i, j, km in graph.edges(data="km"))
    table = read_edge_file(written(tmp_path / "e.csv", text), format=EdgeFormat(length="km"))
    assert table.is_length
    found = Graph.from_edges(table.edges, table.weight, num_nodes=len(table.ids), symmetrize="max", unbounded=True)
    values = distance(found, [table.number("0")], p=math.inf).value.tolist()
    expected = nx.single_source_dijkstra_path_length(graph, 0, weight="km")
    assert {int(name): v for name, v in zip(table.ids, values, strict=True) if math.isfinite(v)} == pytest.approx(
        expected
    )


@pytest.mark.parametrize(
    ("length", "message"),
    [
        ("0", "must be a positive length, got '0'. An edge of length 0 makes two nodes one: merge them"),
        ("-3", "must be a positive length, got '-3'. There are no negative distances"),
        ("", "must be a positive length, got ''. Remove edges without a length."),
        ("inf", "must be a positive length, got 'inf'."),
        ("1e200", "must be a positive length"),
    ],
)
def test_other_lengths_are_refused(tmp_path: Path, length: str, message: str) -> None:
    with pytest.raises(InputError, match="line 2, column 'km'") as error:
        read(tmp_path, f"source,target,km\na,b,{length}\n", length="km")
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["similarity", "Strength", "n_contacts", "edge weight", "numPapers", "score (0-1)"])
def test_names_like_weights_show_the_weight_first(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="because its name suggests a weight") as error:
        read(tmp_path, f"source,target,{name}\n{ROWS}")
    assert error.value.remedy.startswith("Add {weight} (larger means closer), {length} (longer means farther)")
    assert f"weight={name!r}" in str(error.value)


@pytest.mark.parametrize("name", ["when", "remark", "Type", "Id", "minimum", "timestamp", "country"])
def test_other_names_are_only_named(tmp_path: Path, name: str) -> None:
    table = read_edge_file(written(tmp_path / "e.csv", f"source,target,{name}\n{ROWS}"))
    assert table.weight is None
    assert table.notes == (f"Columns of edges that were not used: {name}.",)
    assert read(tmp_path, f"source,target,{name}\n{ROWS}", ignore=(name,)).notes == ()  # type: ignore[attr-defined]


def test_a_weight_beside_a_length_must_be_chosen(tmp_path: Path) -> None:
    text = "source,target,weight,km\na,b,0.5,3\n"
    with pytest.raises(InputError, match="column 'km'"):
        read(tmp_path, text)
    assert read(tmp_path, text, weight="weight").weight.tolist() == [0.5]  # type: ignore[attr-defined]
    assert read(tmp_path, text, length="km").weight.tolist() == pytest.approx([1 / 9])  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="`weight` must be omitted with `length`"):
        EdgeFormat(weight="weight", length="km")


def test_columns_of_a_table_without_header_are_numbered(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "e.csv", "1,2,4\n2,3,9\n"), format=EdgeFormat(length="3"))
    assert table.weight is not None
    assert table.weight.tolist() == pytest.approx([1 / 16, 1 / 81])
    unused = read_edge_file(written(tmp_path / "e.csv", "1,2,4\n2,3,9\n"), format=EdgeFormat(ignore=("3",)))
    assert unused.weight is None
    said = "The third column was read as weights: larger means closer (option `length` for lengths)."
    assert said in read_edge_file(tmp_path / "e.csv").notes
    with pytest.raises(InputError, match=r"`length` must be a column .* \(1, 2, 3\), got 'km'\. Columns are numbered"):
        read(tmp_path, "1,2,4\n2,3,9\n", length="km")
    four = read_edge_file(
        written(tmp_path / "e.csv", "x,1,2,4\ny,2,3,9\n"),
        format=EdgeFormat(source_column="2", target_column="3", header=False),
    )
    assert four.ids == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo,bar\nhome,mill\n", "line 1` must name the columns or be an edge, got 'foo', 'bar', which are neither"),
        ("start,end\nstart,a\na,end\n", "which may name columns or nodes, because nodes have these names"),
        ("a,b\nc,d\n", "which are neither known names of columns nor nodes that occur again"),
        ("0,1\nhome,mill\n", "line 1` must name the columns or be an edge, got '0', '1'"),
        ("source,target\na,b\nsource,target\n", "must name its columns only once"),
        ("source,target,target\na,b,c\n", "column 'target'` must have a unique name"),
        ("a,b,c,d\ne,f,g,h\n", "which are neither known names of columns nor nodes that occur again"),
    ],
)
def test_unclear_first_lines_are_asked_about(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match="must") as error:
        read(tmp_path, text)
    assert message in str(error.value)


def test_known_nodes_decide(tmp_path: Path) -> None:
    path = written(tmp_path / "e.csv", "a,b\nc,d\n")
    assert read_edge_file(path, ids=["a", "b", "c", "d"]).edges.shape == (2, 2)
    assert read_edge_file(path, ids=["c", "d"]).edges.shape == (2, 1)


def test_ends_can_be_named(tmp_path: Path) -> None:
    text = "foo,bar,baz\nx,home,mill\ny,mill,work\n"
    table = read_edge_file(
        written(tmp_path / "e.csv", text), format=EdgeFormat(source_column="baz", target_column="bar")
    )
    assert table.ids == ["mill", "home", "work"]
    with pytest.raises(InputError, match="`source_column` must be given together with `target_column`"):
        EdgeFormat(source_column="foo")
    with pytest.raises(InputError, match="`target_column` must differ from `source_column`"):
        read(tmp_path, text, source_column="bar", target_column="bar")


def test_the_direction_of_other_names_is_said(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "e.csv", "Head,rel,Tail\nhome,x,mill\n"))
    assert table.notes[0] == "Edges go from column 'Head' to column 'Tail'."


def test_names_with_braces_are_no_placeholders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"got '\{0\}', '\{length\}'"):
        read(tmp_path, "{0},{length}\nhome,mill\n")


def test_tables_in_memory(tmp_path: Path) -> None:
    frame = pd.DataFrame({"from": [1, 2], "to": [2, 3], "km": [2.0, 4.0]})
    table = read_edge_file(frame, format=EdgeFormat(length="km"))
    assert (table.ids, table.weight.tolist()) == (["1", "2", "3"], [0.25, 0.0625])  # type: ignore[union-attr]
    with pytest.raises(InputError, match="`DataFrame, column 'km'` must be used or ignored"):
        read_edge_file(frame)
    graph = nx.Graph([("a", "b"), ("b", "c")])
    graph.add_node("z")
    assert read_edge_file(graph).ids == ["a", "b", "c", "z"]
    assert read_edge_file(sp.csr_array(np.array([[0, 0.5], [0.5, 0]]))).ids == ["0", "1"]
    assert read_edge_file(parquet(tmp_path / "e.parquet", start=["a"], end=["b"])).ids == ["a", "b"]
