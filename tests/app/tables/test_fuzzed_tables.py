"""Some hundred random tables, read as pandas reads them or refused; `fuzzed_tables.py` reads any number of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lggd.app.tables import edges, nodes
from support import fuzzed_tables

COUNT = 600


def outcomes(folder: Path, count: int = COUNT) -> Counter[str]:
    return Counter(fuzzed_tables.fuzz(seed, folder)[0].split(" ")[0] for seed in range(count))


def test_tables_are_read_as_by_pandas_or_refused(tmp_path: Path) -> None:
    found = outcomes(tmp_path)
    assert set(found) <= {"equal", "read,", "refused", "refused,"}
    assert found["equal"] > COUNT / 3


@pytest.mark.parametrize("module", [edges, nodes])
def test_a_planted_misreading_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    monkeypatch.setattr(module, "as_text", lambda cell: str(cell).strip().lower())
    assert outcomes(tmp_path, 200)["WRONG"] > 0
