"""Separators of text tables: found in the first lines, said where they are unusual, asked for where two fit."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lggd.app.tables.edges import read_edge_file
from lggd.app.tables.nodes import read_node_file
from lggd.app.tables.table import Numbers, find_dialect, read_table
from lggd.errors import InputError
from support.table_files import written


@pytest.mark.parametrize(
    ("name", "text", "delimiter", "said"),
    [
        ("t.csv", "a,b\nc,d\n", ",", ""),
        ("t.tsv", "a\tb c,d\n", "\t", ""),
        ("t.txt", "a b\nc   d\n", " ", ""),
        ("t.csv", "a;b\nc;d\n", ";", "t.csv: columns are separated by semicolons."),
        ("t.csv", "a\tb\nc\td\n", "\t", "t.csv: columns are separated by tabs."),
        ("t.tsv", "a,b\nc,d\n", ",", "t.tsv: columns are separated by commas."),
        ("t.csv", "a|b\nc|d\n", "|", "t.csv: columns are separated by vertical bars."),
        ("t.csv", "a b\nc d\n", " ", "t.csv: columns are separated by spaces."),
        ("t.csv", "x;y;0,5\ny;z;0,7\n", ";", "t.csv: columns are separated by semicolons."),
        ("t.csv", 'a,"b;c"\nd,"e;f"\n', ",", ""),
        ("t.csv", "id,tags\na,x;y\nb,z\n", ",", ""),
        ("t.csv", "sep=;\na;b,c\n", ";", "t.csv: the first line, sep=;, declares the separator."),
        ("t.txt", "# Nodes: 4\n% x\n\na\tb\nc\td\n", "\t", "t.txt: the comments in the first 3 lines were skipped."),
        ("t.txt", "a, b\nc, d\n", ",", "t.txt: columns are separated by commas."),
        ("t.csv", "source;target\na;b\nb\n", ";", "t.csv: columns are separated by semicolons."),
    ],
)
def test_the_separator_is_found(tmp_path: Path, name: str, text: str, delimiter: str, said: str) -> None:
    found = find_dialect(written(tmp_path / name, text), blanks=True)
    assert found.delimiter == delimiter
    assert said in (found.notes or ("",))
    assert bool(found.notes) == bool(said)


@pytest.mark.parametrize("text", ["a;b,c;d\ne;f,g;h\n", "a,b\tc\nd,e\tf\n", "a x|b y\nc x|d y\n"])
def test_two_that_fit_are_asked_about(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "t.csv", text)
    with pytest.raises(InputError, match="must have one separator, got lines that can be split by") as error:
        read_table(path)
    assert error.value.hints["delimiter"].startswith("delimiter=")
    first = text[1] if text[1] != " " else "bar"
    assert len(read_table(path, lambda _: False, delimiter=first).rows.__next__()[1]) > 1


def test_the_delimiter_can_be_named(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "source;target\na,b;c,d\n")
    assert read_table(path, delimiter="semicolon").names == ["source", "target"]
    with pytest.raises(InputError, match=r"`delimiter` must be one of comma, .*Did you mean 'semicolon'\?"):
        read_table(path, delimiter="semicolons")


def test_lines_are_counted_from_the_first_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "sep=;\nsource;target\na;b\n;c\n")
    with pytest.raises(InputError, match=r"line 4, column 'source'` must name a node"):
        read_edge_file(path)


def test_spaces_do_not_split_names_of_nodes(tmp_path: Path) -> None:
    """A table of nodes may have one column; edges have at least two."""
    path = written(tmp_path / "t.csv", "full name\nAda Lovelace\nAlan Turing\n")
    assert read_node_file(path).ids == ["Ada Lovelace", "Alan Turing"]


def test_hashtags_are_names(tmp_path: Path) -> None:
    assert read_edge_file(written(tmp_path / "t.txt", "#cats #dogs\n#dogs #cows\n")).ids == ["#cats", "#dogs", "#cows"]


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1", 1),
        ("-2.5e3", -2500),
        (" 3 ", 3),
        ("TRUE", 1),
        ("false", 0),
        (True, 1),
        (7, 7),
        ("0,25", 0.25),
        (",5", 0.5),
    ],
)
def test_numbers(cell: object, value: float) -> None:
    assert Numbers().read(cell) == value


@pytest.mark.parametrize("cell", ["red", "", "1_000", "1.234,5", "1,234,567", "50%", "1 000", None, "0x1", b"1x"])
def test_other_cells_are_no_numbers(cell: object) -> None:
    assert math.isnan(Numbers().read(cell))


def test_decimal_commas_are_said(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "e.csv", "source;target;weight\na;b;0,5\nb;c;1,25\n"))
    assert table.weight is not None
    assert table.weight.tolist() == [0.5, 1.25]
    assert "e.csv: 2 numbers such as 0,5 were read with a decimal comma." in table.notes
    nodes = read_node_file(written(tmp_path / "n.csv", "id;size\na;1,5\nb;2\n"))
    assert nodes.x.tolist() == [[1.5], [2]]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (("1,234", "2,500"), "must have clear numbers, got '1,234', which may be a thousand times larger or smaller"),
        (("0,5", "0.5"), "must have numbers with either decimal commas or points, got '0,5' and '0.5'"),
    ],
)
def test_unclear_commas_are_refused(tmp_path: Path, numbers: tuple[str, str], message: str) -> None:
    rows = "".join(f"a{k};b{k};{number}\n" for k, number in enumerate(numbers))
    for read, header in ((read_edge_file, "source;target;weight\n"), (read_node_file, "id;x;size\n")):
        with pytest.raises(InputError, match="must have") as error:
            read(written(tmp_path / "t.csv", header + rows))
        assert message in str(error.value)
