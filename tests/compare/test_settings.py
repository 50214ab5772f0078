"""Settings of rows: of the right kind, refused before anything is measured, and all that is committed goes on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import command, refused
from lggd.compare.methods import BACKBONES, METHODS, OWN_NETWORK, build, completed, works_on
from lggd.compare.results import Results
from lggd.compare.row import Choices, Row, load_rows
from lggd.paper import jobs
from lggd.paper.jobs import Cell, NewLabels, Setup
from lggd.paper.reproduce import Wish, plan

RESULTS = Path(__file__).parents[2] / "results"
EXPERIMENTS = ("table1", "backbones", "dynamic", "ablation", "all")
# A method, a setting of it, and what is said of it.
OF_ANOTHER_KIND: list[tuple[str, str, Any, str]] = [
    ("GGD", "time", "1", "a finite number for time, got '1'. Write for example time = 1.0."),
    ("GGD", "reachable", "no", "true or false for reachable, got 'no'. Write for example reachable = false."),
    ("GGD", "reachable", 1, "true or false for reachable, got 1."),
    ("GGD", "p", "big", "a finite number or inf for p, got 'big'."),
    ("GGD", "p", "2", "a finite number or inf for p, got '2'."),
    ("GGD", "cross_fit", True, "a whole number for cross_fit, got True."),
    ("LGGD", "alpha", "x", "a finite number for alpha, got 'x'."),
    ("LGGD", "alpha", math.nan, "a finite number for alpha, got nan."),
    ("LGGD", "alpha", False, "a finite number for alpha, got False."),
    ("LGGD", "mlp_input_dropout", "a", "a finite number for mlp_input_dropout, got 'a'."),
    ("LGGD", "mlp_hidden", 64, 'a text for mlp_hidden, got 64. Write for example mlp_hidden = "512-128".'),
    ("LGGD+", "self_training", "x", "a finite number for self_training, got 'x'."),
    ("LGGD+", "members", "3", "a whole number for members, got '3'."),
    ("Backbone", "lr", "fast", "a finite number for lr, got 'fast'."),
    ("Backbone", "max_epochs", 5.0, "a whole number for max_epochs, got 5.0."),
    ("Backbone", "contents", True, "a text for contents, got True."),
    ("GOAL", "k", "a", "a whole number for k, got 'a'."),
    ("GPRGNN", "hops", 2.0, "a whole number for hops, got 2.0."),
]
OUT_OF_RANGE: list[tuple[str, str, Any, str]] = [
    ("GDC", "k", 0, "`k` must be a whole number from 1, got 0"),
    ("MixUp", "alpha", -1, "`alpha` must be positive and finite, got -1"),
    ("DropEdge", "p", math.inf, "must lie in [0, 1], got inf"),
    ("GAugM", "remove", 1.5, "`remove` must be at most 1, got 1.5"),
    ("GAugO", "temperature", 0.0, "`temperature` must be above 0, got 0"),
    ("GPRGNN", "hops", 0, "`hops` must be a whole number from 1, got 0"),
    ("GOAL", "pretrain_epochs", 0, "`pretrain_epochs` must be a whole number from 1, got 0"),
    ("GOAL", "complement_hidden", 0, "`complement_hidden` must be a whole number from 1, got 0"),
    ("GraphMix", "ramp_end", 3, "`ramp` must be two epochs in order"),
    ("Backbone", "max_epochs", 0, "`max_epochs` must be a whole number from 1, got 0"),
    ("GGD", "time", -1.0, "`time` must be positive"),
    ("GGD", "p", 0.5, "must lie in [1, inf], got 0.5"),
    ("GGD", "mode", "add", "`mode` must be 'replace' or 'concat', got 'add'"),
    ("LGGD", "mlp_lr", 0.0, "`mlp_lr` must be positive, got 0"),
    ("LGGD", "mlp_dropout", 1.5, "`mlp_dropout` must"),
    ("LGGD+", "members", 0, "`members` must be a whole number from 1, got 0"),
    ("LGGD+", "self_training", 2, "`self_training` must be a share in [0, 1], got 2"),
    ("LGGD+", "diffusion_t", -1.0, "`diffusion_t` must be positive"),
]


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    folder = tmp_path / "configs"
    (folder / "rows").mkdir(parents=True)
    (folder / "rows/gcn.toml").write_text('number = "01"\nname = "GCN"\nmethod = "Backbone"\n')
    return folder


@pytest.fixture
def without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs then tell of no splits, but check all that they check."""
    monkeypatch.setattr(jobs, "load_splits", lambda *_, **__: [])


