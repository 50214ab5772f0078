"""Formats of tables: extensions, encodings, damaged files and missing packages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lggd.app.tables.edges import read_edge_file
from lggd.app.tables.graph_files import read_id_file
from lggd.app.tables.nodes import read_node_file
from lggd.errors import InputError
from support.table_files import written


@pytest.mark.parametrize("read", [read_edge_file, read_node_file])
def test_missing_files_folders_and_unknown_extensions(tmp_path: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(OSError, match=r"`.*nowhere\.csv` must be a file, but there is none"):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(OSError, match="got a folder"):
        read(tmp_path)
    last = r", \.graphml or \.npz" if read is read_edge_file else r" or \.graphml"
    with pytest.raises(InputError, match=rf"must end in \.csv, \.tsv, \.txt, \.parquet{last}, got '\.xlsx'"):
        read(written(tmp_path / "table.xlsx", "a,b\n"))


def test_other_encodings_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_bytes("a,caf\xe9\n".encode("latin-1"))
    for read in (read_edge_file, read_id_file):
        with pytest.raises(InputError, match="must be UTF-8 text, got the byte 0xe9"):
            read(path)


@pytest.mark.parametrize("content", [b"", b"a,b", b"PAR1 torn PAR1"])
def test_broken_parquet(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "edges.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"`.*edges\.parquet` must be a Parquet file, but reading it failed"):
        read_edge_file(path)


@pytest.mark.parametrize("text", ["", "a,b", "<graphml><node", "<html/>"])
def test_broken_graphml(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"`.*edges\.graphml` must be a GraphML file, but reading it failed"):
        read_edge_file(written(tmp_path / "edges.graphml", text))
