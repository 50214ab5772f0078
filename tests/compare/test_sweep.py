"""The search for settings: its trials, shared and resumed; what it may see; and the file that it writes."""

from __future__ import annotations

import math
import os
import shutil
import signal
import string
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from command_line import ONE_THREAD, answer, command, refused
from lggd.compare import splits as experiment_splits
from lggd.compare import sweep as sweeping
from lggd.compare.chosen import Choice, toml_line, write_chosen
from lggd.compare.row import Choices, Range, Row, load_rows
from lggd.compare.runner import Measured, measure
from lggd.compare.study import REASON, SharedStudy, open_journal
from lggd.compare.sweep import Sweep, first_settings, sweep

PATIENCE = 60.0
REPOSITORY = Path(__file__).parents[2]

SEARCH = {"dropout": Range(0.1, 0.9, 0.1), "lr": Range(1e-3, 1e-1, log=True), "hidden": Choices((4, 8))}
ROW = Row("01", "GCN", "Backbone", "gcn", {"max_epochs": 15, "weight_decay": 0.001}, SEARCH)

WORKERS_ROW = Row("01", "GCN", "Backbone", "gcn", {}, {"dropout": Range(0.1, 0.9)})

# A worker in a process of its own, that stands in for minutes of learning by sleeping.
WORKER = """
import sys, time
from pathlib import Path
from lggd.compare import sweep as sweeping
from lggd.compare.row import Range, Row
from lggd.compare.runner import Measured

folder, name, seconds, trials = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])

def measure(row, settings, dataset, splits, **rest):
    with (folder / f"{name}.log").open("a") as log:
        log.write(f"{settings['dropout']!r}\\n")
    time.sleep(seconds)
    return Measured([100 * settings["dropout"]] * len(splits), [], [], 0.0)

sweeping.measure = measure
(folder / f"{name}.ready").touch()
while not (folder / f"{name}.go").exists():
    time.sleep(0.01)
row = Row("01", "GCN", "Backbone", "gcn", {}, {"dropout": Range(0.1, 0.9)})
found = sweeping.sweep(sweeping.Sweep(trials=trials, results=folder, grace=1.0), [row], ["karate"])
print(found[0].trials)
"""


def worker(folder: Path, name: str, seconds: float, trials: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WORKER, str(folder), name, str(seconds), str(trials)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=os.environ | ONE_THREAD)


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def start(folder: Path, *names: str) -> None:
    """Lets workers begin together, once all of them have been loaded."""
    wait_for(lambda: all((folder / f"{name}.ready").exists() for name in names))
    for name in names:
        (folder / f"{name}.go").touch()


def log_of(folder: Path, name: str) -> list[float]:
    path = folder / f"{name}.log"
    return [float(line) for line in path.read_text().splitlines()] if path.exists() else []


def study_in(folder: Path, row: Row = ROW, dataset: str = "karate") -> Any:
    import optuna

    return optuna.load_study(
        storage=open_journal(Sweep(results=folder).journal(row)), study_name=f"{row.slug}/{dataset}/gcn"
    )


def finished(folder: Path, **which: Any) -> list[Any]:
    """The trials that ended for themselves."""
    return [
        trial
        for trial in study_in(folder, **which).trials
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) or REASON in trial.user_attrs
    ]


def judged_by(monkeypatch: pytest.MonkeyPatch, judge: Any) -> list[dict[str, Any]]:
    """Lets `judge(settings, split)` give the validation accuracy; what it was asked, in the end."""
    asked: list[dict[str, Any]] = []

    def fake(row: Row, settings: Any, dataset: str, splits: list[int], **rest: Any) -> Measured:
        asked.append({"settings": dict(settings), "splits": splits, **rest})
        return Measured([judge(settings, split) for split in splits], [], [], 0.0)

    monkeypatch.setattr(sweeping, "measure", fake)
    return asked


# -- trials -----------------------------------------------------------------------------------------------------------


