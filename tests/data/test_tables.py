"""Edges from files: names kept, and mistakes named by file, line and column."""

from __future__ import annotations

import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from lggd import Graph
from lggd.data.tables import read_edges, read_ids, write_distances
from lggd.files import check_folder_writable, replacing_folder


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
    with pytest.raises(OSError, match=r"`.*nowhere\.csv` must be a file, but there is none"):
        read_edges(tmp_path / "nowhere.csv")
    with pytest.raises(OSError, match="got a folder"):
        read_edges(tmp_path)


def test_unknown_ending(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.csv, \.tsv, \.parquet, \.graphml or \.npz, got '\.xlsx'"):
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


# -- Parquet and GraphML --------------------------------------------------------------------------------------------


def parquet(path: Path, **columns: list[object]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_columns_are_found_by_name(tmp_path: Path) -> None:
    path = parquet(tmp_path / "edges.parquet", w=[0.5, 1.0], when=["x", None], To=["b", "007"], From=["a", "b"])
    table = read_edges(path)
    assert table.ids == ["a", "b", "007"]
    assert table.edges.tolist() == [[0, 1], [1, 2]]
    assert table.weight is not None
    assert table.weight.tolist() == [0.5, 1.0]


def test_parquet_numbers_become_names(tmp_path: Path) -> None:
    """A column of integers with a gap is one of floats once pandas has written it."""
    path = parquet(tmp_path / "edges.pq", source=[1, 2], target=[2.0, 3.0])
    assert read_edges(path).ids == ["1", "2", "3"]


def test_parquet_of_many_batches(tmp_path: Path) -> None:
    count = 10_000
    path = parquet(tmp_path / "edges.parquet", source=list(range(count)), target=list(range(1, count + 1)))
    table = read_edges(path)
    assert table.edges.tolist() == [list(range(count)), list(range(1, count + 1))]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"u": ["a"], "v": ["b"]}, "must have a column named source and one named target, got u, v. Rename them."),
        ({"source": ["a", "b"], "target": ["b", None]}, "row 2, column 2, must name a node, got an empty cell"),
        ({"source": ["a"], "target": ["b"], "weight": [-1.0]}, "row 1, column 3, must be a positive weight, got '-1'"),
        (
            {"source": ["a"], "target": ["b"], "w": pa.array([None], pa.float64())},
            "row 1, column 3, must be a positive",
        ),
        ({"source": pa.array([], pa.string()), "target": pa.array([], pa.string())}, "at least one edge, got none"),
    ],
)
def test_mistakes_in_parquet_are_named(tmp_path: Path, columns: dict[str, list[object]], said: str) -> None:
    with pytest.raises(ValueError, match=r"^`.*edges\.parquet`") as error:
        read_edges(parquet(tmp_path / "edges.parquet", **columns))
    assert said in str(error.value)


@pytest.mark.parametrize("content", [b"", b"a,b", b"PAR1 torn PAR1"])
def test_broken_parquet(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "edges.parquet"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"`.*edges\.parquet` must be a Parquet file, but it reads"):
        read_edges(path)


