"""A Ray cluster of several nodes on this machine: the same bits as one machine, lost nodes, bad input, nothing left."""

import os
import signal

import pytest
import torch

import lggd
from cluster_cases import ADDRESS, STORE, random_graph, random_start, ray_cluster

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'lggd[cluster]'")

SOURCES = [[0, 5], [399], [17], [3, 4]]
EVERY = 4


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster(nodes=2) as cluster, lggd.cluster.connect(cluster.address):
        yield cluster


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs") / "g"
    random_graph().save(folder)
    return lggd.Graph.open(folder)


@pytest.fixture(scope="module")
def single(graph):
    return lggd.evolve(graph, SOURCES, start=random_start(graph, 4), times=(0.5, 1.0))


def evolve(graph, **options):
    settings = {"start": random_start(graph, 4), "times": (0.5, 1.0), "checkpoint_every": EVERY}
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
    assert store_used() <= before
    assert list(tmp_path.iterdir()) == []


def test_the_same_bits_as_one_machine(cluster, graph, single, nothing_left):
    found = evolve(graph, checkpoints=nothing_left)
    assert torch.equal(found.value, single.value)
    assert found.statistics.blocks == 2
    assert found.statistics.steps == single.statistics.steps
    assert found.statistics.losses == found.statistics.repeated_steps == 0
    assert found.statistics.residual == pytest.approx(single.statistics.residual)


def test_start_and_potential_by_default(cluster, graph, nothing_left):
    options = {"times": (0.3,), "potential": lggd.DegreePotential(-1.0), "far": 7.0}
    expected = lggd.evolve(graph, SOURCES, **options)
    assert torch.equal(lggd.cluster.evolve(graph.stored.folder, SOURCES, **options).value, expected.value)


def test_columns_in_groups(cluster, graph, single, nothing_left):
    found = evolve(graph, blocks=1, column_blocks=2)
    assert found.statistics.blocks == 2
    assert torch.allclose(found.value, single.value, atol=1e-5)


def test_a_lost_worker_is_replaced(cluster, graph, single, nothing_left):
    def kill(done, total):
        if done == EVERY:
            victim = next(actor for actor in actors_alive())
            os.kill(victim["Pid"], signal.SIGKILL)

    found = evolve(graph, callback=kill, checkpoints=nothing_left)
    assert torch.equal(found.value, single.value)
    assert found.statistics.losses >= 1
    assert 1 <= found.statistics.repeated_steps <= EVERY


def test_a_lost_node_is_replaced_and_one_is_added(cluster, graph, single, nothing_left):
    def kill(done, total):
        if done == EVERY:
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    found = evolve(graph, callback=kill)
    assert torch.equal(found.value, single.value)
    assert 1 <= found.statistics.repeated_steps <= EVERY
    common = {"num_cpus": 1, "object_store_memory": STORE, "node_ip_address": ADDRESS}
    for _ in range(2):
        cluster.add_node(**common)
    three = evolve(graph)
    assert three.statistics.blocks == 3
    assert torch.equal(three.value, single.value)