def test_every_row_and_dataset_gets_the_same_number_of_trials(tmp_path, monkeypatch):
    judged_by(monkeypatch, lambda settings, split: 50 + split)
    other = Row("02", "Other", "Backbone", "other", {}, {"hidden": Choices((4, 8, 16))})
    found = sweep(Sweep(trials=4, results=tmp_path), [ROW, other], ["karate", "moons"])
    assert [(one.slug, one.dataset, one.trials) for one in found] == [
        ("gcn", "karate", 4), ("gcn", "moons", 4), ("other", "karate", 4), ("other", "moons", 4)
    ]  # fmt: skip
    assert {one.validation for one in found} == {51.0}


def test_the_ranges_of_the_paper_are_searched_in_studies_of_their_own(tmp_path, monkeypatch):
    asked = judged_by(monkeypatch, lambda settings, split: settings["dropout"])
    row = replace(ROW, search={"dropout": Choices((0.1,))}, paper_search={"dropout": Choices((0.7,))})
    ours, papers = (sweep(Sweep(trials=1, results=tmp_path, paper_ranges=paper), [row], ["karate"]) for paper in (0, 1))
    assert [one["settings"]["dropout"] for one in asked] == [0.1, 0.7]
    assert (ours[0].settings, papers[0].settings) == ({"dropout": 0.1}, {"dropout": 0.7})
    # Where they are the same, so are the studies.
    sweep(Sweep(trials=2, results=tmp_path, paper_ranges=True), [replace(row, paper_search={})], ["karate"])
    assert len(finished(tmp_path)) == 2


def test_the_first_trial_has_the_settings_written_by_hand(tmp_path, monkeypatch):
    asked = judged_by(monkeypatch, lambda settings, split: 1.0)
    sweep(Sweep(trials=3, results=tmp_path), [ROW], ["karate"])
    by_hand = {"dropout": 0.5, "lr": 0.01, "hidden": 4}  # 32, the usual one, may not be tried
    assert asked[0]["settings"] == {**ROW.settings, **by_hand}
    assert asked[1]["settings"] != asked[0]["settings"]
    assert all(one["hide_test"] is True and one["splits"] == [0, 1, 2] for one in asked)


@pytest.mark.parametrize(
    ("searched", "usual", "expected"),
    [
        (Range(0.2, 0.8), 0.5, 0.5),
        (Range(0.6, 0.8), 0.5, 0.7),
        (Range(0.2, 0.9, 0.2), 0.5, 0.4),
        (Range(0.001, 0.1, log=True), 0.5, 0.01),
        (Choices((0.25, 0.75)), 0.5, 0.25),
    ],
)
def test_what_may_not_be_tried_first_is_taken_from_the_middle(searched, usual, expected):
    row = Row("01", "GCN", "Backbone", "gcn", {"dropout": usual}, {"dropout": searched})
    assert first_settings(row, "gcn")["dropout"] == pytest.approx(expected)


def test_steps_give_round_numbers(tmp_path, monkeypatch):
    asked = judged_by(monkeypatch, lambda settings, split: 1.0)
    sweep(Sweep(trials=12, results=tmp_path), [ROW], ["karate"])
    assert {one["settings"]["dropout"] for one in asked} <= {number / 10 for number in range(1, 10)}


def test_the_largest_mean_is_chosen_and_of_equals_the_earliest(tmp_path, monkeypatch):
    judged_by(monkeypatch, lambda settings, split: 90.0 if settings["hidden"] == 8 else 80.0 + split)
    found = sweep(Sweep(trials=10, results=tmp_path), [ROW], ["karate"])[0]
    best = next(trial for trial in finished(tmp_path) if trial.params["hidden"] == 8)
    assert found.validation == 90.0
    assert found.settings == pytest.approx(best.params, rel=1e-11)


