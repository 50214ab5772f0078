"""Studies that several processes share: no trial too many, none lost, and journals that survive a kill."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from optuna.trial import TrialState

from lggd.app.comparison.rows import Range, Row
from lggd.app.comparison.search import SearchConfig, search_settings
from lggd.app.comparison.study import SharedStudy, open_journal
from support import processes
from support.processes import Forked
from support.search_trials import ROW, finished, replace_training

TIMEOUT = 60.0
WORKERS_ROW = Row("01", "GCN", "gcn", "gcn", {}, {"dropout": Range(0.1, 0.9)})

# A worker in a process of its own, which sleeps instead of training.
WORKER = """
import sys, time
from pathlib import Path
from lggd.app.comparison import search
from lggd.app.comparison.rows import Row
from lggd.app.comparison.runner import Scores
from lggd.app.comparison.rows import Range

folder, name, seconds, trials = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])

def measure(method, settings, dataset, splits, *where, **rest):
    with (folder / f"{name}.log").open("a") as log:
        log.write(f"{settings['dropout']!r}\\n")
    time.sleep(seconds)
    return Scores([100 * settings["dropout"]] * len(splits), [], 0.0)

search.measure = measure
(folder / f"{name}.ready").touch()
while not (folder / f"{name}.go").exists():
    time.sleep(0.01)
row = Row("01", "GCN", "gcn", "gcn", {}, {"dropout": Range(0.1, 0.9)})
found = search.search_settings(search.SearchConfig(trials=trials, results=folder, grace=1.0), [row], ["karate"])
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


def shared_studies(folder: Path, count: int, **options: float) -> list[SharedStudy]:
    space, first = {"x": Range(0.0, 1.0)}, {"x": 0.5}
    return [
        SharedStudy(open_journal(folder / "journal"), "study", space=space, first=first, about={}, **options)  # type: ignore[arg-type]
        for _ in range(count)
    ]


def test_two_processes_share_a_study_and_run_no_trial_too_many(tmp_path):
    trials = 14
    both = [worker(tmp_path, name, 0.05, trials) for name in ("one", "two")]
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
    calls = replace_training(monkeypatch, lambda settings, split: 100 * settings["dropout"])
    config = SearchConfig(trials=3, results=tmp_path, grace=1.0)
    assert search_settings(config, [WORKERS_ROW], ["karate"])[0].trials == 3
    assert log_of(tmp_path, "killed") == [0.5]
    tried = [one["settings"]["dropout"] for one in calls]
    assert len(tried) == 3
    assert tried.count(0.5) == 1  # the default settings are not lost


def test_of_many_claims_only_as_many_are_granted_as_are_wanted(tmp_path):
    workers = shared_studies(tmp_path, 4)
    granted = [trial for _ in range(3) for one in workers if (trial := one.claim(5)) is not None]
    assert len(granted) == 5
    assert len({trial.params["x"] for trial in granted}) == 5
    for given_up in (granted[2], granted[0]):
        workers[0].abandon(given_up)
        granted += [trial for one in workers if (trial := one.claim(5)) is not None]
        assert not workers[0].finish(given_up, TrialState.COMPLETE, 1.0)
        granted.remove(given_up)
    assert granted[-1].params == {"x": 0.5}, "the first settings are not lost"
    assert len({trial.params["x"] for trial in granted}) == 5
    for number, trial in enumerate(granted):
        assert workers[number % 4].finish(trial, TrialState.COMPLETE, 1.0)
    assert len(workers[0].counted(5)) == 5
    assert workers[3].claim(5) is None


def test_a_slow_trial_that_sends_heartbeats_is_left_alone(tmp_path):
    mine, other = shared_studies(tmp_path, 2, grace=0.5)
    trial = mine.claim(1)
    assert trial is not None
    with mine.alive(trial):
        for _ in range(6):
            time.sleep(0.2)
            assert other.claim(1) is None
    assert mine.finish(trial, TrialState.COMPLETE, 1.0)


def test_an_unfinished_entry_of_the_journal_is_removed(tmp_path, monkeypatch):
    calls = replace_training(monkeypatch, lambda settings, split: 1.0)
    search_settings(SearchConfig(trials=2, results=tmp_path), [ROW], ["karate"])
    with SearchConfig(results=tmp_path).journal(ROW).open("ab") as file:
        file.write(b'{"op_code":4,"wor')
    assert search_settings(SearchConfig(trials=3, results=tmp_path), [ROW], ["karate"])[0].trials == 3
    assert len(calls) == 3
