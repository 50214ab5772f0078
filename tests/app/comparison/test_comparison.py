"""lggd.compare: one protocol for all, failures that stop nothing, folders that continue, processes that share."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure

import lggd
from lggd.app.comparison.results import Results
from lggd.errors import InputError, InputWarning
from support.comparison_models import Oracle, Tunable
from support.small_data import Averages, blocks, changed

FAST = ["label-propagation", "label-spreading"]


def test_the_public_name_is_a_function_and_stays_one() -> None:
    importlib.import_module("lggd.app.comparison.results")
    assert callable(lggd.compare)


def test_all_methods_have_the_same_splits(tmp_path: Path) -> None:
    found = lggd.compare(blocks(), [*FAST, {"mine": Oracle()}], splits=4, labels=2, folder=tmp_path)
    masks = {name: {} for name in (*FAST, "mine")}  # type: dict[str, dict[Any, str]]
    for line in found.lines:
        masks[line["method"]][line["split"], line["share"]] = line["split_hash"]
    assert masks["mine"] == masks[FAST[0]] == masks[FAST[1]]
    assert len(set(masks["mine"].values())) == len(masks["mine"]) == 4 + 3
    assert {line["split"]: line["seed"] for line in found.lines} == dict.fromkeys(range(4), 0)


def test_the_table_and_what_is_best() -> None:
    found = lggd.compare(blocks(), [*FAST, {"mine": Oracle(), "wrong": Oracle(36)}], splits=3, labels=2)
    assert found.table.index[0] == found.best == "mine"
    assert found.table.loc["mine", "accuracy"] == 100
    assert found.table.loc["wrong", "accuracy"] == 0
    assert found.rows[0]["verdict"] == "best"
    assert "Use mine" in found.recommendation or found.recommended in FAST
    assert found.facts == {
        "nodes": 36,
        "edges": found.facts["edges"],
        "classes": 3,
        "training labels": 6,
        "test nodes": 24,
    }


def test_pandas_is_needed_for_the_table_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lggd.compare(blocks(), FAST[0], splits=2, labels=2, curve=False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="`table` must import pandas, but it is not installed"):
        _ = found.table
    assert len(found.rows) == 1


def test_a_method_that_fails_stops_nothing_and_says_why() -> None:
    def broken() -> Any:
        raise RuntimeError("out of order")

    narrow = torch.nn.Linear(6, 2)
    with pytest.warns(InputWarning, match="is not in the table, because it failed: ") as warned:
        found = lggd.compare(blocks(), [{"broken": broken, "narrow": narrow}, *FAST], splits=2, labels=2, curve=False)
    assert {str(each.message).split()[0] for each in warned} == {"'broken'", "'narrow'"}
    assert found.failed["broken"] == "RuntimeError: out of order"
    assert "TypeError" in found.failed["narrow"] or "logits" in found.failed["narrow"]
    assert {row["method"] for row in found.rows} == set(FAST)


def test_methods_that_need_features_are_skipped_without_any() -> None:
    found = lggd.compare(changed(blocks(), x=None), ["gcn", *FAST], splits=2, labels=2, curve=False)
    assert found.skipped == {"gcn": "needs node features, and there are none"}
    assert found.failed == {}
    assert len(found.rows) == 2


def test_models_modules_and_names_take_part_together() -> None:
    short = lggd.Optimization(epochs=5)
    methods = {
        "sgc": lggd.LGGDClassifier(None, lggd.backbones.SGC(), short),
        "module": lambda: lggd.LGGDClassifier(None, Averages(6), short),
    }
    found = lggd.compare(blocks(), [methods, FAST[0]], splits=2, labels=3, curve=False)
    assert found.failed == {}
    assert {row["method"] for row in found.rows} == {"sgc", "module", FAST[0]}


def test_a_folder_continues_where_it_stopped(tmp_path: Path) -> None:
    first, second = Oracle(), Oracle()
    options: dict[str, Any] = {"labels": 2, "folder": tmp_path}
    lggd.compare(blocks(), {"mine": lambda: first}, splits=2, **options)
    found = lggd.compare(blocks(), {"mine": lambda: second}, splits=3, **options)
    assert len(first.seen) == 2 + 2  # two splits, and half of the labels of both
    assert len(second.seen) == 1 + 1
    assert len(found.lines) == 6
    other = changed(blocks(), x=blocks().x + 1)
    lggd.compare(other, {"mine": lambda: second}, splits=2, **options)
    assert len(second.seen) == 2 + 4, "another graph is measured again"


def test_several_processes_give_the_same_numbers(tmp_path: Path) -> None:
    alone = lggd.compare(blocks(), FAST, splits=3, labels=2)
    shown: list[lggd.Progress] = []
    options: dict[str, Any] = {"splits": 3, "labels": 2, "callback": shown.append}
    with pytest.warns(InputWarning, match="'broken' is not in the table, because it failed: ZeroDivisionError"):
        shared = lggd.compare(blocks(), [*FAST, {"broken": lambda: 1 / 0}], jobs=2, folder=tmp_path, **options)
    kept = ("method", "split", "share", "accuracy")
    expected = [[line[name] for name in kept] for line in alone.lines]
    assert [[line[name] for name in kept] for line in shared.lines if line["method"] in FAST] == expected
    assert shared.failed == {"broken": "ZeroDivisionError: division by zero"}
    lines, incomplete = Results(tmp_path).lines("comparison")
    assert (sum(line["method"] in FAST for line in lines), incomplete) == (len(alone.lines), 0)
    assert all(now.total == 18 for now in shown)


def test_settings_are_searched_split_by_split(tmp_path: Path) -> None:
    found = lggd.compare(blocks(), {"t": Tunable()}, splits=2, labels=3, trials=6, curve=False, folder=tmp_path)
    assert [line["chosen"]["optimization__weight_decay"] for line in found.lines] == [5e-3, 5e-3]
    assert [row["accuracy"] for row in found.rows] == [0.0]


def test_progress_is_reported() -> None:
    shown: list[lggd.Progress] = []
    lggd.compare(blocks(), FAST, splits=2, labels=2, curve=False, callback=shown.append)
    assert shown[0] == lggd.Progress("Label propagation, split 0", 0, 4)
    assert [now.done for now in shown] == [0, 1, 2, 3]


def test_the_figure_has_four_panels() -> None:
    figure = lggd.compare(blocks(), FAST, splits=2, labels=4).plot()
    assert isinstance(figure, Figure)
    titles = [axes.get_title() for axes in figure.axes]
    assert [title.split()[0] for title in titles] == ["Accuracy", "Learning", "Calibration", "Time"]
    assert len(figure.axes[1].lines) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"splits": 0}, "`splits`"), ({"trials": -1}, "`trials`"), ({"jobs": 0}, "`jobs`"), ({"labels": 9}, "`data.y`"),
    ],
)  # fmt: skip
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        lggd.compare(blocks(), FAST, **options)


def test_data_without_labels_are_refused() -> None:
    with pytest.raises(InputError, match="`data` must be a PyG Data with edge_index and y, got str"):
        lggd.compare("cora", FAST)


def test_searching_needs_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match="`trials` must import optuna, but it is not installed"):
        lggd.compare(blocks(), FAST, trials=3)
