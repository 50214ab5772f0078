"""The closed form on a cluster: features are propagated by blocks, normal equations are sums over blocks."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lggd.closed_form import KernelRidge
from lggd.closed_form.kernels import ChosenKernel, FilterKernel, MixtureKernel
from lggd.closed_form.ridge import (
    RidgeSystem,
    eigenvectors_by_ridge,
    leave_one_out_path,
    primal_leave_one_out_path,
    regular_cholesky,
    ridge_coefficients,
)
from lggd.closed_form.ridge_inputs import Moments, RidgeInputs, filters_of, principal_axes
from lggd.closed_form.selection import choose
from lggd.closed_form.solution import RidgeSolution
from lggd.closed_form.stored_inputs import StoredInputs, SummedMoments
from lggd.cluster.block import BlockRows
from lggd.cluster.propagation import (
    ClusterFeatures,
    FeatureStatistics,
    PropagationProgram,
    arranged,
    open_team,
    own_features,
    stored_features,
)
from lggd.cluster.team import Team
from lggd.errors import InputError, InputTypeError
from lggd.estimator.inputs import unpack_graph
from lggd.graph import Graph
from lggd.training.problems import read_seed
from lggd.validation import check_instance

# Nodes whose kernels are computed at a time.
CHUNK = 2**14


def solve(
    graph: Graph | str | Path, labels: Tensor | None = None, model: KernelRidge | None = None, *,
    blocks: int | None = None, threads: int | None = None, checkpoint_every: int = 10,
    checkpoints: str | Path | None = None, verify: bool = True,
) -> KernelRidge:  # fmt: skip
    """Fit `KernelRidge` on a cluster, equal up to rounding: kernels, ridge and temperature by leave-one-out.

    Call it within `lggd.cluster.connect`. Propagated features stay on the blocks. This process sees those of the
    labelled nodes that kernels are compared on, those of the inducing points, and the probabilities.

    Parameters
    ----------
    graph : path or Graph
        An undirected graph in a folder, with node features.
    labels : Tensor [N], optional
        int64, -1 for unlabelled nodes; None takes those of the stored graph.
    model : KernelRidge, optional
        The settings; a copy is fitted. Weighing edges (`agreement`), kernels of rows of the adjacency
        (`topology_kernels`) and `pseudo_labels` are not available: pass None, () and None. By default all others are
        as in `KernelRidge()`.
    blocks, threads, checkpoint_every, checkpoints, verify
        As in `lggd.cluster.evolve`; a step is one product with Â.

    Returns
    -------
    KernelRidge
        The fitted model. `metadata_["cluster"]` says how often blocks were lost (`losses`), and how many products with
        Â were computed again (`repeated_steps`). Beyond its predictions, what is asked of it is computed on this
        machine, from the graph on disk.

    Examples
    --------
    >>> import lggd
    >>> with lggd.cluster.connect("head:6379"):  # doctest: +SKIP
    ...     model = lggd.cluster.solve("/shared/graph")
    >>> model.predict()  # doctest: +SKIP
    """
    model = KernelRidge(agreement=None, topology_kernels=()) if model is None else copy.copy(model)
    _check_model(model)
    with open_team(graph, blocks, threads, checkpoint_every, checkpoints, verify) as (opened, team):
        x, labels = stored_features(opened), _check_labels(opened, labels)
        num_classes, seed = int(labels.max()) + 1, read_seed(model.seed)
        team.prepare(lambda block, group: (MomentsProgram, ()))
        generator = torch.Generator().manual_seed(seed)
        axes = principal_axes(SummedMoments(team.call, x.shape), max(model.widths), generator)
        team.prepare(lambda block, group: (RidgeProgram, (None, axes)))
        inputs = ClusterInputs(team, axes.shape[1], model.widths)
        choice, system = choose(model, inputs, labels, num_classes, seed)
        classes = labels[labels >= 0]
        probabilities = system.probabilities(classes, num_classes, choice.ridge, choice.inverse_temperature)
        statistics = {"losses": team.losses, "repeated_steps": team.repeated}
    model._start(unpack_graph({"num_nodes": torch.tensor(opened.num_nodes)}, opened), num_classes)
    model.metadata_ = {"cluster": statistics}
    stored = StoredInputs(opened, x, model.widths, seed, {"x": axes})
    model.adopt(RidgeSolution(choice, stored, labels, num_classes, probabilities))
    return model


def _check_model(model: KernelRidge) -> None:
    check_instance("model", model, KernelRidge, "a KernelRidge()")
    model.check_settings()
    for name, none in (("agreement", None), ("topology_kernels", ()), ("pseudo_labels", None)):
        if getattr(model, name) != none:
            remedy = f"Use KernelRidge({name}={none!r}, ...)."
            raise InputError(f"model.{name}", f"be {none!r} on a cluster", getattr(model, name), remedy)


def _check_labels(graph: Graph, labels: Tensor | None) -> Tensor:
    if labels is None:
        stored = None if graph.stored is None else graph.stored.y
        if stored is None:
            remedy = "Pass `labels`, or build the graph with labels."
            raise InputError("graph", "have labels y", "none", remedy)
        labels = stored
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.shape != (graph.num_nodes,):
        raise InputTypeError("labels", f"be an int64 tensor [{graph.num_nodes}]", type(labels).__name__)
    classes = int((labels[labels >= 0].bincount() > 0).sum())
    if classes < 2:
        raise InputError("labels", "name at least two classes", classes)
    return labels


class MomentsProgram(Moments):
    """`Moments` of the node features of a block, rows scaled to unit length."""

    def __init__(self, rows: BlockRows) -> None:
        super().__init__(own_features(rows, unit=True))


def _total(parts: Sequence[Tensor]) -> Tensor:
    """The sum over blocks, in their order."""
    return torch.stack(list(parts)).sum(0)


class ClusterInputs(RidgeInputs["ClusterSystem"]):
    """Node features that stay on the blocks of a cluster, by the number of their principal directions."""

    has_features = True

    def __init__(self, team: Team, columns: int, widths: Sequence[int]) -> None:
        self.team, self.widths = team, sorted({min(width, columns) for width in widths})
        self._graphs: dict[str, ClusterFeatures] = {}

    def graph(self, name: str, kernels: Sequence[FilterKernel], edge_weight: Tensor | None = None) -> ClusterFeatures:
        width = self.widths[-1 if name == "wide" else 0]
        self._graphs[name] = ClusterFeatures(self.team, name, width, filters_of(kernels))
        return self._graphs[name]

    def system(self, kernel: MixtureKernel, nodes: Tensor, inducing: Tensor | None = None) -> ClusterSystem:
        return ClusterSystem(self.team, kernel, self._graphs, nodes, inducing)


@dataclass(frozen=True)
class FeatureMap:
    """The features of a ridge regression: kernels with `points`, and the factor R of k(Z, Z)."""

    statistics: Mapping[str, FeatureStatistics]
    kernels: tuple[ChosenKernel, ...]
    points: tuple[Tensor, ...]
    factor: Tensor | None = None


class RidgeProgram(PropagationProgram):
    """Propagated features of a block, and what a ridge regression on them needs."""

    def _features(self, map: FeatureMap, nodes: Tensor) -> Tensor:
        """Features of these own nodes: kernels with the points, whitened where there is a factor, `[n, m]`."""
        kernel = MixtureKernel({name: self.features(each) for name, each in map.statistics.items()}, map.kernels)
        columns = kernel.between(kernel.points(nodes), map.points)
        if map.factor is None:
            return columns
        solved: Tensor = torch.linalg.solve_triangular(map.factor, columns.t(), upper=False)
        return solved.t().contiguous()

    def labelled_features(self, map: FeatureMap, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The features of those of the nodes that are own ones, and their positions."""
        inside, local = self._own_nodes(nodes)
        return inside, self._features(map, local)

    def moments(self, map: FeatureMap, nodes: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """ΦᵀΦ and ΦᵀY over this block's labelled nodes, float64."""
        inside, local = self._own_nodes(nodes)
        features = self._features(map, local)
        return (features.t() @ features).double(), features.double().t() @ targets[inside]

    def left_out(
        self, map: FeatureMap, nodes: Tensor, targets: Tensor, vectors: Tensor, shrunk: Tensor, moments: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The leave-one-out scores of the own labels for each ridge `[R, n, K]`, and the positions of these labels."""
        inside, local = self._own_nodes(nodes)
        features, rotated = self._features(map, local).double() @ vectors, vectors.t() @ moments
        return inside, primal_leave_one_out_path(features, rotated, targets[inside], shrunk)

    def scores(self, map: FeatureMap, weights: Tensor) -> Tensor:
        """Φ w of the own nodes, float32 `[n, K]`."""
        chunks = torch.split(torch.arange(self.rows.owned), CHUNK)
        return torch.cat([self._features(map, nodes) @ weights for nodes in chunks])


class ClusterSystem(RidgeSystem):
    """A ridge regression whose features are on the blocks of a cluster: with inducing points, or exact without."""

    def __init__(
        self, team: Team, kernel: MixtureKernel, graphs: Mapping[str, ClusterFeatures], nodes: Tensor,
        inducing: Tensor | None,
    ) -> None:  # fmt: skip
        self.team, self.nodes, self._exact = team, nodes, inducing is None
        points = kernel.points(nodes if inducing is None else inducing)  # also computes the scales that kernels need
        between = kernel.between(points, points).double()
        factor = None if self._exact else regular_cholesky(between).float()
        statistics = {name: graph.statistics for name, graph in graphs.items()}
        self._map = FeatureMap(statistics, tuple(kernel.kernels), tuple(points), factor)
        self._gram = between if self._exact else self._dual_gram(len(points[0]))

    def _dual_gram(self, columns: int) -> Tensor | None:
        """ΦΦᵀ of the labelled nodes where they are fewer than the inducing points, float64 `[n, n]`."""
        if len(self.nodes) >= columns:
            return None
        answers = self.team.call("labelled_features", self._map, self.nodes)
        self._labelled = arranged(answers, len(self.nodes))
        return (self._labelled @ self._labelled.t()).double()

    def _moments(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """ΦᵀΦ and ΦᵀY, summed over blocks."""
        answers = self.team.call("moments", self._map, self.nodes, targets)
        return _total([normal for normal, _ in answers]), _total([moments for _, moments in answers])

    def path(self, targets: Tensor, ridges: Sequence[float]) -> Tensor:
        if self._gram is not None:
            return leave_one_out_path(self._gram, targets, ridges)
        normal, moments = self._moments(targets)
        vectors, shrunk = eigenvectors_by_ridge(normal, ridges)
        answers = self.team.call("left_out", self._map, self.nodes, targets, vectors, shrunk, moments)
        return arranged(answers, len(self.nodes), dim=1)

    def scores(self, targets: Tensor, ridge: float) -> Tensor:
        if self._gram is None:
            weights = ridge_coefficients(*self._moments(targets), ridge)
        else:
            weights = ridge_coefficients(self._gram, targets, ridge)
            if not self._exact:
                weights = self._labelled.double().t() @ weights
        return torch.cat(self.team.call("scores", self._map, weights.float()))
