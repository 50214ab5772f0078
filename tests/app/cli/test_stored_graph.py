"""lggd run, predict and add-labels on the folder of a graph."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
import torch

import lggd
from lggd.app.runs import run_input
from lggd.app.tables.output_files import write_features
from lggd.closed_form import kernel_ridge
from lggd.datasets.pyg_data import NodeNames
from lggd.graph.stored_graph import writing_graph
from support.command_line import answer, command, refused

NODES = 600


def digits():
    return lggd.load("digits").subgraph(torch.arange(NODES))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The graph of some digits with names, of which a third is labelled."""
    data, folder = digits(), tmp_path_factory.mktemp("stored") / "digits"
    graph = lggd.Graph.from_pyg(data)
    known = torch.rand(NODES, generator=torch.Generator().manual_seed(0)) < 0.3
    csr = graph.csr
    with writing_graph(folder) as writer:
        arrays = {"indptr": csr.indptr, "indices": csr.indices, "degree": graph.degree, "x": data.x}
        for name, array in (arrays | {"y": torch.where(known, data.y, -1)}).items():
            writer.write(name, array.numpy())
        writer.write_ids([f"image {k}" for k in range(NODES)])
        writer.finish(directed=False, metadata={"classes": [f"digit {k}" for k in range(10)]})
    return folder


@pytest.fixture
def folder(built, tmp_path):
    shutil.copytree(built, tmp_path / "digits")
    return tmp_path / "digits"


@pytest.fixture
def large(monkeypatch):
    """Small graphs count as large."""
    monkeypatch.setattr(run_input, "MAX_EDGES", 100)
    monkeypatch.setattr(kernel_ridge, "MAX_EDGES_IN_MEMORY", 100)


def test_run_predict_and_add_labels(folder, tmp_path, large):
    out = tmp_path / "out"
    found = answer("run", folder, "--out", out)
    assert found["accuracy"]["model"] > 85
    assert found["accuracy"]["reference"] is None
    assert found["files"][0] == "predictions.parquet"
    assert "report.html" not in found["files"]
    assert any("KernelRidge.large()" in note for note in found["notes"])
    table = pq.read_table(out / "predictions.parquet")
    assert table["node"].to_pylist()[:2] == ["image 0", "image 1"]
    assert set(table["predicted"].to_pylist()) <= {f"digit {k}" for k in range(10)}
    assert "ids" not in json.loads((out / "model" / "model.json").read_text())["metadata"]

    again = answer("predict", out, "--out", tmp_path / "again.parquet")
    assert pq.read_table(tmp_path / "again.parquet").equals(table)
    node = again["least_certain"][0]["node"]
    added = answer("add-labels", out, f"{node}=digit 3")
    assert (added["new_labels"], added["labelled"]) == (1, again["labelled"] + 1)
    assert added["edges"] == found["edges"]
    changed = pq.read_table(out / "predictions.parquet").to_pylist()
    assert next(row for row in changed if row["node"] == node)["labelled"] == "digit 3"
    (tmp_path / "labels.csv").write_text(f"{node},digit 3\n")
    assert answer("update", out, "--labels", tmp_path / "labels.csv")["known_labels"] == 1


def test_small_graphs_on_disk_are_classified_by_the_default(folder, tmp_path):
    found = answer("run", folder, "--out", tmp_path / "out", "--test-share", "0.5", "--reference", "none")
    assert found["titles"]["model"] == "Kernel ridge"
    assert found["accuracy"]["model"] > 85


def test_label_propagation_reads_the_graph_in_blocks(folder):
    stored = lggd.load(folder)
    data = digits()
    data.y = stored.y.clone()
    del data.train_mask, data.test_mask
    one, other = (lggd.baselines.LabelPropagation().fit(each).predict_proba() for each in (data, stored))
    torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


def test_what_does_not_apply_is_refused(folder, tmp_path):
    assert "be omitted with the graph" in refused("run", folder, "--label", "kind")
    assert "edges in memory" in refused("run", folder, "--method", "gat", "--out", tmp_path / "out")
    (folder / "y.npy").unlink()
    assert "there is none" in refused("run", folder, "--out", tmp_path / "out")


def test_a_model_whose_graph_moved_says_so(folder, tmp_path, large):
    answer("run", folder, "--out", tmp_path / "out")
    folder.rename(tmp_path / "elsewhere")
    assert "be the graph of the saved model" in refused("predict", tmp_path / "out")


def test_options_of_datasets_are_refused(folder):
    for options in ({"labels_per_class": 3}, {"split": 1}):
        with pytest.raises(lggd.InputError, match="omitted for a graph on disk"):
            lggd.load(folder, **options)
    assert command("run", folder, "--labels-per-class", "3").exit_code == 2


def test_names_are_a_sequence(folder):
    names = NodeNames(lggd.Graph.open(folder).stored)
    assert len(names) == NODES
    assert names[3] == "image 3"
    assert names[-1] == "image 599"
    assert names[5:7] == ["image 5", "image 6"]
    assert names[7:5:-1] == ["image 7", "image 6"]
    assert names[7:5] == []
    assert list(names)[500] == "image 500"
    with pytest.raises(IndexError):
        names[NODES]


def test_tables_in_several_blocks_are_those_in_one(tmp_path, monkeypatch):
    ids, values = [str(k) for k in range(10)], torch.rand(10, 2)
    for ending in ("csv", "parquet"):
        write_features(tmp_path / f"one.{ending}", ids, ["a", "b"], values)
        with monkeypatch.context() as few:
            few.setattr("lggd.app.tables.output_files.ROWS_AT_ONCE", 3)
            write_features(tmp_path / f"other.{ending}", ids, ["a", "b"], values)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()
    assert pq.read_table(tmp_path / "one.parquet").equals(pq.read_table(tmp_path / "other.parquet"))
