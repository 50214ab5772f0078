"""The jobs of the experiments, and selections that they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from command_line import answer, refused
from lggd.errors import InputError
from lggd.paper.experiments import EXPERIMENTS, Selection, plan
from result_lines import lines_of


def test_rows_are_measured_with_the_backbones_that_they_support() -> None:
    planned = plan("backbones", Selection(rows=("01", "03"), datasets=("cora",)))
    assert [job.title for job in planned] == [
        "GCN on cora with gat",
        "GCN on cora with chebnet",
        "GCN on cora with jknet",
        "DropEdge on cora with chebnet",
        "DropEdge on cora with jknet",
    ]


def test_an_invalid_variant_is_refused_with_its_file(options: list[object], configs: Path) -> None:
    file = configs / "ablation.toml"
    file.write_text(file.read_text().replace('"nearest"', '"farthest"'))
    message = refused("reproduce", "ablation", *options)
    assert f"LGGD, nearest class on karate ({configs / 'rows/lggd.toml'}, {file}): `readout` must be" in message


@pytest.mark.parametrize(
    ("experiment", "selection", "message"),
    [
        ("backbones", {"rows": ("01", "11")}, "`rows` must support other backbones, got GPR-GNN"),
        ("dynamic", {"datasets": ("cora", "karate")}, "for labels added later, got karate"),
        ("ablation", {"rows": ("01",)}, "`rows` must be 09, the base of"),
        ("robustness", {"rows": ("01",)}, "`rows` must not be used with robustness, which is a figure, got 01"),
        ("geodesic", {"datasets": ("cora",)}, "`datasets` must not be used with geodesic"),
    ],
)
def test_unsupported_selections_are_refused_and_skipped_by_all(
    configs: Path, experiment: str, selection: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        plan(experiment, Selection(configs=configs, **selection))
    everything = plan("all", Selection(configs=configs, **selection))
    assert {job.experiment for job in everything} >= {"table1"}
    assert all("karate" not in job.title for job in everything if job.experiment == "dynamic")
    assert not {job.experiment for job in everything} & {"robustness", "geodesic"}
    assert all("GPR" not in job.title for job in everything if job.experiment == "backbones")


def test_every_row_has_three_other_backbones(options: list[object], tmp_path: Path) -> None:
    answer("reproduce", "backbones", *options)
    lines = lines_of(tmp_path / "results", "backbones")
    assert [(line["row"], line["backbone"]) for line in lines] == [
        (row, backbone) for row in ("01", "09") for backbone in ("gat", "chebnet", "jknet")
    ]
    assert [line["config"]["hidden"] for line in lines[:3]] == [32, 32, 16]


def test_an_ablation_overrides_the_base_row(options: list[object], tmp_path: Path) -> None:
    found = answer("reproduce", "ablation", *options)
    lines = lines_of(tmp_path / "results", "ablation")
    assert [(line["row"], line["variant"], line["config"]["readout"]) for line in lines] == [
        ("09", "as chosen", "backbone"),
        ("09", "nearest class", "nearest"),
    ]
    assert answer("reproduce", "ablation", *options)["reused"] == found["measured"] == 2


def test_the_geodesic_is_one_job() -> None:
    assert [job.title for job in plan("geodesic")] == ["Figure: geodesic"]


def test_all_runs_every_experiment() -> None:
    everything = {job.experiment for job in plan("all")}
    assert everything == set(EXPERIMENTS)


def test_backbones_are_compared_with_both_readouts() -> None:
    planned = plan("backbones", Selection(("14",)))
    assert len(planned) == 15
    assert {job.settings["readout"] for job in planned} == {"both"}  # type: ignore[attr-defined]


def test_quick_selects_a_few_rows_on_cora_with_separate_files() -> None:
    planned = plan("table1", Selection(quick=True))
    assert {job.experiment for job in planned} == {"table1-quick"}
    usual, quick = (plan("table1", Selection(("14",), ("cora",), quick=quick))[0] for quick in (False, True))
    assert (usual.settings["members"], quick.settings["members"]) == (3, 1)  # type: ignore[attr-defined]
    assert [job.dataset for job in planned] == ["cora"] * len(planned)  # type: ignore[attr-defined]
    assert {job.row.number for job in planned} <= {"01", "07", "08", "09", "11", "14"}  # type: ignore[attr-defined]
    assert len(planned) >= 5


def test_labels_are_added_to_models_that_accept_them(configs: Path) -> None:
    planned = plan("dynamic", Selection(rows=("01", "09", "11"), configs=configs))
    with pytest.raises(InputError, match=r"`datasets` must be among cora.*got digits"):
        plan("dynamic", Selection(datasets=("digits",), configs=configs))
    assert [job.title for job in planned if "cora" in job.title] == [
        "LGGD on cora", "GCN, retrained on cora", "LGGD, retrained on cora", "GPR-GNN, retrained on cora"
    ]  # fmt: skip
