"""A Ray cluster of several nodes on this machine, and the graphs that it works on."""

import contextlib
import os

import numpy as np
import torch

import lggd
from lggd.cluster import closed_form, propagation
from lggd.cluster.team import Block, as_arrays, as_tensors, split_rows
from support import ray_worker

# A loopback address: Ray replaces 127.0.0.1 by an address of the network.
ADDRESS = "127.0.0.2"
STORE = 80 * 2**20
NODE = {
    "num_cpus": 1, "object_store_memory": STORE, "node_ip_address": ADDRESS, "include_dashboard": False,
    "include_log_monitor": False, "worker_path": ray_worker.__file__,
}  # fmt: skip
# Lost nodes are noticed within two seconds; busy ones are not lost.
HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 3000,
    "health_check_failure_threshold": 4,
}


@contextlib.contextmanager
def ray_cluster(folder):
    """A head and another node, each with one CPU; `add_node` adds one more. The folder is for a socket."""
    import ray
    from ray.cluster_utils import Cluster

    # Workers are nice by default, and would wait for all other processes of this machine.
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    with ray_worker.forked_workers(folder):
        head = {**NODE, "_system_config": HEALTH}
        cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
        try:
            add_node(cluster)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


def add_node(cluster):
    """Adds a node, which may be killed."""
    patiently(lambda: cluster.add_node(**NODE))


def patiently(start, attempts=4):
    """Starts a node; on a busy machine Ray may give up after half a minute."""
    for attempt in range(attempts):
        try:
            return start()
        except Exception:
            if attempt + 1 == attempts:
                raise
    return None


def random_graph(nodes=400, edges=1600, seed=0, weighted=True, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(nodes, (2, edges), generator=generator)
    index = index[:, index[0] != index[1]]
    weight = torch.rand(index.shape[1], generator=generator, dtype=dtype).clamp(min=0.05) if weighted else None
    return lggd.Graph.from_edges(index, weight, num_nodes=nodes, symmetrize="max", dtype=dtype)


def random_start(graph, columns, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random((graph.num_nodes, columns), np.float32) * 5)


class LocalTeam:
    """A team whose blocks are in this process: `Team` without Ray."""

    def __init__(self, folder, bounds):
        self.bounds = bounds
        self.blocks = [Block(str(folder), bounds, k, 1, True) for k in range(len(bounds) - 1)]
        for block in self.blocks:
            block.open()
        everyone = range(len(self.blocks))
        self.readers = [[b for b in everyone if self.blocks[b].halo_sizes()[o]] for o in everyone]
        for o in everyone:
            self.blocks[o].serve(*(self.blocks[b].wanted()[o] for b in self.readers[o]))

    def prepare(self, program_of):
        for k, block in enumerate(self.blocks):
            program, arguments = program_of(k, 0)
            block.prepare(program, as_arrays(tuple(arguments)))

    def call(self, name, *arguments):
        return as_tensors([block.call(name, *as_arrays(arguments)) for block in self.blocks])

    def run(self, units, exchanges):
        """Passes on boundary values until all units are done."""
        everyone = range(len(self.blocks))
        sent = [self._listed(block.start(units), o) for o, block in enumerate(self.blocks)]
        for _ in range(exchanges * len(units)):
            values = [[sent[o][self.readers[o].index(b)] for o in everyone if b in self.readers[o]] for b in everyone]
            sent = [self._listed(block.resume(*values[o]), o) for o, block in enumerate(self.blocks)]

    def _listed(self, answer, o):
        return [answer] if len(self.readers[o]) == 1 else list(answer)


def use_local_team(monkeypatch, blocks=3):
    """Lets propagate and solve use a `LocalTeam`."""

    def run_on_team(work, graph, **_):
        return work(LocalTeam(graph.stored.folder, split_rows(graph.csr.indptr.numpy(), blocks))), 0

    for module in (propagation, closed_form):
        monkeypatch.setattr(module, "run_on_team", run_on_team)
