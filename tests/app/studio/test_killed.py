"""A studio that is killed (SIGKILL) while it writes: every acknowledged label is there after a restart, none twice.

LGGD_KILLS sets how many times; three in an ordinary run.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.processes import start

KILLS = int(os.environ.get("LGGD_KILLS", "3"))
WRITERS, NODES = 4, 36
CLASSES = ("red", "green", "blue")
# Every commit is delayed by so much, many times what an answer takes: a kill right after an answer comes before the
# commit if the answer did, and others come between a change and its commit.
COMMIT_SECONDS = 0.05
# Nobody waits longer than this for an answer.
PATIENCE = 20.0
# Starts whole services, on labels alone: settings are never chosen, so that only writing is tested. Each is a fork of a
# process that has imported everything, which takes much longer than the rest; a bug is planted in the fork alone.
SERVE = f"""
import json, os, signal, sys, time
from contextlib import contextmanager
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from lggd.app.studio import session
from lggd.app.studio.security import Access
from lggd.app.studio.server import StudioServer
from lggd.app.studio.store import LabelStore
from support.studio_cases import small_graph
session.Session._needs_choice = lambda *_: False
COMMIT_SECONDS = {COMMIT_SECONDS}
transaction = LabelStore.transaction
@contextmanager
def slowly(store):
    with transaction(store):
        yield
        time.sleep(COMMIT_SECONDS)
LabelStore.transaction = slowly
graph = small_graph(model=None)
access = Access(port=0)
for line in sys.stdin:
    store, bug = json.loads(line)
    child = os.fork()
    if not child:
        exec(bug)
        server = StudioServer(session.Session(graph, graph.open_store(Path(store))), access)
        print(server.url, flush=True)
        server.run()
    sys.stdin.readline()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("killed", flush=True)
"""
# A bug: answers are sent before the commit.
TOO_EARLY = """
def commit(self, requests):
    with self._store.transaction():
        for task, future in requests:
            future.set_result(session.Outcome(task(self._store), self.snapshot))
    return []
session.Session._commit = commit
"""
# A bug: after some answers there are no more.
SILENT = """
commit = session.Session._commit
def silent(self, requests):
    if self._store.changes[3:]:
        time.sleep(1e6)
    return commit(self, requests)
session.Session._commit = silent
"""


class Writer(threading.Thread):
    """Labels its own nodes until the service dies, and remembers what was acknowledged and what was only sent.

    Every answer is put into `answers`; None if there will be no more.
    """

    def __init__(self, url: str, number: int, seed: int, known: dict[str, str | None]) -> None:
        super().__init__(daemon=True)
        self.url, self.seed = url, seed
        self.nodes = [f"n{k}" for k in range(number, NODES, WRITERS)]
        self.acknowledged = {node: known[node] for node in self.nodes}
        self.sent: dict[str, str | None] = {}
        self.answers: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def run(self) -> None:
        draws = random.Random(self.seed)
        with httpx.Client(base_url=self.url, timeout=PATIENCE, verify=False) as http:
            while True:
                batch = {node: draws.choice([*CLASSES, None]) for node in draws.sample(self.nodes, 3)}
                self.sent = batch
                body = {"labels": [{"node": node, "label": label} for node, label in batch.items()]}
                try:
                    answer = http.post("/api/labels", params={"author": f"w{self.seed}"}, json=body)
                except httpx.HTTPError:
                    return self.answers.put(None)
                if answer.status_code == 200:
                    self.acknowledged.update(batch)
                    self.sent = {}
                self.answers.put(answer.status_code)


class Services:
    """Services, one after the other."""

    def __init__(self) -> None:
        self.process = start(Path(__file__).parents[2], code=SERVE)

    def say(self, line: str) -> str:
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def start(self, store: Path, bug: str) -> str:
        """The address of a service on this store; `bug` is a script that runs before it."""
        return self.say(json.dumps([str(store), bug]))

    def kill(self) -> None:
        assert self.say("kill") == "killed"

    def close(self) -> None:
        """Ends the process and its service: that has the pipes too, and writers would go on with it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    if not hasattr(os, "fork"):
        pytest.skip("there is no SIGKILL here")
    services = Services()
    yield services
    services.close()


