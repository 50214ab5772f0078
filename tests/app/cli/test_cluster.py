"""lggd run and lggd predict with --cluster, where this process stands in for the cluster; one runs in tests/cluster."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

import lggd
from lggd.app.runs.run_input import RunInput
from lggd.datasets.pyg_data import load_stored
from support.command_line import answer, command, refused
from support.small_data import blocks

LOST = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of three classes, of which one has few labels."""
    data, path = blocks(each=30, inside=0.2, outside=0.01), tmp_path_factory.mktemp("graphs") / "web"
    known = torch.where(data.y == 2, torch.arange(90) < 9, torch.arange(90) < 60)
    lggd.Graph.from_pyg(data).save(path, x=data.x, y=torch.where(known, data.y, -1))
    return path


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is solved instead of on a cluster: the graph, the labels and the model."""
    calls: list[Any] = []

    def solve(graph: lggd.Graph, labels: torch.Tensor, model: lggd.KernelRidge) -> lggd.KernelRidge:
        calls.append((graph, labels, model))
        data = load_stored(graph.stored.folder, verify=False)  # type: ignore[union-attr]
        data.y = labels
        fitted = model.fit(data)
        fitted.metadata_ = {"cluster": {"losses": LOST}}
        return fitted

    monkeypatch.setattr("lggd.cluster.connect", lambda address: nullcontext())
    monkeypatch.setattr("lggd.cluster.solve", solve)
    return calls


def test_a_run_is_answered_as_on_one_machine(folder: Path, solved: list[Any], tmp_path: Path) -> None:
    shared = (folder, "--test-share", 0.5, "--split", 1, "--seed", 3)
    one = answer("run", *shared, "--method", "kernel-ridge", "--out", tmp_path / "one")
    found = answer("run", *shared, "--cluster", "auto", "--out", tmp_path / "far")
    [(graph, labels, model)] = solved
    expected = RunInput.from_graph(folder, 0.5, 1)
    assert int(expected.held_out.sum()) > 10
    assert torch.equal(labels, torch.where(expected.data.train_mask, expected.data.y, -1))
    assert (model.seed, graph.num_nodes) == (3, 90)
    assert one.keys() < found.keys()
    same = ("dataset", "method", "seed", "nodes", "edges", "classes", "labelled", "heldout", "p_value", "additions")
    assert [found[key] for key in same] == [one[key] for key in same]
    assert found["titles"] == {"model": one["titles"]["model"]}
    assert set(one["notes"]) & set(found["notes"]) >= set(expected.notes)
    assert any(f"lost {LOST} times" in note for note in found["notes"])
    table = pq.read_table(tmp_path / "far" / "predictions.parquet").to_pylist()
    tested = expected.held_out.nonzero().squeeze(1).tolist()
    right = [table[k]["predicted"] == str(int(expected.data.y[k])) for k in tested]
    assert found["accuracy"]["model"] == pytest.approx(100 * sum(right) / len(right))
    assert [table[k]["labelled"] for k in tested] == [""] * len(tested)
    assert {path.name for path in (tmp_path / "far").iterdir()} == set(found["files"])
    assert json.loads((tmp_path / "far" / "run.json").read_text()) == found


def test_what_a_run_prints(folder: Path, solved: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = command("run", folder, "--cluster", "auto", "--no-report")
    assert shown.exit_code == 0, shown.output
    for part in ("Kernel ridge", "accuracy", f"lost {LOST} times", "Wrote out/web: predictions.parquet, run.json"):
        assert part in shown.stdout


def test_accuracy_is_unknown_without_held_out_labels(folder: Path, solved: list[Any], tmp_path: Path) -> None:
    found = answer("run", folder, "--cluster", "auto", "--test-share", 0, "--out", tmp_path / "far")
    assert (found["accuracy"]["model"], found["heldout"], found["labelled"]) == (None, 0, 43)
    assert any("Accuracy is unknown" in note for note in found["notes"])


def test_predictions_are_answered_as_on_one_machine(folder: Path, solved: list[Any], tmp_path: Path) -> None:
    answer("run", folder, "--method", "kernel-ridge", "--out", tmp_path / "one")
    one, found = answer("predict", tmp_path / "one"), answer("predict", folder, "--cluster", "auto")
    assert one.keys() < found.keys()
    same = ("dataset", "nodes", "classes", "labelled", "out")
    assert [found[key] for key in same] == [one[key] for key in same]
    assert len(found["predictions"]) == sum(found["counts"].values()) == 90
    assert torch.equal(solved[0][1], lggd.load(folder).y)  # all labels
    out = tmp_path / "far.parquet"
    shown = command("predict", folder, "--cluster", "auto", "--out", out)
    assert shown.exit_code == 0, shown.output
    assert f"lost {LOST} times" in shown.stdout
    table = pq.read_table(out)
    assert dict(zip(table["node"].to_pylist(), table["predicted"].to_pylist(), strict=True)) == found["predictions"]


def test_checksums_are_compared_by_the_nodes_of_the_cluster(folder: Path, solved: list[Any], tmp_path: Path) -> None:
    damaged = shutil.copytree(folder, tmp_path / "web")
    content = bytearray((damaged / "x.npy").read_bytes())
    content[-3] ^= 1
    (damaged / "x.npy").write_bytes(content)
    assert "must match its checksum" in refused("run", damaged, "--out", tmp_path / "out")
    answer("run", damaged, "--cluster", "auto", "--out", tmp_path / "out")
    answer("predict", damaged, "--cluster", "auto")
    assert len(solved) == 2


@pytest.mark.parametrize(
    "option",
    [
        "--method lggd", "--method kernel-ridge", "--backbone none", "--reference none", "--preset default",
        "--epochs 5", "--device auto", "--label kind", "--labels-per-class 3", "--data .",
        "--file graph.pt", "--edges edges.csv", "--no-header", "--missing mean",
    ],
)  # fmt: skip
def test_options_that_are_not_used_are_refused(folder: Path, solved: list[Any], tmp_path: Path, option: str) -> None:
    name = "--header" if option == "--no-header" else option.split()[0]
    message = refused("run", folder, "--cluster", "auto", "--out", tmp_path / "out", *option.split())
    assert message.startswith(f"`{name}` must be omitted with --cluster, ")
    assert solved == []


def test_options_that_predict_does_not_have_are_refused(folder: Path) -> None:
    shown = command("predict", folder, "--cluster", "auto", "--method", "gcn")
    assert (shown.exit_code, "No such option" in shown.output) == (2, True)


def test_other_graphs_are_refused(tmp_path: Path) -> None:
    for arguments in (["run", "digits"], ["run"], ["predict", tmp_path]):
        message = refused(*arguments, "--cluster", "auto")
        assert message.startswith("`--cluster` must be used with the folder of a graph on disk")
