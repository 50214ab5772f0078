"""What the README says works: its Python runs, make targets exist, commands run. Other pages: tests/docs."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lggd.app.cli import app
from reproduction.__main__ import app as reproduction

REPRODUCTION = "python -m reproduction "
ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def command_lines():
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    # The studio serves until it is ended; tests/app/cli/test_studio.py does both.
    return [line for line in lines if line.startswith(("lggd ", REPRODUCTION)) and not line.startswith("lggd studio")]


@pytest.mark.parametrize("code", blocks("python"))
@pytest.mark.usefixtures("fewer_digits")  # tests/app/cli/test_run.py fits the same model to all of them
def test_python_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})


def test_there_is_python_and_shell_to_test():
    assert blocks("python")
    assert len(command_lines()) >= 3


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"\bmake ([a-z]+)", README))
    assert {"demo", "test", "lint", "bench"} <= named <= targets


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with the files that the commands name; later commands find what earlier ones left."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "roads.csv").write_text("home,shop\nshop,work\n")
    (folder / "edges.csv").write_text("a,b\nb,c\nc,d\nd,e\ne,f\n")
    (folder / "nodes.csv").write_text("id,size,kind\na,1,red\nb,2,red\nc,2,\nd,7,\ne,8,blue\nf,9,blue\n")
    (folder / "labels.csv").write_text("id,label\nc,red\n")
    return folder


@pytest.mark.parametrize("line", command_lines())
def test_commands_run(line, desk, monkeypatch):
    monkeypatch.chdir(desk)
    program = reproduction if line.startswith(REPRODUCTION) else app
    words = shlex.split(line.removeprefix(REPRODUCTION).removeprefix("lggd "))
    if words[:2] == ["run", "digits"]:  # tests/app/cli/test_run.py runs it in full
        words[1] = "karate"
    if words[:1] == ["table1"]:
        words += ["--rows", "01", "--datasets", "karate", "--splits", "2"]
    if words[:2] == ["compare", "digits"]:  # tests/app/cli/test_compare.py compares all methods
        words[1] = "karate"
        words += ["--methods", "label-propagation,kernel-ridge", "--no-curve"]
    done = CliRunner().invoke(program, words)
    assert done.exit_code == 0, done.output


def test_links_lead_to_files():
    """Sphinx checks the links of all other pages."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", re.sub(r"```.*?```|`[^`\n]*`", "", README, flags=re.S))
    assert len(targets) > 20
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_pictures_exist_and_show_the_studio():
    shown = re.findall(r'!\[[^]]+\]\(([^)]+)\)|<img src="([^"]+)" [^>]*alt="[^"]+">', README)
    pictures = {first or second for first, second in shown}
    assert {f"docs/studio{name}" for name in (".gif", "-light.png", "-dark.png")} <= pictures
    assert all((ROOT / name).is_file() for name in pictures)
