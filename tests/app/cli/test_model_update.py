"""lggd update: nodes, edges and labels that arrive at a saved model."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import lggd
from lggd.app.runs.methods import RunSettings, build_model
from lggd.app.runs.run import run
from lggd.app.runs.run_input import RunInput
from lggd.closed_form import KernelRidge
from support.command_line import answer, command, files_of, refused, rows_of
from support.processes import in_new_process
from support.tables import PATH_IDS, RING_IDS, labelled_path, two_rings


def saved(folder: Path, run_input: RunInput) -> Path:
    """Saves a model of these tables as a run does."""
    model = KernelRidge().fit(run_input.data)
    model.metadata_ = {"dataset": run_input.name, "ids": run_input.ids, "classes": run_input.classes}
    model.metadata_["columns"] = asdict(run_input.columns)  # type: ignore[arg-type]
    folder.mkdir()
    model.save(folder / "model")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rings")
    two_rings(folder)
    tables = folder / "links.csv", folder / "people.csv"
    run_input = RunInput.from_tables(*tables, label="kind", ignore=("remark",))
    return saved(folder / "run", run_input)


@pytest.fixture
def rings(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Path]:
    """Two new nodes, one in each ring, and labels of a known and of a new node."""
    texts = {
        "nodes": "id,tall,height,kind\nnew a,true,1.5,\nnew b,false,-0.5,blå\n",
        "edges": "source,target,weight\nnew a,n1,4\nnew a,n2,2\nn31,new b,4\nn32,new b,4\nnew b,n32,2\nn1,n2,4\n",
        "labels": "id,label\nnew a,blå\nn2,blå\n",
    }
    paths = {name: tmp_path / f"{name}.csv" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name], encoding="utf-8")
    return paths


def options(tables: dict[str, Path], *names: str) -> list[object]:
    return [part for name in names or tables for part in (f"--{name}", tables[name])]


def test_nodes_edges_and_labels_arrive_across_processes(rings: Path, tables: dict[str, Path]) -> None:
    before = answer("predict", rings)["predictions"]
    known = lggd.load_model(rings / "model")
    found = in_new_process("update", rings, *options(tables))
    after = answer("predict", rings)["predictions"]
    assert (found["nodes"], found["new_nodes"], found["new_edges"], found["known_edges"]) == (42, 2, 4, 1)
    assert found["edges"] == known.data_.edge_index.shape[1] // 2 + 4
    assert (found["new_labels"], found["known_labels"]) == (2, 0)
    assert found["changed"] == sum(before[name] != after[name] for name in before)
    assert found["predictions"] == {"new a": "blå", "new b": after["new b"]}
    assert list(after) == [*RING_IDS, "new a", "new b"]
    assert [row["predicted"] for row in rows_of(rings / "predictions.csv")] == list(after.values())
    assert rows_of(rings / "predictions.csv")[40]["labelled"] == "blå"
    model = lggd.load_model(rings / "model")
    assert model.metadata_["ids"] == [*RING_IDS, "new a", "new b"]
    # The same nodes through the library, prepared as in training: features standardized, weights scaled by 4.
    columns = known.metadata_["columns"]
    x = (torch.tensor([[1.5, 1.0], [-0.5, 0.0]]) - torch.tensor(columns["mean"])) / torch.tensor(columns["deviation"])
    assert columns["features"] == ["height", "tall"]
    edges = torch.tensor([[40, 40, 31, 32], [1, 2, 41, 41]])
    known.add_nodes(x, edges, torch.tensor([4, 2, 4, 4]) / 4).add_labels([40, 2], [0, 0])
    torch.testing.assert_close(model.predict_proba(), known.predict_proba(), rtol=0, atol=1e-4)


def test_each_table_alone_and_what_is_printed(rings: Path, tables: dict[str, Path], tmp_path: Path) -> None:
    shown = command("update", rings, *options(tables, "nodes"), "--out", tmp_path / "new.csv")
    assert shown.exit_code == 0, shown.output
    for part in ("2 new; 42 in total", "edges         121", "New nodes", "new a", "Wrote"):
        assert part in shown.stdout
    assert not (rings / "predictions.csv").exists()
    assert len(rows_of(tmp_path / "new.csv")) == 42
    assert answer("update", rings, *options(tables, "edges"))["new_edges"] == 4
    found = answer("update", rings, *options(tables, "labels"))
    assert (found["new_labels"], found["new_nodes"], found["new_edges"]) == (2, 0, 0)


def test_known_edges_and_labels_change_nothing(rings: Path, tables: dict[str, Path]) -> None:
    answer("update", rings, *options(tables))
    before = files_of(rings)
    found = answer("update", rings, *options(tables, "edges", "labels"))
    assert (found["new_edges"], found["known_edges"], found["new_labels"], found["known_labels"]) == (0, 5, 0, 2)
    assert (found["changed"], found["model"]) == (0, None)
    assert files_of(rings) == before


def test_nodes_without_features(tmp_path: Path) -> None:
    labelled_path(tmp_path)
    run_input = RunInput.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="side")
    folder = saved(tmp_path / "run", run_input)
    (tmp_path / "new.csv").write_text("name\nzoe\nalone\n")
    pq.write_table(pa.table({"source": ["zoe", "zoe"], "target": ["hal", "gil"]}), tmp_path / "new.parquet")
    found = answer("update", folder, "--nodes", tmp_path / "new.csv", "--edges", tmp_path / "new.parquet")
    assert (found["nodes"], found["new_nodes"], found["new_edges"]) == (len(PATH_IDS) + 2, 2, 2)
    assert found["predictions"]["zoe"] == "right"


def test_a_model_of_the_library_has_numbers_for_names(tmp_path: Path) -> None:
    data = lggd.load("karate")
    data.x = torch.randn(34, 2, generator=torch.Generator().manual_seed(0))
    KernelRidge().fit(data).save(tmp_path / "club")
    (tmp_path / "new.csv").write_text("id,1,0\nnew,0.5,0.25\n")
    (tmp_path / "edges.csv").write_text("new,0\nnew,33\n")
    found = answer("update", tmp_path / "club", "--nodes", tmp_path / "new.csv", "--edges", tmp_path / "edges.csv")
    assert (found["nodes"], found["new_edges"]) == (35, 2)
    assert lggd.load_model(tmp_path / "club").data_.x[-1].tolist() == [0.25, 0.5]


def test_a_run_records_how_its_tables_were_read(tmp_path: Path) -> None:
    two_rings(tmp_path)
    tables = tmp_path / "links.csv", tmp_path / "people.csv"
    run_input = RunInput.from_tables(*tables, label="kind", ignore=("remark",), id_column="id")
    model = run(run_input, RunSettings(method="gcn", epochs=1)).model
    stored = model.metadata_["columns"]
    assert (stored["features"], stored["ignored"]) == (["height", "tall"], ["kind", "remark"])
    assert (stored["id_column"], stored["largest_weight"]) == ("id", 4.0)
    assert json.dumps(stored)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("nodes", "id,hight,remark\nz,1,x\n", "it lacks height, tall and it has hight, which was not there"),
        ("nodes", "id,height,tall,a,b\nz,1,1,2,3\n", "it has a, b, which were not there"),
        ("nodes", "height,tall\n1,1\n", "must have a column of ids"),
        ("nodes", "id,height,tall\nn1,1,1\nn2,1,1\nz,1,1\n", "must contain new nodes, got n1, n2, which the model has"),
        ("nodes", "id,height,tall\nz,,1\n", "height: all cells are empty. Fill in or correct these cells."),
        ("nodes", "id,height,tall\nz,old,1\n", "height: 1 cell is no number, 'old' in line 2. Fill in or correct"),
        ("nodes", "id,height,tall\nz,1,1\nz,1,1\n", "must be a unique id, got 'z'"),
        ("edges", "source,target,weight\nn1,n99,1\n", "must be one of the 40 nodes, got 'n99'"),
        ("edges", "n1,n12\n", "must have weights, because the edges of the model have weights"),
        ("edges", "n1,n12,5\n", "must have weights up to 4, the largest of training, got 5"),
        ("edges", "n1,n2,1\n", "must give the edge between 'n1' and 'n2' its known weight"),
        ("labels", "n2,green\n", "must be one of the classes blå, rød, got 'green'"),
        ("labels", "n1,rød\n", "must give the node 'n1' its known label 'blå'"),
    ],
)
def test_wrong_tables_are_refused_and_change_nothing(
    rings: Path, tables: dict[str, Path], name: str, text: str, expected: str
) -> None:
    tables[name].write_text(text, encoding="utf-8")
    before = files_of(rings)
    # The other tables are right, except for edges to nodes that do not arrive.
    others = ("nodes", name) if name == "labels" else (name,)
    assert expected in refused("update", rings, *options(tables, *others))
    assert files_of(rings) == before


def test_models_that_cannot_take_nodes_say_so(tables: dict[str, Path], tmp_path: Path) -> None:
    build_model("ggd", epochs=1).fit(lggd.load("karate")).save(tmp_path / "club")
    message = refused("update", tmp_path / "club", *options(tables, "nodes"))
    assert message.startswith("`MODEL` must accept nodes and edges without training, got LGGDClassifier")
    assert "Fit again" in message


def test_a_classifier_of_samples_makes_its_graph_itself(tables: dict[str, Path], tmp_path: Path) -> None:
    from lggd.sklearn import KNNGraphClassifier

    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0)).numpy()
    y = [0, 1] + [-1] * 28
    KNNGraphClassifier(lggd.GGD()).fit(x, y).save(tmp_path / "samples")
    message = refused("update", tmp_path / "samples", *options(tables, "nodes"))
    assert "a classifier of samples" in message


def test_something_must_be_given_and_exist(rings: Path, tmp_path: Path) -> None:
    assert "`--nodes` must be a table, or use --edges or --labels" in refused("update", rings)
    assert "must be a file, but there is none" in refused("update", rings, "--edges", tmp_path / "nowhere.csv")
    assert "must end in" in refused("update", rings, "--edges", tmp_path / "e.csv", "--out", tmp_path / "said.txt")


def test_the_help_teaches() -> None:
    shown = command("update", "--help").stdout
    for part in ("--nodes", "--edges", "--labels", "id,height,age", "without"):
        assert part in shown