def test_a_sweep_repeats_itself(tmp_path, monkeypatch):
    asked = judged_by(monkeypatch, lambda settings, split: 100 * settings["dropout"] - settings["hidden"])
    for name in ("one", "two"):
        sweep(Sweep(trials=12, results=tmp_path / name), [ROW], ["karate"])
    assert asked[:12] == asked[12:]
    sweep(Sweep(trials=12, results=tmp_path / "three", seed=1), [ROW], ["karate"])
    assert [one["settings"] for one in asked[25:]] != [one["settings"] for one in asked[1:12]]


def test_more_trials_go_on_and_fewer_are_the_first(tmp_path, monkeypatch):
    asked = judged_by(monkeypatch, lambda settings, split: 100 * settings["dropout"])
    few = sweep(Sweep(trials=3, results=tmp_path), [ROW], ["karate"])
    many = sweep(Sweep(trials=8, results=tmp_path), [ROW], ["karate"])
    assert len(asked) == 8
    assert sweep(Sweep(trials=3, results=tmp_path), [ROW], ["karate"]) == few
    assert sweep(Sweep(trials=0, results=tmp_path), [ROW], ["karate"]) == many
    assert len(asked) == 8


def test_settings_that_were_tried_are_not_learned_again_but_count(tmp_path, monkeypatch):
    asked = judged_by(monkeypatch, lambda settings, split: float(settings["hidden"]))
    row = Row("01", "GCN", "Backbone", "gcn", {}, {"hidden": Choices((4, 8))})
    found = sweep(Sweep(trials=6, results=tmp_path), [row], ["karate"])[0]
    assert sorted(one["settings"]["hidden"] for one in asked) == [4, 8]
    assert (found.trials, found.settings, found.validation) == (6, {"hidden": 8}, 8.0)
    assert [trial.value == trial.params["hidden"] for trial in finished(tmp_path)] == [True] * 6


def test_failures_count_and_say_why(tmp_path, monkeypatch):
    def judge(settings: Any, split: int) -> float:
        if settings["hidden"] == 8:
            raise MemoryError("12 GiB are needed, 8 GiB are free.\nAnd more.")
        if settings["dropout"] > 0.7:
            raise FloatingPointError("node 3 is not finite")
        return math.nan if settings["dropout"] < 0.3 else 70.0

    judged_by(monkeypatch, judge)
    found = sweep(Sweep(trials=20, results=tmp_path), [ROW], ["karate"])[0]
    reasons = {trial.user_attrs.get(REASON) for trial in finished(tmp_path)}
    assert reasons == {
        None,
        "MemoryError: 12 GiB are needed, 8 GiB are free.",
        "FloatingPointError: node 3 is not finite",
        "FloatingPointError: the mean validation accuracy is nan",
    }
    assert found.trials == 20
    assert 0 < found.failed < 20
    assert found.validation == 70.0


def test_where_all_fail_nothing_is_chosen(tmp_path, monkeypatch):
    def judge(settings: Any, split: int) -> float:
        raise MemoryError("too much")

    judged_by(monkeypatch, judge)
    found = sweep(Sweep(trials=2, results=tmp_path), [ROW], ["karate"])[0]
    assert (found.settings, found.failed) == (None, 2)
    write_chosen(tmp_path / "gcn.toml", [found])
    assert tomllib.loads((tmp_path / "gcn.toml").read_text()) == {}
    assert "all failed: MemoryError: too much" in (tmp_path / "gcn.toml").read_text()


def test_other_errors_end_the_sweep_and_do_not_count(tmp_path, monkeypatch):
    def judge(settings: Any, split: int) -> float:
        raise ValueError("`lr` must be positive.")

    judged_by(monkeypatch, judge)
    with pytest.raises(ValueError, match="`lr` must be positive"):
        sweep(Sweep(trials=2, results=tmp_path), [ROW], ["karate"])
    asked = judged_by(monkeypatch, lambda settings, split: 1.0)
    assert sweep(Sweep(trials=2, results=tmp_path), [ROW], ["karate"])[0].trials == 2
    assert asked[0]["settings"]["dropout"] == 0.5  # the first one, again