def write_row(configs: Path, method: str, settings: str) -> Path:
    path = configs / "rows/m.toml"
    path.write_text(f'number = "02"\nname = "M"\nmethod = "{method}"\n[settings]\n{settings}\n')
    return path


def written(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


# -- kinds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "name", "value", "complaint"), OF_ANOTHER_KIND)
def test_a_setting_of_another_kind_is_refused(method: str, name: str, value: Any, complaint: str) -> None:
    for ask in (lambda: completed(method, {name: value}, "gcn"), lambda: build(method, {name: value}, "gcn", 0)):
        with pytest.raises(ValueError, match=r"^`settings` of ") as error:
            ask()
        assert f"`settings` of {method} must give {complaint}" in str(error.value)


@pytest.mark.parametrize(
    "settings", [{"time": 2}, {"p": 2}, {"p": "inf"}, {"p": math.inf}, {"alpha": 0}, {"reachable": True}, {"step": 0}]
)
def test_settings_stay_as_they_are_written(settings: dict[str, Any]) -> None:
    """Else measurements that are finished would not be known again."""
    for method in ("GGD", "LGGD"):
        found = completed(method, settings, "gcn")
        for name, value in settings.items():
            assert (type(found[name]), found[name]) == (type(value), value)
        build(method, settings, "gcn", 0)


def test_every_value_that_may_be_searched_is_of_the_right_kind() -> None:
    for row in load_rows():
        for search in (row.search, row.paper_search):
            for name, searched in search.items():
                values = searched.values if isinstance(searched, Choices) else (searched.low, searched.high)
                for value in values:
                    completed(row.method, {**row.settings, name: value}, "gcn")


@pytest.mark.parametrize("experiment", ["table1", "backbones", "dynamic", "ablation"])
def test_lines_that_are_published_hold_settings_as_they_would_be_written_now(experiment: str) -> None:
    method_of = {row.number: row.method for row in load_rows()}
    lines = Results(RESULTS).lines(experiment)[0]
    for line in lines:
        method = method_of[line["row"].split()[0]]
        usual = completed(method, {}, line["backbone"])
        known = {name: value for name, value in line["config"].items() if name in usual}  # there were others once
        assert completed(method, known, line["backbone"]) == {**usual, **known}
    assert lines


# -- what a model itself refuses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "name", "value", "complaint"), OUT_OF_RANGE)
def test_what_a_fit_would_refuse_is_not_built(method: str, name: str, value: Any, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        build(method, {name: value}, "gcn", 0)
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("method", "allowed"),
    [
        *((method, tuple(BACKBONES)) for method in ("Backbone", "GGD", "LGGD", "LGGD+", "GDC", "GAugM")),
        ("DropEdge", ("gcn", "chebnet", "jknet")),
        *((method, ("gcn",)) for method in ("MixUp", "GAugO", *OWN_NETWORK)),
    ],
)
def test_methods_are_built_on_the_backbones_that_they_can_work_on(method: str, allowed: Sequence[str]) -> None:
    for backbone in BACKBONES:
        assert works_on(method, backbone) == (backbone in allowed)
        if backbone in allowed:
            build(method, {}, backbone, 0)
        else:
            with pytest.raises((TypeError, ValueError), match="`backbone` must be"):
                build(method, {}, backbone, 0)


def test_all_methods_are_asked_above() -> None:
    assert {method for method, *_ in OF_ANOTHER_KIND + OUT_OF_RANGE} == set(METHODS)


# -- before the first measurement -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "name", "value", "complaint"),
    [one for one in OF_ANOTHER_KIND + OUT_OF_RANGE if one[1] not in ("p", "mode", "contents")],
)
def test_a_wrong_row_is_refused_before_another_is_measured(
    configs: Path, tmp_path: Path, method: str, name: str, value: Any, complaint: str
) -> None:
    path = write_row(configs, method, f"{name} = {written(value)}")
    options = ["--configs", configs, "--results", tmp_path / "results", "--datasets", "karate", "--splits", 1]
    said = refused("reproduce", "table1", *options)
    assert said.startswith(f"M on karate ({path}): `")
    assert complaint in said
    assert not (tmp_path / "results").exists()


