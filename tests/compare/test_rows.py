"""Rows of the table as files: what they may say, how they become models, and which of them come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import lggd
from lggd.compare.methods import METHODS, Model, build, completed
from lggd.compare.row import Choices, Range, Row, configs_folder, load_rows, rows_named
from lggd.compare.splits import load_splits, scaled, with_contents

PAPER_NUMBERS = [f"{number:02}" for number in range(1, 14)]
GOOD = """
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
    (tmp_path / "rows/gdc-ppr.toml").write_text(GOOD)
    (tmp_path / "rows/a.toml").write_text('number = "01"\nname = "GCN"\nmethod = "Backbone"\n')
    return tmp_path


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_row_is_read_with_what_was_chosen(configs: Path) -> None:
    (configs / "chosen/gdc-ppr.toml").write_text("[cora]\nalpha = 0.15\nk = 32\n[digits]\nk = 16\n")
    gcn, gdc = load_rows(configs)
    assert (gcn.number, gcn.slug, gcn.settings_for("cora")) == ("01", "a", {})
    assert gdc.settings_for("cora") == {"kernel": "ppr", "k": 32, "alpha": 0.15}
    assert gdc.settings_for("digits") == {"kernel": "ppr", "k": 16}
    assert gdc.settings_for("photo") == {"kernel": "ppr", "k": 64}
    assert gdc.chosen_file == configs / "chosen/gdc-ppr.toml"


def test_what_to_search_is_read(configs: Path) -> None:
    search = load_rows(configs)[1].search
    assert search["alpha"] == Range(0.05, 0.95, 0.05)
    assert search["lr"] == Range(0.001, 0.1, log=True)
    assert search["k"] == Choices((16, 32, 64))
    assert isinstance(search["hidden"], Range)
    assert search["hidden"].is_whole
    assert not search["alpha"].is_whole  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("[settings]", "[setting]"), "got 'setting'. Did you mean 'settings'?"),
        (('method = "GDC"\n', ""), 'must say method = "…", got none'),
        (('number = "07"', "number = 7"), 'must say number = "…", got 7'),
        (("k = 64", "k = [1, 2]"), "for k in [settings], got [1, 2]"),
        (("log = true", "logs = true"), "got 'logs'. Did you mean 'log'?"),
        (("step = 0.05", "step = 0"), "step > 0 for alpha"),
        (("low = 0.05", "low = 2"), "low < high"),
        (("low = 0.001", "low = 0"), "log = true low > 0"),
        (("high = 0.95", 'high = "1"'), "must give numbers for alpha"),
        (("k = [16, 32, 64]", "k = []"), "a list of choices"),
        (("k = 64", "k ="), "must be a TOML file"),
        (('name = "GDC (ppr)"', 'name = "gcn"'), "that of a.toml too"),
        (('number = "07"', 'number = "01"'), "a number and a name of its own"),
    ],
)
def test_a_wrong_row_is_refused_with_its_file_and_a_remedy(
    configs: Path, change: tuple[str, str], complaint: str
) -> None:
    (configs / "rows/gdc-ppr.toml").write_text(GOOD.replace(*change, 1))
    with pytest.raises(ValueError, match=r"gdc-ppr\.toml") as error:
        load_rows(configs)
    assert complaint in str(error.value)


def test_what_was_chosen_must_be_for_a_dataset(configs: Path) -> None:
    (configs / "chosen/gdc-ppr.toml").write_text("[corra]\nk = 32\n")
    with pytest.raises(ValueError, match=r"chosen/gdc-ppr.toml.*got 'corra'. Did you mean 'cora'\?"):
        load_rows(configs)


def test_a_folder_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="rows/"):
        configs_folder(tmp_path)


@pytest.mark.parametrize("name", ["07", "7", "gdc-ppr", "GDC (PPR)"])
def test_rows_are_named_by_number_file_or_title(configs: Path, name: str) -> None:
    assert [row.slug for row in rows_named(load_rows(configs), [name])] == ["gdc-ppr"]


def test_named_rows_come_in_the_order_of_the_table_and_once(configs: Path) -> None:
    assert [row.number for row in rows_named(load_rows(configs), ["07", "gcn", "gdc-ppr"])] == ["01", "07"]


