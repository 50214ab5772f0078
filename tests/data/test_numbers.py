"""Numbers in tables, with decimal points or commas."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lggd.data.edges import read_edge_file
from lggd.data.nodes import read_node_file
from lggd.data.numbers import Numbers
from lggd.errors import InputError
from table_files import written


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
