"""What a release needs: one version everywhere, and pins for what is installed."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def canonical(requirement):
    """The name of a package, without its range: scikit-learn for "scikit_learn>=1.5"."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!~;\[ ]", requirement)[0]).lower()


def needed():
    """The packages that pyproject.toml names, in extras and groups too."""
    lists = [
        PROJECT["dependencies"],
        *PROJECT["optional-dependencies"].values(),
        *PYPROJECT["dependency-groups"].values(),
    ]
    return sorted({canonical(text) for each in lists for text in each if isinstance(text, str)} - {"lggd"})


def test_one_version_everywhere() -> None:
    version = PROJECT["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_direct_dependency_that_is_installed_is_pinned_to_that_version() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line]
    pins = {canonical(line): line.split("==")[1] for line in lines}
    assert len(pins) == len(lines), "a package is pinned twice"
    missing = [name for name in needed() if name not in pins]
    assert missing == [], "Add them to constraints.txt."
    assert distribution("torch").version.split("+")[0] == pins["torch"]


def test_classifiers_are_the_pythons_of_the_range() -> None:
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    named = re.findall(r"Python :: 3\.(\d+)", " ".join(PROJECT["classifiers"]))
    assert [int(number) for number in named] == list(range(int(low), int(high)))


EXTRAS = ("duckdb", "fastapi", "matplotlib", "optuna", "pandas", "pyarrow", "ray", "uvicorn")
WITHOUT_EXTRAS = f"""
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.split(".")[0] in {EXTRAS} else find(name, *more)
from typer.testing import CliRunner
from lggd.app.cli import app
for words in sys.argv[1:]:
    done = CliRunner().invoke(app, words.split())
    print(done.exit_code, " ".join(done.output.split()))
"""


def test_commands_work_without_extras_or_name_them(tmp_path):
    words = (
        "run karate --out karate", "compare karate --methods label-propagation,kernel-ridge --splits 2 --out which",
        "predict karate --out p.parquet", "graph build edges.csv big", "studio karate", "compare karate --trials 2",
    )  # fmt: skip
    (tmp_path / "edges.csv").write_text("a,b\nb,c\n")
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    run, compare, *refused = done.stdout.splitlines()
    assert (run[0], compare[0]) == ("0", "0"), done.stdout
    for extra, line in zip(("tables", "disk", "studio", "sweep"), refused, strict=True):
        assert re.match(rf"[12] .*pip install 'lggd\[{extra}\]'", line), line
