"""Node features averaged over neighbourhoods, on a cluster: Âᵏx, personalised PageRank, heat.

Blocks compute the Chebyshev series of `closed_form.adjacency` by the products that one machine computes on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lggd.closed_form.adjacency import NEGLIGIBLE, series_of, unit_or_zero
from lggd.cluster.team import BlockRows, Team, open_graph, run_on_team
from lggd.errors import InputError, InputTypeError
from lggd.filters import Filter, Hops
from lggd.graph import Graph
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.validation import check_finite, check_instance


@dataclass(frozen=True)
class SeriesUnit:
    """One order of the Chebyshev series of `filters` on the first `width` columns of x, named `key`.

    `series` has the coefficients of every filter; order 0 begins.
    """

    key: str
    width: int
    self_loops: bool
    series: tuple[tuple[float, ...], ...]
    order: int


@dataclass(frozen=True)
class FeatureStatistics:
    """Statistics of propagated features that depend on all blocks.

    Attributes
    ----------
    place : dict
        Where the sums of each filter are: the key of its series, and the number among them.
    negligible : float
        Features that are shorter are 0.
    scale : dict
        The root mean square of the lengths, by filter, where it is needed.
    """

    place: dict[Filter, tuple[str, int]]
    negligible: float
    scale: dict[Filter, float]


class PropagationProgram:
    """Chebyshev series of Â on node features; a unit of work is a `SeriesUnit`, with one exchange.

    Parameters
    ----------
    rows : BlockRows
    x : Tensor or None
        Features of the own nodes, `[n, D]`; None reads those of the stored graph.
    axes : Tensor or None
        Directions to project features of unit length to, `[F, D]`.
    """

    def __init__(self, rows: BlockRows, x: Tensor | None, axes: Tensor | None) -> None:
        self.rows = rows
        own = own_features(rows, unit=axes is not None) if x is None else x.float()
        self._own = own if axes is None else own @ axes
        self._matrices: dict[bool, StreamedMatrix] = {}
        self._sums: dict[str, list[Tensor]] = {}
        self._previous = self._current = torch.empty(rows.size, 0)  # Tₖ₋₁ and Tₖ of the series at work

    def run(self, units: Sequence[SeriesUnit]) -> Iterator[Tensor]:
        for unit in units:
            if unit.order == 0:
                self._previous = self._current = x = self._with_halo(self._own[:, : unit.width])
                self._sums[unit.key] = [c[0] * x[: self.rows.owned] for c in unit.series]
                yield torch.empty(self.rows.size, 0)  # every unit has an exchange, this one of nothing
            else:
                yield self._current
                self._advance(unit)

    def _advance(self, unit: SeriesUnit) -> None:
        """T₁ = Âx, Tₖ₊₁ = 2Â·Tₖ − Tₖ₋₁, and their sums; arithmetic as of `chebyshev_sums`."""
        previous, current, owned = self._previous, self._current, self.rows.owned
        matrix = self._matrix(unit.self_loops)
        if unit.order == 1:
            product = torch.zeros_like(current)
            matrix.add_product(current, product[:owned])
            self._previous, self._current = current, product
        else:
            matrix.scaled(2).add_product(current, previous[:owned].neg_())
            self._previous, self._current = current, previous
        for total, coefficients in zip(self._sums[unit.key], unit.series, strict=True):
            if unit.order < len(coefficients) and coefficients[unit.order]:
                total.add_(self._current[:owned], alpha=coefficients[unit.order])

    def _matrix(self, self_loops: bool) -> StreamedMatrix:
        """Rows of Â, or of D^-½ A D^-½; degrees of the halo are those of the stored graph."""
        if self_loops not in self._matrices:
            rows, degree = self.rows, self.rows.stored.degree
            near = torch.cat([degree[rows.first : rows.last], degree[torch.from_numpy(rows.halo)]])
            self._matrices[self_loops] = StreamedMatrix.normalized_adjacency(rows.csr, self_loops, near)
        return self._matrices[self_loops]

    def _with_halo(self, own: Tensor) -> Tensor:
        x = torch.zeros(self.rows.size, own.shape[1])
        x[: self.rows.owned] = own
        return x

    def sums(self, key: str, number: int) -> Tensor:
        """The sum of a series, `[n, D]`."""
        return self._sums[key][number]

    def total_length(self, width: int) -> float:
        """The sum of the lengths of the own features in their first columns."""
        return float(self._own[:, :width].norm(dim=1).double().sum())

    def total_square(self, key: str, number: int) -> float:
        """The sum of the squared lengths of filtered features."""
        length = torch.linalg.vector_norm(self._sums[key][number], dim=1).clamp_(min=1e-12)
        return float(length.double().square().sum())

    def _own_nodes(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Which of the nodes are own ones, and their numbers in the block."""
        inside = ((nodes >= self.rows.first) & (nodes < self.rows.last)).nonzero().squeeze(1)
        return inside, nodes[inside] - self.rows.first

    def filtered_rows(
        self, statistics: FeatureStatistics, filter: Filter, unit: bool, nodes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The filtered features of those of the nodes that are own ones, and their positions among `nodes`."""
        inside, local = self._own_nodes(nodes)
        return inside, self.features(statistics).rows(filter, local, unit)

    def features(self, statistics: FeatureStatistics) -> LocalFeatures:
        """The filtered features of the own nodes."""
        return LocalFeatures(self._sums, statistics, self.rows.owned)


@dataclass(frozen=True, eq=False)
class LocalFeatures:
    """Propagated features of the own nodes, as `MixtureKernel` asks for them."""

    sums: Mapping[str, Sequence[Tensor]]
    statistics: FeatureStatistics
    num_nodes: int

    def rows(self, filter: Filter, nodes: Tensor | None, unit: bool = True) -> Tensor:
        """The filtered features of these own nodes, with unit or relative lengths, `[n, D]`."""
        key, number = self.statistics.place[filter]
        total = self.sums[key][number]
        rows, length = unit_or_zero(total if nodes is None else total[nodes], self.statistics.negligible)
        return rows if unit else rows * (length / self.statistics.scale[filter])


def own_features(rows: BlockRows, unit: bool) -> Tensor:
    """The node features of the own rows in memory, float32 `[n, F]`."""
    x = rows.stored.x
    own = torch.empty(rows.owned, 0) if x is None else x[rows.first : rows.last].clone()
    return normalize(own) if unit else own


class ClusterFeatures:
    """Propagated node features on the blocks of a cluster, as `MixtureKernel` and the choice of kernels ask for them.

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
        length = sum(team.call("total_length", width)) / max(1, self.num_nodes)
        self.statistics = FeatureStatistics({}, NEGLIGIBLE * length, {})
        self._known: dict[tuple[Filter, bool, bytes], Tensor] = {}
        self.extend(filters)

    @property
    def num_nodes(self) -> int:
        return self._team.bounds[-1]

    def extend(self, filters: Sequence[Filter]) -> None:
        """Adds filters that may be asked for."""
        place = self.statistics.place
        new = [filter for filter in dict.fromkeys(filters) if filter not in place]
        for self_loops in (True, False):
            series = series_of(new, self_loops)
            if not series:
                continue
            key, coefficients = f"{self._name}/{len(place)}", tuple(map(tuple, series.values()))
            orders = range(max(map(len, coefficients)))
            self._team.run(
                [SeriesUnit(key, self._width, self_loops, coefficients, order) for order in orders], exchanges=1
            )
            place.update({filter: (key, number) for number, filter in enumerate(series)})

    def rows(self, filter: Filter, nodes: Tensor | None, unit: bool = True) -> Tensor:
        """The filtered features of these nodes, with unit or relative lengths, `[n, D]`."""
        nodes = torch.arange(self.num_nodes) if nodes is None else nodes
        key, statistics = (filter, unit, nodes.numpy().tobytes()), self.statistics
        if key not in self._known:
            if not unit and filter not in statistics.scale:
                square = sum(self._team.call("total_square", *statistics.place[filter])) / self.num_nodes
                statistics.scale[filter] = square**0.5
            answers = self._team.call("filtered_rows", statistics, filter, unit, nodes)
            self._known[key] = arranged(answers, len(nodes))
        return self._known[key]


def arranged(answers: Sequence[tuple[Tensor, Tensor]], count: int) -> Tensor:
    """Rows from several blocks at their positions."""
    places, rows = torch.cat([inside for inside, _ in answers]), torch.cat([rows for _, rows in answers])
    return rows.new_empty(count, rows.shape[1]).index_copy_(0, places, rows)


def open_undirected(graph: Graph | str | Path) -> Graph:
    """A stored graph that is undirected."""
    opened = open_graph(graph)
    if opened.is_directed:
        raise InputError("graph", "be undirected", "a directed one", "Build it again without directions.")
    return opened


def propagate(
    graph: Graph | str | Path, x: Tensor | None = None, filters: Sequence[Filter] = (Hops(2),), *,
    blocks: int | None = None, threads: int | None = None, verify: bool = True,
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
    blocks, threads, verify
        As in `lggd.cluster.evolve`.

    Returns
    -------
    list of Tensor
        float32 [N, D] for each filter.

    Examples
    --------
    >>> import lggd
    >>> with lggd.cluster.connect():  # doctest: +SKIP
    ...     near, far = lggd.cluster.propagate("graph", filters=(lggd.filters.Hops(2), lggd.filters.PPR(0.1)))
    """
    for filter in filters:
        check_instance("filters", filter, Filter, "filters such as Hops(2), HighPass() or PPR(0.1)")
    opened = open_undirected(graph)
    given = _check_x(opened, x)

    def work(team: Team) -> list[Tensor]:
        parts = [None if x is None else given[first:last] for first, last in pairwise(team.bounds)]
        team.prepare(lambda block, _: (PropagationProgram, (parts[block], None)))
        propagated = ClusterFeatures(team, "x", given.shape[1], filters)
        return [torch.cat(team.call("sums", *propagated.statistics.place[filter])) for filter in filters]

    return run_on_team(work, opened, blocks=blocks, threads=threads, verify=verify)[0]


def _check_x(graph: Graph, x: Tensor | None) -> Tensor:
    if x is None:
        return stored_features(graph)
    if not isinstance(x, Tensor) or x.dim() != 2 or len(x) != graph.num_nodes or not x.is_floating_point():
        received = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise InputTypeError("x", f"be a floating-point tensor [{graph.num_nodes}, D]", received)
    return check_finite("x", x.float())


def stored_features(graph: Graph) -> Tensor:
    """The node features of a stored graph."""
    stored = graph.stored
    if stored is None or stored.x is None:
        remedy = "Build it with node features, or pass them to Graph.save."
        raise InputError("graph", "have node features x", "none", remedy)
    return stored.x
