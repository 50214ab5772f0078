"""The driver of a computation on a cluster: blocks as Ray actors. When some are lost, it begins anew without them.

The driver passes references to boundary values from block to block; the values travel between the nodes directly.
Columns are split into groups that never exchange anything: every group has a block for each range of rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from lggd.cluster.block import Block, as_arrays, as_tensors, split_rows
from lggd.cluster.connection import ClusterNode, alive_nodes, check_nodes, import_ray
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.validation import check_int

# Seconds until all blocks must have started, before they read their edges.
START_SECONDS = 300.0
# Losses of blocks after which a computation is given up.
MAX_LOSSES = 10
# Units of work that are sent to the blocks at a time.
INTERVAL = 10

# Returns the class and the arguments of the program of block `b` in column group `g`.
ProgramOf = Callable[[int, int], tuple[type[Any], Sequence[Any]]]
Result = TypeVar("Result")


class Team:
    """The blocks of a computation, numbered group by group; a context that ends them all.

    Parameters
    ----------
    folder : Path
        The stored graph.
    bounds : list of int
        The rows of each block, from `split_rows`.
    groups : int
        Number of column groups.
    threads : int, optional
        Threads of a block; None divides the CPUs of a node by its blocks.
    verify : bool
        Whether blocks compare the checksums of the files of the graph.
    """

    def __init__(
        self, folder: Path, bounds: Sequence[int], *, groups: int = 1, threads: int | None = None, verify: bool = True
    ) -> None:
        self.ray = import_ray()
        self.folder, self.bounds, self.groups, self.verify = folder, list(bounds), groups, verify
        self.per_group = len(bounds) - 1
        self.count = self.per_group * groups
        self.threads, self.actors, self.was_lost = threads, list[Any](), False

    def __enter__(self) -> Self:
        try:
            nodes = alive_nodes()
            check_nodes(nodes, self.folder)
            threads = _threads(nodes, self.count, self.threads)
            self.actors = [self._create(k, nodes[k * len(nodes) // self.count], threads) for k in range(self.count)]
            self._await_start(self.count * threads)
            self._introduce()
        except BaseException as error:
            self._end(error)
            raise
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        """Ends all blocks, and notes whether the error is that some were lost."""
        of_ray, of_task = self.ray.exceptions.RayError, self.ray.exceptions.RayTaskError
        self.was_lost = isinstance(error, of_ray) and (not isinstance(error, of_task) or self._misses_blocks())
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors = []

    def _misses_blocks(self) -> bool:
        try:
            self.ray.get([actor.ping.remote() for actor in self.actors])
        except self.ray.exceptions.RayError:
            return True
        return False

    # -- blocks ---------------------------------------------------------------------------------------------------

    def _create(self, number: int, node: ClusterNode, threads: int) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(node.id, soft=True)
        actor = self.ray.remote(Block).options(num_cpus=threads, scheduling_strategy=place, max_restarts=0)
        return actor.remote(str(self.folder), self.bounds, number % self.per_group, threads, self.verify)

    def _await_start(self, cpus: int) -> None:
        try:
            self._get([actor.ping.remote() for actor in self.actors], START_SECONDS)
        except self.ray.exceptions.GetTimeoutError as error:
            remedy = "Wait until other work has ended, or use fewer `blocks` or `threads`."
            free = self.ray.available_resources().get("CPU", 0)
            raise InputError("the cluster", f"have {cpus} free CPUs", free, remedy) from error
        self._get([actor.open.remote() for actor in self.actors])

    def _introduce(self) -> None:
        """Tells every block what the others need from it."""
        sizes = self._get([actor.halo_sizes.remote() for actor in self.actors[: self.per_group]])
        everyone = range(self.per_group)
        # Of each block of a group: those it reads from, and those that read from it.
        self.writers = [[o for o in everyone if sizes[b][o]] for b in everyone]
        self.readers = [[b for b in everyone if sizes[b][o]] for o in everyone]
        self.halo = sum(map(sum, sizes))
        waiting: list[Any] = []
        for group in range(self.groups if self.halo else 0):
            team = self.actors[group * self.per_group : (group + 1) * self.per_group]
            wanted = [_listed(actor.wanted.options(num_returns=self.per_group).remote()) for actor in team]
            waiting += [team[o].serve.remote(*(wanted[b][o] for b in self.readers[o])) for o in everyone]
        self._get(waiting)

    def _get(self, references: Sequence[Any], timeout: float | None = None) -> list[Any]:
        """The values. Re-raises user errors unwrapped."""
        try:
            values: list[Any] = self.ray.get(list(references), timeout=timeout)
            return values
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, (InputError, MemoryError, FloatingPointError)):
                raise error.cause from None
            raise

    # -- programs -------------------------------------------------------------------------------------------------

    def prepare(self, program_of: ProgramOf) -> None:
        """Starts a program on every block."""
        programs = [program_of(k % self.per_group, k // self.per_group) for k in range(self.count)]
        pairs = zip(self.actors, programs, strict=True)
        self._get([actor.prepare.remote(program, as_arrays(tuple(given))) for actor, (program, given) in pairs])

    def call(self, name: str, *arguments: Any) -> list[Any]:
        """The results of a method of the program, by block."""
        shared = [self.ray.put(as_arrays(argument)) for argument in arguments]
        results: list[Any] = as_tensors(self._get([actor.call.remote(name, *shared) for actor in self.actors]))
        return results

    def run(self, units: Sequence[Any], exchanges: int, callback: Callable[[int], None] | None = None) -> None:
        """Does units of work on all blocks, each of which exchanges halos `exchanges` times.

        `callback` is called now and then with the number of units that are done.
        """
        for done in range(0, len(units), INTERVAL):
            interval = list(units[done : done + INTERVAL])
            published = [self._started(k, interval) for k in range(self.count)]
            total = exchanges * len(interval)
            for exchange in range(1, total + 1):
                published = [self._resumed(k, published, exchange == total) for k in range(self.count)]
            self._get([reference for references in published for reference in references])
            if callback is not None:
                callback(done + len(interval))

    def _started(self, number: int, interval: Sequence[Any]) -> list[Any]:
        count = len(self.readers[number % self.per_group])
        return _listed(self.actors[number].start.options(num_returns=count).remote(interval))

    def _resumed(self, number: int, published: Sequence[Sequence[Any]], last: bool) -> list[Any]:
        group, block = divmod(number, self.per_group)
        values = [published[group * self.per_group + o][self.readers[o].index(block)] for o in self.writers[block]]
        count = 1 if last else len(self.readers[block])  # at last an answer to wait for
        return _listed(self.actors[number].resume.options(num_returns=count).remote(*values))


def run_on_team(
    work: Callable[[Team], Result], graph: Graph, *, blocks: int | None, groups: int = 1, threads: int | None = None,
    verify: bool = True,
) -> tuple[Result, int]:  # fmt: skip
    """The result of `work(team)` on the rows of a stored graph, and how often it began anew since blocks were lost.

    By default there is a block for each node, or where there are groups, its share.
    """
    if graph.stored is None:
        raise TypeError("The graph is not stored in a folder.")
    for losses in range(MAX_LOSSES):
        time.sleep(losses)  # the cluster notices a moment later that a node is lost
        count = max(1, len(alive_nodes()) // groups) if blocks is None else check_int("blocks", blocks, 1)
        bounds = split_rows(graph.csr.indptr.numpy(), min(count, max(1, graph.num_nodes)))
        team = Team(graph.stored.folder.resolve(), bounds, groups=groups, threads=threads, verify=verify)
        try:
            with team:
                return work(team), losses
        except team.ray.exceptions.RayError:
            if not team.was_lost:
                raise
    remedy = "Restart it, or use fewer nodes."
    raise InputError("the cluster", "keep its nodes", f"{MAX_LOSSES} losses in a row", remedy)


def open_graph(graph: Graph | str | Path) -> Graph:
    """A stored graph. Its checksums are compared by the blocks, not here."""
    opened = graph if isinstance(graph, Graph) else Graph.open(graph, verify=False)
    if opened.stored is None:
        remedy = "Write it to a folder with Graph.save, and pass the folder."
        raise InputError("graph", "lie in a folder that all nodes can read", "a graph in memory", remedy)
    return opened


def _listed(references: Any) -> list[Any]:
    """Ray returns none, one or a list of references."""
    if references is None:
        return []
    return list(references) if isinstance(references, list) else [references]


def _threads(nodes: Sequence[ClusterNode], blocks: int, threads: int | None) -> int:
    """The threads of each block."""
    if threads is None:
        threads = max(1, min(node.cpus for node in nodes) // -(-blocks // len(nodes)))
    check_int("threads", threads, 1)
    cpus = sum(node.cpus for node in nodes)
    if threads * blocks > cpus:
        rule = f"take at most the {cpus} CPUs of the cluster, with the threads of each"
        raise InputError("blocks", rule, f"{blocks} × {threads}", "Use fewer blocks or threads, or add nodes.")
    return threads
