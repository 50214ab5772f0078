"""The page of errors has every error of the source, with the texts that people see."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import lggd
from building.error_pages import SOURCE, ErrorText, error_texts, page

ERRORS = {"InputError", "InputTypeError", "InputFileError", "NotSymmetricError", "LabelConflictError", "LastLabelError"}


@pytest.fixture(scope="module")
def texts() -> list[ErrorText]:
    """Of the whole package. Reading it takes seconds, too long for an import."""
    return error_texts()


def raised_in(path: Path) -> list[int]:
    """The lines that raise an error about input."""
    raised = (node.exc for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Raise))
    return [call.lineno for call in raised if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ERRORS]


def test_every_raised_error_is_listed(texts: list[ErrorText]) -> None:
    listed = {(text.module, text.line) for text in texts}
    raised = {
        (".".join(path.relative_to(SOURCE).with_suffix("").parts), line)
        for path in SOURCE.rglob("*.py")
        for line in raised_in(path)
    }
    assert len(raised) > 300
    assert raised - listed == set()


def test_texts_are_those_of_the_errors(texts: list[ErrorText]) -> None:
    path = lggd.Graph.from_edges([(0, 1)], symmetrize="max")
    with pytest.raises(lggd.InputError) as caught:
        lggd.distance(path, [0], p=2, solver=lggd.Dijkstra())
    (listed,) = (text for text in texts if text.module == "solvers.dijkstra")
    assert str(caught.value).startswith(listed.cause)
    assert str(caught.value).endswith(listed.remedy)
    assert listed.remedy == "Use FastMarching()."


def test_names_and_choices_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "RULE = 'be ripe'\n"
        "def buy(fruit, price):\n"
        "    rule, remedy = f'cost at most {price.limit:g}', 'Wait.' if price else 'Go.'\n"
        "    raise InputError('fruit', rule, price, remedy)\n"
        "def eat(fruit):\n"
        "    raise InputTypeError(fruit, RULE, but='{0} is not', hints={}, nodes=[fruit])\n"
    )
    first, second = error_texts(tmp_path)
    assert (first.cause, first.remedy, first.line) == ("`fruit` must cost at most ‹limit›", "Wait. / Go.", 4)
    assert second.cause == "‹fruit› must be ripe, but ‹node› is not"


def test_the_page_is_a_table_for_every_room(texts: list[ErrorText]) -> None:
    text = page(texts)
    assert {"## graph", "## solvers", "## tables"} <= set(text.splitlines())
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in rows)
