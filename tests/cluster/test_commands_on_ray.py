"""The commands with --cluster on two Ray nodes of this machine: the results of one machine."""

import pandas as pd
import pytest
import torch

import lggd
from cluster_cases import ray_cluster
from command_line import in_new_process

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def address():
    with ray_cluster(nodes=2) as cluster:
        yield cluster.address


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Digits on disk, with labels of every third node."""
    data = lggd.load("digits")
    folder = tmp_path_factory.mktemp("stored") / "digits"
    labels = torch.where(torch.arange(data.num_nodes) % 3 == 0, data.y, -1)
    lggd.Graph.from_pyg(data).save(folder, x=data.x, y=labels)
    return folder, data.y


def test_run_and_predict(address, stored, tmp_path):
    folder, y = stored
    found = in_new_process("run", folder, "--cluster", address, "--out", tmp_path / "run")
    assert found["heldout"] > 0
    assert found["accuracy"] > 90
    assert {path.name for path in (tmp_path / "run").iterdir()} == set(found["files"])
    table = tmp_path / "predictions.parquet"
    in_new_process("predict", folder, "--cluster", address, "--out", table)
    predictions = pd.read_parquet(table)
    assert (predictions["predicted"].astype(int).to_numpy() == y.numpy()).mean() > 0.9


def test_compare(address, tmp_path):
    options = ("--methods", "label-propagation,kernel-ridge", "--splits", 2, "--no-curve")
    alone = in_new_process("compare", "karate", *options, "--out", tmp_path / "alone")
    found = in_new_process("compare", "karate", *options, "--out", tmp_path / "ray", "--cluster", address)
    accuracies = [{row["method"]: row["accuracy"] for row in each["table"]} for each in (alone, found)]
    assert accuracies[0] == accuracies[1]


def test_sweep(address, tmp_path):
    options = ("--rows", "01", "--datasets", "karate", "--trials", 2, "--splits", 1)
    found = in_new_process("sweep", *options, "--results", tmp_path / "ray", "--cluster", address)
    assert [row["trials"] for row in found["choices"]] == [2]