def test_a_right_row_beside_it_is_still_measured_alone(configs: Path, tmp_path: Path) -> None:
    write_row(configs, "GDC", "k = 0")
    (configs / "rows/gcn.toml").write_text(
        'number = "01"\nname = "GCN"\nmethod = "Backbone"\n[settings]\nmax_epochs = 2\n'
    )
    options = ["--configs", configs, "--results", tmp_path / "results", "--datasets", "karate", "--splits", 1]
    assert command("reproduce", "table1", "--rows", "01", *options).exit_code == 0


@pytest.mark.usefixtures("without_data")
def test_errors_name_every_file_that_settings_come_from(configs: Path, tmp_path: Path) -> None:
    path = write_row(configs, "GDC", "k = 8")
    (configs / "chosen").mkdir()
    chosen = configs / "chosen/m.toml"
    chosen.write_text("[cora]\nk = 0\n")
    setup, row = Setup(Results(tmp_path / "results")), load_rows(configs)[1]
    settings, more = row.settings_for("cora"), {"variant": "no edges"}
    wrong = {
        f"M on cora ({path}, {chosen}): `k` must": Cell("table1", row, settings, "cora"),
        f"M on cora with jknet ({path}, {chosen}): `k` must": Cell("backbones", row, settings, "cora", "jknet"),
        f"M on photo ({path}): `k` must": Cell("table1", row, {"k": 0}, "photo"),
        f"M, no edges on photo ({path}, {configs}/ablation.toml): `k` must": Cell(
            "ablation", row, {"k": 0}, "photo", more=more, file=configs / "ablation.toml"
        ),
        f"M, retrained on cora ({path}, {chosen}): `k` must": NewLabels("dynamic", row, settings, "cora", True),
        "N on cora: `k` must": Cell("table1", Row("02", "N", "GDC", "nowhere"), {"k": 0}, "cora"),
    }
    for said, job in wrong.items():
        with pytest.raises(ValueError, match="`k` must be a whole number") as error:
            job.identities(setup)
        assert str(error.value).startswith(said)


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_nothing_that_comes_with_the_package_is_refused(experiment: str, quick: bool, tmp_path: Path) -> None:
    setup = Setup(Results(tmp_path / "results"))
    planned = plan(experiment, Wish(quick=quick))
    assert len([identity for job in planned for identity in job.identities(setup)]) >= len(planned) > 0


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize(("experiment", "missing"), [("table1", 0), ("backbones", 0), ("dynamic", 0), ("ablation", 7)])
def test_published_cells_are_still_known_as_finished(experiment: str, missing: int) -> None:
    """But for the splits, which need the datasets. Some cells of the ablation were never measured."""
    told = ("row", "dataset", "backbone", "config", "seed", "additions", "variant")
    lines = [[line.get(name) for name in told] for line in Results(RESULTS).lines(experiment)[0]]
    wanted = [[one.get(name) for name in told] for one in _identities(experiment)]
    assert sum(one not in lines for one in wanted) <= missing


def _identities(experiment: str) -> Iterator[dict[str, Any]]:
    for job in plan(experiment):
        yield from job.identities(Setup(Results(RESULTS)))
