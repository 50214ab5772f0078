"""Builds that are killed: no half graph, and the rest of the work when they are resumed."""

import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import lggd
from command_line import environment, files_of
from lggd.errors import InputError
from lggd.graph.stored_graph import StoredGraphWriter
from lggd.graph_build import build, build_graph, work_folder

# Kills itself where a stage is about to be recorded, or where it has just begun.
KILLED = """
import os, signal, sys
from lggd.graph_build import build, build_graph, work_folder
from lggd.graph.stored_graph import StoredGraphWriter
folder, victim, when = sys.argv[1:]
build.SMALLEST_WORTH_ORDERING = 1
stage = work_folder.WorkFolder.stage
def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)
def run(self, name, work):
    if name == victim and when == "during":
        return stage(self, name, lambda where: (work(where), die()))
    found = stage(self, name, work)
    if name == victim:
        die()
    return found
work_folder.WorkFolder.stage = run
if victim == "finish":
    StoredGraphWriter.finish = die
build_graph(f"{folder}/edges.csv", f"{folder}/graph", nodes=f"{folder}/nodes.csv", label="kind")
"""
STAGES = ("edges", "names", "numbered", "rows", "order", "arranged", "nodes")


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


def kill(folder, victim, when="after"):
    command = [sys.executable, "-c", KILLED, str(folder), victim, when]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert result.returncode == -signal.SIGKILL, result.stderr


@pytest.mark.parametrize(
    ("victim", "when"),
    [("edges", "after"), ("rows", "during"), ("arranged", "after"), ("nodes", "during"), ("finish", "")],
)
def test_a_killed_build_is_resumed_with_the_same_bytes(folder, monkeypatch, victim, when):
    monkeypatch.setattr(build, "SMALLEST_WORTH_ORDERING", 1)
    kill(folder, victim, when)
    with pytest.raises(InputError, match="must be the folder of a graph"):
        lggd.Graph.open(folder / "graph")
    done = set()
    stage = work_folder.WorkFolder.stage

    def run(self, name, work):
        if name not in self.stages:
            done.add(name)
        return stage(self, name, work)

    monkeypatch.setattr(work_folder.WorkFolder, "stage", run)
    built(folder, resume=True)
    complete = len(STAGES) if victim == "finish" else STAGES.index(victim) + (when == "after")
    assert done == set(STAGES[complete:])
    built(folder, "other")
    assert files_of(folder / "graph") == files_of(folder / "other")
    assert {path.name for path in folder.iterdir()} == {"edges.csv", "nodes.csv", "graph", "other"}


def test_a_killed_build_leaves_the_earlier_graph(folder):
    built(folder)
    before = files_of(folder / "graph")
    kill(folder, "finish")
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
