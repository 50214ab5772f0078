"""Addresses that are no cluster, and nodes that do not fit: each a sentence with the remedy, at once, without Ray."""

import socket
import threading
from pathlib import Path

import pytest

import lggd
from lggd.cluster.connection import check_answer
from lggd.errors import InputError, InputFileError

EXPECTED = {"lggd": "0.1.0", "format": 1, "manifest": "abc"}


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", r"must be that of a Ray cluster, but nothing answers at 127\.0\.0\.1:1\. Start one"),
        ("head", r"must be HOST:PORT or auto, got head\. Ray's port is 6379"),
        ("head:99999", "must be HOST:PORT or auto"),
        ("ray://head:10001", r"must be HOST:PORT or auto.*ray job submit"),
    ],
)
def test_no_cluster_at_this_address(address, message):
    with pytest.raises(InputError, match=message), lggd.cluster.connect(address):
        pass


def test_something_else_answers():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            connection.sendall(b"220 mail\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match="but something else answers at"), lggd.cluster.connect(address):
            pass
        thread.join()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lggd": "0.0.9"}, r"`the node worker` must have lggd 0\.1\.0, got lggd 0\.0\.9\. Install the same version"),
        ({"lggd": None}, r"must have lggd 0\.1\.0, got no lggd"),
        ({"format": 7}, "must read graphs of format 1, got 7"),
        ({"manifest": None}, "must be the folder of the graph on the node worker, but there is none. Put it on a disk"),
        ({"manifest": "abd"}, "must be the same graph on all nodes, but that on the node worker has another checksum"),
    ],
)
def test_nodes_that_do_not_fit(changes, message):
    check_answer({"host": "worker", **EXPECTED}, EXPECTED, Path("/graphs/web"))
    with pytest.raises(InputError, match=message):
        check_answer({"host": "worker", **EXPECTED, **changes}, EXPECTED, Path("/graphs/web"))


def test_without_a_connection(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'lggd[cluster]'")
    lggd.Graph.from_edges([(0, 1)], symmetrize="max").save(tmp_path / "g")
    with pytest.raises(InputError, match="must be connected to a cluster, got no connection"):
        lggd.cluster.evolve(tmp_path / "g", [0])
    with pytest.raises(InputFileError, match="must be the folder of a graph"):
        lggd.cluster.evolve(tmp_path / "none", [0])
    with pytest.raises(InputError, match="got a graph in memory"):
        lggd.cluster.evolve(lggd.Graph.from_edges([(0, 1)], symmetrize="max"), [0])


def test_the_sample_for_a_cloud_is_valid():
    yaml = pytest.importorskip("yaml")
    util = pytest.importorskip("ray.autoscaler._private.util")
    sample = Path(__file__).parents[2] / "examples" / "cluster.yaml"
    util.validate_config(util.prepare_config(yaml.safe_load(sample.read_text(encoding="utf-8"))))
