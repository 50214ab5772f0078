"""lggd studio: as a process of its own, until it is told to end; and what it refuses before that."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lggd.app.studio import Client
from support import processes
from support.command_line import refused
from support.processes import Forked


def start(*arguments: object, cwd: Path) -> tuple[Forked, dict[str, Any]]:
    process = processes.start("studio", *arguments, "--port", 0, "--no-browser", "--json", cwd=cwd)
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    facts: dict[str, Any] = json.loads(line)
    return process, facts


def end(process: Forked) -> str:
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    return errors


def healthy(client: Client) -> None:
    for _ in range(600):
        try:
            client.health()
            return
        except Exception:
            time.sleep(0.1)
    pytest.fail("the studio does not answer")


def test_labels_survive_a_restart(tmp_path: Path) -> None:
    process, facts = start("karate", cwd=tmp_path)
    client = Client(facts["address"])
    healthy(client)
    assert facts["store"] == "out/studio/karate.sqlite"
    client.label({"5": "Mr. Hi"})
    end(process)
    process, facts = start("karate", "--token", "a long secret", cwd=tmp_path)
    client = Client(facts["address"])
    healthy(client)
    assert client.labels()["5"] == "Mr. Hi"
    end(process)


def test_from_nothing_with_tables(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,age\na,1\nb,2\nc,3\nd,4\n")
    (tmp_path / "edges.csv").write_text("a,b\nb,c\nc,d\n")
    process, facts = start("--edges", "edges.csv", "--nodes", "nodes.csv", "--store", "mine.sqlite", cwd=tmp_path)
    client = Client(facts["address"])
    healthy(client)
    assert client.graph()["classes"] == []
    client.label({"a": "x", "d": "y"}, new_classes=True)
    assert client.labels() == {"a": "x", "d": "y"}
    end(process)
    assert (tmp_path / "mine.sqlite").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "--token"),
        (("--token", "short"), "at least 8"),
        (("nothing",), "DATASET"),
        (("digits", "--label", "kind"), "--label"),
        (("--nodes", "nodes.csv"), "--edges"),
        (("karate", "--store", "no/such/folder.sqlite"), "no/such"),
        (("--edges", "e.csv", "--nodes", "n.csv", "--test-share", "0.3"), "--label"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("studio", *arguments, "--no-browser", "--port", 0)
