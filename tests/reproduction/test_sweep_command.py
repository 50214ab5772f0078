"""python -m reproduction sweep: the choices, the files that it writes, and refusals."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reproduction.rows import load_rows
from support.reproducing import answer, command, refused


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    rows = tmp_path / "configs/rows"
    rows.mkdir(parents=True)
    for number, name in (("01", "gcn"), ("02", "wide")):
        (rows / f"{name}.toml").write_text(
            f'number = "{number}"\nname = "{name.upper()}"\nmethod = "gcn"\n[settings]\noptimization__epochs = 5\n'
            "[search]\nbackbone__dropout = { low = 0.1, high = 0.9, step = 0.1 }\nbackbone__hidden = [4, 8]\n"
        )
    (rows / "fixed.toml").write_text('number = "03"\nname = "Fixed"\nmethod = "gcn"\n')
    return rows.parent


def arguments(configs: Path, *more: object) -> list[object]:
    where = ["--configs", configs, "--results", configs.parent / "results", "--datasets", "karate"]
    return ["sweep", *where, "--device", "cpu", *more]


def test_the_command_searches_and_chooses(configs):
    found = answer(*arguments(configs, "--rows", "1,wide", "--trials", 3, "--splits", 2, "--choose"))
    assert [(one["slug"], one["trials"]) for one in found["choices"]] == [("gcn", 3), ("wide", 3)]
    assert found["files"] == [str(configs / f"chosen/{name}.toml") for name in ("gcn", "wide")]
    chosen = load_rows(configs)[0].chosen["karate"]
    assert (chosen.settings, chosen.trials) == (found["choices"][0]["settings"], 3)
    before = (configs / "chosen/gcn.toml").read_bytes()
    again = command(*arguments(configs, "--rows", "01", "--trials", 0, "--splits", 2, "--choose"))
    assert again.exit_code == 0, again.output
    assert "01 GCN" in again.stdout
    assert (configs / "chosen/gcn.toml").read_bytes() == before


def test_a_search_continues_with_its_own_splits(configs):
    answer(*arguments(configs, "--rows", "01", "--trials", 1, "--splits", 1))
    found = answer(*arguments(configs, "--rows", "01,02", "--trials", 2))["choices"]
    assert [(one["slug"], one["trials"], one["splits"]) for one in found] == [("gcn", 2, 1), ("wide", 2, 3)]


def test_mistakes_in_a_search_space_are_refused_and_can_be_corrected(configs):
    path = configs / "rows/gcn.toml"
    right = path.read_text()
    path.write_text(right.replace("hidden = [4", "hiden = [4"))
    message = refused(*arguments(configs, "--rows", "01"))
    assert f"GCN ({path}): `settings` must name settings of GCN" in message
    path.write_text(right.replace("high = 0.9", "high = 1.1"))
    assert f"GCN ({path}): `dropout` must" in refused(*arguments(configs, "--rows", "01"))
    assert not (configs.parent / "results").exists()
    path.write_text(right.replace("hidden = [4, 8]", "hidden = [3, 8]"))
    answer(*arguments(configs, "--rows", "01", "--trials", 0, "--splits", 2))
    path.write_text(right)
    assert answer(*arguments(configs, "--rows", "01", "--trials", 1, "--splits", 1))["choices"][0]["trials"] == 1


def test_unequal_effort_is_a_warning_and_nothing_is_chosen(configs):
    answer(*arguments(configs, "--rows", "01", "--trials", 2, "--splits", 1))
    answer(*arguments(configs, "--rows", "02", "--trials", 1, "--splits", 1))
    assert "got 1 to 2" in refused(*arguments(configs, "--rows", "01,02", "--trials", 0, "--choose"))
    assert not (configs / "chosen").exists()
    result = command(*arguments(configs, "--trials", 0))
    assert result.exit_code == 0, result.output
    assert "numbers of trials differ" in result.stderr
    assert "gcn on karate 2, wide on karate 1" in result.stderr
    assert "Skipped Fixed" in result.stderr


def test_errors_name_options_and_a_remedy(configs, monkeypatch):
    assert "got 'krate'. Did you mean 'karate'?" in refused("sweep", "--configs", configs, "--datasets", "krate")
    assert "`--rows` must be" in refused(*arguments(configs, "--rows", "13"))
    answer(*arguments(configs, "--rows", "01", "--trials", 1, "--splits", 1))
    assert "`--splits` must be 1" in refused(*arguments(configs, "--rows", "01", "--trials", 2, "--splits", 2))
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "pip install 'lggd[sweep]'" in refused(*arguments(configs))
