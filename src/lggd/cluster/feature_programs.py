"""What blocks compute for the closed form: moments of node features, their propagation, kernels, and scores."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from lggd.closed_form.filters import Filter, unit_or_zero
from lggd.closed_form.kernels import Member, MixtureKernel
from lggd.cluster.normalized_rows import NormalizedRows
from lggd.cluster.rows import BlockRows

Array = NDArray[Any]
# Nodes whose kernels are computed at a time.
CHUNK = 2**14


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
class GraphFacts:
    """Numbers about propagated features that depend on all blocks.

    `place` is where the sums of each filter are: the key of its series, and the number among them. Features that are
    shorter than `negligible` are 0. `scale` is the root mean square of their lengths, by filter, where it is needed.
    """

    place: Mapping[Filter, tuple[str, int]]
    negligible: float
    scale: Mapping[Filter, float]


class MomentsProgram:
    """Products of the node features of a block, rows scaled to unit length."""

    def __init__(self, rows: BlockRows) -> None:
        self._x = own_features(rows, unit=True)

    def gram(self) -> Array:
        """xᵀx, `[F, F]`."""
        return (self._x.t() @ self._x).numpy()

    def product(self, basis: Array) -> Array:
        """xᵀ(x B), `[F, W]`."""
        return (self._x.t() @ (self._x @ _tensor(basis))).numpy()

    def projected_gram(self, basis: Array) -> Array:
        """(x B)ᵀ x B, `[W, W]`."""
        projected = self._x @ _tensor(basis)
        return (projected.t() @ projected).numpy()


class PropagationProgram:
    """Chebyshev series of Â on node features; a unit of work is a `SeriesUnit`, with one exchange.

    Parameters
    ----------
    rows : BlockRows
    x : NDArray or None
        Features of the own nodes, `[n, D]`; None reads those of the stored graph.
    axes : NDArray or None
        Directions to project features of unit length to, `[F, D]`.
    """

    def __init__(self, rows: BlockRows, x: Array | None, axes: Array | None) -> None:
        self.rows = rows
        own = own_features(rows, unit=axes is not None) if x is None else _tensor(x).float()
        self._own = own if axes is None else own @ _tensor(axes)
        self._matrices: dict[bool, NormalizedRows] = {}
        self._sums: dict[str, list[Tensor]] = {}
        self._running: dict[str, tuple[Tensor, Tensor]] = {}

    def run(self, units: Sequence[SeriesUnit]) -> Iterator[Tensor]:
        for unit in units:
            if unit.order == 0:
                x = torch.zeros(self.rows.size, unit.width)
                x[: self.rows.owned] = self._own[:, : unit.width]
                self._sums[unit.key] = [c[0] * x[: self.rows.owned] for c in unit.series]
                self._running = {unit.key: (x, x)}
                yield torch.empty(self.rows.size, 0)  # every unit has an exchange, this one of nothing
            else:
                yield self._running[unit.key][1]
                self._advance(unit)

    def _advance(self, unit: SeriesUnit) -> None:
        """T₁ = Âx, Tₖ₊₁ = 2Â·Tₖ − Tₖ₋₁, and their sums; arithmetic as of `chebyshev_sums`."""
        (previous, current), owned = self._running[unit.key], self.rows.owned
        matrix = self._matrix(unit.self_loops)
        if unit.order == 1:
            product = torch.zeros_like(current)
            matrix.add_product(current, product[:owned])
            previous, current = current, product
        else:
            previous[:owned].neg_()
            current.mul_(2)  # exact, and undone below
            matrix.add_product(current, previous[:owned])
            previous, current = current.mul_(0.5), previous
        self._running[unit.key] = previous, current
        for total, coefficients in zip(self._sums[unit.key], unit.series, strict=True):
            if unit.order < len(coefficients) and coefficients[unit.order]:
                total.add_(current[:owned], alpha=coefficients[unit.order])

    def _matrix(self, self_loops: bool) -> NormalizedRows:
        if self_loops not in self._matrices:
            self._matrices = {self_loops: NormalizedRows(self.rows, self_loops)}
        return self._matrices[self_loops]

    def state(self) -> list[Array]:
        owned = self.rows.owned
        names = {
            "sums": {key: len(sums) for key, sums in self._sums.items()},
            "running": {key: len({id(x) for x in pair}) for key, pair in self._running.items()},
        }
        arrays = [total for sums in self._sums.values() for total in sums]
        arrays += [x[:owned] for pair in self._running.values() for x in dict.fromkeys(pair)]
        head = np.frombuffer(json.dumps(names).encode(), np.uint8)
        return [head, *(array.numpy().copy() for array in arrays)]

    def load(self, state: Sequence[Array]) -> None:
        names, arrays = json.loads(bytes(state[0])), iter(state[1:])
        self._sums = {key: [_tensor(next(arrays)) for _ in range(n)] for key, n in names["sums"].items()}
        self._running = {}
        for key, count in names["running"].items():
            pair = [self._with_halo(next(arrays)) for _ in range(count)]
            self._running[key] = pair[0], pair[-1]

    def _with_halo(self, own: Array) -> Tensor:
        x = torch.zeros(self.rows.size, own.shape[1])
        x[: self.rows.owned] = _tensor(own)
        return x

    def sums(self, key: str, number: int) -> Array:
        """The sum of a series, `[n, D]`."""
        return self._sums[key][number].numpy()

    def total_length(self, width: int) -> float:
        """The sum of the lengths of the own features in their first columns."""
        return float(self._own[:, :width].norm(dim=1).double().sum())

    def total_square(self, key: str, number: int) -> float:
        """The sum of the squared lengths of filtered features."""
        length = torch.linalg.vector_norm(self._sums[key][number], dim=1).clamp_(min=1e-12)
        return float(length.double().square().sum())

    def _own_nodes(self, nodes: Array) -> tuple[Array, Tensor]:
        """Which of the nodes are own ones, and their numbers in the block."""
        inside = np.flatnonzero((nodes >= self.rows.first) & (nodes < self.rows.last))
        return inside, torch.from_numpy(nodes[inside] - self.rows.first)

    def filtered_rows(self, facts: GraphFacts, filter: Filter, unit: bool, nodes: Array) -> tuple[Array, Array]:
        """The filtered features of those of the nodes that are own ones, and their positions among `nodes`."""
        inside, local = self._own_nodes(nodes)
        return inside, LocalGraph(self._sums, facts).rows(filter, local, unit).numpy()

    # -- kernels --------------------------------------------------------------------------------------------------

    def _features(self, map: FeatureMap, nodes: Tensor) -> Tensor:
        """Features of these own nodes: kernels with the points, whitened where there is a factor, `[n, m]`."""
        kernel = MixtureKernel({name: LocalGraph(self._sums, facts) for name, facts in map.facts.items()}, map.members)  # type: ignore[misc]
        columns = kernel.between(kernel.points(nodes), [_tensor(points) for points in map.points])
        if map.factor is None:
            return columns
        solved: Tensor = torch.linalg.solve_triangular(_tensor(map.factor), columns.t(), upper=False)
        return solved.t().contiguous()

    def labelled_features(self, map: FeatureMap, nodes: Array) -> tuple[Array, Array]:
        """The features of those of the nodes that are own ones, and their positions."""
        inside, local = self._own_nodes(nodes)
        return inside, self._features(map, local).numpy()

    def moments(self, map: FeatureMap, nodes: Array, targets: Array) -> tuple[Array, Array]:
        """ΦᵀΦ and ΦᵀY over the own ones of the labelled nodes, float64."""
        inside, local = self._own_nodes(nodes)
        features, own = self._features(map, local), _tensor(targets[inside])
        normal, moments = (features.t() @ features).double(), features.double().t() @ own
        return normal.numpy(), moments.numpy()

    def left_out(self, map: FeatureMap, nodes: Array, targets: Array, vectors: Array, shrunk: Array, moments: Array):  # type: ignore[no-untyped-def]
        """What the others predict for each own label and ridge, `[R, n, K]`, and the positions of these labels."""
        inside, local = self._own_nodes(nodes)
        own, by_ridge = _tensor(targets[inside]), _tensor(shrunk)
        rotated = self._features(map, local).double() @ _tensor(vectors)
        fitted = rotated @ (by_ridge[:, :, None] * (_tensor(vectors).t() @ _tensor(moments)))
        leverage = by_ridge @ rotated.square().t()
        return inside, (own - (own - fitted) / (1 - leverage)[:, :, None]).numpy()

    def probabilities(self, map: FeatureMap, weights: Array, inverse_temperature: float) -> Array:
        """softmax(β Φ w) of the own nodes, float32 `[n, K]`."""
        parts = [
            torch.softmax(inverse_temperature * (self._features(map, nodes) @ _tensor(weights)), dim=1)
            for nodes in torch.split(torch.arange(self.rows.owned), CHUNK)
        ]
        return torch.cat(parts).numpy()


@dataclass(frozen=True)
class FeatureMap:
    """The features of a ridge regression: the kernels of `members` with `points`, and the factor R of k(Z, Z)."""

    facts: Mapping[str, GraphFacts]
    members: tuple[Member, ...]
    points: tuple[Array, ...]
    factor: Array | None = None


class LocalGraph:
    """Propagated features of the own nodes, as `MixtureKernel` asks for them."""

    def __init__(self, sums: Mapping[str, Sequence[Tensor]], facts: GraphFacts) -> None:
        self._sums, self._facts = sums, facts

    def rows(self, filter: Filter, nodes: Tensor, unit: bool = True) -> Tensor:
        """The filtered features of these own nodes, with unit or relative lengths, `[n, D]`."""
        key, number = self._facts.place[filter]
        rows, length = unit_or_zero(self._sums[key][number][nodes], self._facts.negligible)
        return rows if unit else rows * (length / self._facts.scale[filter])


def own_features(rows: BlockRows, unit: bool) -> Tensor:
    """The node features of the own rows in memory, float32 `[n, F]`."""
    x = rows.stored.x
    own = torch.empty(rows.owned, 0) if x is None else x[rows.first : rows.last].clone()
    return normalize(own) if unit else own


def _tensor(array: Array) -> Tensor:
    """A tensor of its own: arrays from the object store cannot be written to."""
    return torch.from_numpy(np.array(array))