def test_an_unknown_row_is_refused_with_a_suggestion(configs: Path) -> None:
    with pytest.raises(ValueError, match=r"among 01, 07, got 'gdc-pprr'. Did you mean 'gdc-ppr'\?"):
        rows_named(load_rows(configs), ["gdc-pprr"])


# -- the rows that come with the package ------------------------------------------------------------------------------


def test_the_table_is_complete() -> None:
    assert [row.number for row in load_rows()][: len(PAPER_NUMBERS)] == PAPER_NUMBERS


@pytest.mark.parametrize("row", load_rows(), ids=lambda row: row.slug)
def test_every_row_can_be_built_with_all_that_may_be_searched(row: Row) -> None:
    ends: list[dict[str, Any]] = [{}, {}]
    for name, searched in row.search.items():
        values = searched.values if isinstance(searched, Choices) else (searched.low, searched.high)
        for end, value in zip(ends, (values[0], values[-1]), strict=True):
            end[name] = value
    for end in ends:
        model = build(row.method, {**row.settings, **end}, "gcn", seed=4)
        assert isinstance(model, Model)
        assert model.seed == 4
    for dataset in row.chosen:
        build(row.method, row.settings_for(dataset), "gcn", seed=0)


def test_rows_with_a_backbone_have_the_same_freedom() -> None:
    """Those that LGGD is compared with, all of it; ours at most that."""
    common = {name: load_rows()[0].search[name] for name in ("contents", "weight_decay", "dropout")}
    without = {"11": {"weight_decay"}, "12": {"dropout", "contents", "weight_decay"}}  # as their files say why
    for row in load_rows():
        if row.number in PAPER_NUMBERS and row.method not in ("GGD", "LGGD"):
            for name in common.keys() - without.get(row.number, set()):
                assert row.search[name] == common[name], (row.name, name)
        elif row.number != "13":
            for name in common.keys() & row.search.keys():
                assert set(row.search[name].values) <= set(common[name].values), (row.name, name)


def test_rows_may_have_the_ranges_of_the_paper(tmp_path: Path) -> None:
    learned = [row for row in load_rows() if row.method == "LGGD"]
    assert [row.number for row in learned] == ["09", "10"]
    for row in learned:
        assert row.paper_search["mlp_dropout"] == Range(0.1, 0.9, 0.1)
        assert row.paper_search["mlp_input_dropout"] == Choices((0.0,))
        searched = {"alpha", "mlp_hidden", "mlp_dropout", "mlp_weight_decay", "mlp_input_dropout"}
        assert row.paper_search.keys() == searched


# -- from settings to models ------------------------------------------------------------------------------------------


def test_settings_reach_the_distances() -> None:
    model = build("LGGD", {"time": 0.2, "alpha": -0.3, "mlp_hidden": "64", "step": 0.1, "p": "inf"}, "gat", seed=5)
    assert isinstance(model, lggd.LGGDClassifier)
    features = model.features
    assert isinstance(features, lggd.LGGD)
    settings = features.settings
    assert settings.times == pytest.approx((0.2, 0.4, 0.6, 0.8, 1.0))
    assert settings.potential == lggd.DegreePotential(-0.3)
    assert settings.initial == lggd.MLP(hidden=(64,))
    assert settings.scheme == lggd.RK4(step=0.1)
    assert settings.p == float("inf")
    assert isinstance(model.backbone, lggd.GAT)
    assert (model.seed, features.seed) == (5, 5)


def test_dropping_contents_reaches_the_plain_network_and_no_other() -> None:
    model = build("LGGD", {"mlp_input_dropout": 0.5}, "gcn", seed=0)
    assert isinstance(model, lggd.LGGDClassifier)
    assert isinstance(model.features, lggd.LGGD)
    assert model.features.settings.initial == lggd.MLP(input_dropout=0.5)
    with pytest.raises(ValueError, match="`mlp_input_dropout`"):
        build("LGGD", {"mlp_input_dropout": 0.5, "initial": "propagated"}, "gcn", seed=0)


