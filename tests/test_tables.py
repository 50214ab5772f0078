"""Edges from files: names kept, and mistakes named by file, line and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from lggd import Graph
from lggd.data.tables import read_edges, read_ids, write_distances


def written(tmp_path: Path, text: str, name: str = "edges.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_names_are_numbered_in_order_of_appearance(tmp_path: Path) -> None:
    table = read_edges(written(tmp_path, "home,mill\nmill,work\nhome,work\n"))
    assert table.ids == ["home", "mill", "work"]
    assert table.edges.tolist() == [[0, 1, 0], [1, 2, 2]]
    assert table.edges.dtype == np.int64
    assert table.weight is None
    assert table.number("work") == 2


def test_names_are_strings_even_where_they_are_numbers(tmp_path: Path) -> None:
    assert read_edges(written(tmp_path, "7,07\n07,1.0\n")).ids == ["7", "07", "1.0"]


@pytest.mark.parametrize("header", ["source,target,weight", "src,dst,w", "From,To,Weight", "NODE_1, node_2, weight"])
def test_header_is_recognised_by_its_names(tmp_path: Path, header: str) -> None:
    table = read_edges(written(tmp_path, f"{header}\na,b,0.5\n"))
    assert table.ids == ["a", "b"]
    assert table.weight is not None
    assert table.weight.tolist() == [0.5]


def test_header_may_order_columns_and_add_others(tmp_path: Path) -> None:
    table = read_edges(written(tmp_path, "weight,when,target,source\n0.25,monday,b,a\n"))
    assert table.ids == ["a", "b"]
    assert table.edges.tolist() == [[0], [1]]
    assert table.weight is not None
    assert table.weight.tolist() == [0.25]


def test_first_line_of_unknown_names_is_an_edge(tmp_path: Path) -> None:
    assert read_edges(written(tmp_path, "u,v\nv,w\n")).ids == ["u", "v", "w"]


def test_spaces_blank_lines_quotes_and_byte_order_mark(tmp_path: Path) -> None:
    table = read_edges(written(tmp_path, '\ufeffsource,target\n\n a , "b, c"\n  ,  \nb,é\n'))
    assert table.ids == ["a", "b, c", "b", "é"]


def test_tabs(tmp_path: Path) -> None:
    table = read_edges(written(tmp_path, "a b\tc,d\t1\n", "edges.TSV"))
    assert table.ids == ["a b", "c,d"]


def test_matrix_keeps_isolated_nodes_and_drops_zeros(tmp_path: Path) -> None:
    matrix = sp.coo_array(([1.0, 0.5, 0.0], ([0, 1, 2], [1, 0, 0])), shape=(4, 4))
    sp.save_npz(tmp_path / "edges.npz", matrix)
    table = read_edges(tmp_path / "edges.npz")
    assert table.ids == ["0", "1", "2", "3"]
    assert sorted(zip(*table.edges.tolist(), strict=True)) == [(0, 1), (1, 0)]
    assert table.weight is not None
    assert sorted(table.weight.tolist()) == [0.5, 1.0]


def test_table_makes_the_graph_it_describes(tmp_path: Path) -> None:
    table = read_edges(written(tmp_path, "a,b,1\nb,c,0.25\n"))
    graph = Graph.from_edges(table.edges, table.weight, num_nodes=len(table.ids), symmetrize="max")
    assert graph.to_scipy().toarray().tolist() == [[0, 1, 0], [1, 0, 0.25], [0, 0.25, 0]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must hold at least one edge, got an empty file"),
        ("\n  \n", "must hold at least one edge, got an empty file"),
        ("source,target\n", "must hold at least one edge, got only a header"),
        ("a\n", "line 1, must have 2 or 3 cells"),
        ("a,b,1,x\n", "line 1, must have 2 or 3 cells (source, target, weight), got 4"),
        ("a,b,1\n\nb,c\n", "line 3, must have 3 cells like the first line, got 2"),
        ("source,target\na,b,1\n", "line 2, must have 2 cells like the first line, got 3"),
        ("a,b\n,c\n", "line 2, column 1, must name a node, got an empty cell"),
        ("a,b,1\nb,c,heavy\n", "line 2, column 3, must be a positive weight, got 'heavy'"),
        ("a,b,x\nb,c,1\n", "line 1, column 3, must be a positive weight, got 'x'"),
        ("w,source,target\n0,a,b\n", "line 2, column 1, must be a positive weight, got '0'"),
        ("a,b,nan\n", "line 1, column 3, must be a positive weight, got 'nan'"),
        ("a,b,-inf\n", "line 1, column 3, must be a positive weight, got '-inf'"),
        ('a,"b\n', "must be a row of cells"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=r"^`.*edges\.csv`") as error:
        read_edges(path)
    assert said in str(error.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`.*nowhere\.csv` must be a file, but there is none"):
        read_edges(tmp_path / "nowhere.csv")
    with pytest.raises(IsADirectoryError, match="got a folder"):
        read_edges(tmp_path)


def test_unknown_ending(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.csv, \.tsv or \.npz, got '\.xlsx'"):
        read_edges(written(tmp_path, "a,b\n", "edges.xlsx"))


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_bytes("a,caf\xe9\n".encode("latin-1"))
    for read in (read_edges, read_ids):
        with pytest.raises(ValueError, match="must be UTF-8 text, got the byte 0xe9"):
            read(path)


@pytest.mark.parametrize("content", [b"", b"not a matrix", b"PK\x03\x04 torn"])
def test_broken_matrix(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "edges.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"must be written by scipy\.sparse\.save_npz"):
        read_edges(path)


def test_matrices_that_are_no_graphs(tmp_path: Path) -> None:
    path = tmp_path / "edges.npz"
    np.savez(path, x=np.ones(3))
    with pytest.raises(ValueError, match="must be written by"):
        read_edges(path)
    sp.save_npz(path, sp.csr_array(np.ones((2, 3))))
    with pytest.raises(ValueError, match=r"must hold a square matrix, got shape \(2, 3\)"):
        read_edges(path)
    sp.save_npz(path, sp.csr_array(np.ones((2, 2), complex)))
    with pytest.raises(ValueError, match="must hold real numbers, got complex128"):
        read_edges(path)


def test_unknown_name_suggests_a_close_one(tmp_path: Path) -> None:
    table = read_edges(written(tmp_path, "home,work\n"))
    with pytest.raises(ValueError, match=r"`name` must be one of the 2 nodes .* got 'hoem'\. Did you mean 'home'\?"):
        table.number("hoem")
    with pytest.raises(ValueError, match=r"`target` .* got 'xyz'\. The first is 'home'\."):
        table.number("xyz", "target")


def test_ids_one_a_line(tmp_path: Path) -> None:
    assert read_ids(written(tmp_path, "\ufeffa\n\n b \nc, d\n", "ids.txt")) == ["a", "b", "c, d"]
    with pytest.raises(ValueError, match="must name at least one node, got an empty file"):
        read_ids(written(tmp_path, "\n", "none.txt"))


def test_distances_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "far.csv"
    write_distances(path, ["a", "b, c"], [0.1, float("inf")])
    assert path.read_text(encoding="utf-8") == 'node,distance\na,0.1\n"b, c",inf\n'
    with pytest.raises(ValueError, match="zip"):
        write_distances(path, ["a", "b"], [1.0])
    assert path.read_text(encoding="utf-8") == 'node,distance\na,0.1\n"b, c",inf\n'
    assert [entry.name for entry in tmp_path.iterdir()] == ["far.csv"]


def test_distances_between_tabs(tmp_path: Path) -> None:
    write_distances(tmp_path / "far.tsv", ["a"], [1.5])
    assert (tmp_path / "far.tsv").read_text(encoding="utf-8") == "node\tdistance\na\t1.5\n"
