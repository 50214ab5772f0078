"""Edges that are listed several times become one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lggd.data.edge_columns import EdgeFormat
from lggd.data.edge_directions import join_directions
from lggd.data.edges import read_edge_file
from lggd.errors import InputError
from table_files import written

TEXT = "source,target,{name}\na,b,4\nb,a,1\nb,a,1\nb,c,5\n"


@pytest.mark.parametrize(("rule", "value"), [(None, 4), ("max", 4), ("min", 1), ("mean", 2), ("sum", 6)])
def test_weights_are_joined(tmp_path: Path, rule: str | None, value: float) -> None:
    table = join_directions(read_edge_file(written(tmp_path / "e.csv", TEXT.format(name="weight"))), rule)
    assert table.edges.tolist() == [[0, 1], [1, 2]]
    assert table.weight is not None
    assert table.weight.tolist() == [value, 5]
    said = "1 pairs of nodes have edges of different weights (the first: a,b = 4 and b,a = 1); the larger is kept "
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
    assert join_directions(unweighted).notes == ("1 rows repeat an edge of the same direction.",)
    counted = join_directions(unweighted, "sum").weight
    assert counted is not None
    assert counted.tolist() == [3]


def test_other_rules_are_refused(tmp_path: Path) -> None:
    table = read_edge_file(written(tmp_path / "e.csv", "source,target\na,b\n"))
    with pytest.raises(InputError, match="`symmetrize` must be one of max, mean, min, sum, got 'median'"):
        join_directions(table, "median")
