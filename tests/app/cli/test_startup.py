"""Starting: what is imported before a command runs, and what that does to the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import lggd
from support.command_line import environment, program

HEAVY = (
    "torch", "numba", "scipy", "sklearn", "torch_geometric", "matplotlib", "pandas", "pyarrow", "networkx", "fastapi",
    "uvicorn",
)  # fmt: skip
# Runs command lines, then prints which packages they have imported and what that did to the environment.
LOOK = """
import json, os, sys
before = dict(os.environ)
from lggd.app.cli import main
imported = dict(os.environ) == before
for line in sys.argv[1:]:
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit:
        pass
print(json.dumps([sorted({m.split(".")[0] for m in sys.modules}), imported]), file=sys.stderr)
"""


def look(*lines: str, **changes: str) -> tuple[str, list[str], bool]:
    """Returns what commands print, the packages that they import, and whether importing kept the environment."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK, *lines], env=environment(**changes), capture_output=True, text=True, check=True
    )
    packages, unchanged = json.loads(done.stderr.splitlines()[-1])
    return done.stdout, packages, unchanged


def test_help_imports_nothing_heavy() -> None:
    shown, packages, unchanged = look("--help", "run --help", "compare --help", "studio --help", "--version")
    assert shown.count("Usage: lggd") == 4
    assert f"lggd {lggd.__version__}" in shown
    assert not set(HEAVY) & set(packages)
    assert unchanged


@pytest.mark.parametrize(
    ("words", "place", "expected"),
    [("lggd ", "1", "add-labels"), ("lggd run --meth", "2", "--method"), ("lggd run --method g", "3", "gdc-ppr")],
)
def test_completion_imports_nothing_heavy(words: str, place: str, expected: str) -> None:
    shown, packages, _ = look("", _LGGD_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)
    assert expected in shown.split()
    assert not set(HEAVY) & set(packages)


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(program("--version"), env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == f"lggd {lggd.__version__}\n"


@pytest.mark.parametrize(
    ("before", "given", "expected"),
    [("", None, "10000"), ("", "5", "5"), ("import torch; ", None, "None")],
    ids=["by default", "as the user has set it", "not after torch"],
)
def test_the_command_line_shortens_the_wait_of_threads(before: str, given: str | None, expected: str) -> None:
    variables = {name: value for name, value in environment().items() if name != "GOMP_SPINCOUNT"}
    variables |= {} if given is None else {"GOMP_SPINCOUNT": given}
    code = (
        f"{before}import atexit, os; atexit.register(lambda: print(os.environ.get('GOMP_SPINCOUNT'))); "
        "import sys; sys.argv = ['lggd', '--version']; from lggd.app.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=variables)
    assert done.stdout.split()[-1] == expected


def test_importing_the_library_leaves_the_environment_alone() -> None:
    code = "import os; before = dict(os.environ); import lggd; lggd.Graph; print(dict(os.environ) == before)"
    variables = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables | {"PYTHONPATH": environment()["PYTHONPATH"]}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "True\n"
