"""The pages of docs/: all are in the table of contents, their Python runs, and their commands have these options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from building.pictures import PICTURES
from lggd.app.cli import app

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))}
ENTRY = re.compile(r"^(?:.* <)?([\w./*-]+)>?$")


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def contents() -> list[str]:
    """The entries of all tables of contents."""
    lines = [line for text in PAGES.values() for block in blocks(r"\{toctree\}", text) for line in block.splitlines()]
    return [entry[1] for line in lines if not line.startswith(":") and (entry := ENTRY.match(line))]


PYTHON = [
    pytest.param(code, id=f"{name}-{k}")
    for name, text in PAGES.items()
    for k, code in enumerate(blocks("python", text))
]
COMMANDS = [
    pytest.param(line.split("#")[0].strip(), id=f"{name}: {line.split('#')[0].strip()}")
    for name, text in PAGES.items()
    for block in blocks("sh", text)
    for line in block.splitlines()
    if line.startswith("lggd ")
]


def test_every_page_is_in_the_contents_once() -> None:
    entries = contents()
    own = [entry for entry in entries if not entry.startswith(("generated/", "gallery/", "../"))]
    assert sorted(own) == sorted(PAGES.keys() - {"index"})
    assert {"generated/errors", "../results/*", "../CHANGELOG", "gallery/index"} <= set(entries)


def test_pages_show_pictures_that_are_drawn() -> None:
    shown = re.findall(r"\(generated/pictures/([\w-]+)\.png\)", "".join(PAGES.values()))
    assert sorted(shown) == sorted(PICTURES)


@pytest.mark.parametrize("code", PYTHON)
@pytest.mark.usefixtures("fewer_digits")
def test_python_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs", "exec"), {})


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_have_these_options(line: str) -> None:
    words = shlex.split(line.replace("$(", "").replace(")", ""))[1:]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and words:
        name = words.pop(0)
        assert name in command.commands
        command = command.commands[name]
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known | {"--help"}


def test_the_five_steps_with_your_own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes the tables of the page as they are printed there, side by side, and runs its commands."""
    head, *rows = blocks("text", PAGES["your-own-data"])[0].splitlines()
    start = head.index("nodes.csv")
    for name, lines in {"edges.csv": [row[:start] for row in rows], "nodes.csv": [row[start:] for row in rows]}.items():
        (tmp_path / name).write_text("".join(f"{line.strip()}\n" for line in lines if line.strip()))
    monkeypatch.chdir(tmp_path)
    steps = PAGES["your-own-data"].split("## What is read")[0]
    commands = [line for block in blocks("sh", steps) for line in block.splitlines()]
    # Six nodes are too few for a comparison, which the page says; the studio would wait for people.
    run = [line for line in commands if line.split()[1] in ("run", "add-labels", "predict")]
    assert len(run) == 3
    for line in run:
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output
    assert (tmp_path / "predictions.csv").read_text().count("\n") == 7
