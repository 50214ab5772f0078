"""Graphs built on disk beside the same graphs built in memory."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lggd
from lggd.app.tables import building
from lggd.app.tables.building import build_graph
from lggd.app.tables.edge_columns import EdgeFormat
from support.stored_edges import edges_by_id, edges_of_table, node_ids

INTEGERS = st.integers(-5, 12)
NAMES = st.sampled_from(["ada", "ben", "cyd", "007", "7", "x y", "é", "it's", 'say "hi"', "a,b"])
WEIGHTS = st.integers(1, 1000).map(lambda k: k / 1000)


def tables(ids):
    rows = st.lists(st.tuples(ids, ids, WEIGHTS), min_size=1, max_size=40)
    return rows.map(lambda found: pd.DataFrame(found, columns=["source", "target", "weight"]))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(tables(INTEGERS), tables(NAMES)), st.booleans(), st.booleans(), st.sampled_from(["csv", "parquet"]))
def test_any_table_gives_the_graph_that_memory_gives(tmp_path, frame, directed, weighted, kind):
    if not weighted:
        frame = frame.drop(columns="weight")
    path = tmp_path / f"edges.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    built = build_graph(path, tmp_path / "graph", directed=directed, format=EdgeFormat(header=True, delimiter="comma"))
    assert edges_by_id(tmp_path / "graph") == edges_of_table(frame, "weight" if weighted else None, directed=directed)
    assert set(node_ids(tmp_path / "graph")) == {*frame["source"], *frame["target"]}
    assert built.metadata["self_loops"] == int((frame["source"] == frame["target"]).sum())
    assert lggd.Graph.open(tmp_path / "graph").is_directed == directed


@pytest.fixture
def frame():
    random = np.random.default_rng(0)
    ends = random.integers(0, 300, (2, 3000)) * 3
    weight = (1 + random.integers(0, 1000, 3000)) / 1001
    return pd.DataFrame({"source": ends[0], "target": ends[1], "weight": weight})


@pytest.mark.parametrize("weighted", [False, True])
def test_edges_are_sorted_in_batches(frame, tmp_path, monkeypatch, weighted):
    batches = building.Database.batches
    monkeypatch.setattr(building.Database, "batches", lambda *a, **b: batches(*a, **{**b, "rows": 512}))
    frame = frame if weighted else frame.drop(columns="weight")
    frame.to_csv(tmp_path / "edges.csv", index=False)
    build_graph(tmp_path / "edges.csv", tmp_path / "graph")
    assert edges_by_id(tmp_path / "graph") == edges_of_table(frame, "weight" if weighted else None)


def test_integers_that_lie_far_apart(frame, tmp_path):
    frame["source"] = frame["source"] * 10**12
    frame["target"] = frame["target"] * 10**12
    frame.to_csv(tmp_path / "edges.csv", index=False)
    build_graph(tmp_path / "edges.csv", tmp_path / "graph")
    assert edges_by_id(tmp_path / "graph") == edges_of_table(frame, "weight")


def test_integers_that_no_signed_type_holds(tmp_path):
    frame = pd.DataFrame({"source": np.array([2**64 - 1, 5], np.uint64), "target": np.array([5, 6], np.uint64)})
    frame.to_parquet(tmp_path / "edges.parquet")
    build_graph(tmp_path / "edges.parquet", tmp_path / "graph")
    assert set(node_ids(tmp_path / "graph")) == {"5", "6", str(2**64 - 1)}


def test_several_files_and_a_pattern(frame, tmp_path):
    for k in range(3):
        frame[1000 * k : 1000 * (k + 1)].to_csv(tmp_path / f"part-{k}.csv", index=False)
    paths = sorted(tmp_path.glob("part-*.csv"))
    for edges in (paths, str(tmp_path / "part-*.csv")):
        build_graph(edges, tmp_path / "graph")
        assert edges_by_id(tmp_path / "graph") == edges_of_table(frame, "weight")


@pytest.mark.parametrize("text", ["# a\n# b\n0\t1\n1\t2\n", "0 1\n1  2\n", " 0 1 \n1 2\n", "0 1\n1 2\n\n"])
def test_lists_separated_by_blanks(tmp_path, text):
    (tmp_path / "edges.txt").write_text(text)
    build_graph(tmp_path / "edges.txt", tmp_path / "graph")
    assert sorted((int(i), int(j)) for i, j in edges_by_id(tmp_path / "graph")) == [(0, 1), (1, 0), (1, 2), (2, 1)]


@pytest.mark.parametrize("text", ["source;target\n a; b\nb;c\n", "from\tto\na\tb\nb\tc\n", "a,b\nb,c\n"])
def test_columns_are_found_as_in_other_tables(tmp_path, text):
    (tmp_path / "edges.csv").write_text(text)
    build_graph(tmp_path / "edges.csv", tmp_path / "graph")
    assert set(edges_by_id(tmp_path / "graph")) == {("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")}


def test_lengths_become_weights(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,km\na,b,2\nb,a,3\nb,c,8\n")
    built = build_graph(tmp_path / "edges.csv", tmp_path / "graph", format=EdgeFormat(length="km"))
    found = edges_by_id(tmp_path / "graph")
    assert found == {("a", "b"): 1, ("b", "a"): 1, ("b", "c"): 1 / 16, ("c", "b"): 1 / 16}
    assert built.metadata["unit_weight"] == 0.25
    assert "Lengths from 2 to 8" in built.notes[0]


def test_weights_of_one_are_not_stored(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,weight\na,b,1\nb,c,1.0\n")
    build_graph(tmp_path / "edges.csv", tmp_path / "graph")
    assert not lggd.Graph.open(tmp_path / "graph").is_weighted


def test_degrees_and_roots_are_those_of_the_weights(frame, tmp_path):
    frame.to_parquet(tmp_path / "edges.parquet")
    build_graph(tmp_path / "edges.parquet", tmp_path / "graph")
    csr, stored = lggd.Graph.open(tmp_path / "graph").csr, lggd.Graph.open(tmp_path / "graph").stored
    assert np.allclose(np.add.reduceat(csr.weight.numpy(), csr.indptr[:-1].numpy()), stored.degree)
    assert np.array_equal(np.sqrt(csr.weight.numpy()), csr.stored_root_weight)


NODES = "id,height,kind,age\nz,1.5,red,1\nb,2,,2\na,true,blue,3\nc,4,red,4\n"


@pytest.mark.parametrize("ids", ["names", "integers", "far apart"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_node_tables_bring_features_labels_and_isolated_nodes(tmp_path, ids, kind):
    name = {"names": "zbac", "integers": [9, 2, 1, 3], "far apart": [9, 2, 1, 3 * 10**15]}[ids]
    nodes = pd.DataFrame({"id": list(name), "height": [1.5, 2, 1, 4], "kind": ["red", None, "blue", "red"]})
    edges = pd.DataFrame({"source": [name[2], name[1]], "target": [name[1], name[3]]})
    for frame, path in ((nodes, tmp_path / f"nodes.{kind}"), (edges, tmp_path / f"edges.{kind}")):
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    built = build_graph(tmp_path / f"edges.{kind}", tmp_path / "graph", nodes=tmp_path / f"nodes.{kind}", label="kind")
    stored = lggd.Graph.open(tmp_path / "graph").stored
    assert node_ids(tmp_path / "graph") == list(name)
    assert stored.x.tolist() == [[1.5], [2], [1], [4]]
    assert stored.y.tolist() == [1, -1, 0, 1]
    assert built.metadata["classes"] == ["blue", "red"]
    assert built.metadata["feature_names"] == ["height"]
    assert stored.csr.indptr.tolist() == [0, 0, 2, 3, 4]


def test_truth_values_are_numbers_and_columns_can_be_ignored(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text("source,target,km\na,b,1\n")
    ignored = EdgeFormat(ignore=("kind", "km"))
    build_graph(tmp_path / "edges.csv", tmp_path / "graph", nodes=tmp_path / "nodes.csv", format=ignored)
    stored = lggd.Graph.open(tmp_path / "graph").stored
    assert stored.x.tolist() == [[1.5, 1], [2, 2], [1, 3], [4, 4]]
    assert stored.y is None


def test_a_graph_is_replaced_and_nothing_is_left(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    for _ in range(2):
        build_graph(tmp_path / "edges.csv", tmp_path / "graph")
    assert {path.name for path in tmp_path.iterdir()} == {"edges.csv", "graph"}