def labels(url: str) -> dict[str, str | None]:
    without: dict[str, str | None] = {f"n{k}": None for k in range(NODES)}
    end = time.monotonic() + 60
    while True:
        try:
            return without | {each["node"]: each["label"] for each in httpx.get(f"{url}api/labels").json()}
        except httpx.HTTPError:
            assert time.monotonic() < end
            time.sleep(0.02)


def check(labels: dict[str, str | None], writers: list[Writer]) -> None:
    """Labels are those acknowledged last, or all of those of the one request that nobody has heard about again."""
    for writer in writers:
        own = {node: labels[node] for node in writer.nodes}
        assert own in (writer.acknowledged, writer.acknowledged | writer.sent), "a label is lost or half there"


def check_intact(store: Path) -> None:
    connection = sqlite3.connect(store)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    # The present labels are exactly what the history leads to.
    replayed: dict[int, int] = {}
    for node, after in connection.execute("SELECT node, after FROM entries ORDER BY change"):
        replayed[node] = after
    present = dict(connection.execute("SELECT node, label FROM labels"))
    versions = dict(connection.execute("SELECT node, version FROM labels"))
    changes = dict(connection.execute("SELECT node, count(*) FROM entries GROUP BY node"))
    connection.close()
    assert present == replayed
    assert versions == changes, "a change was counted twice or not at all"


def survive(services: Services, store: Path, kills: int, bug: str = "") -> int:
    """Kills services while four writers label, and checks what is left; returns the number of answers."""
    draws, total = random.Random(0), 0
    url = services.start(store, bug)
    try:
        known = labels(url)
        for kill in range(kills):
            writers = [Writer(url, k, WRITERS * kill + k, known) for k in range(WRITERS)]
            for writer in writers:
                writer.start()
            enough = draws.randint(1, 10)
            for _ in range(enough):
                assert writers[0].answers.get(timeout=3 * PATIENCE) == 200, "the service has refused or died"
            if kill % 2:  # otherwise at once after an answer
                time.sleep(draws.uniform(0, 2 * COMMIT_SECONDS))
            services.kill()
            for writer in writers:
                writer.join()
            total += sum(writer.answers.qsize() - 1 for writer in writers) + enough
            check_intact(store)
            url = services.start(store, bug)
            known = labels(url)
            check(known, writers)
    finally:
        services.kill()
    return total


def test_no_acknowledged_label_is_lost(services: Services, tmp_path: Path) -> None:
    total = survive(services, tmp_path / "labels.sqlite", KILLS)
    assert total >= KILLS
    print(json.dumps({"kills": KILLS, "acknowledged requests": total}))  # noqa: T201


def test_an_answer_before_the_commit_is_found(services: Services, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="lost"):
        survive(services, tmp_path / "labels.sqlite", 9, TOO_EARLY)


def test_a_service_without_answers_is_found(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PATIENCE", 1.0)
    with pytest.raises(AssertionError, match="died"):
        survive(services, tmp_path / "labels.sqlite", 3, SILENT)


def test_the_check_finds_a_lost_label(tmp_path: Path) -> None:
    writer = Writer("", 0, 0, {f"n{k}": None for k in range(NODES)})
    writer.acknowledged["n0"] = "red"
    with pytest.raises(AssertionError, match="lost"):
        check({f"n{k}": None for k in range(NODES)}, [writer])
    writer.sent = {"n0": "blue", "n4": "blue"}
    half = {f"n{k}": None for k in range(NODES)} | {"n0": "red", "n4": "blue"}
    with pytest.raises(AssertionError, match="half"):
        check(half, [writer])
