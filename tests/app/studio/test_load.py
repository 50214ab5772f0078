"""Many readers and some writers at once. LGGD_LOAD_SECONDS sets for how long; one second in an ordinary run.

Readers and writers are light (`http.client`): they share the cores with the service whose answers they time.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from lggd.app.studio import Client
from lggd.errors import InputError
from support.command_line import environment, program
from support.studio_cases import small_studio, wait_for

SECONDS = float(os.environ.get("LGGD_LOAD_SECONDS", "1"))
READERS, WRITERS = 50, 5
PAUSE = 0.1  # a person does not read more often
READS = ("predictions", "progress", "suspicious", "labels", "history", "nodes/{node}", "suggestions", "health")


@contextmanager
def service(path: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """The address, ids and classes of a service. For a long run it is a process of its own, with digits."""
    if SECONDS < 30:
        with small_studio(path) as server:
            yield server.url, server.session.graph.ids, list(server.session.snapshot.classes)
        return
    arguments = program("studio", "digits", "--port", 0, "--no-browser", "--json", "--store", path / "labels.sqlite")
    with subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            client = Client(json.loads(process.stdout.readline())["address"])
            wait_for(lambda: is_ready(client))
            yield f"{client.url}/", client.graph()["ids"], client.graph()["classes"]
        finally:
            process.terminate()


def is_ready(client: Client) -> bool:
    try:
        return not client.predictions()["choosing"]
    except InputError:  # it does not listen yet
        return False


def requests_to(url: str) -> Callable[..., tuple[int, bytes]]:
    """Sends requests over one connection, and returns status and body of the answers."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)

    def request(method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        content, headers = (None, {}) if body is None else (json.dumps(body), {"content-type": "application/json"})
        connection.request(method, f"/api/{path}", content, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    return request


def test_readers_and_writers_at_once(tmp_path: Path) -> None:
    acknowledged: list[dict[str, str]] = [{} for _ in range(WRITERS)]
    times: list[float] = []
    errors: list[str] = []
    with service(tmp_path) as (url, ids, classes):
        end = time.monotonic() + SECONDS

        def until_the_end(seed: int, act: Callable[[random.Random], None]) -> None:
            draws = random.Random(seed)
            try:
                while time.monotonic() < end:
                    act(draws)
                    time.sleep(draws.uniform(0, 2 * PAUSE))
            except Exception as error:  # in a thread it would be lost
                errors.append(repr(error))

        def read(seed: int) -> None:
            request = requests_to(url)

            def act(draws: random.Random) -> None:
                path = draws.choice(READS).format(node=quote(draws.choice(ids), safe=""))
                began = time.perf_counter()
                status, body = request("GET", path)
                times.append(time.perf_counter() - began)
                if status != 200:
                    errors.append(f"{path}: {status} {body[:100]!r}")

            until_the_end(seed, act)

        def write(number: int) -> None:
            request = requests_to(url)

            def act(draws: random.Random) -> None:
                node, label = draws.choice(ids[number::WRITERS]), draws.choice(classes)
                labels = [{"node": node, "label": label}]
                status, body = request("POST", f"labels?author={number}", {"labels": labels})
                if status == 200:
                    acknowledged[number][node] = label
                else:
                    errors.append(f"labels: {status} {body[:100]!r}")

            until_the_end(number, act)

        threads = [threading.Thread(target=read, args=(k,)) for k in range(READERS)]
        threads += [threading.Thread(target=write, args=(k,)) for k in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        present = Client(url).labels()
    assert errors == []
    wanted = {node: label for own in acknowledged for node, label in own.items()}
    assert wanted
    assert {node: present.get(node) for node in wanted} == wanted, "an acknowledged label is lost"
    p50, p99 = (round(1e3 * float(np.quantile(times, q)), 1) for q in (0.5, 0.99))
    summary = {"seconds": SECONDS, "reads": len(times), "labels": len(wanted), "p50": p50, "p99": p99}
    print(json.dumps(summary))  # noqa: T201