def test_graphml_keeps_its_nodes(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(["alone", "007", "é"])
    graph.add_edge("007", "é", weight=0.25)
    nx.write_graphml(graph, tmp_path / "edges.graphml")
    table = read_edges(tmp_path / "edges.graphml")
    assert table.ids == ["alone", "007", "é"]
    assert table.edges.tolist() == [[1], [2]]
    assert table.weight is not None
    assert table.weight.tolist() == [0.25]


def test_graphml_without_weights_and_with_some(tmp_path: Path) -> None:
    graph = nx.path_graph(3, create_using=nx.DiGraph)
    nx.write_graphml(graph, tmp_path / "edges.graphml")
    assert read_edges(tmp_path / "edges.graphml").weight is None
    graph[1][2]["weight"] = 0.5
    nx.write_graphml(graph, tmp_path / "edges.graphml")
    with pytest.raises(ValueError, match=r"`.*edges\.graphml`, edge 1, column 3, must be a positive weight, got ''"):
        read_edges(tmp_path / "edges.graphml")


@pytest.mark.parametrize("text", ["", "a,b", "<graphml><node", "<html/>"])
def test_broken_graphml(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"`.*edges\.graphml` must be a GraphML file, but it reads"):
        read_edges(written(tmp_path, text, "edges.graphml"))


@pytest.mark.parametrize("package", ["pyarrow", "networkx"])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    path = written(tmp_path, "", {"pyarrow": "edges.parquet", "networkx": "edges.graphml"}[package])
    with pytest.raises(ImportError, match=rf"`.*edges.*` is a .* file, which needs {package}\. Install"):
        read_edges(path)


# -- known nodes ----------------------------------------------------------------------------------------------------


def test_known_ids_number_the_nodes(tmp_path: Path) -> None:
    table = read_edges(written(tmp_path, "b,a\n"), ids=["a", "b", "c"])
    assert table.ids == ["a", "b", "c"]
    assert table.edges.tolist() == [[1], [0]]
    sp.save_npz(tmp_path / "edges.npz", sp.coo_array(([1.0], ([0], [1])), shape=(2, 2)))
    assert read_edges(tmp_path / "edges.npz", ids=["x", "1", "0"]).edges.tolist() == [[2], [1]]


def test_unknown_ids_are_named_with_their_place(tmp_path: Path) -> None:
    path = written(tmp_path, "source,target\nhome,mill\n\nmill,wrok\n")
    with pytest.raises(
        ValueError, match=r"edges\.csv`, line 4, column 2, .* 3 nodes, got 'wrok'\. Did you mean 'work'\?"
    ):
        read_edges(path, ids=["home", "mill", "work"])
    sp.save_npz(tmp_path / "edges.npz", sp.coo_array(([1.0], ([0], [1])), shape=(2, 2)))
    with pytest.raises(ValueError, match=r"edges\.npz`, row 1, must be one of the 1 nodes, got '1'\. Add the node"):
        read_edges(tmp_path / "edges.npz", ids=["0"])


# -- folders --------------------------------------------------------------------------------------------------------

MARKER = "lggd-run.json"


def fill(folder: Path, text: str) -> None:
    (folder / MARKER).write_text("{}", encoding="utf-8")
    (folder / "deep").mkdir()
    (folder / "deep" / "content.txt").write_text(text, encoding="utf-8")


def content(folder: Path) -> str:
    return (folder / "deep" / "content.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("before", ["nothing", "an empty folder", "one of ours"])
def test_a_folder_takes_its_place(tmp_path: Path, before: str) -> None:
    path = tmp_path / "run"
    if before != "nothing":
        path.mkdir()
    if before == "one of ours":
        fill(path, "old")
        (path / "left over").touch()
    with replacing_folder(path, MARKER) as folder:
        assert folder.parent.parent == tmp_path
        fill(folder, "new")
        assert not (path / "deep").exists() or content(path) == "old"
    assert content(path) == "new"
    assert not (path / "left over").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_new_folder_is_as_open_as_any_other(tmp_path: Path) -> None:
    with replacing_folder(tmp_path / "run", MARKER) as folder:
        fill(folder, "new")
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "run").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("existed", [True, False])
def test_a_folder_that_fails_vanishes(tmp_path: Path, failure: type[BaseException], existed: bool) -> None:
    path = tmp_path / "run"
    if existed:
        path.mkdir()
        fill(path, "old")
    with pytest.raises(failure), replacing_folder(path, MARKER) as folder:  # noqa: PT012
        fill(folder, "new")
        raise failure
    assert not existed or content(path) == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"] * existed


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", [1, 2])
def test_a_failure_between_the_renames_keeps_one_whole_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException], when: str, step: int
) -> None:
    path = tmp_path / "run"
    path.mkdir()
    fill(path, "old")
    rename, steps = Path.rename, []

    def failing(self: Path, target: Path) -> Path:
        steps.append(target)
        if len(steps) == step and when == "before":
            raise failure
        rename(self, target)
        if len(steps) == step and when == "after":
            raise failure
        return target

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(failure), replacing_folder(path, MARKER) as folder:
        fill(folder, "new")
    assert content(path) == ("new" if (step, when) == (2, "after") else "old")
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_folder_that_cannot_be_put_back_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    path.mkdir()
    fill(path, "old")
    rename = Path.rename

    def only_aside(self: Path, target: Path) -> Path:
        if target == path:
            raise PermissionError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", only_aside)
    with pytest.raises(PermissionError), replacing_folder(path, MARKER) as folder:
        fill(folder, "new")
    (staging,) = tmp_path.iterdir()
    assert staging.name.startswith(".run-")
    assert (content(staging / "old"), content(staging / "new")) == ("old", "new")


def test_other_folders_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").touch()
    with pytest.raises(OSError, match=r"`.*thesis` must be new, empty or hold lggd-run\.json, got a folder with"):
        check_folder_writable(tmp_path / "thesis", MARKER)
    with pytest.raises(OSError, match="must be new"), replacing_folder(tmp_path / "thesis", MARKER):
        pytest.fail("asked too late")
    with pytest.raises(OSError, match="got a file"):
        check_folder_writable(tmp_path / "thesis" / "chapter.tex", MARKER)
    with pytest.raises(OSError, match="must lie in a folder that exists"):
        check_folder_writable(tmp_path / "nowhere" / "run", MARKER)
    assert (tmp_path / "thesis" / "chapter.tex").exists()


def test_a_folder_that_someone_filled_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with pytest.raises(OSError, match="must be new"), replacing_folder(path, MARKER) as folder:  # noqa: PT012
        fill(folder, "new")
        path.mkdir()
        (path / "mine").touch()
    assert [entry.name for entry in path.iterdir()] == ["mine"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_folder_without_its_marker_is_refused(tmp_path: Path) -> None:
    said = r"must hold lggd-run\.json when complete"
    with pytest.raises(OSError, match=said), replacing_folder(tmp_path / "run", MARKER):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    fill(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to("real")
    with replacing_folder(tmp_path / "link", MARKER) as folder:
        fill(folder, "new")
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "real") == "new"