def test_poor_trials_are_pruned_between_groups_of_splits(tmp_path, monkeypatch):
    asked = judged_by(monkeypatch, lambda settings, split: 100 * settings["dropout"])
    found = sweep(Sweep(trials=25, at_once=1, results=tmp_path), [ROW], ["karate"])[0]
    pruned = [trial for trial in finished(tmp_path) if trial.state is TrialState.PRUNED]
    assert len(pruned) == found.pruned > 0
    assert min(trial.number for trial in pruned) >= 5
    assert len(asked) < 25 * 3
    assert found.trials == 25
    assert found.settings is not None
    assert found.settings["dropout"] == 0.9


def test_without_groups_nothing_is_pruned(tmp_path, monkeypatch):
    judged_by(monkeypatch, lambda settings, split: 100 * settings["dropout"])
    assert sweep(Sweep(trials=12, results=tmp_path), [ROW], ["karate"])[0].pruned == 0


@pytest.mark.parametrize(("changes", "named"), [({"splits": 2}, "splits"), ({"seed": 1}, "seed")])
def test_values_that_cannot_be_compared_are_never_mixed(tmp_path, monkeypatch, changes, named):
    judged_by(monkeypatch, lambda settings, split: 1.0)
    sweep(Sweep(trials=1, results=tmp_path), [ROW], ["karate"])
    with pytest.raises(ValueError, match=f"`{named}` must be"):
        sweep(Sweep(trials=2, results=tmp_path, **changes), [ROW], ["karate"])


def test_another_search_does_not_go_on_with_the_study(tmp_path, monkeypatch):
    judged_by(monkeypatch, lambda settings, split: 1.0)
    sweep(Sweep(trials=1, results=tmp_path), [ROW], ["karate"])
    wider = Row("01", "GCN", "Backbone", "gcn", ROW.settings, {**SEARCH, "hidden": Choices((4, 8, 16))})
    with pytest.raises(ValueError, match="`search` must be"):
        sweep(Sweep(trials=2, results=tmp_path), [wider], ["karate"])


# -- several workers --------------------------------------------------------------------------------------------------


def test_two_processes_share_a_study_and_do_no_trial_too_many(tmp_path):
    trials = 14
    both = [worker(tmp_path, name, 0.05, trials) for name in ("one", "two")]
    start(tmp_path, "one", "two")
    told = [process.communicate(timeout=PATIENCE)[0] for process in both]
    assert told == [f"{trials}\n"] * 2
    done = [log_of(tmp_path, name) for name in ("one", "two")]
    assert len(done[0]) + len(done[1]) == trials
    assert min(len(done[0]), len(done[1])) > 1
    assert len(finished(tmp_path)) == trials
    assert len(set(done[0] + done[1])) == trials  # no settings twice


def test_what_a_killed_process_left_is_done_again(tmp_path, monkeypatch):
    killed = worker(tmp_path, "killed", 300, 3)
    start(tmp_path, "killed")
    wait_for(lambda: log_of(tmp_path, "killed"))
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    asked = judged_by(monkeypatch, lambda settings, split: 100 * settings["dropout"])
    assert sweep(Sweep(trials=3, results=tmp_path, grace=1.0), [WORKERS_ROW], ["karate"])[0].trials == 3
    assert log_of(tmp_path, "killed") == [0.5]
    tried = [one["settings"]["dropout"] for one in asked]
    assert len(tried) == 3
    assert tried.count(0.5) == 1  # the settings written by hand are not lost


