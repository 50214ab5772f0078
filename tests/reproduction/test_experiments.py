"""The experiments: their jobs, selections that they refuse, labels that are added later, and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lggd.app.comparison.results import Results
from lggd.errors import InputError
from reproduction import experiments
from reproduction.experiments import EXPERIMENTS, NewLabelsJob, Selection, plan
from reproduction.jobs import JobOptions, run_jobs
from reproduction.methods import build
from reproduction.rows import load_rows
from reproduction.runner import load_splits
from support.reproducing import answer, refused
from support.result_lines import lines_of


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
    file.write_text(file.read_text().replace('"none"', '"farthest"'))
    message = refused("ablation", *options)
    assert f"LGGD, nearest class on karate ({configs / 'rows/lggd.toml'}, {file}): `kind` must name" in message


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
    answer("backbones", *options)
    lines = lines_of(tmp_path / "results", "backbones")
    assert [(line["row"], line["backbone"]) for line in lines] == [
        (row, backbone) for row in ("01", "09") for backbone in ("gat", "chebnet", "jknet")
    ]
    assert [line["config"]["model"]["backbone"]["hidden"] for line in lines[:3]] == [32, 32, 16]


def test_an_ablation_overrides_the_base_row(options: list[object], tmp_path: Path) -> None:
    found = answer("ablation", *options)
    lines = lines_of(tmp_path / "results", "ablation")
    assert [(line["row"], line["variant"]) for line in lines] == [("09", "as chosen"), ("09", "nearest class")]
    assert [line["config"]["model"]["backbone"] is None for line in lines] == [False, True]
    assert answer("ablation", *options)["reused"] == found["measured"] == 2


def test_the_geodesic_is_one_job() -> None:
    assert [job.title for job in plan("geodesic")] == ["Figure: geodesic"]


def test_all_runs_every_experiment() -> None:
    everything = {job.experiment for job in plan("all")}
    assert everything == set(EXPERIMENTS)


def test_backbones_are_compared_with_both_readouts() -> None:
    planned = plan("backbones", Selection(("14",)))
    assert len(planned) == 15
    assert {job.settings["readout"]["part"] for job in planned} == {"readout"}  # type: ignore[attr-defined]


def test_quick_selects_a_few_rows_on_cora_with_separate_files() -> None:
    planned = plan("table1", Selection(quick=True))
    assert {job.experiment for job in planned} == {"table1-quick"}
    usual, quick = (plan("table1", Selection(("14",), ("cora",), quick=quick))[0] for quick in (False, True))
    assert [job.settings["features__model__members"] for job in (usual, quick)] == [3, 1]  # type: ignore[attr-defined]
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


def dynamic_karate(dataset: str, splits: Any, *, device: str, root: Any = None, dynamic: bool = False) -> list[Any]:
    """Karate with three of its test nodes for each of three steps."""
    datas = load_splits(dataset, splits, device=device)
    for data in datas:
        nodes = data.test_mask.nonzero().squeeze(1)[:9].reshape(3, 3)
        data.new_mask = torch.zeros(34, 3, dtype=torch.bool).scatter(0, nodes, True)
        data.test_mask = data.test_mask & ~data.new_mask.any(1)
    return datas


def test_new_labels_are_added_or_trained_with(configs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "load_splits", dynamic_karate)
    gcn, _, learned, _ = load_rows(configs)
    options = JobOptions(Results(tmp_path / "results"), splits=2)
    planned = [
        NewLabelsJob("dynamic", learned, learned.settings, "karate", retrained=False),
        NewLabelsJob("dynamic", gcn, gcn.settings, "karate", retrained=True),
    ]
    result = run_jobs(planned, options)
    assert result.failures == {}
    assert [(line["row"], line["additions"]) for line in result.lines] == [
        (row, additions) for row in ("09", "01 retrained") for additions in range(4)
    ]
    assert result.lines[-1]["name"] == "GCN, retrained"
    assert run_jobs(planned, options).reused == 8
    # The same as fitting each split alone.
    for split, data in enumerate(dynamic_karate("karate", range(2), device="cpu")):
        model = build("lggd", learned.settings, "gcn", split).fit(data)
        for additions in range(4):
            if additions:
                new = data.new_mask[:, additions - 1]
                model.add_labels(new, data.y[new])  # type: ignore[union-attr]
            assert result.lines[additions]["test"][split] == pytest.approx(100 * model.score(data))
        data.train_mask = data.train_mask | data.new_mask[:, :2].any(1)
        model = build("gcn", gcn.settings, "gcn", split).fit(data)
        assert result.lines[4 + 2]["test"][split] == pytest.approx(100 * model.score(data))


def test_a_model_that_does_not_accept_labels_is_refused(configs: Path) -> None:
    gcn = load_rows(configs)[0]
    job = NewLabelsJob("dynamic", gcn, gcn.settings, "cora", retrained=False)
    with pytest.raises(InputError, match="`rows` must accept labels"):
        job.identities(JobOptions(Results(".")))


def test_figures_are_drawn_with_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"points": 300, "epsilon": 0.3, "extra_edges": [5], "draws": 1}
    monkeypatch.setattr(experiments, "ROBUSTNESS", small)
    options = ["--results", tmp_path / "results"]
    found = answer("robustness", *options)
    (line,) = lines_of(tmp_path / "results", "robustness")
    assert line["figure"] == "figures/robustness.png"
    drawn = tmp_path / "results" / line["figure"]
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert [(one["p"], one["extra_edges"]) for one in line["change"]] == [(1.0, 5), ("inf", 5)]
    assert found["measured"] == 1
    assert answer("robustness", *options)["reused"] == 1
    drawn.unlink()
    assert answer("robustness", *options)["measured"] == 1
    assert drawn.exists()
