"""A studio that is killed (SIGKILL) while it writes: every acknowledged label is there after a restart, none twice.

LGGD_KILLS sets how many times; five in an ordinary run.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from command_line import environment
from studio_cases import wait_for

KILLS = int(os.environ.get("LGGD_KILLS", "5"))
WRITERS, NODES = 4, 36
CLASSES = ("red", "green", "blue")
# Starts whole services, on labels alone: settings are never chosen, so that only writing is tested. Each is a fork of a
# process that has imported everything, which takes much longer than the rest.
SERVE = """
import os, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from lggd.studio import session
from lggd.studio.security import Access, Limits
from lggd.studio.server import StudioServer
from lggd.studio.store import LabelStore
from studio_cases import small_graph
session.Session._needs_choice = lambda *_: False
set_labels = LabelStore.set_labels
def slowly(*arguments, **options):  # so that many kills come between a change and its commit
    change = set_labels(*arguments, **options)
    time.sleep(0.003)
    return change
LabelStore.set_labels = slowly
graph = small_graph()
access = Access(port=0, limits=Limits(reads=1e9, writes=1e9))
for line in sys.stdin:
    child = os.fork()
    if not child:
        server = StudioServer(session.Session(graph, graph.open_store(Path(sys.argv[1]))), access)
        print(server.url, flush=True)
        server.run()
    sys.stdin.readline()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("killed", flush=True)
"""


class Writer(threading.Thread):
    """Labels its own nodes until the service dies, and remembers what was acknowledged and what was only sent."""

    def __init__(self, url: str, number: int, seed: int, known: dict[str, str | None]) -> None:
        super().__init__()
        self.url, self.seed = url, seed
        self.nodes = [f"n{k}" for k in range(number, NODES, WRITERS)]
        self.acknowledged = {node: known[node] for node in self.nodes}
        self.sent: dict[str, str | None] = {}
        self.count = 0

    def run(self) -> None:
        draws = random.Random(self.seed)
        with httpx.Client(base_url=self.url, timeout=20, verify=False) as http:
            while True:
                batch = {node: draws.choice([*CLASSES, None]) for node in draws.sample(self.nodes, 3)}
                self.sent = batch
                body = {"labels": [{"node": node, "label": label} for node, label in batch.items()]}
                try:
                    answer = http.post("/api/labels", params={"author": f"w{self.seed}"}, json=body)
                except httpx.HTTPError:
                    return
                assert answer.status_code == 200, answer.text
                self.acknowledged.update(batch)
                self.sent = {}
                self.count += 1


class Services:
    """Services on one store, one after the other."""

    def __init__(self, store: Path) -> None:
        arguments = [sys.executable, "-c", SERVE, str(store), str(Path(__file__).parents[1])]
        self.process = subprocess.Popen(
            arguments, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def say(self, word: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def start(self) -> str:
        return self.say("start")

    def kill(self) -> None:
        assert self.say("kill") == "killed"


def labels(url: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {f"n{k}": None for k in range(NODES)}
    end = time.monotonic() + 60
    while True:
        try:
            return found | {each["node"]: each["label"] for each in httpx.get(f"{url}api/labels").json()}
        except httpx.HTTPError:
            assert time.monotonic() < end
            time.sleep(0.02)


def check(found: dict[str, str | None], writers: list[Writer]) -> None:
    """Labels are those acknowledged last, or all of those of the one request that nobody has heard about again."""
    for writer in writers:
        own = {node: found[node] for node in writer.nodes}
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no SIGKILL here")
def test_no_acknowledged_label_is_lost(tmp_path: Path) -> None:
    store, draws, total = tmp_path / "labels.sqlite", random.Random(0), 0
    services = Services(store)
    try:
        url = services.start()
        known = labels(url)
        for kill in range(KILLS):
            writers = [Writer(url, k, WRITERS * kill + k, known) for k in range(WRITERS)]
            for writer in writers:
                writer.start()
            enough = draws.randint(1, 40)
            wait_for(lambda writers=writers, enough=enough: sum(writer.count for writer in writers) >= enough)
            time.sleep(draws.uniform(0, 0.01))
            services.kill()
            for writer in writers:
                writer.join()
            total += sum(writer.count for writer in writers)
            check_intact(store)
            url = services.start()
            known = labels(url)
            check(known, writers)
        services.kill()
    finally:
        services.process.kill()
        services.process.communicate()
    assert total > 0
    print(json.dumps({"kills": KILLS, "acknowledged requests": total}))  # noqa: T201


def test_the_check_finds_a_lost_label(tmp_path: Path) -> None:
    writer = Writer("", 0, 0, {f"n{k}": None for k in range(NODES)})
    writer.acknowledged["n0"] = "red"
    with pytest.raises(AssertionError, match="lost"):
        check({f"n{k}": None for k in range(NODES)}, [writer])
    writer.sent = {"n0": "blue", "n4": "blue"}
    half = {f"n{k}": None for k in range(NODES)} | {"n0": "red", "n4": "blue"}
    with pytest.raises(AssertionError, match="half"):
        check(half, [writer])
