"""Edges from files: names are preserved, errors report file, line and column."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from lggd import Graph
from lggd.app.tables.edge_columns import EdgeFormat
from lggd.app.tables.edges import join_directions, read_edge_file
from lggd.errors import InputError
from support.table_files import parquet, written


def test_names_are_numbered_in_order_of_appearance(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "edges.csv", "home,mill\nmill,work\nhome,work\n"))
    assert table.ids == ["home", "mill", "work"]
    assert table.edges.tolist() == [[0, 1, 0], [1, 2, 2]]
    assert table.edges.dtype == np.int64
    assert table.weight is None
    assert table.number("work") == 2


def test_numeric_names_stay_strings(tmp_path: Path) -> None:
    assert read_edge_file(written(tmp_path / "edges.csv", "7,07\n07,1.0\n")).ids == ["7", "07", "1.0"]


@pytest.mark.parametrize("header", ["source,target,weight", "src,dst,w", "From,To,Weight", "NODE_1, node_2, weight"])
def test_header_is_detected_by_its_names(tmp_path: Path, header: str) -> None:
    table = read_edge_file(written(tmp_path / "edges.csv", f"{header}\na,b,0.5\n"))
    assert table.ids == ["a", "b"]
    assert table.weight is not None
    assert table.weight.tolist() == [0.5]


def test_header_may_order_columns_and_add_others(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "edges.csv", "weight,when,target,source\n0.25,monday,b,a\n"))
    assert table.ids == ["a", "b"]
    assert table.edges.tolist() == [[0], [1]]
    assert table.weight is not None
    assert table.weight.tolist() == [0.25]


def test_first_line_without_known_names_is_an_edge(tmp_path: Path) -> None:
    assert read_edge_file(written(tmp_path / "edges.csv", "u,v\nv,w\n")).ids == ["u", "v", "w"]


def test_spaces_blank_lines_quotes_and_byte_order_mark(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "edges.csv", '\ufeffsource,target\n\n a , "b, c"\n  ,  \nb,é\n'))
    assert table.ids == ["a", "b, c", "b", "é"]


def test_tsv(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "edges.TSV", "a b\tc,d\t1\n"))
    assert table.ids == ["a b", "c,d"]


def test_matrix_keeps_isolated_nodes_and_drops_zeros(tmp_path: Path) -> None:
    matrix = sp.coo_array(([1.0, 0.5, 0.0], ([0, 1, 2], [1, 0, 0])), shape=(4, 4))
    sp.save_npz(tmp_path / "edges.npz", matrix)
    table = read_edge_file(tmp_path / "edges.npz")
    assert table.ids == ["0", "1", "2", "3"]
    assert sorted(zip(*table.edges.tolist(), strict=True)) == [(0, 1), (1, 0)]
    assert table.weight is not None
    assert sorted(table.weight.tolist()) == [0.5, 1.0]


def test_edge_table_builds_the_graph(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "edges.csv", "a,b,1\nb,c,0.25\n"))
    graph = Graph.from_edges(table.edges, table.weight, num_nodes=len(table.ids), symmetrize="max")
    assert graph.to_scipy().toarray().tolist() == [[0, 1, 0], [1, 0, 0.25], [0, 0.25, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must contain at least one edge, got an empty file"),
        ("\n  \n", "must contain at least one edge, got an empty file"),
        ("source,target\n", "must contain at least one edge, got no rows"),
        ("a\n", "must have 2 or 3 columns"),
        ("a,b,1,x\n", "must have 2 or 3 columns (source, target, weight), got 4"),
        ("a,b,1\n\nb,c\n", "line 3` must have 3 cells like the first line, got 2"),
        ("source,target\na,b,1\n", "line 2` must have 2 cells like the first line, got 3"),
        ("a,b\n,c\n", "line 2, column 1` must name a node, got an empty cell"),
        ("a,b,1\nb,c,heavy\n", "line 2, column 3` must be a positive weight, got 'heavy'"),
        ("a,b,x\nb,c,1\n", "line 1, column 3` must be a positive weight, got 'x'"),
        ("w,source,target\n0,a,b\n", "line 2, column 'w'` must be a positive weight, got '0'"),
        ("a,b,nan\n", "line 1, column 3` must be a positive weight, got 'nan'"),
        ("a,b,-inf\n", "line 1, column 3` must be a positive weight, got '-inf'"),
        ('a,"b\n', "must be a row of cells"),
    ],
)
def test_errors_report_the_position(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path / "edges.csv", text)
    with pytest.raises(InputError, match=r"^`.*edges\.csv") as error:
        read_edge_file(path)
    assert message in str(error.value)


@pytest.mark.parametrize("content", [b"", b"not a matrix", b"PK\x03\x04 torn"])
def test_broken_matrix(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "edges.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"must be written by scipy\.sparse\.save_npz"):
        read_edge_file(path)


def test_matrices_that_are_not_adjacency_matrices(tmp_path: Path) -> None:
    path = tmp_path / "edges.npz"
    np.savez(path, x=np.ones(3))
    with pytest.raises(InputError, match="must be written by"):
        read_edge_file(path)
    sp.save_npz(path, sp.csr_array(np.ones((2, 3))))
    with pytest.raises(InputError, match=r"must hold a square matrix, got shape \(2, 3\)"):
        read_edge_file(path)
    sp.save_npz(path, sp.csr_array(np.ones((2, 2), complex)))
    with pytest.raises(InputError, match="must hold real numbers, got complex128"):
        read_edge_file(path)


def test_unknown_name_suggests_a_close_one(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "edges.csv", "home,work\n"))
    with pytest.raises(InputError, match=r"`name` must be one of the 2 nodes, got 'hoem'\. Did you mean 'home'\?"):
        table.number("hoem")
    with pytest.raises(InputError, match=r"`target` .* got 'xyz'\. The first is 'home'\."):
        table.number("xyz", "target")


def test_parquet_columns_are_found_by_name(tmp_path: Path) -> None:
    path = parquet(tmp_path / "edges.parquet", w=[0.5, 1.0], when=["x", None], To=["b", "007"], From=["a", "b"])
    table = read_edge_file(path)
    assert table.ids == ["a", "b", "007"]
    assert table.edges.tolist() == [[0, 1], [1, 2]]
    assert table.weight is not None
    assert table.weight.tolist() == [0.5, 1.0]


def test_numbers_in_parquet_become_names(tmp_path: Path) -> None:
    """A column of integers with a gap is one of floats once pandas has written it."""
    path = parquet(tmp_path / "edges.pq", source=[1, 2], target=[2.0, 3.0])
    assert read_edge_file(path).ids == ["1", "2", "3"]


def test_parquet_with_many_batches(tmp_path: Path) -> None:
    count = 10_000
    path = parquet(tmp_path / "edges.parquet", source=list(range(count)), target=list(range(1, count + 1)))
    table = read_edge_file(path)
    assert table.edges.tolist() == [list(range(count)), list(range(1, count + 1))]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"p": ["a"], "q": ["b"]},
            "must have a column named source and one named target, got p, q. "
            "Add source_column='p' target_column='q', or name the columns source and target.",
        ),
        ({"source": ["a", "b"], "target": ["b", None]}, "row 2, column 'target'` must name a node, got an empty cell"),
        (
            {"source": ["a"], "target": ["b"], "weight": [-1.0]},
            "row 1, column 'weight'` must be a positive weight, got '-1'",
        ),
        (
            {"source": ["a"], "target": ["b"], "w": pa.array([None], pa.float64())},
            "row 1, column 'w'` must be a positive",
        ),
        ({"source": pa.array([], pa.string()), "target": pa.array([], pa.string())}, "at least one edge, got no rows"),
    ],
)
def test_errors_in_parquet_report_the_position(tmp_path: Path, columns: dict[str, list[object]], message: str) -> None:
    with pytest.raises(InputError, match=r"^`.*edges\.parquet") as error:
        read_edge_file(parquet(tmp_path / "edges.parquet", **columns))
    assert message in str(error.value)


def test_graphml_keeps_its_nodes(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(["alone", "007", "é"])
    graph.add_edge("007", "é", weight=0.25)
    nx.write_graphml(graph, tmp_path / "edges.graphml")
    table = read_edge_file(tmp_path / "edges.graphml")
    assert table.ids == ["alone", "007", "é"]
    assert table.edges.tolist() == [[1], [2]]
    assert table.weight is not None
    assert table.weight.tolist() == [0.25]


def test_graphml_with_missing_weights(tmp_path: Path) -> None:
    graph = nx.path_graph(3, create_using=nx.DiGraph)
    nx.write_graphml(graph, tmp_path / "edges.graphml")
    assert read_edge_file(tmp_path / "edges.graphml").weight is None
    graph[1][2]["weight"] = 0.5
    nx.write_graphml(graph, tmp_path / "edges.graphml")
    with pytest.raises(
        InputError, match=r"`.*edges\.graphml, edge 1, column 'weight'` must be a positive weight, got ''"
    ):
        read_edge_file(tmp_path / "edges.graphml")


def test_given_ids_define_the_order(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "edges.csv", "b,a\n"), ids=["a", "b", "c"])
    assert table.ids == ["a", "b", "c"]
    assert table.edges.tolist() == [[1], [0]]
    sp.save_npz(tmp_path / "edges.npz", sp.coo_array(([1.0], ([0], [1])), shape=(2, 2)))
    assert read_edge_file(tmp_path / "edges.npz", ids=["x", "1", "0"]).edges.tolist() == [[2], [1]]


def test_unknown_ids_are_reported_with_their_position(tmp_path: Path) -> None:
    path = written(tmp_path / "edges.csv", "source,target\nhome,mill\n\nmill,wrok\n")
    with pytest.raises(
        ValueError, match=r"edges\.csv, line 4, column 'target'` .* 3 nodes, got 'wrok'\. Did you mean 'work'\?"
    ):
        read_edge_file(path, ids=["home", "mill", "work"])
    sp.save_npz(tmp_path / "edges.npz", sp.coo_array(([1.0], ([0], [1])), shape=(2, 2)))
    with pytest.raises(InputError, match=r"edges\.npz, row 1` must be one of the 1 nodes, got '1'\. Add the node"):
        read_edge_file(tmp_path / "edges.npz", ids=["0"])


TEXT = "source,target,{name}\na,b,4\nb,a,1\nb,a,1\nb,c,5\n"


@pytest.mark.parametrize(("rule", "value"), [(None, 4), ("max", 4), ("min", 1), ("mean", 2), ("sum", 6)])
def test_weights_are_joined(tmp_path: Path, rule: str | None, value: float) -> None:
    table = join_directions(read_edge_file(written(tmp_path / "e.csv", TEXT.format(name="weight"))), rule)
    assert table.edges.tolist() == [[0, 1], [1, 2]]
    assert table.weight is not None
    assert table.weight.tolist() == [value, 5]
    said = "1 pair of nodes has edges of different weights (the first: a,b = 4 and b,a = 1); the larger is kept "
    assert any(note.startswith(said) for note in table.notes) == (rule is None)


@pytest.mark.parametrize(("rule", "value"), [(None, 1), ("max", 4), ("min", 1), ("mean", 2), ("sum", 6)])
def test_lengths_are_joined_as_lengths(tmp_path: Path, rule: str | None, value: float) -> None:
    path = written(tmp_path / "e.csv", TEXT.format(name="km"))
    table = join_directions(read_edge_file(path, format=EdgeFormat(length="km")), rule)
    assert table.weight is not None
    assert (table.weight**-0.5).tolist() == pytest.approx([value, 5])
    assert any("different lengths" in note and "the shorter is kept" in note for note in table.notes) == (rule is None)


def test_equal_weights_and_none_are_not_mentioned(tmp_path: Path) -> None:
    table = join_directions(read_edge_file(written(tmp_path / "e.csv", "source,target,w\na,b,0.3\nb,a,0.3\n")))
    assert table.notes == ()
    unweighted = read_edge_file(written(tmp_path / "e.csv", "source,target\na,b\nb,a\na,b\n"))
    assert join_directions(unweighted).weight is None
    assert join_directions(unweighted).notes == ("1 row repeats an edge of the same direction.",)
    counted = join_directions(unweighted, "sum").weight
    assert counted is not None
    assert counted.tolist() == [3]


def test_other_rules_are_refused(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "e.csv", "source,target\na,b\n"))
    with pytest.raises(InputError, match="`symmetrize` must be one of max, mean, min, sum, got 'median'"):
        join_directions(table, "median")
