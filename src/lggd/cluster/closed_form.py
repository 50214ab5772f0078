"""The closed form on a cluster: features are propagated, and predictions computed, by blocks."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lggd.closed_form import KernelRidge
from lggd.closed_form.ridge import FeatureSystem, inducing_factor, inducing_features
from lggd.closed_form.ridge_inputs import Moments, RidgeInputs, filters_of, principal_axes
from lggd.closed_form.selection import RidgeChoice, choose
from lggd.closed_form.solution import RidgeSolution
from lggd.closed_form.stored_inputs import StoredInputs, SummedMoments
from lggd.cluster.propagation import (
    ClusterFeatures,
    FeatureStatistics,
    PropagationProgram,
    arranged,
    open_undirected,
    own_features,
    stored_features,
)
from lggd.cluster.team import BlockRows, Team, run_on_team
from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.inputs import NodeData
from lggd.kernels import ChosenKernel, FilterKernel, MixtureKernel
from lggd.validation import check_instance, read_seed

# Nodes whose kernels are computed at a time.
CHUNK = 2**14


def solve(
    graph: Graph | str | Path, labels: Tensor | None = None, model: KernelRidge | None = None, *,
    blocks: int | None = None, threads: int | None = None, verify: bool = True,
) -> KernelRidge:  # fmt: skip
    """Fit `KernelRidge` on a cluster, equal up to rounding: kernels, ridge and temperature by leave-one-out.

    Call it within `lggd.cluster.connect`. Propagated features stay on the blocks. This process sees those of the
    labelled nodes and of the inducing points, and the probabilities.

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
    blocks, threads, verify
        As in `lggd.cluster.evolve`.

    Returns
    -------
    KernelRidge
        The fitted model. `metadata_["cluster"]` says how often it began anew because blocks were lost (`losses`).
        Beyond its predictions, what is asked of it is computed on this
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
    opened = open_undirected(graph)
    x, labels = stored_features(opened), _check_labels(opened, labels)
    num_classes, seed = int(labels.max()) + 1, read_seed(model.seed)

    def work(team: Team) -> tuple[RidgeChoice, Tensor, Tensor]:
        team.prepare(lambda block, group: (MomentsProgram, ()))
        generator = torch.Generator().manual_seed(seed)
        axes = principal_axes(SummedMoments(team.call, x.shape), max(model.widths), generator)
        team.prepare(lambda block, group: (RidgeProgram, (None, axes)))
        inputs = ClusterInputs(team, axes.shape[1], model.widths)
        choice, system = choose(model, inputs, labels, num_classes, seed)
        classes = labels[labels >= 0]
        return choice, axes, system.probabilities(classes, num_classes, choice.ridge, choice.inverse_temperature)

    (choice, axes, probabilities), losses = run_on_team(work, opened, blocks=blocks, threads=threads, verify=verify)
    model._start(NodeData.unpack({"num_nodes": torch.tensor(opened.num_nodes)}, opened), num_classes)
    model.metadata_ = {"cluster": {"losses": losses}}
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
    """The features of a ridge regression: kernels with inducing `points`, and the factor R of k(Z, Z)."""

    statistics: Mapping[str, FeatureStatistics]
    kernels: tuple[ChosenKernel, ...]
    points: tuple[Tensor, ...]
    factor: Tensor


class RidgeProgram(PropagationProgram):
    """Propagated features of a block, and the features of a ridge regression from them."""

    def _features(self, map: FeatureMap, nodes: Tensor) -> Tensor:
        kernel = MixtureKernel({name: self.features(each) for name, each in map.statistics.items()}, map.kernels)
        return inducing_features(kernel, kernel.points(nodes), map.points, map.factor).contiguous()

    def labelled_features(self, map: FeatureMap, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The features of those of the nodes that are own ones, and their positions."""
        inside, local = self._own_nodes(nodes)
        return inside, self._features(map, local)

    def scores(self, map: FeatureMap, weights: Tensor) -> Tensor:
        """Φ W of the own nodes, float32 `[n, K]`."""
        chunks = torch.split(torch.arange(self.rows.owned), CHUNK)
        return torch.cat([self._features(map, nodes) @ weights for nodes in chunks])


class ClusterSystem(FeatureSystem):
    """A ridge regression whose features are on the blocks of a cluster, those of labelled nodes also here.

    With the labelled nodes as inducing points it is exact.
    """

    def __init__(
        self, team: Team, kernel: MixtureKernel, graphs: Mapping[str, ClusterFeatures], nodes: Tensor,
        inducing: Tensor | None,
    ) -> None:  # fmt: skip
        points = kernel.points(nodes if inducing is None else inducing)  # also computes the scales that kernels need
        statistics = {name: graph.statistics for name, graph in graphs.items()}
        factor = inducing_factor(kernel, points)
        self._team, self._map = team, FeatureMap(statistics, tuple(kernel.kernels), tuple(points), factor)
        super().__init__(nodes, arranged(team.call("labelled_features", self._map, nodes), len(nodes)))

    @property
    def _in_dual(self) -> bool:
        return len(self.nodes) <= int(self._labelled.shape[1])

    def _predicted(self, weights: Tensor) -> Tensor:
        return torch.cat(self._team.call("scores", self._map, weights.float()))
