"""Rows as files define them, the settings chosen for them, and the rows that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lggd.app.comparison.rows import (
    Categorical,
    Choice,
    Range,
    Row,
    configs_folder,
    load_rows,
    read_chosen,
    select_rows,
    write_chosen,
)
from lggd.app.comparison.search import first_settings
from lggd.app.comparison.short_names import build, complete_settings
from lggd.errors import InputError, InputFileError, InputTypeError
from lggd.estimator import Member

PAPER_NUMBERS = [f"{number:02}" for number in range(1, 14)]
GDC = """
number = "07"
name = "GDC (ppr)"
method = "gdc-ppr"
[settings]
kernel = "ppr"
k = 64
[search]
alpha = { low = 0.05, high = 0.95, step = 0.05 }
lr = { low = 0.001, high = 0.1, log = true }
k = [16, 32, 64]
hidden = { low = 8, high = 64, step = 8 }
"""
CORA = Choice("gcn", "cora", 20, 3, {"lr": 1e-05}, 80.0)
PHOTO = Choice("gcn", "photo", 20, 3, {"lr": 0.02, "dropout": 0.3}, 91.238)


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    (tmp_path / "rows").mkdir()
    (tmp_path / "chosen").mkdir()
    (tmp_path / "rows/gdc-ppr.toml").write_text(GDC)
    (tmp_path / "rows/a.toml").write_text('number = "01"\nname = "GCN"\nmethod = "gcn"\n')
    return tmp_path


# -- files ------------------------------------------------------------------------------------------------------------


def test_rows_are_read_with_their_chosen_settings(configs: Path) -> None:
    (configs / "chosen/gdc-ppr.toml").write_text(
        "[cora.settings]\nalpha = 0.15\nk = 32\n[digits]\ntrials = 2\nreason = 'x'\n"
    )
    gcn, gdc = load_rows(configs)
    assert (gcn.number, gcn.slug, gcn.settings_for("cora")) == ("01", "a", {})
    assert gdc.settings_for("cora") == {"kernel": "ppr", "k": 32, "alpha": 0.15}
    assert gdc.settings_for("digits") == gdc.settings_for("photo") == {"kernel": "ppr", "k": 64}
    assert gdc.chosen_file == configs / "chosen/gdc-ppr.toml"
    assert gdc.files_for("cora") == [gdc.file, gdc.chosen_file]
    assert gdc.files_for("photo") == [gdc.file]


def test_search_spaces_are_read(configs: Path) -> None:
    search = load_rows(configs)[1].search
    assert search == {
        "alpha": Range(0.05, 0.95, 0.05),
        "lr": Range(0.001, 0.1, log=True),
        "k": Categorical((16, 32, 64)),
        "hidden": Range(8, 64, 8),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[settings]", "[setting]"), "got 'setting'. Did you mean 'settings'?"),
        (('method = "gdc-ppr"\n', ""), 'must define method = "…", got none'),
        (('number = "07"', "number = 7"), 'must define number = "…", got 7'),
        (("k = 64", "k = [1, 2]"), "for k in [settings], got [1, 2]"),
        (("log = true", "logs = true"), "got 'logs'. Did you mean 'log'?"),
        (("step = 0.05", "step = 0"), "step > 0 for alpha"),
        (("low = 0.05", "low = 2"), "low < high"),
        (("low = 0.001", "low = 0"), "log = true low > 0"),
        (("high = 0.95", 'high = "1"'), "must give numbers for alpha"),
        (("k = [16, 32, 64]", "k = []"), "a list of choices"),
        (("k = 64", "k ="), "must be a TOML file"),
        (('name = "GDC (ppr)"', 'name = "gcn"'), "a.toml has 'gcn', too"),
        (('number = "07"', 'number = "01"'), "a unique number and name"),
    ],
)
def test_errors_name_the_file_and_a_remedy(configs: Path, change: tuple[str, str], message: str) -> None:
    (configs / "rows/gdc-ppr.toml").write_text(GDC.replace(*change, 1))
    with pytest.raises(InputError, match=r"gdc-ppr\.toml") as error:
        load_rows(configs)
    assert message in str(error.value)


def test_a_folder_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="rows/"):
        configs_folder(tmp_path)


@pytest.mark.parametrize("name", ["07", "7", "gdc-ppr", "GDC (PPR)"])
def test_rows_are_selected_by_number_file_or_title(configs: Path, name: str) -> None:
    assert [row.slug for row in select_rows(load_rows(configs), [name])] == ["gdc-ppr"]


def test_selected_rows_come_in_table_order_and_once(configs: Path) -> None:
    selected = select_rows(load_rows(configs), ["07", "gcn", "gdc-ppr"])
    assert [row.number for row in selected] == ["01", "07"]


def test_an_unknown_row_is_refused_with_a_suggestion(configs: Path) -> None:
    with pytest.raises(InputError, match=r"among 01, 07, got 'gdc-pprr'. Did you mean 'gdc-ppr'\?"):
        select_rows(load_rows(configs), ["gdc-pprr"])


# -- search spaces ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Range(0.2, 0.8), 0.5),
        (Range(0.6, 0.8), 0.7),
        (Range(0.2, 0.9, 0.2), 0.4),
        (Range(0.001, 0.1, log=True), 0.01),
        (Categorical((0.25, 0.75)), 0.25),
    ],
)
def test_what_may_not_be_tried_first_is_replaced_by_the_middle(space: Any, expected: float) -> None:
    row = Row("01", "GCN", "gcn", "gcn", {"dropout": 0.5}, {"dropout": space})
    assert first_settings(row)["dropout"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (Range(8, 64, 8), [8, 32], [9, 72, "8"]),
        (Range(1, 9), [5], [5.5]),
        (Range(0.1, 0.9, 0.1), [0.1, 0.3, 0.9], [0.35, 1.0]),
        (Categorical((1, "a", True)), [1, "a", True], [1.0, "b", False]),
    ],
)
def test_membership_respects_steps_and_types(space: Any, inside: list[Any], outside: list[Any]) -> None:
    assert all(value in space for value in inside)
    assert not any(value in space for value in outside)


def test_ranges_are_integers_if_all_their_numbers_are() -> None:
    assert Range(8, 64, 8).is_integer
    assert not Range(0.05, 0.95, 0.05).is_integer
    assert not Range(1, 2, 0.5).is_integer
    assert isinstance(Range(8, 128, log=True).middle, int)


# -- chosen settings --------------------------------------------------------------------------------------------------


def test_files_are_in_order_record_the_effort_and_are_read_by_rows(tmp_path: Path) -> None:
    path = tmp_path / "chosen/gcn.toml"
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/gcn.toml").write_text('number = "01"\nname = "GCN"\nmethod = "gcn"\n[settings]\nlr = 0.1\n')
    write_chosen(path, [PHOTO, CORA])
    text = path.read_text()
    assert text.endswith(
        "[cora]\ntrials = 20\nsplits = 3\nvalidation = 80.0\n[cora.settings]\nlr = 1e-05\n\n"
        "[photo]\ntrials = 20\nsplits = 3\nvalidation = 91.24\n[photo.settings]\ndropout = 0.3\nlr = 0.02\n"
    )
    assert read_chosen(path)["cora"] == CORA
    row = load_rows(tmp_path)[0]
    assert row.settings_for("photo") == {"lr": 0.02, "dropout": 0.3}
    assert row.settings_for("pubmed") == {"lr": 0.1}
    write_chosen(path, [Choice("gcn", "cora", 40, 3, {"lr": 0.5}, 80.0)])
    assert path.read_text() == text.replace("trials = 20", "trials = 40", 1).replace("1e-05", "0.5")


def test_files_written_by_hand_need_only_settings_and_are_extended(tmp_path: Path) -> None:
    path = tmp_path / "gcn.toml"
    path.write_text("# from their paper\n[cora.settings]\nlr = 0.1\n")
    assert read_chosen(path) == {"cora": Choice("gcn", "cora", settings={"lr": 0.1})}
    write_chosen(path, [PHOTO])
    found = read_chosen(path)
    assert (found["cora"].settings, found["photo"].trials) == ({"lr": 0.1}, 20)


def test_a_failed_search_is_recorded_without_settings(tmp_path: Path) -> None:
    failed = Choice("gcn", "cora", 2, 3, reason="MemoryError: too much")
    write_chosen(tmp_path / "gcn.toml", [failed])
    assert read_chosen(tmp_path / "gcn.toml") == {"cora": failed}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[corra]\nk = 32\n", r"got 'corra'. Did you mean 'cora'\?"),
        ("[cora]\ntrials = 3\ntrails = 4\n", r"in \[cora\]: .*got 'trails'. Did you mean 'trials'\?"),
        ("[cora]\nk = 32\n", r"in \[cora\]: .*got 'k'"),
        ("[cora]\ntrials = 3\n[cora.settings]\nk = [3]\n", r"for k in \[cora.settings\], got \[3\]"),
    ],
)
def test_unknown_datasets_and_keys_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gdc.toml").write_text(text)
    with pytest.raises(InputError, match=rf"gdc.toml.*{message}"):
        read_chosen(tmp_path / "gdc.toml")


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "gcn.toml"
    write_chosen(path, [CORA])
    before = path.read_bytes()
    with pytest.raises(InputTypeError, match="`value` must be"):
        write_chosen(path, [Choice("gcn", "cora", 20, 3, {"lr": None}, 80.0)])  # type: ignore[dict-item]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# -- the rows that come with the package ------------------------------------------------------------------------------


def test_the_table_is_complete() -> None:
    assert [row.number for row in load_rows()][: len(PAPER_NUMBERS)] == PAPER_NUMBERS


@pytest.mark.parametrize("row", load_rows(), ids=lambda row: row.slug)
def test_every_row_can_be_built_with_all_that_may_be_searched(row: Row) -> None:
    for place in (0, -1):
        ends = {name: space.ends[place] for name, space in row.search.items()}
        model: Any = build(row.method, {**row.settings, **ends}, "gcn", seed=4)
        assert isinstance(model, Member)
        assert model.seed == 4
    for dataset in row.chosen:
        build(row.method, row.settings_for(dataset), "gcn", seed=0)
    for search in (row.search, row.paper_search):
        for name, space in search.items():
            for value in space.ends:
                complete_settings(row.method, {**row.settings, name: value}, "gcn")


def test_rows_with_a_backbone_have_the_same_freedom() -> None:
    """Those that LGGD is compared with have all of it; ours at most that."""
    common = {name: load_rows()[0].search[name] for name in ("contents", "weight_decay", "dropout")}
    without = {"11": {"weight_decay"}, "12": {"dropout", "contents", "weight_decay"}}  # as their files explain
    for row in load_rows():
        if row.number in PAPER_NUMBERS and row.method not in ("ggd", "lggd-trained"):
            for name in common.keys() - without.get(row.number, set()):
                assert row.search[name] == common[name], (row.name, name)
        elif row.number not in ("13", "16"):
            for name in common.keys() & row.search.keys():
                assert set(row.search[name].ends) <= set(common[name].ends), (row.name, name)


def test_rows_may_have_the_ranges_of_their_paper() -> None:
    learned = [row for row in load_rows() if row.method == "lggd-trained"]
    assert [row.number for row in learned] == ["09", "10"]
    for row in learned:
        assert row.paper_search["mlp_dropout"] == Range(0.1, 0.9, 0.1)
        assert row.paper_search["mlp_input_dropout"] == Categorical((0.0,))
        searched = {"alpha", "mlp_hidden", "mlp_dropout", "mlp_weight_decay", "mlp_input_dropout"}
        assert row.paper_search.keys() == searched
