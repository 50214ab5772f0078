"""A Ray cluster on this machine: commands, the same bits as one machine, lost nodes, bad input, nothing left.

It starts once for all these tests: those that need no connection of this process come first, the loss of a node last.
"""

import os
import shutil
import signal
import time

import pandas as pd
import pytest
import torch

import lggd
from lggd.app.comparison.candidates import read_candidates
from lggd.app.comparison.fit_job import FitJob, run_jobs
from lggd.app.comparison.label_splits import draw_splits, problem_fingerprint
from lggd.app.comparison.results import Results
from lggd.errors import InputError
from support import reproducing
from support.cluster_cases import add_node, random_graph, random_start, ray_cluster
from support.command_line import answer
from support.processes import in_new_process
from support.small_data import blocks

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'lggd[cluster]'")

SOURCES = [[0, 5], [399], [17], [3, 4]]


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    with ray_cluster(tmp_path_factory.mktemp("ray")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(started):
    with lggd.cluster.connect(started.address):
        yield started


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs") / "g"
    random_graph().save(folder)
    return lggd.Graph.open(folder)


@pytest.fixture(scope="module")
def single(graph):
    return lggd.evolve(graph, SOURCES, start=random_start(graph, 4), times=(0.5, 1.0))


def evolve(graph, **options):
    settings = {"start": random_start(graph, 4), "times": (0.5, 1.0)}
    return lggd.cluster.evolve(graph, SOURCES, **{**settings, **options})


def actors_alive():
    from ray._private.state import actors

    return [actor for actor in actors().values() if actor["State"] not in ("DEAD",)]


def store_used():
    """Bytes in the object stores of all nodes."""
    total, free = (each().get("object_store_memory", 0) for each in (ray.cluster_resources, ray.available_resources))
    return total - free


@pytest.fixture
def nothing_left(cluster, tmp_path):
    before = store_used()
    yield tmp_path
    assert actors_alive() == []
    for _ in range(200):  # Ray frees objects a moment after they are forgotten, on a busy machine seconds later
        if store_used() <= before:
            break
        time.sleep(0.1)
    assert store_used() <= before
    assert list(tmp_path.iterdir()) == []


# -- commands with --cluster --------------------------------------------------------------------------------------


def test_run_and_predict(started, tmp_path):
    data = blocks(each=70, labelled=25, validated=0, inside=0.06, outside=0.006)
    lggd.Graph.from_pyg(data).save(tmp_path / "g", x=data.x, y=torch.where(data.train_mask, data.y, -1))
    # In a process of its own, whose output shows that Ray prints nothing.
    found = in_new_process("run", tmp_path / "g", "--cluster", started.address, "--out", tmp_path / "run")
    assert found["heldout"] > 0
    assert found["accuracy"]["model"] > 90
    assert {path.name for path in (tmp_path / "run").iterdir()} == set(found["files"])
    table = tmp_path / "predictions.parquet"
    answer("predict", tmp_path / "g", "--cluster", started.address, "--out", table)
    predictions = pd.read_parquet(table)
    assert (predictions["predicted"].astype(int).to_numpy() == data.y.numpy()).mean() > 0.9


def test_compare(started, tmp_path):
    options = ("--methods", "label-propagation,kernel-ridge", "--splits", 2, "--no-curve")
    found = answer("compare", "karate", *options, "--out", tmp_path / "ray", "--cluster", started.address)
    assert {row["method"] for row in found["table"]} >= {"label-propagation", "kernel-ridge"}
    assert all(row["accuracy"] > 50 for row in found["table"])


def test_sweep(started, tmp_path):
    options = ("--rows", "18", "--datasets", "karate", "--trials", 2, "--splits", 1)
    found = reproducing.answer("sweep", *options, "--results", tmp_path / "ray", "--cluster", started.address)
    assert [row["trials"] for row in found["choices"]] == [2]


# -- evolutions and the closed form -------------------------------------------------------------------------------


def test_the_same_bits_as_one_machine(cluster, graph, single, nothing_left):
    found = evolve(graph)
    assert torch.equal(found.value, single.value)
    assert found.statistics.blocks == 2
    assert found.statistics.steps == single.statistics.steps
    assert found.statistics.losses == 0
    assert found.statistics.residual == pytest.approx(single.statistics.residual)


def test_start_and_potential_by_default(cluster, graph, nothing_left):
    options = {"times": (0.3,), "potential": lggd.DegreePotential(-1.0), "initial_value": 7.0}
    expected = lggd.evolve(graph, SOURCES, **options)
    assert torch.equal(lggd.cluster.evolve(graph.stored.folder, SOURCES, **options).value, expected.value)


def test_columns_in_groups(cluster, graph, single, nothing_left):
    found = evolve(graph, blocks=1, column_blocks=2)
    assert found.statistics.blocks == 2
    assert torch.allclose(found.value, single.value, atol=1e-5)


def test_a_lost_worker_is_replaced(cluster, graph, single, nothing_left):
    reports = []

    def kill(progress):
        reports.append(progress.done)
        if len(reports) == 1:
            victim = next(actor for actor in actors_alive())
            os.kill(victim["Pid"], signal.SIGKILL)

    found = evolve(graph, callback=kill)
    assert torch.equal(found.value, single.value)
    assert found.statistics.losses == 1


def test_the_closed_form_of_one_machine(cluster, tmp_path, nothing_left):
    data = lggd.load("karate")
    data.x = torch.rand(data.num_nodes, 6, generator=torch.Generator().manual_seed(1))
    folder = tmp_path.parent / "karate"
    lggd.Graph.from_pyg(data).save(folder, x=data.x, y=torch.where(data.train_mask, data.y, -1))
    model = lggd.KernelRidge(agreement=None, topology_kernels=(), far_kernels=(), wide_kernels=())
    found = lggd.cluster.solve(folder, model=model)
    torch.testing.assert_close(found.predict_proba(), model.fit(data).predict_proba(), atol=1e-3, rtol=1e-2)


def test_bad_graphs_and_versions(cluster, graph, tmp_path, monkeypatch, nothing_left):
    damaged = tmp_path.parent / "damaged"
    shutil.copytree(graph.stored.folder, damaged)
    content = bytearray((damaged / "weight.npy").read_bytes())
    content[-3] ^= 1
    (damaged / "weight.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"weight\.npy` must match its checksum.*copy the folder again"):
        lggd.cluster.evolve(damaged, [0])
    with pytest.raises(InputError, match=r"`blocks` must take at most the \d CPUs of the cluster"):
        evolve(graph, blocks=50)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "9.9.9")
    with pytest.raises(InputError, match=r"must have lggd 9\.9\.9, got lggd .*Install the same version on all nodes"):
        evolve(graph)


def test_jobs_of_a_comparison(cluster, tmp_path):
    planned = plan(lggd.load("karate"), ["label-propagation", "kernel-ridge"])
    shown: list[lggd.Progress] = []
    lines, failures = run_jobs(
        planned, results := Results(tmp_path / "cluster"), on_cluster=True, callback=shown.append
    )
    expected, _ = run_jobs(planned, Results(tmp_path / "local"))
    assert failures == {}
    assert [line["accuracy"] for line in lines] == [line["accuracy"] for line in expected]
    assert len(results.lines("comparison")[0]) == len(planned)
    assert len(shown) == len(planned)
    assert run_jobs(planned, results, on_cluster=True, callback=shown.append)[0] == lines
    assert len(shown) == len(planned), "nothing is measured again"


def plan(data, methods):
    candidates, datas = read_candidates(methods), draw_splits(data, 2, 2)
    return [
        FitJob(each, own, problem_fingerprint(data), 2, split) for split, own in enumerate(datas) for each in candidates
    ]


def test_a_lost_node_is_replaced_and_one_is_added(cluster, graph, single, nothing_left):
    alive = len(cluster.worker_nodes) + 1

    reports = []

    def kill(progress):
        reports.append(progress.done)
        if len(reports) == 1:
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
            # Workers outlive their node for a moment, in which they might finish.
            wait_for_nodes(alive - 1)

    found = evolve(graph, callback=kill)
    assert torch.equal(found.value, single.value)
    assert found.statistics.losses == 1
    for _ in range(2):
        add_node(cluster)
    three = evolve(graph)
    assert three.statistics.blocks == 3
    assert torch.equal(three.value, single.value)


def wait_for_nodes(count):
    """Waits until Ray counts so few nodes, for a minute at most."""
    import ray

    for _ in range(600):
        if sum(node["Alive"] for node in ray.nodes()) <= count:
            return
        time.sleep(0.1)
