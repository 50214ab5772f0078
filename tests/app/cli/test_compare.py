"""lggd compare: own tables, the result, killed and started again, and refusals."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from lggd.app.cli.compare import training_labels
from lggd.app.cli.options import GraphOptions
from lggd.errors import InputError
from support.command_line import answer, command, refused, rows_of
from support.processes import start
from support.tables import two_rings

KARATE = GraphOptions(**{each.name: None for each in fields(GraphOptions)} | {"dataset": "karate"})
FAST = ("--methods", "label-propagation,label-spreading")


def test_own_tables(tmp_path: Path) -> None:
    graph, out = two_rings(tmp_path), tmp_path / "out"
    options = ("--labels", "3/class", "--splits", 2, *FAST, "--methods", "sgc", "--out", out)
    found = answer("compare", *graph, *options)
    assert {row["method"] for row in found["table"]} == {"label-propagation", "label-spreading", "sgc"}
    assert found["files"] == ["comparison.jsonl", "comparison.csv", "comparison.html"]
    assert all((out / name).is_file() for name in found["files"])
    assert found["facts"]["training labels"] == 6
    assert found["recommendation"].startswith(f"Use {found['recommended']}: ")
    assert {row["method"]: row["verdict"] for row in rows_of(out / "comparison.csv")}[found["best"]] == "best"
    assert "Features were standardized" in (out / "comparison.html").read_text()
    lines = [json.loads(line) for line in (out / "comparison.jsonl").read_text().splitlines()]
    assert len(lines) == found["fits"]
    # Once more: nothing is measured again.
    again = answer("compare", *graph, *options)
    assert again["table"] == found["table"]
    assert len((out / "comparison.jsonl").read_text().splitlines()) == found["fits"]
    shown = command("compare", *graph, *options).stdout
    assert "Use " in shown
    assert "against the best" in shown


def test_a_dataset_has_the_labels_of_the_table(tmp_path: Path) -> None:
    options = ("--splits", 1, "--no-curve", "--no-report", "--methods", "label-propagation", "--out", tmp_path)
    found = answer("compare", "karate", *options)
    assert (found["labels"], found["facts"]["training labels"], found["files"]) == (5, 10, ["comparison.jsonl"])
    assert answer("compare", "karate", *options, "--labels-per-class", 3)["labels"] == 3


def test_failures_and_skips_are_named(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,side\n" + "".join(f"n{k},{'ab'[k % 2]}\n" for k in range(20)))
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"n{k},n{k + 2}\n" for k in range(18)))
    graph = ("--edges", tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv", "--label", "side")
    options = ("--splits", 1, "--no-curve", "--out", tmp_path / "out")
    found = answer("compare", *graph, *options, "--methods", "gcn,label-propagation")
    assert found["skipped"] == {"gcn": "needs node features, and there are none"}
    none = command("compare", *graph, *options, "--methods", "gcn")
    assert none.exit_code == 1
    assert "gcn skipped: needs node features" in none.stdout


def test_killed_and_started_again_it_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    graph = ("digits", "--splits", 4, "--no-curve", "--out", out, "--methods", "label-propagation,sgc")
    journal = out / "comparison.jsonl"
    with start("compare", *graph) as process:
        wait_for(lambda: journal.exists() and len(journal.read_text().splitlines()) >= 2)
        process.send_signal(signal.SIGKILL)
    before = journal.read_text().splitlines()
    assert 2 <= len(before) < 8
    with journal.open("a") as file:  # as if it had been writing
        file.write('{"method": "sgc", "spl')
    # Two commands with one folder share what is left.
    both = [start("compare", *graph, "--json") for _ in range(2)]
    answers = [json.loads(process.communicate()[0]) for process in both]
    assert answers[0]["table"] == answers[1]["table"]
    lines = journal.read_text().splitlines()
    assert lines[: len(before)] == before
    complete = [json.loads(line) for line in lines if line.endswith("}")]
    assert len(complete) == len({(line["method"], line["split"]) for line in complete}) == 8


def wait_for(happened: Any) -> None:
    end = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(("text", "amount"), [("2.5%", 0.025), ("5/class", 5), (" 60 % ", 0.6), ("12 / class", 12)])
def test_amounts_of_labels(text: str, amount: float) -> None:
    read = training_labels(KARATE, text)
    assert read == amount
    assert type(read) is type(amount)


@pytest.mark.parametrize("text", ["5", "many", "5 per class", "-3%", "1.0"])
def test_other_amounts_are_refused(text: str) -> None:
    with pytest.raises(
        InputError, match=r"`--labels` must be a share such as 2.5%, below 100 %, or a number per class"
    ):
        training_labels(KARATE, text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("karate", "--split", 3), "`--split` must be omitted"),
        (("karate", "--labels", "200%"), "`--labels` must be a share such as 2.5%, below 100 %, or a number per class"),
        (("karate", "--labels", "100%"), "`--labels` must be a share such as 2.5%, below 100 %, or a number per class"),
        (("karate", "--labels", "0/class"), "a number per class such as 5/class, got '0/class'."),
        (("karate", "--methods", "nosuch"), 'Others are plug-ins: entry points of the group "lggd.methods".'),
        (
            ("--edges", "e.csv", "--nodes", "n.csv", "--label", "k", "--weight", "w", "--length", "km"),
            "`--weight` must be omitted with `--length`, got 'w' beside 'km'.",
        ),
        (
            ("--edges", "e.csv", "--nodes", "n.csv", "--label", "k", "--source-column", "a"),
            "`--source-column` must be given together with `--target-column`.",
        ),
        (("karate", "--labels", "20/class"), "`--labels` must have at least 41 labels of every class"),
        (("karate", "--labels", "2/class", "--labels-per-class", 2), "`--labels-per-class` must be omitted"),
        (("karate", "--methods", "gcnn"), "`--methods` must be among"),
        ((), "`DATASET` must be a name"),
        (("--edges", "e.csv", "--nodes", "n.csv", "--label", "k", "--split-column", "s"), "`--split-column` must be"),
    ],
)
def test_refusals_name_the_option(tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    assert message in refused("compare", *options, *(("--out", tmp_path / "out") if options else ()))