def test_of_many_claims_at_once_as_many_are_granted_as_are_wanted(tmp_path):
    space, first = {"x": FloatDistribution(0, 1)}, {"x": 0.5}
    workers = [
        SharedStudy(open_journal(tmp_path / "journal"), "study", space=space, first=first, about={}) for _ in range(4)
    ]
    granted = [trial for _ in range(3) for one in workers if (trial := one.claim(5)) is not None]
    assert len(granted) == 5
    assert len({trial.params["x"] for trial in granted}) == 5
    workers[0].abandon(granted[2])
    again = [trial for one in workers if (trial := one.claim(5)) is not None]
    assert [trial.params for trial in again] == [granted[2].params]
    for number, trial in enumerate([*granted[:2], *granted[3:], *again]):
        assert workers[number % 4].finish(trial, TrialState.COMPLETE, 1.0)
    assert not workers[0].finish(granted[2], TrialState.COMPLETE, 1.0)
    assert len(workers[0].counted(5)) == 5
    assert workers[3].claim(5) is None


def test_a_trial_that_is_slow_but_alive_is_left_alone(tmp_path):
    space = {"x": FloatDistribution(0, 1)}
    mine, other = (
        SharedStudy(open_journal(tmp_path / "journal"), "study", space=space, first={}, about={}, grace=0.5)
        for _ in range(2)
    )
    trial = mine.claim(1)
    assert trial is not None
    with mine.alive(trial):
        for _ in range(6):
            time.sleep(0.2)
            assert other.claim(1) is None
    assert mine.finish(trial, TrialState.COMPLETE, 1.0)


def test_an_unfinished_entry_of_the_journal_is_removed(tmp_path, monkeypatch):
    asked = judged_by(monkeypatch, lambda settings, split: 1.0)
    sweep(Sweep(trials=2, results=tmp_path), [ROW], ["karate"])
    with Sweep(results=tmp_path).journal(ROW).open("ab") as file:
        file.write(b'{"op_code":4,"wor')
    assert sweep(Sweep(trials=3, results=tmp_path), [ROW], ["karate"])[0].trials == 3
    assert len(asked) == 3


# -- what a search may see --------------------------------------------------------------------------------------------


