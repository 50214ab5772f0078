"""Settings of rows: refused before anything is measured, and all that is committed can be continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lggd.app.comparison.results import Results
from lggd.errors import InputError
from reproduction import experiments
from reproduction.experiments import CellJob, NewLabelsJob, Selection, plan
from reproduction.jobs import JobOptions
from reproduction.measurements import with_present_names
from reproduction.rows import Row, load_rows, toml_value
from support.invalid_settings import INVALID
from support.reproducing import command, refused

RESULTS = Path(__file__).parents[2] / "results"
EXPERIMENTS = ("table1", "backbones", "dynamic", "ablation", "all")


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    folder = tmp_path / "configs"
    (folder / "rows").mkdir(parents=True)
    (folder / "rows/gcn.toml").write_text('number = "01"\nname = "GCN"\nmethod = "gcn"\n')
    return folder


@pytest.fixture
def without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs then have no splits, but check everything else."""
    monkeypatch.setattr(experiments, "load_splits", lambda *_, **__: [])


def write_row(configs: Path, template: str, settings: str) -> Path:
    path = configs / "rows/m.toml"
    path.write_text(f'number = "02"\nname = "M"\nmethod = "{template}"\n[settings]\n{settings}\n')
    return path


# -- before the first measurement -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "name", "value", "message"),
    INVALID[::5],
)
def test_an_invalid_row_is_refused_before_another_is_measured(
    configs: Path, tmp_path: Path, template: str, name: str, value: Any, message: str
) -> None:
    path = write_row(configs, template, f"{name} = {toml_value(value)}")
    options = ["--configs", configs, "--results", tmp_path / "results", "--datasets", "karate", "--splits", 1]
    error = refused("table1", *options)
    assert error.startswith(f"M on karate ({path}): `")
    assert message in error
    assert not (tmp_path / "results").exists()


def test_a_valid_row_beside_an_invalid_one_can_be_measured_alone(configs: Path, tmp_path: Path) -> None:
    write_row(configs, "gdc-ppr", "k = 0")
    (configs / "rows/gcn.toml").write_text(
        'number = "01"\nname = "GCN"\nmethod = "gcn"\n[settings]\noptimization__epochs = 2\n'
    )
    options = ["--configs", configs, "--results", tmp_path / "results", "--datasets", "karate", "--splits", 1]
    assert command("table1", "--rows", "01", *options).exit_code == 0


@pytest.mark.usefixtures("without_data")
def test_errors_name_every_file_that_settings_come_from(configs: Path, tmp_path: Path) -> None:
    path = write_row(configs, "gdc-ppr", "k = 8")
    (configs / "chosen").mkdir()
    chosen = configs / "chosen/m.toml"
    chosen.write_text("[cora.settings]\nk = 0\n")
    options, row = JobOptions(Results(tmp_path / "results")), load_rows(configs)[1]
    settings, ablation = row.settings_for("cora"), configs / "ablation.toml"
    invalid = {
        f"M on cora ({path}, {chosen}): `k` must": CellJob("table1", row, settings, "cora"),
        f"M on cora with jknet ({path}, {chosen}): `k` must": CellJob("backbones", row, settings, "cora", "jknet"),
        f"M on photo ({path}): `k` must": CellJob("table1", row, {"k": 0}, "photo"),
        f"M, no edges on photo ({path}, {ablation}): `k` must": CellJob(
            "ablation", row, {"k": 0}, "photo", variant="no edges", file=ablation
        ),
        f"M, retrained on cora ({path}, {chosen}): `k` must": NewLabelsJob("dynamic", row, settings, "cora", True),
        "N on cora: `k` must": CellJob("table1", Row("02", "N", "gdc-ppr", "nowhere"), {"k": 0}, "cora"),
    }
    for start, job in invalid.items():
        with pytest.raises(InputError, match="`k` must be a whole number") as error:
            job.identities(options)
        assert str(error.value).startswith(start)


# -- what is committed ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_nothing_that_comes_with_the_package_is_refused(experiment: str, quick: bool, tmp_path: Path) -> None:
    options = JobOptions(Results(tmp_path / "results"))
    planned = plan(experiment, Selection(quick=quick))
    assert len([identity for job in planned for identity in job.identities(options)]) >= len(planned) > 0


@pytest.mark.parametrize("experiment", ["table1", "backbones", "dynamic", "ablation"])
def test_published_lines_are_of_rows_and_variants(experiment: str) -> None:
    """Their settings have the short names that rows had when they were measured."""
    names = {row.number: row.name for row in load_rows()}
    lines = [with_present_names(line) for line in Results(RESULTS).lines(experiment)[0]]
    assert lines
    for line in lines:
        assert line["name"].startswith(names[line["row"].split()[0]])
        assert line["config"]["contents"] in ("raw", "sum", "length")
