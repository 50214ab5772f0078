"""A computation on a cluster: blocks of rows as Ray actors, and their driver. When some are lost, it begins anew.

A block has some rows of a graph and a halo: the nodes outside that these rows read. It numbers its own nodes first and
then those of its halo, both ascending. The neighbours of a row keep their order, so that it is summed as on one
machine, to the same bits. What it computes is a program: its `run(units)` is a generator that yields a tensor
`[owned + halo, C]` whenever it is about to read the values of the halo, which blocks exchange. Its other methods take
and return tensors, which travel as arrays.

The driver passes references to boundary values from block to block; the values travel between the nodes directly.
Columns are split into groups that never exchange anything: every group has a block for each range of rows.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, TypeVar

import numba
import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray
from torch import Tensor

from lggd.cluster.connection import ClusterNode, alive_nodes, check_nodes, import_ray
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.graph.csr import CSR
from lggd.graph.stored_graph import StoredGraph
from lggd.validation import check_int

Array = NDArray[Any]

# A row costs about as much as this many edges, beside its edges.
ROW_COST = 4
# Seconds until all blocks must have started, before they read their edges.
START_SECONDS = 300.0
# Losses of blocks after which a computation is given up.
MAX_LOSSES = 10
# Units of work that are sent to the blocks at a time.
INTERVAL = 10

# Returns the class and the arguments of the program of block `b` in column group `g`.
ProgramOf = Callable[[int, int], tuple[type[Any], Sequence[Any]]]
Result = TypeVar("Result")


def split_rows(indptr: Array, blocks: int) -> list[int]:
    """The bounds of ranges of rows with about equally many edges, `blocks + 1` row numbers."""
    nodes = len(indptr) - 1
    total = int(indptr[-1]) + ROW_COST * nodes

    def cost(row: int) -> int:
        return int(indptr[row]) + ROW_COST * row

    inner = [bisect_left(range(nodes), total * block // blocks, key=cost) for block in range(1, blocks)]
    return [0, *inner, nodes]


@dataclass(frozen=True, eq=False)
class BlockRows:
    """The rows [first, last) of a graph in local numbers.

    Attributes
    ----------
    csr : CSR
        The rows of the own nodes; `indices` are local.
    halo : NDArray[int64]
        The numbers in the graph of the nodes outside that these rows read, ascending.
    """

    first: int
    last: int
    csr: CSR
    halo: Array
    stored: StoredGraph

    @classmethod
    def cut(cls, stored: StoredGraph, first: int, last: int) -> BlockRows:
        """The rows [first, last) of a stored graph; reads their edges once."""
        part = stored.csr.part(first, last)
        columns = part.indices.numpy()
        outside = np.zeros(stored.csr.num_nodes, np.bool_)
        _mark(columns, first, last, outside)
        halo = np.flatnonzero(outside)
        position = np.empty(len(outside), np.int32)
        position[halo] = np.arange(last - first, last - first + len(halo), dtype=np.int32)
        position[first:last] = np.arange(last - first, dtype=np.int32)
        local = np.empty(len(columns), np.int32)
        _renumber(columns, position, local)
        return cls(first, last, replace(part, indices=torch.from_numpy(local)), halo, stored)

    @property
    def owned(self) -> int:
        return self.last - self.first

    @cached_property
    def size(self) -> int:
        """Own nodes and those of the halo."""
        return self.owned + len(self.halo)

    def slices(self, bounds: list[int]) -> list[tuple[int, int]]:
        """Which local numbers belong to the halo nodes of each block."""
        cuts = np.searchsorted(self.halo, bounds) + self.owned
        return [(int(a), int(b)) for a, b in pairwise(cuts)]


@njit(parallel=True, cache=True)
def _mark(columns, first, last, outside):  # pragma: no cover
    for e in prange(columns.size):
        j = columns[e]
        if j < first or j >= last:
            outside[j] = True


@njit(parallel=True, cache=True)
def _renumber(columns, position, local):  # pragma: no cover
    for e in prange(columns.size):
        local[e] = position[columns[e]]


def as_arrays(value: Any) -> Any:
    """Tensors as arrays, also in lists and tuples: Ray passes on arrays without copying them."""
    if type(value) in (list, tuple):
        return type(value)(map(as_arrays, value))
    return value.numpy() if isinstance(value, Tensor) else value


def as_tensors(value: Any) -> Any:
    """Arrays as tensors of their own: those from Ray's object store cannot be written to."""
    if type(value) in (list, tuple):
        return type(value)(map(as_tensors, value))
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value


class Block:
    """The rows [bounds[number], bounds[number + 1]) of a stored graph. Ray runs it as an actor."""

    def __init__(self, folder: str, bounds: Sequence[int], number: int, threads: int, verify: bool) -> None:
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]  # numba's stubs lack it
        torch.set_num_threads(threads)
        self.bounds, self.number, self._graph = list(bounds), number, (folder, verify)
        self._outgoing: list[Array] = []
        self._program: Any = None
        self._running: Iterator[Tensor] = iter(())
        self._open: Tensor | None = None  # the tensor whose halo is filled next

    def open(self) -> None:
        """Reads its rows. Not done when it is created: Ray would not pass on what is wrong with the graph."""
        folder, verify = self._graph
        stored = StoredGraph.open(folder, verify=verify)
        self.rows = BlockRows.cut(stored, self.bounds[self.number], self.bounds[self.number + 1])
        self._halo = self.rows.slices(self.bounds)

    def halo_sizes(self) -> list[int]:
        """The number of nodes that it reads from each block."""
        return [end - begin for begin, end in self._halo]

    def wanted(self) -> list[Array]:
        """The nodes that it reads from each block, by their numbers in the graph."""
        return [self.rows.halo[a - self.rows.owned : b - self.rows.owned] for a, b in self._halo]

    def serve(self, *wanted: Array) -> None:
        """Notes which nodes the blocks that read from this one want, in the order of these blocks."""
        self._outgoing = [nodes - self.rows.first for nodes in wanted]

    def prepare(self, program: type[Any], arguments: tuple[Any, ...]) -> None:
        """Starts a program: `program(rows, *arguments)`."""
        self._program = program(self.rows, *as_tensors(arguments))
        self._running, self._open = iter(()), None

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a method of the program."""
        return as_arrays(getattr(self._program, name)(*as_tensors(arguments)))

    def start(self, units: Sequence[Any]) -> Any:
        """Begins some units of work; returns the values that the other blocks need first."""
        self._running = self._program.run(units)
        return self._advance()

    def resume(self, *values: Array) -> Any:
        """Continues with the values of the halo, from each block that it reads from; returns those needed next."""
        tensor, self._open = self._open, None
        if tensor is None:
            raise RuntimeError("A block was resumed that has not been started.")
        filled, ranges = tensor.numpy(), [each for each in self._halo if each[0] < each[1]]
        for (begin, end), received in zip(ranges, values, strict=True):
            filled[begin:end] = received
        return self._advance()

    def _advance(self) -> Any:
        self._open = next(self._running, None)
        if self._open is None:
            return () if len(self._outgoing) != 1 else None
        values = self._open.numpy()
        sent = [values[nodes] for nodes in self._outgoing]
        return sent[0] if len(sent) == 1 else tuple(sent)

    def ping(self) -> int:
        """Answers with the number of the block."""
        return self.number


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
