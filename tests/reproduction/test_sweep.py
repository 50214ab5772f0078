"""The search for settings: its trials, what is chosen, and that it never sees test labels."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from optuna.trial import TrialState

from lggd.errors import InputError
from reproduction import runner, sweep
from reproduction.rows import Row, write_chosen
from reproduction.runner import Scores, measure
from reproduction.sweep import REASON, SearchConfig, Space, search_settings
from support import processes
from support.processes import Forked
from support.search_trials import ROW, SEARCH, finished, replace_training, study_in


def search(folder: Path, methods: list[Row] | None = None, datasets: list[str] | None = None, **config: Any) -> Any:
    return search_settings(SearchConfig(results=folder, **config), methods or [ROW], datasets or ["karate"])


# -- trials -----------------------------------------------------------------------------------------------------------


def test_every_method_and_dataset_gets_the_same_number_of_trials(tmp_path, monkeypatch):
    replace_training(monkeypatch, lambda settings, split: 50 + split)
    other = Row("02", "Other", "gcn", "other", {}, {"backbone__hidden": [4, 8, 16]})
    found = search(tmp_path, [ROW, other], ["karate", "moons"], trials=4)
    assert [(one.slug, one.dataset, one.trials) for one in found] == [
        ("gcn", "karate", 4), ("gcn", "moons", 4), ("other", "karate", 4), ("other", "moons", 4)
    ]  # fmt: skip
    assert {one.validation for one in found} == {51.0}


def test_nothing_to_search_needs_no_cluster(tmp_path):
    assert search_settings(SearchConfig(results=tmp_path), [], ["karate"], cluster="auto") == []


def test_the_ranges_of_papers_are_searched_in_studies_of_their_own(tmp_path, monkeypatch):
    calls = replace_training(monkeypatch, lambda settings, split: settings["backbone__dropout"])
    row = replace(ROW, search={"backbone__dropout": [0.1]}, paper_search={"backbone__dropout": [0.7]})
    ours, papers = (search(tmp_path, [row], trials=1, paper_ranges=paper) for paper in (False, True))
    assert [one["settings"]["backbone__dropout"] for one in calls] == [0.1, 0.7]
    assert (ours[0].settings, papers[0].settings) == ({"backbone__dropout": 0.1}, {"backbone__dropout": 0.7})
    # Where they are the same, so are the studies.
    search(tmp_path, [replace(row, paper_search={})], trials=2, paper_ranges=True)
    assert len(finished(tmp_path)) == 2


def test_the_first_trial_has_the_default_settings(tmp_path, monkeypatch):
    calls = replace_training(monkeypatch, lambda settings, split: 1.0)
    search(tmp_path, trials=3)
    defaults = {
        "backbone__dropout": 0.5,
        "optimization__lr": 0.01,
        "backbone__hidden": 4,
    }  # 32, the default, may not be tried
    assert calls[0]["settings"] == {**ROW.settings, **defaults}
    assert calls[1]["settings"] != calls[0]["settings"]
    assert all(one["hide_test"] is True and one["splits"] == [0, 1, 2] for one in calls)


def test_steps_give_round_numbers(tmp_path, monkeypatch):
    calls = replace_training(monkeypatch, lambda settings, split: 1.0)
    search(tmp_path, trials=8)
    assert {one["settings"]["backbone__dropout"] for one in calls} <= {number / 10 for number in range(1, 10)}


def test_the_highest_mean_is_chosen_and_among_equals_the_earliest(tmp_path, monkeypatch):
    replace_training(monkeypatch, lambda settings, split: 90.0 if settings["backbone__hidden"] == 8 else 80.0 + split)
    found = search(tmp_path, trials=10)[0]
    best = next(trial for trial in finished(tmp_path) if trial.params["backbone__hidden"] == 8)
    assert found.validation == 90.0
    assert found.settings == pytest.approx(best.params, rel=1e-11)


def test_a_search_is_reproducible(tmp_path, monkeypatch):
    calls = replace_training(
        monkeypatch, lambda settings, split: 100 * settings["backbone__dropout"] - settings["backbone__hidden"]
    )
    for name in ("one", "two"):
        search(tmp_path / name, trials=8)
    assert calls[:8] == calls[8:]
    search(tmp_path / "three", trials=12, seed=1)
    assert [one["settings"] for one in calls[17:]] != [one["settings"] for one in calls[1:8]]


def test_more_trials_continue_and_fewer_are_the_first(tmp_path, monkeypatch):
    calls = replace_training(monkeypatch, lambda settings, split: 100 * settings["backbone__dropout"])
    few = search(tmp_path, trials=3)
    many = search(tmp_path, trials=8)
    assert len(calls) == 8
    assert search(tmp_path, trials=3) == few
    assert search(tmp_path, trials=0) == many
    assert len(calls) == 8


def test_repeated_settings_are_not_trained_again_but_count(tmp_path, monkeypatch):
    calls = replace_training(monkeypatch, lambda settings, split: float(settings["backbone__hidden"]))
    row = Row("01", "GCN", "gcn", "gcn", {}, {"backbone__hidden": [4, 8]})
    found = search(tmp_path, [row], trials=6)[0]
    assert sorted(one["settings"]["backbone__hidden"] for one in calls) == [4, 8]
    assert (found.trials, found.settings, found.validation) == (6, {"backbone__hidden": 8}, 8.0)
    assert [trial.value == trial.params["backbone__hidden"] for trial in finished(tmp_path)] == [True] * 6


def test_failures_count_and_record_a_reason(tmp_path, monkeypatch):
    def accuracy(settings: Any, split: int) -> float:
        if settings["backbone__hidden"] == 8:
            raise MemoryError("12 GiB are needed, 8 GiB are free.\nAnd more.")
        if settings["backbone__dropout"] > 0.7:
            raise FloatingPointError("node 3 is not finite")
        if settings["backbone__dropout"] > 0.5:
            raise torch.linalg.LinAlgError("The kernel matrix is singular.")
        return math.nan if settings["backbone__dropout"] < 0.3 else 70.0

    replace_training(monkeypatch, accuracy)
    found = search(tmp_path, trials=20)[0]
    reasons = {trial.user_attrs.get(REASON) for trial in finished(tmp_path)}
    assert reasons == {
        None,
        "MemoryError: 12 GiB are needed, 8 GiB are free.",
        "FloatingPointError: node 3 is not finite",
        "FloatingPointError: the mean validation accuracy is nan",
        "_LinAlgError: The kernel matrix is singular.",
    }
    assert found.trials == 20
    assert 0 < found.failed < 20
    assert found.validation == 70.0


def test_nothing_is_chosen_if_all_trials_fail(tmp_path, monkeypatch):
    def accuracy(settings: Any, split: int) -> float:
        raise MemoryError("too much")

    replace_training(monkeypatch, accuracy)
    found = search(tmp_path, trials=2)[0]
    assert (found.settings, found.failed, found.reason) == (None, 2, "MemoryError: too much")


def test_other_errors_end_the_search_and_do_not_count(tmp_path, monkeypatch):
    def accuracy(settings: Any, split: int) -> float:
        raise InputError("lr", "be positive")

    replace_training(monkeypatch, accuracy)
    with pytest.raises(InputError, match="`lr` must be positive"):
        search(tmp_path, trials=2)
    calls = replace_training(monkeypatch, lambda settings, split: 1.0)
    assert search(tmp_path, trials=2)[0].trials == 2
    assert calls[0]["settings"]["backbone__dropout"] == 0.5  # the first one, again


def test_poor_trials_are_pruned_between_batches_of_splits(tmp_path, monkeypatch):
    calls = replace_training(monkeypatch, lambda settings, split: 100 * settings["backbone__dropout"])
    found = search(tmp_path, trials=25, batch_size=1)[0]
    pruned = [trial for trial in finished(tmp_path) if trial.state is TrialState.PRUNED]
    assert len(pruned) == found.pruned > 0
    assert min(trial.number for trial in pruned) >= 5
    assert len(calls) < 25 * 3
    assert found.trials == 25
    assert found.settings["backbone__dropout"] == 0.9


def test_without_batches_nothing_is_pruned(tmp_path, monkeypatch):
    replace_training(monkeypatch, lambda settings, split: 100 * settings["backbone__dropout"])
    assert search(tmp_path, trials=8)[0].pruned == 0


@pytest.mark.parametrize(("changes", "argument"), [({"splits": 2}, "splits"), ({"seed": 1}, "seed")])
def test_values_that_cannot_be_compared_are_never_mixed(tmp_path, monkeypatch, changes, argument):
    replace_training(monkeypatch, lambda settings, split: 1.0)
    search(tmp_path, trials=1)
    with pytest.raises(InputError, match=f"`{argument}` must be"):
        search(tmp_path, trials=2, **changes)


def test_another_search_space_does_not_continue_the_study(tmp_path, monkeypatch):
    replace_training(monkeypatch, lambda settings, split: 1.0)
    search(tmp_path, trials=1)
    with pytest.raises(InputError, match="`search` must be"):
        search(tmp_path, [replace(ROW, search={**SEARCH, "backbone__hidden": [4, 8, 16]})], trials=2)


# -- what a search may see --------------------------------------------------------------------------------------------


def permute_test_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every dataset from now on has the labels of its test nodes permuted, split by split."""
    load = runner.load_splits

    def permuted(*arguments: Any, **rest: Any) -> list[Any]:
        datas = load(*arguments, **rest)
        for number, data in enumerate(datas):
            y, places = data.y.clone(), data.test_mask.nonzero().flatten()
            order = torch.randperm(len(places), generator=torch.Generator().manual_seed(number))
            y[places] = (data.y[places][order] + 1) % data.num_classes
            data.y = y
        return datas

    monkeypatch.setattr("reproduction.runner.load_splits", permuted)


