"""A Ray cluster of several nodes on this machine, and the graphs that it works on."""

import contextlib
import os

import numpy as np
import torch

import lggd

# A loopback address: Ray replaces 127.0.0.1 by an address of the network.
ADDRESS = "127.0.0.2"
STORE = 80 * 2**20
# Lost nodes are noticed within a second.
HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}


@contextlib.contextmanager
def ray_cluster(nodes, cpus=1):
    """A head without CPUs, and nodes that may be killed."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    common = {"object_store_memory": STORE, "node_ip_address": ADDRESS, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**common, "num_cpus": 0, "_system_config": HEALTH})
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=cpus, **common)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def random_graph(nodes=400, edges=1600, seed=0, weighted=True, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(nodes, (2, edges), generator=generator)
    index = index[:, index[0] != index[1]]
    weight = torch.rand(index.shape[1], generator=generator, dtype=dtype).clamp(min=0.05) if weighted else None
    return lggd.Graph.from_edges(index, weight, num_nodes=nodes, symmetrize="max", dtype=dtype)


def random_start(graph, columns, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random((graph.num_nodes, columns), np.float32) * 5)