def with_other_test_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every dataset from now on has the labels of its test nodes permuted, split by split."""
    load = experiment_splits.load_splits

    def permuted(*arguments: Any, **rest: Any) -> list[Any]:
        datas = load(*arguments, **rest)
        for number, data in enumerate(datas):
            y, places = data.y.clone(), data.test_mask.nonzero().flatten()
            order = torch.randperm(len(places), generator=torch.Generator().manual_seed(number))
            y[places] = (data.y[places][order] + 1) % data.num_classes
            data.y = y
        return datas

    monkeypatch.setattr("lggd.compare.runner.load_splits", permuted)


def swept(folder: Path, dataset: str = "moons") -> tuple[bytes, list[Any]]:
    """The file that a real, small sweep writes, and all that its study holds but times."""
    found = sweep(Sweep(trials=7, splits=2, at_once=1, results=folder), [ROW], [dataset])
    write_chosen(folder / "gcn.toml", found)
    trials = [
        (trial.params, trial.state, trial.value, trial.intermediate_values)
        for trial in study_in(folder, dataset=dataset).trials
    ]
    return (folder / "gcn.toml").read_bytes(), trials


def test_permuting_every_test_label_changes_no_trial_and_no_chosen_setting(tmp_path, monkeypatch):
    before = swept(tmp_path / "before")
    assert measure(ROW, ROW.settings, "moons", [0]).test != []
    with_other_test_labels(monkeypatch)
    assert swept(tmp_path / "after") == before
    assert len({value for _, _, value, _ in before[1]}) > 1  # there was something to choose from


def test_an_objective_that_looks_at_test_nodes_would_be_found(tmp_path, monkeypatch):
    def looking(*arguments: Any, hide_test: bool, **rest: Any) -> Measured:
        assert hide_test
        found = measure(*arguments, **rest)
        return Measured(found.test, [], found.split_hashes, found.seconds)

    monkeypatch.setattr(sweeping, "measure", looking)
    before = swept(tmp_path / "before")
    with_other_test_labels(monkeypatch)
    after = swept(tmp_path / "after")
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_hidden_test_labels_are_nowhere(monkeypatch):
    seen: list[Any] = []

    def fit(models: Any, datas: Any, **rest: Any) -> Any:
        seen.extend(datas)
        raise InterruptedError

    monkeypatch.setattr("lggd.compare.runner.fit_together", fit)
    with pytest.raises(InterruptedError):
        measure(ROW, ROW.settings, "digits", [0, 1], hide_test=True)
    for data in seen:
        assert (data.y[data.test_mask] == -1).all()
        assert (data.y[~data.test_mask] >= 0).all()


# -- the file of what was chosen --------------------------------------------------------------------------------------

NAMES = st.text(string.ascii_letters + '_-. é"\\', min_size=1)
VALUES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()


@given(st.dictionaries(NAMES, VALUES))
def test_what_is_written_as_toml_is_read_back(settings):
    read = tomllib.loads("\n".join(toml_line(name, value) for name, value in settings.items()))
    assert read == settings
    assert {name: type(value) for name, value in read.items()} == {
        name: type(value) for name, value in settings.items()
    }


def test_the_chosen_file_is_in_order_says_its_effort_and_is_read_by_the_row(tmp_path):
    path = tmp_path / "chosen/gcn.toml"
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/gcn.toml").write_text('number = "01"\nname = "GCN"\nmethod = "Backbone"\n[settings]\nlr = 0.1\n')
    photo = Choice("gcn", "photo", 20, 3, {"lr": 0.02, "dropout": 0.3}, 91.238)
    cora = Choice("gcn", "cora", 20, 3, {"lr": 1e-05}, 80.0)
    write_chosen(path, [photo, cora])
    text = path.read_text()
    assert text.endswith(
        "# 20 trials of 3 tuning splits, validation accuracy 80.00 %\n[cora]\nlr = 1e-05\n\n"
        "# 20 trials of 3 tuning splits, validation accuracy 91.24 %\n[photo]\ndropout = 0.3\nlr = 0.02\n"
    )
    row = load_rows(tmp_path)[0]
    assert row.settings_for("photo") == {"lr": 0.02, "dropout": 0.3}
    assert row.settings_for("pubmed") == {"lr": 0.1}
    write_chosen(path, [Choice("gcn", "cora", 40, 3, {"lr": 0.5}, 80.0)])
    assert path.read_text() == text.replace("20 trials", "40 trials", 1).replace("1e-05", "0.5")


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "gcn.toml"
    write_chosen(path, [Choice("gcn", "cora", 20, 3, {"lr": 0.1}, 80.0)])
    before = path.read_bytes()
    with pytest.raises(TypeError, match="`value` must be"):
        write_chosen(path, [Choice("gcn", "cora", 20, 3, {"lr": None}, 80.0)])  # type: ignore[dict-item]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    rows = tmp_path / "configs/rows"
    rows.mkdir(parents=True)
    for number, name in (("01", "gcn"), ("02", "wide")):
        (rows / f"{name}.toml").write_text(
            f'number = "{number}"\nname = "{name.upper()}"\nmethod = "Backbone"\n[settings]\nmax_epochs = 5\n'
            "[search]\ndropout = { low = 0.1, high = 0.9, step = 0.1 }\nhidden = [4, 8]\n"
        )
    (rows / "fixed.toml").write_text('number = "03"\nname = "Fixed"\nmethod = "Backbone"\n')
    return rows.parent


def arguments(configs: Path, *more: object) -> list[object]:
    where = ["--configs", configs, "--results", configs.parent / "results", "--datasets", "karate"]
    return ["sweep", *where, "--device", "cpu", *more]


def test_the_command_searches_and_chooses(configs):
    found = answer(*arguments(configs, "--rows", "1,wide", "--trials", 3, "--splits", 2, "--choose"))
    assert [(one["slug"], one["trials"]) for one in found["choices"]] == [("gcn", 3), ("wide", 3)]
    assert found["files"] == [str(configs / f"chosen/{name}.toml") for name in ("gcn", "wide")]
    assert load_rows(configs)[0].chosen["karate"] == found["choices"][0]["settings"]
    before = (configs / "chosen/gcn.toml").read_bytes()
    again = command(*arguments(configs, "--rows", "01", "--trials", 0, "--splits", 2, "--choose"))
    assert again.exit_code == 0, again.output
    assert "01 GCN" in again.stdout
    assert (configs / "chosen/gcn.toml").read_bytes() == before


def test_a_search_goes_on_with_its_own_splits(configs):
    answer(*arguments(configs, "--rows", "01", "--trials", 1, "--splits", 1))
    found = answer(*arguments(configs, "--rows", "01,02", "--trials", 2))["choices"]
    assert [(one["slug"], one["trials"], one["splits"]) for one in found] == [("gcn", 2, 1), ("wide", 2, 3)]


def test_a_mistake_under_search_is_refused_and_can_be_mended(configs):
    path = configs / "rows/gcn.toml"
    right = path.read_text()
    path.write_text(right.replace("hidden = [4", "hiden = [4"))
    assert f"GCN ({path}): `settings` of Backbone must be among" in refused(*arguments(configs, "--rows", "01"))
    path.write_text(right.replace("high = 0.9", "high = 1.1"))
    assert f"GCN ({path}): `dropout` must" in refused(*arguments(configs, "--rows", "01"))
    assert not (configs.parent / "results").exists()
    path.write_text(right.replace("hidden = [4, 8]", "hidden = [3, 8]"))
    answer(*arguments(configs, "--rows", "01", "--trials", 0, "--splits", 2))
    path.write_text(right)
    assert answer(*arguments(configs, "--rows", "01", "--trials", 1, "--splits", 1))["choices"][0]["trials"] == 1


def test_committed_journals_choose_the_committed_settings_and_stay_as_they_are(tmp_path):
    for name in ("configs", "results/sweeps"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    where = ["--configs", tmp_path / "configs", "--results", tmp_path / "results"]
    files = answer("sweep", "--trials", 10, "--choose", *where)["files"]
    assert len(files) == 14
    for file in map(Path, files):
        assert file.read_text() == (REPOSITORY / "configs/chosen" / file.name).read_text()
    for journal in (tmp_path / "results/sweeps").glob("*.journal"):
        assert journal.read_bytes() == (REPOSITORY / "results/sweeps" / journal.name).read_bytes()


def test_the_command_warns_where_effort_was_not_equal_and_then_chooses_nothing(configs):
    answer(*arguments(configs, "--rows", "01", "--trials", 2, "--splits", 1))
    answer(*arguments(configs, "--rows", "02", "--trials", 1, "--splits", 1))
    assert "got 1 to 2" in refused(*arguments(configs, "--rows", "01,02", "--trials", 0, "--choose"))
    assert not (configs / "chosen").exists()
    result = command(*arguments(configs, "--trials", 0))
    assert result.exit_code == 0, result.output
    assert "not equal" in result.stderr
    assert "gcn on karate 2, wide on karate 1" in result.stderr
    assert "Left out Fixed" in result.stderr


def test_the_command_says_what_is_wrong(configs, monkeypatch):
    assert "got 'krate'. Did you mean 'karate'?" in refused("sweep", "--configs", configs, "--datasets", "krate")
    assert "`--rows` must be" in refused(*arguments(configs, "--rows", "13"))
    answer(*arguments(configs, "--rows", "01", "--trials", 1, "--splits", 1))
    assert "`--splits` must be 1" in refused(*arguments(configs, "--rows", "01", "--trials", 2, "--splits", 2))
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "pip install 'lggd[sweep]'" in refused(*arguments(configs))