def trained_search(folder: Path) -> tuple[bytes, list[Any]]:
    """The file that a real, small search writes, and all that its study holds except times."""
    found = search(folder, datasets=["moons"], trials=7, splits=2, batch_size=1)
    write_chosen(folder / "gcn.toml", found)
    trials = [
        (trial.params, trial.state, trial.value, trial.intermediate_values)
        for trial in study_in(folder, dataset="moons").trials
    ]
    return (folder / "gcn.toml").read_bytes(), trials


def test_permuting_every_test_label_changes_no_trial_and_no_chosen_setting(tmp_path, monkeypatch):
    before = trained_search(tmp_path / "before")
    assert measure(ROW.method, ROW.settings, "moons", [0]).test != []
    permute_test_labels(monkeypatch)
    assert trained_search(tmp_path / "after") == before
    assert len({value for _, _, value, _ in before[1]}) > 1  # there was something to choose from


def test_an_objective_that_uses_test_nodes_would_be_found(tmp_path, monkeypatch):
    def leaking(*arguments: Any, hide_test: bool, **rest: Any) -> Scores:
        assert hide_test
        found = measure(*arguments, **rest)
        return Scores(found.test, [], found.seconds)

    monkeypatch.setattr(sweep, "measure", leaking)
    before = trained_search(tmp_path / "before")
    permute_test_labels(monkeypatch)
    after = trained_search(tmp_path / "after")
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_hidden_test_labels_are_nowhere(monkeypatch):
    seen: list[Any] = []

    def fit(method: str, settings: Any, datas: Any, *rest: Any) -> Any:
        seen.extend(datas)
        raise InterruptedError

    monkeypatch.setattr(runner, "fit_method", fit)
    with pytest.raises(InterruptedError):
        measure(ROW.method, ROW.settings, "digits", [0, 1], hide_test=True)
    for data in seen:
        known = data.train_mask | data.val_mask
        assert (data.y[~known] == -1).all()
        assert (data.y[known] >= 0).all()
        assert "test_mask" not in data


