"""What the README says works: its Python runs, its make targets exist, its commands are known."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lggd.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def command_lines():
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("lggd ")]


@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs(code):
    exec(compile(code, "README.md", "exec"), {})


def test_there_is_python_and_shell_to_test():
    assert blocks("python")
    assert len(command_lines()) >= 3


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"\bmake ([a-z]+)", README))
    assert {"demo", "test", "lint", "bench"} <= named <= targets


@pytest.mark.parametrize("line", command_lines())
def test_commands_run(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roads.csv").write_text("home,shop\nshop,work\n")
    words = shlex.split(line)[1:]
    if "robustness" in words:  # at full size it takes longer than a test should
        words += ["--points", "500", "--epsilon", "0.2", "--seeds", "1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output


def test_linked_files_exist():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
