"""The commands of experiments: what is measured, what is reused, and that nothing finished is ever lost."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lggd.app.comparison.results import Results
from lggd.datasets.by_name import split_fingerprint
from reproduction import experiments
from reproduction.runner import load_splits
from support.other_process import claimed_elsewhere
from support.reproducing import answer, command, refused, start
from support.result_lines import lines_of

SHORT = "optimization__epochs = 4\n"
VARYING = {"seconds", "when"}  # between two equal measurements


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {key: one[key] for key in one.keys() - VARYING} == {key: other[key] for key in other.keys() - VARYING}


def test_a_line_records_all_that_the_number_depends_on(options: list[object], tmp_path: Path) -> None:
    found = answer("table1", "--rows", "01,09", *options)
    assert (found["measured"], found["reused"], found["failed"]) == (2, 0, [])
    lines = lines_of(tmp_path / "results")
    assert lines == found["lines"]
    line = lines[0]
    assert (line["experiment"], line["row"], line["name"], line["slug"]) == ("table1", "01", "GCN", "gcn")
    assert (line["dataset"], line["backbone"], line["seed"], line["device"]) == ("karate", "gcn", 0, "cpu")
    assert line["config"]["contents"] == "raw"
    assert line["config"]["model"]["optimization"]["epochs"] == 4
    datas = load_splits("karate", range(2), device="cpu")
    assert line["splits"] == [split_fingerprint(data) for data in datas]
    assert len(line["split_hash"]) == 12
    assert {"python", "torch", "torch-geometric", "lggd", "numpy"} <= line["versions"].keys()
    assert line["machine"]["cores"] >= 1
    assert line["mean"] == pytest.approx(sum(line["test"]) / 2)
    assert line["sd"] == pytest.approx(abs(line["test"][0] - line["test"][1]) / 2**0.5)
    assert line["when"].endswith("+00:00")
    assert all(0 <= value <= 100 for value in line["val"] + line["test"])


def test_finished_measurements_are_reused_unless_repeated(options: list[object], tmp_path: Path) -> None:
    first = answer("table1", "--rows", "01", *options)
    more = answer("table1", "--rows", "01", "--rows", "08", *options)
    assert (more["measured"], more["reused"]) == (1, 1)
    assert more["lines"][0] == first["lines"][0]
    repeated = answer("table1", "--rows", "gcn", "--again", *options)
    assert (repeated["measured"], repeated["reused"]) == (1, 0)
    assert same(repeated["lines"][0], first["lines"][0])
    assert len(lines_of(tmp_path / "results")) == 3


def test_anything_else_is_measured(options: list[object]) -> None:
    answer("table1", "--rows", "01", *options)
    for change in (["--seed", 1], ["--splits", 3], ["--datasets", "moons"]):
        kept = [option for place, option in enumerate(options) if change[0] not in (option, options[place - 1])]
        assert answer("table1", "--rows", "01", *kept, *change)["measured"] == 1


def test_chosen_settings_identify_lines_and_those_requested_last_count(
    options: list[object], configs: Path, tmp_path: Path
) -> None:
    first = answer("table1", "--rows", "01", *options)["lines"]
    (configs / "chosen").mkdir()
    (configs / "chosen/gcn.toml").write_text("[karate.settings]\nbackbone__dropout = 0.8\n")
    second = answer("table1", "--rows", "01", *options)["lines"]
    assert [line["config"]["model"]["backbone"]["dropout"] for line in (*first, *second)] == [0.5, 0.8]
    (configs / "chosen/gcn.toml").unlink()
    for _ in range(2):
        assert answer("table1", "--rows", "01", *options)["reused"] == 1
        assert lines_of(tmp_path / "results") == [*first, *second, *first]


def test_killing_the_process_loses_nothing_finished(configs: Path, options: list[object], tmp_path: Path) -> None:
    endless = configs / "rows/gpr.toml"
    brief = endless.read_text()
    endless.write_text(brief.replace(SHORT, "optimization__epochs = 1000000\noptimization__patience = 1000000\n"))
    arguments = ["table1", "--rows", "01,11", *options]
    process = start(*arguments)
    path = tmp_path / "results/table1.jsonl"
    while not (path.exists() and path.read_bytes().endswith(b"\n")):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    (before,) = lines_of(tmp_path / "results")
    endless.write_text(brief)
    found = answer(*arguments)
    assert (found["measured"], found["reused"]) == (1, 1)
    assert found["lines"][0] == before


def test_processes_share_the_work_and_each_returns_all_lines(options: list[object], tmp_path: Path) -> None:
    processes = [start("table1", "--json", *options) for _ in range(2)]
    answers = [json.loads(one.communicate()[0]) for one in processes]
    lines = lines_of(tmp_path / "results")
    assert sorted(line["row"] for line in lines) == ["01", "08", "09", "11"]
    assert sum(found["measured"] for found in answers) == 4
    for found in answers:
        assert found["failed"] == []
        assert [line["row"] for line in found["lines"]] == ["01", "08", "09", "11"]
        assert all(line in lines for line in found["lines"])


@contextmanager
def claimed(folder: Path, lines: int, then: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Row 01 is claimed by another process until there are so many lines; then that process is killed."""
    with claimed_elsewhere(folder, "table1 GCN on karate, 2 splits from seed 0") as other:

        def kill() -> None:
            while len(lines_of(folder)) < lines:
                time.sleep(0.05)
            then()
            other.kill()

        thread = threading.Thread(target=kill)
        thread.start()
        yield
        thread.join()


