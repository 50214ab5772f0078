"""The graphs of studios: datasets, tables with and without labels, saved models; layout and fingerprint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import lggd
from lggd.app.runs.run_input import RunInput
from lggd.app.studio import studio_graph
from lggd.app.studio.studio_graph import StudioGraph
from support.studio_cases import small_graph, small_session

NODES = "id,kind,age,height\na,red,30,1.5\nb,blue,40,1.6\nc,,50,1.7\nd,red,60,1.8\ne,blue,70,1.9\n"
EDGES = "source,target\na,b\nb,c\nc,d\nd,e\n"


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    nodes, edges = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    nodes.write_text(NODES)
    edges.write_text(EDGES)
    return edges, nodes


def test_digits_are_pictures() -> None:
    graph = StudioGraph.from_run_input(RunInput.from_dataset("digits"))
    assert graph.pictures is not None
    assert graph.pictures.shape == (1797, 8, 8)
    assert (graph.labels >= 0).sum() == 50
    assert graph.held_out.sum() == 1747
    assert not graph.held_out[graph.labels >= 0].any()
    empty = StudioGraph.from_run_input(RunInput.from_dataset("digits"), unlabelled=True)
    assert (empty.labels < 0).all()
    assert empty.fingerprint == graph.fingerprint


def test_tables_with_labels_keep_them_all(tables: tuple[Path, Path]) -> None:
    given = RunInput.from_tables(*tables, 0.0, label="kind", fewest_classes=0)
    graph = StudioGraph.from_run_input(given)
    assert graph.classes == ("blue", "red")
    assert graph.labels.tolist() == [1, 0, -1, 1, 0]
    assert not graph.held_out.any()
    assert graph.attributes(2) == {"age": 50.0, "height": 1.7}
    assert graph.attribute("age").tolist() == pytest.approx([30, 40, 50, 60, 70])


def test_tables_without_labels(tables: tuple[Path, Path]) -> None:
    given = RunInput.from_tables(*tables, 0.0, label=None, ignore=("kind",), fewest_classes=0)
    graph = StudioGraph.from_run_input(given)
    assert graph.classes == ()
    assert (graph.labels == -1).all()
    assert graph.neighbours(1) == [0, 2]


@pytest.mark.parametrize(
    ("changes", "names", "message"),
    [
        ({"y": torch.zeros(34, 1).long()}, {}, r"`data\.y` must have shape \[34\]"),
        ({"y": torch.zeros(34)}, {}, r"`data\.y` must be whole numbers"),
        ({"train_mask": torch.ones(34, 3).bool()}, {}, r"`data\.train_mask` must be a mask of shape \[34\]"),
        ({}, {"ids": ["a"] * 34}, "`ids` must have different names, got 'a' twice"),
        ({}, {"ids": ["a"]}, "`ids` must contain one value per node, 34 in all, got 1"),
        ({}, {"classes": ["a", "a"]}, "`classes` must have different names, got 'a' twice"),
    ],
)
def test_invalid_data_are_refused(changes, names, message) -> None:
    data = lggd.load("karate")
    data.update(changes)
    with pytest.raises(lggd.InputError, match=message):
        StudioGraph.from_data(data, **names)


def test_any_negative_number_means_unlabelled() -> None:
    data = lggd.load("karate")
    data.y[5:] = -2
    graph = StudioGraph.from_data(data, ids=range(34))
    assert graph.ids[3] == "3"
    assert graph.with_classes(graph.classes).truth[5:].max() == -1


def test_one_class_is_enough_to_start_with(tmp_path: Path, tables: tuple[Path, Path]) -> None:
    tables[1].write_text("id,kind\na,red\nb,\nc,\nd,\ne,\n")
    given = RunInput.from_tables(*tables, 0.0, label="kind", fewest_classes=0)
    assert StudioGraph.from_run_input(given).classes == ("red",)


def test_saved_models(tmp_path: Path) -> None:
    data = lggd.load("karate")
    model = lggd.KernelRidge().fit(data)
    model.metadata_ = {"ids": [f"p{k}" for k in range(34)], "classes": ["a", "b"], "dataset": "club"}
    model.save(tmp_path / "model")
    graph = StudioGraph.from_model(tmp_path / "model")
    assert (graph.name, graph.classes, graph.ids[3]) == ("club", ("a", "b"), "p3")
    assert np.array_equal(graph.labels, model.labels_.numpy())
    with small_session(tmp_path, graph, settled=False) as session:
        assert session.snapshot.model.kernels_ == model.kernels_  # at once
        assert np.array_equal(session.snapshot.predicted, model.predict().numpy())


def test_other_models_give_their_graph(tmp_path: Path) -> None:
    lggd.baselines.LabelPropagation().fit(lggd.load("karate")).save(tmp_path / "model")
    graph = StudioGraph.from_model(tmp_path / "model")
    assert graph.model is None
    assert (graph.labels >= 0).sum() == 10


def test_fingerprints_differ_by_graph_and_not_by_labels() -> None:
    graph = small_graph()
    assert small_graph(labels=np.full(36, -1)).fingerprint == graph.fingerprint
    assert small_graph(ids=[f"m{k}" for k in range(36)]).fingerprint != graph.fingerprint
    data = graph.data.clone()
    data.x = data.x + 1
    assert small_graph(data=data).fingerprint != graph.fingerprint


def test_the_layout_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = small_graph()
    store = graph.open_store(tmp_path / "labels.sqlite")
    first = graph.positions(store)
    store.close()
    monkeypatch.setattr(studio_graph, "layout_graph", lambda *_: pytest.fail("computed again"))
    store = graph.open_store(tmp_path / "labels.sqlite")
    assert np.array_equal(graph.positions(store), first)
    store.close()
