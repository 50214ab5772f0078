"""Methods as files define them, and those that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lggd.compare.methods import Method, load_methods, select_methods
from lggd.compare.search_space import Categorical, Range
from lggd.compare.templates import build, complete_settings
from lggd.errors import InputError
from lggd.estimator import NodeClassifier

PAPER_NUMBERS = [f"{number:02}" for number in range(1, 14)]
GDC = """
number = "07"
name = "GDC (ppr)"
method = "GDC"
[settings]
kernel = "ppr"
k = 64
[search]
alpha = { low = 0.05, high = 0.95, step = 0.05 }
lr = { low = 0.001, high = 0.1, log = true }
k = [16, 32, 64]
hidden = { low = 8, high = 64, step = 8 }
"""


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    (tmp_path / "rows").mkdir()
    (tmp_path / "chosen").mkdir()
    (tmp_path / "rows/gdc-ppr.toml").write_text(GDC)
    (tmp_path / "rows/a.toml").write_text('number = "01"\nname = "GCN"\nmethod = "Backbone"\n')
    return tmp_path


# -- files ------------------------------------------------------------------------------------------------------------


def test_methods_are_read_with_their_chosen_settings(configs: Path) -> None:
    (configs / "chosen/gdc-ppr.toml").write_text("[cora]\nalpha = 0.15\nk = 32\n[digits]\ntrials = 2\nreason = 'x'\n")
    gcn, gdc = load_methods(configs)
    assert (gcn.number, gcn.slug, gcn.settings_for("cora")) == ("01", "a", {})
    assert gdc.settings_for("cora") == {"kernel": "ppr", "k": 32, "alpha": 0.15}
    assert gdc.settings_for("digits") == gdc.settings_for("photo") == {"kernel": "ppr", "k": 64}
    assert gdc.chosen_file == configs / "chosen/gdc-ppr.toml"
    assert gdc.files_for("cora") == [gdc.file, gdc.chosen_file]
    assert gdc.files_for("photo") == [gdc.file]


def test_search_spaces_are_read(configs: Path) -> None:
    search = load_methods(configs)[1].search
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
        (('method = "GDC"\n', ""), 'must define method = "…", got none'),
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
        load_methods(configs)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["07", "7", "gdc-ppr", "GDC (PPR)"])
def test_methods_are_selected_by_number_file_or_title(configs: Path, name: str) -> None:
    assert [method.slug for method in select_methods(load_methods(configs), [name])] == ["gdc-ppr"]


def test_selected_methods_come_in_table_order_and_once(configs: Path) -> None:
    selected = select_methods(load_methods(configs), ["07", "gcn", "gdc-ppr"])
    assert [method.number for method in selected] == ["01", "07"]


def test_an_unknown_method_is_refused_with_a_suggestion(configs: Path) -> None:
    with pytest.raises(InputError, match=r"among 01, 07, got 'gdc-pprr'. Did you mean 'gdc-ppr'\?"):
        select_methods(load_methods(configs), ["gdc-pprr"])


# -- the methods that come with the package ---------------------------------------------------------------------------


def test_the_table_is_complete() -> None:
    assert [method.number for method in load_methods()][: len(PAPER_NUMBERS)] == PAPER_NUMBERS


@pytest.mark.parametrize("method", load_methods(), ids=lambda method: method.slug)
def test_every_method_can_be_built_with_all_that_may_be_searched(method: Method) -> None:
    for place in (0, -1):
        ends = {name: space.ends[place] for name, space in method.search.items()}
        model: Any = build(method.template, {**method.settings, **ends}, "gcn", seed=4)
        assert isinstance(model, NodeClassifier)
        assert model.seed == 4
    for dataset in method.chosen:
        build(method.template, method.settings_for(dataset), "gcn", seed=0)
    for search in (method.search, method.paper_search):
        for name, space in search.items():
            for value in space.ends:
                complete_settings(method.template, {**method.settings, name: value}, "gcn")


def test_methods_with_a_backbone_have_the_same_freedom() -> None:
    """Those that LGGD is compared with have all of it; ours at most that."""
    common = {name: load_methods()[0].search[name] for name in ("contents", "weight_decay", "dropout")}
    without = {"11": {"weight_decay"}, "12": {"dropout", "contents", "weight_decay"}}  # as their files explain
    for method in load_methods():
        if method.number in PAPER_NUMBERS and method.template not in ("GGD", "LGGD"):
            for name in common.keys() - without.get(method.number, set()):
                assert method.search[name] == common[name], (method.name, name)
        elif method.number not in ("13", "16"):
            for name in common.keys() & method.search.keys():
                assert set(method.search[name].ends) <= set(common[name].ends), (method.name, name)


def test_methods_may_have_the_ranges_of_their_paper() -> None:
    learned = [method for method in load_methods() if method.template == "LGGD"]
    assert [method.number for method in learned] == ["09", "10"]
    for method in learned:
        assert method.paper_search["mlp_dropout"] == Range(0.1, 0.9, 0.1)
        assert method.paper_search["mlp_input_dropout"] == Categorical((0.0,))
        searched = {"alpha", "mlp_hidden", "mlp_dropout", "mlp_weight_decay", "mlp_input_dropout"}
        assert method.paper_search.keys() == searched