def test_work_claimed_by_another_process_is_taken_over_if_it_dies(options: list[object], tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with claimed(tmp_path / "results", lines=1):
        found = answer("table1", "--rows", "01,08", *options)
    assert [line["row"] for line in found["lines"]] == ["01", "08"]
    assert [line["row"] for line in lines_of(tmp_path / "results")] == ["08", "01"]


def test_a_repetition_is_measured_although_another_process_claimed_it(options: list[object], tmp_path: Path) -> None:
    (before,) = answer("table1", "--rows", "01", *options)["lines"]
    results = Results(tmp_path / "results")
    with claimed(results.folder, lines=2, then=lambda: results.append("table1", {**before, "seed": 7})):
        found = answer("table1", "--rows", "01,08", "--again", *options)
    assert (found["measured"], found["reused"]) == (2, 0)
    assert [line["row"] for line in lines_of(tmp_path / "results")] == ["01", "08", "01", "01"]


def test_an_interruption_ends_the_command_and_keeps_the_lines(
    options: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    original = experiments.measure
    monkeypatch.setattr(
        experiments, "measure", lambda method, *more: (interrupted if method == "ggd" else original)(method, *more)
    )
    result = command("table1", "--rows", "01,08,11", *options)
    assert result.exit_code == 130
    assert [line["slug"] for line in lines_of(tmp_path / "results")] == ["gcn"]


def test_a_failing_row_leaves_no_line_and_stops_no_other(
    options: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(method: str, *more: Any) -> Any:
        if method == "ggd":
            raise MemoryError("GGD needs 9 GiB, and 1 GiB is free. Use fewer splits.")
        return original(method, *more)

    original = experiments.measure
    monkeypatch.setattr(experiments, "measure", short)
    result = command("table1", "--rows", "01,08,11", "--json", *options)
    assert result.exit_code == 1
    assert result.stderr == "GGD on karate failed: GGD needs 9 GiB, and 1 GiB is free. Use fewer splits.\n"
    found = json.loads(result.stdout)
    assert found["measured"] == 2
    assert found["failed"] == [
        {"job": "GGD on karate", "error": "GGD needs 9 GiB, and 1 GiB is free. Use fewer splits."}
    ]
    assert [line["slug"] for line in lines_of(tmp_path / "results")] == ["gcn", "gpr"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "gnc"], "`--rows` must be among 01, 08, 09, 11, got 'gnc'. Did you mean 'gcn'?"),
        (["--datasets", "karatee"], "`--datasets` must be one of"),
        (["--configs", "nowhere"], "must be a folder that contains rows/"),
    ],
)
def test_invalid_selections_are_refused_before_anything_is_measured(
    options: list[object], tmp_path: Path, arguments: list[object], message: str
) -> None:
    assert message in refused("table1", *options, *arguments)
    assert not (tmp_path / "results").exists()


def test_an_invalid_setting_of_the_last_row_is_refused_before_the_first_is_measured(
    options: list[object], configs: Path, tmp_path: Path
) -> None:
    (configs / "rows/gpr.toml").write_text('number="11"\nname="GPR-GNN"\nmethod="gpr-gnn"\n[settings]\nhop = 3\n')
    assert "`settings` must name settings of" in refused("table1", *options)
    assert not (tmp_path / "results").exists()


def test_help_has_an_example() -> None:
    for arguments in ((), ("table1",)):
        result = command(*arguments, "--help")
        assert result.exit_code == 0
        assert "python -m reproduction table1 --quick" in result.output


def test_table_shows_mean_and_standard_deviation(options: list[object]) -> None:
    result = command("table1", "--rows", "01", *options)
    assert result.exit_code == 0
    assert "01 GCN" in result.stdout
    assert " ± " in result.stdout
    assert "1 measured, 0 found in" in result.stdout.replace("\n", " ")