def test_common_settings_reach_the_training() -> None:
    model = build("Backbone", {"lr": 0.1, "weight_decay": 0.2, "hidden": 7, "dropout": 0.3, "max_epochs": 9}, "gcn", 0)
    assert isinstance(model, lggd.LGGDClassifier)
    assert model.backbone == lggd.GCN(7, 0.3)
    assert model.optimization == lggd.Optimization(0.1, 0.2, epochs=9)


@pytest.mark.parametrize(
    ("settings", "potential"),
    [
        ({"potential": "learned", "alpha": -0.5}, lggd.LearnedPotential(lggd.DegreePotential(-0.5))),
        ({"potential": "time", "alpha": -0.5}, lggd.LearnedTimeScale(lggd.DegreePotential(-0.5))),
        ({"potential": "edges", "alpha": -0.5}, lggd.LearnedEdgeWeights(lggd.DegreePotential(-0.5))),
        (
            {"potential": "both", "alpha": -0.5},
            lggd.LearnedEdgeWeights(lggd.LearnedPotential(lggd.DegreePotential(-0.5))),
        ),
    ],
)
def test_potentials_can_be_learned(settings: dict[str, Any], potential: object) -> None:
    assert build("LGGD", settings, "gcn", 0).features.settings.potential == potential  # type: ignore[union-attr]


def test_completed_settings_hold_all_and_build_the_same() -> None:
    for method in METHODS:
        full = completed(method, {}, "gcn")
        assert {"contents", "lr", "weight_decay", "max_epochs", "patience"} <= full.keys()
        assert completed(method, full, "gcn") == full
        build(method, full, "gcn", 0)


@pytest.mark.parametrize(
    ("method", "settings", "backbone", "complaint"),
    [
        ("LGDG", {}, "gcn", "`method` must be one of .*Did you mean 'L?GGD'"),
        ("GDC", {"alhpa": 0.1}, "gcn", "`settings` of GDC must be among .*kernel.*got 'alhpa'. Did you mean 'alpha'"),
        ("GOAL", {"dropout": 0.1}, "gcn", "`settings` of GOAL must be among .*got 'dropout'"),
        ("Backbone", {"contents": "row"}, "gcn", "`contents` must be one of raw, sum, length, got 'row'"),
        ("Backbone", {}, "gnc", "`backbone` must be one of .*Did you mean 'gcn'"),
        ("GPRGNN", {}, "gat", "`backbone` must be gcn for GPRGNN"),
        ("LGGD", {"scale": "maximum"}, "gcn", "`scale` must be one of max, standard"),
        ("LGGD", {"mlp_hidden": "a-b"}, "gcn", '`mlp_hidden` must be sizes such as "512-128"'),
        ("GDC", {"kernel": "hot"}, "gcn", "`kernel` must be one of ppr, heat"),
    ],
)
def test_wrong_settings_are_refused(method: str, settings: dict[str, Any], backbone: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        build(method, settings, backbone, 0)


# -- splits -----------------------------------------------------------------------------------------------------------


def test_splits_share_graph_and_contents_and_have_three_masks() -> None:
    datas = load_splits("karate", [0, 1, 2], device="cpu")
    assert all(data.x is datas[0].x and data.edge_index is datas[0].edge_index for data in datas)
    for data in datas:
        masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
        assert bool((masks.sum(0) == 1).all())
        assert masks[:2].sum(1).tolist() == [10, 10]
    assert not torch.equal(datas[0].val_mask, datas[1].val_mask)


def test_what_is_loaded_is_not_changed_by_what_is_done_with_it() -> None:
    data = load_splits("karate", [0], device="cpu")[0]
    data.y = torch.zeros(34)
    other = with_contents(load_splits("karate", [0], device="cpu"), "sum")[0]
    assert int(other.y.sum()) > 0


def test_contents_are_scaled_by_rows() -> None:
    x = torch.tensor([[3.0, -4.0], [0.0, 0.0]])
    assert scaled(x, "raw") is x
    assert torch.allclose(scaled(x, "sum"), torch.tensor([[3 / 7, -4 / 7], [0, 0]]))
    assert torch.allclose(scaled(x, "length"), torch.tensor([[0.6, -0.8], [0, 0]]))
    with pytest.raises(ValueError, match="`contents`"):
        scaled(x, "other")
