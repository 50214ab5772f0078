"""Tables that cannot become a graph: one sentence that names the place and the remedy, and nothing left behind."""

import sys

import pytest

from lggd.app.tables import building
from lggd.app.tables.building import build_graph
from lggd.app.tables.edge_columns import EdgeFormat
from lggd.app.tables.large_tables import ArrayFile
from lggd.errors import DiskFullError, InputError

GOOD = "source,target\na,b\nb,c\n"


@pytest.fixture
def refused(tmp_path):
    """Returns the message for a table of edges, and of nodes; nothing but the tables is left."""

    def run(edges=GOOD, nodes=None, name="edges.csv", **options):
        path = tmp_path / name
        path.write_bytes(edges) if isinstance(edges, bytes) else path.write_text(edges)
        if nodes is not None:
            (tmp_path / "nodes.csv").write_text(nodes)
            options["nodes"] = tmp_path / "nodes.csv"
        with pytest.raises(InputError) as caught:
            build_graph(path, tmp_path / "graph", **options)
        path.unlink()
        assert {found.name for found in tmp_path.iterdir()} <= {"nodes.csv"}
        return str(caught.value)

    return run


def test_files(refused, tmp_path):
    assert "must contain at least one row, got an empty file" in refused("")
    assert "must contain at least one edge, got no rows" in refused("source,target\n")
    assert "must end in .csv" in refused(GOOD, name="edges.doc")
    assert "must be a Parquet file" in refused(b"PAR1 and nothing else", name="edges.parquet")
    assert "must be UTF-8 text" in refused("source,target\nä,b\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"must be a file, but there is none\. Check"):
        build_graph(tmp_path / "no.csv", tmp_path / "graph")
    with pytest.raises(InputError, match="must match a file"):
        build_graph(str(tmp_path / "no-*.csv"), tmp_path / "graph")


def test_rows_of_another_width(refused):
    lines = "".join(f"n{k},m{k}\n" for k in range(5000))
    assert "edges.csv, line 5002` must have 2 cells" in refused(f"source,target\n{lines}a,b,c\n")
    blanks = "".join(f"{k}  {k + 1}\n" for k in range(5000))
    assert "edges.txt, line 5001` must have 2 cells" in refused(f"{blanks}1  2  3\n", name="edges.txt")


def test_a_repeated_header(refused):
    assert "must name its columns only once" in refused("source,target\na,b\nsource,target\nb,c\n")


def test_bytes_that_are_no_text_after_many_lines(refused):
    lines = "".join(f"n{k},m{k}\n" for k in range(50_000)).encode()
    assert "must be UTF-8 text, got the byte 0xff" in refused(b"source,target\n" + lines + b"\xff\xfe,b\n")


@pytest.mark.parametrize("ids", ["ab", "12"])
def test_empty_cells(refused, ids):
    message = refused(f"source,target\n{ids[0]},{ids[1]}\n{ids[1]},\n")
    assert "column 'target'` must name a node, got an empty cell" in message


def test_weights(refused):
    def message(cell, **options):
        return refused(f"source,target,weight\na,b,0.5\nb,c,{cell}\n", **options)

    assert "line 3, column 'weight'` must be a positive weight, got 'heavy'" in message("heavy")
    for cell in ("0", "-1", "nan", "inf", "1_0"):
        assert f"must be a positive weight, got '{cell}'" in message(cell)
    assert "must be a positive weight, got ''" in message("")
    assert "line 3, column 'weight'` must be a weight in (0, 1], got 1.5" in message("1.5")
    assert "must be a number that float32 can hold" in message("1e-60")
    assert "must be a positive length, got '-2'" in refused(
        "source,target,km\na,b,1\nb,c,-2\n", format=EdgeFormat(length="km")
    )
    assert "must vary by less than" in refused(
        "source,target,km\na,b,1e-15\nb,c,1e15\n", format=EdgeFormat(length="km")
    )


def test_columns(refused):
    assert "must be used or ignored, because its name suggests a length" in refused("source,target,km\na,b,1\n")
    assert "must be a column of" in refused(GOOD, format=EdgeFormat(weight="wieght"))
    assert "must have a column named source" in refused("x1,y1,z1\n", format=EdgeFormat(header=True))
    assert "`label` must be a column of the node table" in refused(GOOD, label="kind")


def test_files_with_different_columns(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text("target,source\na,b\n")
    with pytest.raises(InputError, match=r"b\.csv` must have the columns of .*a\.csv, got target, source"):
        build_graph([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "graph")


@pytest.mark.parametrize(
    ("edges", "nodes"), [(GOOD, "id,age\na,1\nc,2\n"), ("source,target\n1,2\n2,3\n", "id,age\n1,1\n3,1\n")]
)
def test_nodes_that_the_table_lacks(refused, edges, nodes):
    assert "line 2, column 'target'` must be one of the 2 nodes" in refused(edges, nodes)


def test_node_tables(refused):
    assert "must be a unique id, got 'a', which is in line 2 too" in refused(GOOD, "id,age\na,1\na,2\nb,1\nc,1\n")
    assert "line 3, column 'id'` must name the node" in refused(GOOD, "id,age\na,1\n,2\nb,1\nc,1\n")
    message = refused(GOOD, "id,age,born\na,1,2001-01-01\nb,old,2001-01-02\nc,,2001-01-03\n")
    assert "age: 1 cell is no number, 'old' in line 3; born: 3 cells are dates" in message
    assert "must be used or ignored, because it seems to tell" in refused(GOOD, "id,split\na,1\nb,2\nc,3\n")
    assert "must name at least two classes, got only 'x'" in refused(GOOD, "id,k\na,x\nb,x\nc,\n", label="k")
    assert "must be a column of" in refused(GOOD, "id,k\na,x\nb,x\nc,\n", label="kind")


def test_settings(refused):
    assert "`memory` must be at least" in refused(memory=1000)


def test_without_the_package(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install 'lggd[disk]'" in refused()


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / "edges.csv").write_text(GOOD)
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"must be new, empty or contain graph\.json"):
        build_graph(tmp_path / "edges.csv", tmp_path / "graph")
    assert (tmp_path / "graph" / "thesis.tex").read_text() == "mine"


def test_a_full_disk_keeps_the_stages_that_are_complete(tmp_path, monkeypatch):
    (tmp_path / "edges.csv").write_text(GOOD)

    class Full(ArrayFile):
        def append(self, values):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(building, "ArrayFile", Full)
    with pytest.raises(DiskFullError, match="resume=True"):
        build_graph(tmp_path / "edges.csv", tmp_path / "graph")
    assert not (tmp_path / "graph").exists()
    assert not (tmp_path / ".graph-build" / "rows").exists()
    monkeypatch.undo()
    build_graph(tmp_path / "edges.csv", tmp_path / "graph", resume=True)
    assert {path.name for path in tmp_path.iterdir()} == {"edges.csv", "graph"}
