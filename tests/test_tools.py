"""What a release needs: licences that are fine, one version everywhere, and pins for what is installed."""

import re
import runpy
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LICENCES = runpy.run_path(str(ROOT / "tools" / "licences.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def needed() -> list[str]:
    """The packages in the ranges of pyproject.toml, with all extras, where they are installed."""
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    return sorted({LICENCES["canonical"](re.split(r"[<>=!~;\[ ]", text)[0]) for each in lists for text in each})


def test_no_licence_of_a_dependency_is_in_doubt() -> None:
    found = {name: LICENCES["licence"](name) for name in LICENCES["installed"](("studio", "sweep", "tables"))}
    assert "torch" in found
    assert {name: text for name, text in found.items() if not LICENCES["is_accepted"](text)} == {}


@pytest.mark.parametrize(
    "text", ["GPL-3.0-or-later", "GNU LGPLv3", "AGPL-3.0", "MIT AND GPL-2.0-only", "not stated", ""]
)
def test_licences_in_doubt_are_found(text: str) -> None:
    assert not LICENCES["is_accepted"](text)


def test_one_version_everywhere() -> None:
    version = PROJECT["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_direct_dependency_that_is_installed_is_pinned_to_that_version() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line]
    pins = {LICENCES["canonical"](line.split("==")[0]): line.split("==")[1] for line in lines}
    assert len(pins) == len(lines), "a package is pinned twice"
    missing = [name for name in needed() if name not in pins]
    assert missing == [], "Add them to constraints.txt."
    assert distribution("torch").version.split("+")[0] == pins["torch"]


def test_classifiers_are_the_pythons_of_the_range() -> None:
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    named = re.findall(r"Python :: 3\.(\d+)", " ".join(PROJECT["classifiers"]))
    assert [int(number) for number in named] == list(range(int(low), int(high)))
