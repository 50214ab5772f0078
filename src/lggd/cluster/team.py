"""The driver of a computation on a cluster: blocks as Ray actors, checkpoints, and what happens when some are lost.

The driver passes references to boundary values from block to block; the values travel between the nodes directly.
Columns are split into groups that never exchange anything: every group has a block for each range of rows.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from lggd.cluster.block import Block, as_arrays, as_tensors
from lggd.cluster.connection import ClusterNode, alive_nodes, check_nodes, import_ray
from lggd.errors import InputError
from lggd.validation import check_int

# Seconds until all blocks must have started, before they read their edges.
START_SECONDS = 300.0
# Losses in a row, without a checkpoint between them, after which a computation is given up.
MAX_LOSSES = 10

# Returns the class and the arguments of the program of block `b` in column group `g`.
ProgramOf = Callable[[int, int], tuple[type[Any], Sequence[Any]]]


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
    checkpoint_every : int
        Units of work between two checkpoints.
    checkpoints : path, optional
        Folder on a disk that all nodes share, where blocks write their states; None keeps them in this process.
    verify : bool
        Whether blocks compare the checksums of the files of the graph.

    Attributes
    ----------
    losses, repeated : int
        How often blocks were lost, and how many units of work were done again.
    """

    def __init__(
        self, folder: Path, bounds: Sequence[int], *, groups: int = 1, threads: int | None = None,
        checkpoint_every: int = 10, checkpoints: str | Path | None = None, verify: bool = True,
    ) -> None:  # fmt: skip
        self.ray = import_ray()
        check_int("column_blocks", groups, 1)
        self.every = check_int("checkpoint_every", checkpoint_every, 1)
        self.folder, self.bounds, self.groups, self.verify = folder, list(bounds), groups, verify
        self.per_group = len(bounds) - 1
        self.count = self.per_group * groups
        nodes = alive_nodes()
        check_nodes(nodes, folder)
        self.threads = _threads(nodes, self.count, threads)
        self.losses = self.repeated = 0
        self.actors: list[Any] = []
        self._nodes = nodes
        self._checkpoint: list[Any] | None = None
        self._shared = None if checkpoints is None else Path(checkpoints)
        self._folder: Path | None = None
        self._written = 0

    def __enter__(self) -> Self:
        try:
            if self._shared is not None:
                self._shared.mkdir(parents=True, exist_ok=True)
                self._folder = Path(tempfile.mkdtemp(dir=self._shared, prefix=".lggd-"))
            self.actors = [self._create(k, self._nodes[k * len(self._nodes) // self.count]) for k in range(self.count)]
            self._await_start(self.actors)
            self._introduce()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors, self._checkpoint = [], None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- blocks ---------------------------------------------------------------------------------------------------

    def _create(self, number: int, node: ClusterNode, cpus: int | None = None) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # At first a block claims its CPUs. One that replaces a lost one shares those of a node that is left.
        actor = self.ray.remote(Block).options(
            num_cpus=self.threads if cpus is None else cpus,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=True),
            max_restarts=0,
        )
        return actor.remote(str(self.folder), self.bounds, number % self.per_group, self.threads, self.verify)

    def _await_start(self, actors: Sequence[Any]) -> None:
        try:
            self._get([actor.ping.remote() for actor in actors], START_SECONDS)
        except self.ray.exceptions.GetTimeoutError as error:
            remedy = "Wait until other work has ended, or use fewer `blocks` or `threads`."
            rule = f"have {self.count * self.threads} free CPUs"
            raise InputError("the cluster", rule, self.ray.available_resources().get("CPU", 0), remedy) from error
        self._get([actor.open.remote() for actor in actors])

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
        self._program_of, self._checkpoint = program_of, None
        self._get([self._prepare(k) for k in range(self.count)])

    def _prepare(self, number: int) -> Any:
        program, arguments = self._program_of(number % self.per_group, number // self.per_group)
        return self.actors[number].prepare.remote(program, as_arrays(tuple(arguments)))

    def call(self, name: str, *arguments: Any) -> list[Any]:
        """The results of a method of the program, by block. It may be called again: it must not change anything."""
        results: list[Any] = []

        def ask() -> None:
            shared = [self.ray.put(as_arrays(argument)) for argument in arguments]
            results[:] = as_tensors(self._get([actor.call.remote(name, *shared) for actor in self.actors]))

        for _ in range(MAX_LOSSES):
            if self._guarded(ask):
                return results
        raise self._hopeless()

    def run(self, units: Sequence[Any], exchanges: int) -> None:
        """Does units of work on all blocks, each of which exchanges halos `exchanges` times.

        After `checkpoint_every` units and at the end, the state is kept. A block that is lost is replaced, and all
        continue from the last state that was kept.
        """
        done = losses = 0
        while done < len(units):
            interval = list(units[done : done + self.every])
            if self._guarded(self._attempt, interval, exchanges):
                done, losses = done + len(interval), 0
            else:
                losses += 1
                self.repeated += len(interval)
                if losses >= MAX_LOSSES:
                    raise self._hopeless()

    def _attempt(self, interval: Sequence[Any], exchanges: int) -> None:
        published = [self._started(k, interval) for k in range(self.count)]
        total = exchanges * len(interval)
        for exchange in range(total):
            published = [self._resumed(k, published, exchange + 1 == total) for k in range(self.count)]
        self._keep()

    def _started(self, number: int, interval: Sequence[Any]) -> list[Any]:
        count = len(self.readers[number % self.per_group])
        return _listed(self.actors[number].start.options(num_returns=count).remote(interval))

    def _resumed(self, number: int, published: Sequence[Sequence[Any]], last: bool) -> list[Any]:
        group, block = divmod(number, self.per_group)
        values = [published[group * self.per_group + o][self.readers[o].index(block)] for o in self.writers[block]]
        count = 0 if last else len(self.readers[block])
        return _listed(self.actors[number].resume.options(num_returns=count).remote(*values))

    # -- checkpoints and losses -----------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Waits for all blocks, and keeps their states."""
        if self._folder is None:
            states = self._get([actor.state.remote() for actor in self.actors])
            # Copies: the values themselves lie in the object store, which is for values on their way.
            self._checkpoint = [{name: np.array(array) for name, array in state.items()} for state in states]
            return
        self._written += 1
        new = self._folder / str(self._written)
        new.mkdir()
        paths = [str(new / f"{k}.npz") for k in range(self.count)]
        self._get([actor.save.remote(path) for actor, path in zip(self.actors, paths, strict=True)])
        self._checkpoint = list(paths)
        shutil.rmtree(self._folder / str(self._written - 1), ignore_errors=True)

    def _guarded(self, action: Callable[..., None], *arguments: Any) -> bool:
        """Runs an action; after a loss, returns False with all blocks at the last checkpoint."""
        try:
            action(*arguments)
            return True
        except self.ray.exceptions.RayError as error:
            if not self._lost() and isinstance(error, self.ray.exceptions.RayTaskError):
                raise
            self._recover()
            return False

    def _lost(self) -> list[int]:
        """The blocks that are gone."""
        answers, gone = [actor.ping.remote() for actor in self.actors], []
        for number, answer in enumerate(answers):
            try:
                self.ray.get(answer)
            except self.ray.exceptions.RayError:
                gone.append(number)
        return gone

    def _recover(self) -> None:
        """Replaces lost blocks, on the nodes that have the fewest; all continue from the last checkpoint."""
        for _ in range(MAX_LOSSES):
            try:
                lost, self.losses = self._lost(), self.losses + 1
                nodes = alive_nodes()
                check_nodes(nodes, self.folder)
                for place, number in enumerate(lost):
                    self.actors[number] = self._create(number, nodes[-1 - place % len(nodes)], cpus=0)
                self._await_start([self.actors[number] for number in lost])
                self._introduce()
                if self._checkpoint is None:
                    self._get([self._prepare(number) for number in range(self.count)])
                else:
                    self._get([self._prepare(number) for number in lost])
                    kept = zip(self.actors, self._checkpoint, strict=True)
                    self._get([actor.load.remote(state) for actor, state in kept])
                return
            except self.ray.exceptions.RayError:  # another one was lost meanwhile
                continue
        raise self._hopeless()

    def _hopeless(self) -> InputError:
        remedy = f"Restart it, or lower `checkpoint_every` below {self.every}."
        return InputError("the cluster", "keep its nodes", f"{MAX_LOSSES} losses in a row", remedy)


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
