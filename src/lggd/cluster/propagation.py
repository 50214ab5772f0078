"""Node features averaged over neighbourhoods, on a cluster: Âᵏx, personalised PageRank, heat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd.closed_form.filters import NEGLIGIBLE, Filter, Hops, series_of
from lggd.cluster.evolution import make_bounds, open_graph
from lggd.cluster.feature_programs import GraphFacts, PropagationProgram, SeriesUnit
from lggd.cluster.team import Team
from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.validation import check_finite, check_instance

Array = NDArray[Any]


class ClusterGraph:
    """Propagated node features on the blocks of a cluster, as `MixtureKernel` and `KernelRidge` ask for them.

    Parameters
    ----------
    team : Team
        Blocks that run a `PropagationProgram`.
    name : str
        Tells it apart from others of the same team.
    width : int
        The first so many columns of x are propagated.
    filters : sequence of Filter
    """

    def __init__(self, team: Team, name: str, width: int, filters: Sequence[Filter]) -> None:
        self._team, self._name, self._width = team, name, width
        self.x = torch.empty(team.bounds[-1], 0)  # its length is the number of nodes
        length = sum(team.call("total_length", width)) / max(1, team.bounds[-1])
        self.facts = GraphFacts({}, NEGLIGIBLE * length, {})
        self._known: dict[tuple[Filter, bool, bytes], Tensor] = {}
        self.extend(filters)

    def extend(self, filters: Sequence[Filter]) -> None:
        """Adds filters that may be asked for."""
        new = [filter for filter in dict.fromkeys(filters) if filter not in self.facts.place]
        place = dict(self.facts.place)
        for self_loops in (True, False):
            series = series_of(new, self_loops)
            if not series:
                continue
            key, coefficients = f"{self._name}/{len(place)}", tuple(map(tuple, series.values()))
            orders = range(max(map(len, coefficients)))
            self._team.run(
                [SeriesUnit(key, self._width, self_loops, coefficients, order) for order in orders], exchanges=1
            )
            place |= {filter: (key, number) for number, filter in enumerate(series)}
        self.facts = GraphFacts(place, self.facts.negligible, self.facts.scale)

    def add_scale(self, filter: Filter) -> None:
        """Finds the root mean square of the lengths of these features, for kernels of relative lengths."""
        if filter not in self.facts.scale:
            square = sum(self._team.call("total_square", *self.facts.place[filter])) / self._team.bounds[-1]
            self.facts = GraphFacts(
                self.facts.place, self.facts.negligible, {**self.facts.scale, filter: square**0.5}
            )  # fmt: skip

    def rows(self, filter: Filter, nodes: Tensor, unit: bool = True) -> Tensor:
        """The filtered features of these nodes, with unit or relative lengths, `[n, D]`."""
        key = filter, unit, nodes.numpy().tobytes()
        if key not in self._known:
            if not unit:
                self.add_scale(filter)
            answers = self._team.call("filtered_rows", self.facts, filter, unit, nodes.numpy())
            self._known[key] = arranged(answers, len(nodes))
        return self._known[key]


def arranged(answers: Sequence[tuple[Array, Array]], count: int, dim: int = 0) -> Tensor:
    """Rows from several blocks at their positions; `dim` is the axis of the rows."""
    places = torch.from_numpy(np.concatenate([inside for inside, _ in answers]))
    rows = torch.cat([torch.from_numpy(np.array(rows)) for _, rows in answers], dim)
    shape = list(rows.shape)
    shape[dim] = count
    return rows.new_empty(shape).index_copy_(dim, places, rows)


@contextmanager
def row_blocks(
    graph: Graph | str | Path, blocks: int | None, threads: int | None, checkpoint_every: int,
    checkpoints: str | Path | None, verify: bool,
) -> Iterator[tuple[Graph, Team]]:  # fmt: skip
    """A stored graph that is undirected, and a team on its rows."""
    opened, folder = open_graph(graph)
    if opened.is_directed:
        raise InputError("graph", "be undirected", "a directed one", "Build it again without directions.")
    bounds = make_bounds(opened, blocks, 1)
    options: dict[str, Any] = {"checkpoint_every": checkpoint_every, "checkpoints": checkpoints, "verify": verify}
    with Team(folder, bounds, threads=threads, **options) as team:
        yield opened, team


def propagate(
    graph: Graph | str | Path, x: Tensor | None = None, filters: Sequence[Filter] = (Hops(2),), *,
    blocks: int | None = None, threads: int | None = None, checkpoint_every: int = 10,
    checkpoints: str | Path | None = None, verify: bool = True,
) -> list[Tensor]:  # fmt: skip
    """Node features averaged over neighbourhoods on a cluster: Âᵏx for `Hops(k)`, and series in Â for others.

    Call it within `lggd.cluster.connect`.

    Parameters
    ----------
    graph : path or Graph
        An undirected graph in a folder.
    x : Tensor [N, D], optional
        Node features; None takes those of the stored graph.
    filters : sequence of Hops, HighPass, PPR or Heat
    blocks, threads, checkpoint_every, checkpoints, verify
        As in `lggd.cluster.evolve`; a step is one product with Â.

    Returns
    -------
    list of Tensor
        float32 [N, D] for each filter.

    Examples
    --------
    >>> import lggd
    >>> with lggd.cluster.connect():  # doctest: +SKIP
    ...     near, far = lggd.cluster.propagate("graph", filters=(lggd.Hops(2), lggd.diffusion.PPR(0.1)))
    """
    for filter in filters:
        check_instance("filters", filter, Filter, "filters such as Hops(2), HighPass() or PPR(0.1)")
    with row_blocks(graph, blocks, threads, checkpoint_every, checkpoints, verify) as (opened, team):
        given = _check_x(opened, x)
        bounds = team.bounds
        team.prepare(
            lambda block, _: (
                PropagationProgram,
                (None if x is None else given[bounds[block] : bounds[block + 1]].numpy(), None),
            )
        )
        propagated = ClusterGraph(team, "x", given.shape[1], filters)
        sums = [team.call("sums", *propagated.facts.place[filter]) for filter in filters]
        return [torch.cat([torch.from_numpy(np.array(part)) for part in parts]) for parts in sums]


def _check_x(graph: Graph, x: Tensor | None) -> Tensor:
    if x is None:
        return stored_features(graph)
    if not isinstance(x, Tensor) or x.dim() != 2 or len(x) != graph.num_nodes or not x.is_floating_point():
        found = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise InputTypeError("x", f"be a floating-point tensor [{graph.num_nodes}, D]", found)
    return check_finite("x", x.float())


def stored_features(graph: Graph) -> Tensor:
    """The node features of a stored graph."""
    stored = graph.stored
    if stored is None or stored.x is None:
        remedy = "Build it with node features, or pass them to Graph.save."
        raise InputError("graph", "have node features x", "none", remedy)
    return stored.x
