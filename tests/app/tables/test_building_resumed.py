"""Builds that are killed: no half graph, and the rest of the work when they are resumed."""

import os
import shutil
import signal

import numpy as np
import pandas as pd
import pytest

import lggd
from lggd.app.tables import building
from lggd.app.tables.building import build_graph
from lggd.errors import InputError
from lggd.graph.stored_graph import StoredGraphWriter
from support.command_line import files_of
from support.processes import finish

# Kills itself where the graph is complete except for its manifest.
KILLED = """
import os, signal, sys
from lggd.app.tables.building import build_graph
from lggd.graph.stored_graph import StoredGraphWriter
folder = sys.argv[1]
StoredGraphWriter.finish = lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL)
build_graph(f"{folder}/edges.csv", f"{folder}/graph", nodes=f"{folder}/nodes.csv", label="kind")
"""
STAGES = ("nodes", "edges", "numbered", "rows")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    name = np.array([f"n{k}" for k in np.random.default_rng(0).permutation(300)])
    pd.DataFrame({"source": name[:-1], "target": name[1:]}).to_csv(folder / "edges.csv", index=False)
    nodes = pd.DataFrame({"id": np.sort(name), "x": np.arange(300), "kind": np.arange(300) % 2})
    nodes.to_csv(folder / "nodes.csv", index=False)
    return folder


@pytest.fixture
def folder(tables, tmp_path):
    for name in ("edges.csv", "nodes.csv"):
        os.link(tables / name, tmp_path / name)
    return tmp_path


def built(folder, name="graph", **options):
    return build_graph(folder / "edges.csv", folder / name, nodes=folder / "nodes.csv", label="kind", **options)


@pytest.fixture(scope="module")
def moments(tables):
    """What lies beside the tables at moments of a build, where it could be killed, and the files of the graph."""
    stage, finish, found = building.WorkFolder.stage, StoredGraphWriter.finish, {}

    def keep(moment):
        found[moment] = tables.parent / f"{tables.name}-{'-'.join(moment)}"
        shutil.copytree(tables, found[moment], ignore=shutil.ignore_patterns("*.csv"))

    def run(self, name, work):
        result = stage(self, name, lambda where: (work(where), keep((name, "during")))[0])
        keep((name, "after"))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building.WorkFolder, "stage", run)
        patch.setattr(StoredGraphWriter, "finish", lambda *a, **b: (keep(("finish", "before")), finish(*a, **b)))
        built(tables)
    files = files_of(tables / "graph")
    shutil.rmtree(tables / "graph")
    return found, files


@pytest.mark.parametrize(
    ("victim", "when"),
    [("edges", "after"), ("numbered", "during"), ("rows", "during"), ("rows", "after"), ("finish", "before")],
)
def test_an_interrupted_build_is_resumed_with_the_same_bytes(tables, moments, monkeypatch, victim, when):
    found, files = moments
    shutil.copytree(found[victim, when], tables, dirs_exist_ok=True)
    with pytest.raises(InputError, match="must be the folder of a graph"):
        lggd.Graph.open(tables / "graph")
    done = set()
    stage = building.WorkFolder.stage

    def run(self, name, work):
        if name not in self.stages:
            done.add(name)
        return stage(self, name, work)

    monkeypatch.setattr(building.WorkFolder, "stage", run)
    built(tables, resume=True)
    complete = len(STAGES) if victim == "finish" else STAGES.index(victim) + (when == "after")
    assert done == set(STAGES[complete:])
    assert files_of(tables / "graph") == files
    assert {path.name for path in tables.iterdir()} == {"edges.csv", "nodes.csv", "graph"}
    shutil.rmtree(tables / "graph")


def test_a_killed_build_leaves_the_earlier_graph(folder):
    built(folder)
    before = files_of(folder / "graph")
    status, _, errors = finish(folder, code=KILLED)
    assert status == -signal.SIGKILL, errors
    assert files_of(folder / "graph") == before
    built(folder)  # starts again
    assert {path.name for path in folder.iterdir()} == {"edges.csv", "nodes.csv", "graph"}


def test_changed_tables_or_settings_are_not_resumed(folder, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(StoredGraphWriter, "finish", stop)
    with pytest.raises(KeyboardInterrupt):
        built(folder)
    monkeypatch.undo()
    with pytest.raises(InputError, match="the options changed since"):
        built(folder, directed=True, resume=True)
    text = (folder / "edges.csv").read_text()
    (folder / "edges.csv").unlink()
    (folder / "edges.csv").write_text(text + "n1,n3\n")
    with pytest.raises(InputError, match="the tables changed since"):
        built(folder, resume=True)
    assert built(folder).metadata["lines"] == 300


def test_nothing_to_resume_starts_from_the_beginning(folder):
    assert built(folder, resume=True).nodes == 300