# -- spaces -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "first"),
    [
        ({"low": 0.2, "high": 0.8}, 0.5),
        ({"low": 0.6, "high": 0.8}, 0.7),
        ({"low": 0.2, "high": 0.9, "step": 0.2}, 0.4),
        ({"low": 0.001, "high": 0.1, "log": True}, 0.01),
        ([0.25, 0.75], 0.25),
        ([0.25, 0.5], 0.5),
    ],
)
def test_what_may_not_be_tried_first_is_replaced_by_the_middle(space: Any, first: float) -> None:
    assert Space.read("gcn.toml", "p", space).first(0.5) == pytest.approx(first)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ([], "a list of choices"),
        ({"low": 1}, "a table with low and high"),
        ({"low": 1, "high": 2, "logs": True}, "a table with low and high"),
        ({"low": 2, "high": 1}, "a valid range for p"),
        ({"low": 0.0, "high": 1.0, "log": True}, "a valid range for p"),
        ({"low": 0.1, "high": "1"}, "a valid range for p"),
    ],
)
def test_invalid_spaces_are_refused_with_their_file(space: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"`gcn.toml` must .*{message}"):
        Space.read("gcn.toml", "p", space)


def test_objects_are_chosen_and_settings_that_they_lack_are_omitted(tmp_path, monkeypatch):
    calls = replace_training(monkeypatch, lambda settings, split: float(len(settings)))
    heat, ppr = {"kind": "Heat"}, {"kind": "PPR"}
    space = {"kernel": [ppr, heat], "kernel__t": [1.0, 2.0], "kernel__alpha": [0.1], "k": [8, 16]}
    row = Row("01", "GDC", "gdc-ppr", "gdc", {"optimization__epochs": 3}, space)
    (choice,) = search(tmp_path, [row], trials=8)
    wanted = {("Heat", "kernel__t"), ("PPR", "kernel__alpha")}
    tried = {(one["settings"]["kernel"]["kind"], key) for one in calls for key in one["settings"] if "__" in key[:9]}
    assert {(kind, key) for kind, key in tried if key.startswith("kernel")} == wanted
    write_chosen(tmp_path / "gdc.toml", [choice])
    assert 'kernel = { kind = "' in (tmp_path / "gdc.toml").read_text()


