"""lggd reproduce: what is measured, what is kept, what is skipped, and that nothing finished is ever lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from lggd.paper.figure_jobs import RobustnessJob
from test_claims import held_elsewhere

import lggd
from command_line import ONE_THREAD, answer, command, refused
from lggd.compare import runner, templates
from lggd.compare.methods import load_methods
from lggd.compare.protocol import load_splits
from lggd.compare.results import Results
from lggd.compare.runner import measure
from lggd.data.splits import fingerprint
from lggd.paper import jobs, reproduce
from lggd.paper.jobs import NewLabels, Setup
from lggd.paper.reproduce import Wish, plan

BRIEF = "max_epochs = 4\n"
ROWS = {
    "gcn": ("01", "GCN", "Backbone", BRIEF),
    "ggd": ("08", "GGD", "GGD", BRIEF),
    "lggd": ("09", "LGGD", "LGGD", BRIEF + 'epochs = 3\nmlp_hidden = "8"\n'),
    "gpr": ("11", "GPR-GNN", "GPRGNN", BRIEF + "hidden = 4\n"),
}
TOLD = {"seconds", "when"}  # what may differ between two equal measurements


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    folder = tmp_path / "configs"
    (folder / "rows").mkdir(parents=True)
    for slug, (number, name, method, settings) in ROWS.items():
        text = f'number = "{number}"\nname = "{name}"\nmethod = "{method}"\n[settings]\n{settings}'
        (folder / f"rows/{slug}.toml").write_text(text)
    (folder / "ablation.toml").write_text(
        'base = "lggd"\n[variants."as chosen"]\n[variants."nearest class"]\nreadout = "nearest"\n'
    )
    return folder


@pytest.fixture
def options(configs: Path, tmp_path: Path) -> list[object]:
    return ["--configs", configs, "--results", tmp_path / "results", "--datasets", "karate", "--splits", 2]


def lines_of(folder: Path, experiment: str = "table1") -> list[dict[str, Any]]:
    lines, torn = Results(folder).lines(experiment)
    assert torn == 0
    return lines


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {key: one[key] for key in one if key not in TOLD} == {key: other[key] for key in other if key not in TOLD}


# -- a line -----------------------------------------------------------------------------------------------------------


def test_a_line_says_all_that_the_number_depends_on(options: list[object], tmp_path: Path) -> None:
    found = answer("reproduce", "table1", "--rows", "01,09", *options)
    assert (found["measured"], found["kept"], found["failed"]) == (2, 0, [])
    lines = lines_of(tmp_path / "results")
    assert lines == found["lines"]
    line = lines[0]
    assert (line["experiment"], line["row"], line["name"], line["slug"]) == ("table1", "01", "GCN", "gcn")
    assert (line["dataset"], line["backbone"], line["seed"], line["device"]) == ("karate", "gcn", 0, "cpu")
    assert line["config"]["max_epochs"] == 4
    assert line["config"]["weight_decay"] == 1e-6
    datas = load_splits("karate", range(2), device="cpu")
    assert line["splits"] == [fingerprint(data) for data in datas]
    assert len(line["split_hash"]) == 12
    assert {"python", "torch", "torch-geometric", "lggd", "numpy"} <= line["versions"].keys()
    assert line["machine"]["cores"] >= 1
    assert line["mean"] == pytest.approx(sum(line["test"]) / 2)
    assert line["sd"] == pytest.approx(abs(line["test"][0] - line["test"][1]) / 2**0.5)
    assert line["when"].endswith("+00:00")
    assert all(0 <= value <= 100 for value in line["val"] + line["test"])


def test_measuring_is_fitting_each_split_alone(configs: Path) -> None:
    row = load_methods(configs)[0]
    found = measure(row, {**row.settings, "contents": "sum"}, "karate", [0, 1], seed=3)
    for split, data in enumerate(load_splits("karate", [0, 1], device="cpu")):
        model = lggd.LGGDClassifier(None, optimization=lggd.Optimization(epochs=4), seed=3 + split).fit(data)
        assert found.test[split] == pytest.approx(100 * model.score(data))
        assert found.val[split] == pytest.approx(100 * model.score(data, data.val_mask))


def test_contents_are_scaled_before_any_method_sees_them(configs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    original = runner.fit_together
    monkeypatch.setattr(
        runner, "fit_together", lambda models, datas, **more: original(models, seen.append(datas) or datas)
    )
    row = load_methods(configs)[0]
    measure(row, {**row.settings, "contents": "length"}, "moons", [0, 1])
    (datas,) = seen
    assert datas[0].x is datas[1].x
    assert torch.allclose(datas[0].x.norm(dim=1), torch.ones(len(datas[0].x)))


def test_a_search_sees_no_test_labels(configs: Path) -> None:
    row = load_methods(configs)[0]
    open_, hidden = (measure(row, row.settings, "karate", [0, 1], hide_test=hide) for hide in (False, True))
    assert hidden.val == open_.val
    assert hidden.test == []


# -- again and again --------------------------------------------------------------------------------------------------


def test_what_is_finished_is_not_measured_again_unless_asked(options: list[object], tmp_path: Path) -> None:
    first = answer("reproduce", "table1", "--rows", "01", *options)
    more = answer("reproduce", "table1", "--rows", "01", "--rows", "08", *options)
    assert (more["measured"], more["kept"]) == (1, 1)
    assert more["lines"][0] == first["lines"][0]
    repeated = answer("reproduce", "table1", "--rows", "gcn", "--again", *options)
    assert (repeated["measured"], repeated["kept"]) == (1, 0)
    assert same(repeated["lines"][0], first["lines"][0])
    assert len(lines_of(tmp_path / "results")) == 3


@pytest.mark.parametrize("change", [["--seed", 1], ["--splits", 3], ["--datasets", "moons"]])
def test_anything_else_is_measured(options: list[object], change: list[object]) -> None:
    answer("reproduce", "table1", "--rows", "01", *options)
    kept = [option for place, option in enumerate(options) if change[0] not in (option, options[place - 1])]
    assert answer("reproduce", "table1", "--rows", "01", *kept, *change)["measured"] == 1


def test_settings_chosen_for_a_dataset_are_used_and_tell_lines_apart(options: list[object], configs: Path) -> None:
    answer("reproduce", "table1", "--rows", "01", *options)
    (configs / "chosen").mkdir()
    (configs / "chosen/gcn.toml").write_text("[karate]\ndropout = 0.8\n")
    found = answer("reproduce", "table1", "--rows", "01", *options)
    assert found["measured"] == 1
    assert found["lines"][0]["config"]["dropout"] == 0.8


def test_what_was_asked_for_last_is_what_counts(options: list[object], configs: Path, tmp_path: Path) -> None:
    first = answer("reproduce", "table1", "--rows", "01", *options)["lines"]
    (configs / "chosen").mkdir()
    (configs / "chosen/gcn.toml").write_text("[karate]\ndropout = 0.8\n")
    second = answer("reproduce", "table1", "--rows", "01", *options)["lines"]
    (configs / "chosen/gcn.toml").unlink()
    for _ in range(2):
        assert answer("reproduce", "table1", "--rows", "01", *options)["kept"] == 1
        assert lines_of(tmp_path / "results") == [*first, *second, *first]


def begun(*arguments: object) -> subprocess.Popen[bytes]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", "from lggd.cli import main; main()", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(Path(lggd.__file__).parents[1]), **ONE_THREAD},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def test_a_kill_loses_nothing_finished(configs: Path, options: list[object], tmp_path: Path) -> None:
    endless = configs / "rows/gpr.toml"
    brief = endless.read_text()
    endless.write_text(brief.replace(BRIEF, "max_epochs = 1000000\npatience = 1000000\n"))
    arguments = ["reproduce", "table1", "--rows", "01,11", *options]
    process = begun(*arguments)
    path = tmp_path / "results/table1.jsonl"
    for _ in range(600):
        if path.exists() and path.read_bytes().endswith(b"\n"):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    (before,) = lines_of(tmp_path / "results")
    endless.write_text(brief)
    found = answer(*arguments)
    assert (found["measured"], found["kept"]) == (1, 1)
    assert found["lines"][0] == before


def test_processes_share_the_work_and_each_tells_of_all(options: list[object], tmp_path: Path) -> None:
    processes = [begun("reproduce", "table1", "--json", *options) for _ in range(3)]
    told = [json.loads(one.communicate()[0]) for one in processes]
    lines = lines_of(tmp_path / "results")
    assert sorted(line["row"] for line in lines) == ["01", "08", "09", "11"]
    assert sum(found["measured"] for found in told) == 4
    for found in told:
        assert found["failed"] == []
        assert [line["row"] for line in found["lines"]] == ["01", "08", "09", "11"]
        assert all(line in lines for line in found["lines"])


def test_what_another_process_is_at_is_left_to_it_and_done_if_it_dies(options: list[object], tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with (
        held_elsewhere(tmp_path / "results", "table1 GCN on karate, 2 splits from seed 0") as other,
        begun("reproduce", "table1", "--json", "--rows", "01,08", *options) as ours,
    ):
        while not lines_of(tmp_path / "results"):
            time.sleep(0.05)
        assert [line["row"] for line in lines_of(tmp_path / "results")] == ["08"]
        other.kill()
        found = json.loads(ours.communicate()[0])
    assert [line["row"] for line in found["lines"]] == ["01", "08"]
    assert [line["row"] for line in lines_of(tmp_path / "results")] == ["08", "01"]


def test_what_is_asked_for_again_is_measured_though_another_process_was_at_it(
    options: list[object], tmp_path: Path
) -> None:
    (before,) = answer("reproduce", "table1", "--rows", "01", *options)["lines"]
    with (
        held_elsewhere(tmp_path / "results", "table1 GCN on karate, 2 splits from seed 0") as other,
        begun("reproduce", "table1", "--json", "--rows", "01,08", "--again", *options) as ours,
    ):
        while len(lines_of(tmp_path / "results")) < 2:
            time.sleep(0.05)
        Results(tmp_path / "results").append("table1", {**before, "seed": 7})
        other.kill()
        found = json.loads(ours.communicate()[0])
    assert (found["measured"], found["kept"]) == (2, 0)
    assert [line["row"] for line in lines_of(tmp_path / "results")] == ["01", "08", "01", "01"]


def test_an_interruption_ends_the_command_and_keeps_the_lines(
    options: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    original = jobs.measure
    monkeypatch.setattr(
        jobs, "measure", lambda row, *more: (interrupted if row.slug == "ggd" else original)(row, *more)
    )
    result = command("reproduce", "table1", "--rows", "01,08,11", *options)
    assert result.exit_code == 130
    assert [line["slug"] for line in lines_of(tmp_path / "results")] == ["gcn"]


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_row_that_fails_leaves_no_line_and_stops_no_other(
    options: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(row: Any, *more: Any) -> Any:
        if row.slug == "ggd":
            raise MemoryError("GGD needs 9 GiB, and 1 GiB is free. Use fewer splits.")
        return original(row, *more)

    original = jobs.measure
    monkeypatch.setattr(jobs, "measure", short)
    result = command("reproduce", "table1", "--rows", "01,08,11", "--json", *options)
    assert result.exit_code == 1
    assert result.stderr == "GGD on karate failed: GGD needs 9 GiB, and 1 GiB is free. Use fewer splits.\n"
    found = json.loads(result.stdout)
    assert found["measured"] == 2
    assert found["failed"] == [
        {"job": "GGD on karate", "error": "GGD needs 9 GiB, and 1 GiB is free. Use fewer splits."}
    ]
    assert [line["slug"] for line in lines_of(tmp_path / "results")] == ["gcn", "gpr"]


def test_a_row_is_measured_with_the_backbones_that_it_works_on() -> None:
    planned = plan("backbones", Wish(rows=("01", "03"), datasets=("cora",)))
    assert [job.title for job in planned] == [
        "GCN on cora with gat",
        "GCN on cora with chebnet",
        "GCN on cora with jknet",
        "DropEdge on cora with chebnet",
        "DropEdge on cora with jknet",
    ]


def test_a_wrong_variant_is_refused_with_its_file(options: list[object], configs: Path) -> None:
    file = configs / "ablation.toml"
    file.write_text(file.read_text().replace('"nearest"', '"farthest"'))
    said = refused("reproduce", "ablation", *options)
    assert f"LGGD, nearest class on karate ({configs / 'rows/lggd.toml'}, {file}): `readout` must be" in said


@pytest.mark.parametrize(
    ("experiment", "wish", "complaint"),
    [
        ("backbones", {"rows": ("01", "11")}, "`rows` must work on other backbones, got GPR-GNN"),
        ("dynamic", {"datasets": ("cora", "karate")}, "where labels arrive later, got karate"),
        ("ablation", {"rows": ("01",)}, "`rows` must be 09, the base of"),
        ("robustness", {"rows": ("01",)}, "`rows` must not be given for robustness, a figure, got 01"),
        ("geodesic", {"datasets": ("cora",)}, "`datasets` must not be given for geodesic"),
    ],
)
def test_what_an_experiment_has_no_use_for_is_refused_and_left_out_of_all(
    configs: Path, experiment: str, wish: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        plan(experiment, Wish(configs=configs, **wish))
    everything = plan("all", Wish(configs=configs, **wish))
    assert {job.experiment for job in everything} >= {"table1"}
    assert all("karate" not in job.title for job in everything if job.experiment == "dynamic")
    assert not {job.experiment for job in everything} & {"robustness", "geodesic"}
    assert all("GPR" not in job.title for job in everything if job.experiment == "backbones")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--rows", "gnc"], "`--rows` must be among 01, 08, 09, 11, got 'gnc'. Did you mean 'gcn'?"),
        (["--datasets", "karatee"], "`--datasets` must be one of"),
        (["--configs", "nowhere"], "rows/ in it, but there is none"),
    ],
)
def test_wrong_wishes_are_refused_before_anything_is_measured(
    options: list[object], tmp_path: Path, arguments: list[object], complaint: str
) -> None:
    assert complaint in refused("reproduce", "table1", *options, *arguments)
    assert not (tmp_path / "results").exists()


def test_a_wrong_setting_in_the_last_row_is_refused_before_the_first_is_measured(
    options: list[object], configs: Path, tmp_path: Path
) -> None:
    (configs / "rows/gpr.toml").write_text('number="11"\nname="GPR-GNN"\nmethod="GPRGNN"\n[settings]\nhop = 3\n')
    assert "`settings` of GPRGNN must be among" in refused("reproduce", "table1", *options)
    assert not (tmp_path / "results").exists()


def test_help_teaches_by_example() -> None:
    result = command("reproduce", "--help")
    assert result.exit_code == 0
    assert "lggd reproduce table1 --quick" in result.output


# -- experiments ------------------------------------------------------------------------------------------------------


def test_the_table_is_shown_with_mean_and_deviation(options: list[object]) -> None:
    result = command("reproduce", "table1", "--rows", "01", *options)
    assert result.exit_code == 0
    assert "01 GCN" in result.stdout
    assert " ± " in result.stdout
    assert "1 measured, 0 found in" in result.stdout.replace("\n", " ")


def test_backbones_are_three_for_each_row(options: list[object], tmp_path: Path) -> None:
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
    assert answer("reproduce", "ablation", *options)["kept"] == found["measured"] == 2


def dynamic_karate(dataset: str, splits: Any, *, device: str, root: Any = None, dynamic: bool = False) -> list[Any]:
    """Karate with three of its test nodes for each of three steps."""
    datas = load_splits(dataset, splits, device=device)
    for data in datas:
        nodes = data.test_mask.nonzero().squeeze(1)[:9].reshape(3, 3)
        data.new_mask = torch.zeros(34, 3, dtype=torch.bool).scatter(0, nodes, True)
        data.test_mask = data.test_mask & ~data.new_mask.any(1)
    return datas


def test_new_labels_are_told_or_trained_with(configs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "load_splits", dynamic_karate)
    gcn, _, learned, _ = load_methods(configs)
    setup = Setup(Results(tmp_path / "results"), splits=2)
    todo = [
        NewLabels("dynamic", learned, learned.settings, "karate", retrained=False),
        NewLabels("dynamic", gcn, gcn.settings, "karate", retrained=True),
    ]
    outcome = reproduce.reproduce(todo, setup)
    assert outcome.failures == []
    assert [(line["row"], line["additions"]) for line in outcome.lines] == [
        (row, additions) for row in ("09", "01 retrained") for additions in range(4)
    ]
    assert outcome.lines[-1]["name"] == "GCN, retrained"
    assert reproduce.reproduce(todo, setup).kept == 8
    # Each is what one would get by hand.
    for split, data in enumerate(dynamic_karate("karate", range(2), device="cpu")):
        model = templates.build("LGGD", learned.settings, "gcn", split).fit(data)
        for additions in range(4):
            if additions:
                new = data.new_mask[:, additions - 1]
                model.add_labels(new, data.y[new])  # type: ignore[union-attr]
            assert outcome.lines[additions]["test"][split] == pytest.approx(100 * model.score(data))
        data.train_mask = data.train_mask | data.new_mask[:, :2].any(1)
        model = templates.build("Backbone", gcn.settings, "gcn", split).fit(data)
        assert outcome.lines[4 + 2]["test"][split] == pytest.approx(100 * model.score(data))


def test_new_labels_are_for_models_that_take_them(configs: Path) -> None:
    planned = plan("dynamic", Wish(rows=("01", "09", "11"), configs=configs))
    with pytest.raises(ValueError, match=r"`datasets` must be among cora.*got digits"):
        plan("dynamic", Wish(datasets=("digits",), configs=configs))
    assert [job.title for job in planned if "cora" in job.title] == [
        "LGGD on cora", "GCN, retrained on cora", "LGGD, retrained on cora", "GPR-GNN, retrained on cora"
    ]  # fmt: skip
    gcn = load_methods(configs)[0]
    job = NewLabels("dynamic", gcn, gcn.settings, "cora", retrained=False)
    with pytest.raises(ValueError, match="`rows` must take in labels"):
        job.identities(Setup(Results(".")))


def test_figures_are_drawn_with_their_numbers(
    options: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = RobustnessJob(points=300, epsilon=0.3, extra_edges=(5,), draws=1)
    monkeypatch.setitem(reproduce.EXPERIMENTS, "robustness", lambda wish: [small])
    found = answer("reproduce", "robustness", *options)
    (line,) = lines_of(tmp_path / "results", "robustness")
    assert line["figure"] == "figures/robustness.png"
    drawn = tmp_path / "results" / line["figure"]
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert [(one["p"], one["extra_edges"]) for one in line["change"]] == [(1.0, 5), ("inf", 5)]
    assert found["measured"] == 1
    assert answer("reproduce", "robustness", *options)["kept"] == 1
    drawn.unlink()
    assert answer("reproduce", "robustness", *options)["measured"] == 1
    assert drawn.exists()


def test_the_geodesic_is_one_job() -> None:
    assert [job.title for job in plan("geodesic")] == ["Figure: geodesic"]


def test_all_is_all_of_them() -> None:
    everything = {job.experiment for job in plan("all")}
    assert everything == set(reproduce.EXPERIMENTS)


def test_backbones_have_a_say_where_they_are_compared() -> None:
    planned = plan("backbones", Wish(("14",)))
    assert len(planned) == 15
    assert {job.settings["readout"] for job in planned} == {"both"}  # type: ignore[attr-defined]


def test_quick_is_a_few_rows_on_cora_in_files_of_its_own() -> None:
    planned = plan("table1", Wish(quick=True))
    assert {job.experiment for job in planned} == {"table1-quick"}
    usual, quick = (plan("table1", Wish(("14",), ("cora",), quick=quick))[0] for quick in (False, True))
    assert (usual.settings["members"], quick.settings["members"]) == (3, 1)  # type: ignore[attr-defined]
    assert [job.dataset for job in planned] == ["cora"] * len(planned)  # type: ignore[attr-defined]
    assert {job.row.number for job in planned} <= {"01", "07", "08", "09", "11", "14"}  # type: ignore[attr-defined]
    assert len(planned) >= 5
