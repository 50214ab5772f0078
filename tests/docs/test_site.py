"""Pages that are made: copies of the repository's pages, the API by room, and names that become links."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import lggd
from building import api_pages, repository
from lggd import baselines

ROOT = Path(__file__).parents[2]


def test_every_public_name_is_on_one_page_of_the_reference() -> None:
    names = [name for names in api_pages.rooms().values() for name in names]
    assert len(names) == len(set(names))
    own = {
        f"lggd.baselines.{name}"
        for name in baselines.__all__
        if getattr(baselines, name).__module__.startswith("lggd.bas")
    }
    assert {f"lggd.{name}" for name in lggd.__all__} | own <= set(names)
    assert {"lggd.sklearn.KNNGraphClassifier", "lggd.diffusion.DiffusionGraph"} <= set(names)


def test_a_page_of_the_reference() -> None:
    text = api_pages.page("graph", ["lggd.Graph"])
    assert text.startswith("Graphs\n======\n")
    assert ".. autoclass:: lggd.Graph\n   :members:" in text
    assert ".. autofunction:: lggd.load" in api_pages.page("datasets", ["lggd.load"])


def test_copies_lead_to_the_same_places(tmp_path: Path) -> None:
    repository.write(tmp_path / "repository")
    assert {path.name for path in (tmp_path / "repository").glob("*.md")} >= {"CHANGELOG.md", "ARCHITECTURE.md"}
    source, copy = ROOT / "results" / "closed-form.md", repository.COPIES / "results" / "closed-form.md"
    assert repository.on_the_site("../docs/wrong-edges.png", source, copy) == "../../../wrong-edges.png"
    assert repository.on_the_site("REPORT.md#table-1", source, copy) == "REPORT.md#table-1"
    assert repository.on_the_site("https://example.org/x.md", source, copy) == "https://example.org/x.md"


@pytest.mark.parametrize("name", ["docstrings", "links", "mathml", "names", "repository"])
def test_examples_of_the_builders_run(name: str) -> None:
    if name in ("mathml", "names"):
        pytest.importorskip("sphinx", reason="the site is not installed: make docs")
    assert doctest.testmod(importlib.import_module(f"building.{name}")).failed == 0