# -- several processes ------------------------------------------------------------------------------------------------

TIMEOUT = 60.0
WORKERS_ROW = Row("01", "GCN", "gcn", "gcn", {}, {"backbone__dropout": {"low": 0.1, "high": 0.9}})

# A worker in a process of its own, which sleeps instead of training.
WORKER = """
import sys, time
from pathlib import Path
from reproduction import sweep
from reproduction.rows import Row
from reproduction.runner import Scores

folder, name, seconds, trials = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])

def measure(method, settings, dataset, splits, *where, **rest):
    with (folder / f"{name}.log").open("a") as log:
        log.write(f"{settings['backbone__dropout']!r}\\n")
    time.sleep(seconds)
    return Scores([100 * settings["backbone__dropout"]] * len(splits), [], 0.0)

sweep.measure = measure
(folder / f"{name}.ready").touch()
while not (folder / f"{name}.go").exists():
    time.sleep(0.01)
row = Row("01", "GCN", "gcn", "gcn", {}, {"backbone__dropout": {"low": 0.1, "high": 0.9}})
found = sweep.search_settings(sweep.SearchConfig(trials=trials, results=folder, grace=2), [row], ["karate"])
print(found[0].trials)
"""


def worker(folder: Path, name: str, seconds: float, trials: int) -> Forked:
    return processes.start(folder, name, seconds, trials, code=WORKER)


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def start(folder: Path, *names: str) -> None:
    """Lets workers begin together, once all of them are loaded."""
    wait_for(lambda: all((folder / f"{name}.ready").exists() for name in names))
    for name in names:
        (folder / f"{name}.go").touch()


def log_of(folder: Path, name: str) -> list[float]:
    path = folder / f"{name}.log"
    return [float(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_two_processes_share_a_study_and_run_no_trial_too_many(tmp_path):
    trials = 8
    both = [worker(tmp_path, name, 0.5, trials) for name in ("one", "two")]
    start(tmp_path, "one", "two")
    printed = [process.communicate(timeout=TIMEOUT)[0] for process in both]
    assert printed == [f"{trials}\n"] * 2
    done = [log_of(tmp_path, name) for name in ("one", "two")]
    assert len(done[0]) + len(done[1]) == trials
    assert min(len(done[0]), len(done[1])) > 1
    assert len(finished(tmp_path)) == trials
    assert len(set(done[0] + done[1])) == trials  # no settings twice


def test_the_trial_of_a_killed_process_is_run_again(tmp_path, monkeypatch):
    killed = worker(tmp_path, "killed", 300, 3)
    start(tmp_path, "killed")
    wait_for(lambda: log_of(tmp_path, "killed"))
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    calls = replace_training(monkeypatch, lambda settings, split: 100 * settings["backbone__dropout"])
    config = SearchConfig(trials=3, results=tmp_path, grace=2)
    assert search_settings(config, [WORKERS_ROW], ["karate"])[0].trials == 3
    assert log_of(tmp_path, "killed") == [0.5]
    tried = [one["settings"]["backbone__dropout"] for one in calls]
    assert len(tried) == 3
    assert tried.count(0.5) == 1  # the default settings are not lost
