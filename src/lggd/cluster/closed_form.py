"""The closed form on a cluster: features are propagated by blocks, normal equations are sums over blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lggd.closed_form.filters import MOST_EXACT_COLUMNS, SUBSPACE_ITERATIONS, eigenvectors
from lggd.closed_form.kernel_ridge import KernelRidge
from lggd.closed_form.kernels import FilterKernel, Member, MixtureKernel
from lggd.closed_form.ridge import class_targets, leave_one_out_path, regular_cholesky, ridge_coefficients
from lggd.closed_form.ridge_inputs import filters_of
from lggd.cluster.feature_programs import FeatureMap, MomentsProgram, PropagationProgram
from lggd.cluster.propagation import ClusterGraph, arranged, row_blocks, stored_features
from lggd.cluster.team import Team
from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.training.randomness import read_seed
from lggd.validation import check_instance


@dataclass(frozen=True, eq=False)
class ClusterPrediction:
    """What `lggd.cluster.solve` finds.

    Attributes
    ----------
    probabilities : Tensor
        Of each class, float32 [N, K].
    members : tuple of Member
        The chosen kernels and their weights.
    ridge, inverse_temperature, loss : float
        As of `KernelRidge`.
    losses, repeated_steps : int
        How often blocks were lost, and how many products with Â were computed again.
    """

    probabilities: Tensor
    members: tuple[Member, ...]
    ridge: float
    inverse_temperature: float
    loss: float
    losses: int = 0
    repeated_steps: int = 0


def solve(
    graph: Graph | str | Path, labels: Tensor | None = None, model: KernelRidge | None = None, *,
    blocks: int | None = None, threads: int | None = None, checkpoint_every: int = 10,
    checkpoints: str | Path | None = None, verify: bool = True,
) -> ClusterPrediction:  # fmt: skip
    """`KernelRidge` on a cluster, equal up to rounding: kernels, ridge and temperature by leave-one-out.

    Call it within `lggd.cluster.connect`. Propagated features stay on the blocks. This process sees those of the
    labelled nodes that kernels are compared on, those of the inducing points, and the probabilities.

    Parameters
    ----------
    graph : path or Graph
        An undirected graph in a folder, with node features.
    labels : Tensor [N], optional
        int64, -1 for unlabelled nodes; None takes those of the stored graph.
    model : KernelRidge, optional
        The settings. Weighing edges (`agreement`), kernels of rows of the adjacency (`topology`) and `pseudo_labels`
        are not available: pass None, () and None. By default all others are as in `KernelRidge()`.
    blocks, threads, checkpoint_every, checkpoints, verify
        As in `lggd.cluster.evolve`; a step is one product with Â.

    Returns
    -------
    ClusterPrediction

    Examples
    --------
    >>> import lggd
    >>> with lggd.cluster.connect("head:6379"):  # doctest: +SKIP
    ...     found = lggd.cluster.solve("/shared/graph")
    >>> found.probabilities.argmax(1)  # doctest: +SKIP
    """
    settings = _check_model(KernelRidge(agreement=None, topology=()) if model is None else model)
    with row_blocks(graph, blocks, threads, checkpoint_every, checkpoints, verify) as (opened, team):
        x = stored_features(opened)
        given = _check_labels(opened, labels)
        solver = _ClusterRidge(**settings)
        seed = read_seed(solver.seed)
        axes = _principal_axes(team, x.shape[1], max(solver.widths), seed)
        team.prepare(lambda block, group: (PropagationProgram, (None, axes.numpy())))
        solver.solve_on(_ClusterInputs(team, axes.shape[1], solver.widths), given, seed)
        return ClusterPrediction(
            solver._proba, solver.members_, solver.ridge_, solver.inverse_temperature_, solver.loss_, team.losses,
            team.repeated,
        )  # fmt: skip


def _check_model(model: KernelRidge) -> dict[str, Any]:
    check_instance("model", model, KernelRidge, "a KernelRidge()")
    model.check_settings()
    for name, none in (("agreement", None), ("topology", ()), ("pseudo_labels", None)):
        if getattr(model, name) != none:
            remedy = f"Use KernelRidge({name}={none!r}, ...)."
            raise InputError(f"model.{name}", f"be {none!r} on a cluster", getattr(model, name), remedy)
    return {field.name: getattr(model, field.name) for field in fields(model)}


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


def _principal_axes(team: Team, columns: int, width: int, seed: int) -> Tensor:
    """`principal_axes` of the node features, from sums over blocks."""
    team.prepare(lambda block, group: (MomentsProgram, ()))
    most = min(width, team.bounds[-1])
    if columns <= max(width, MOST_EXACT_COLUMNS):
        return eigenvectors(_total(team.call("gram")))[:, :most].contiguous()
    basis = torch.randn(columns, width, generator=torch.Generator().manual_seed(seed))
    for _ in range(SUBSPACE_ITERATIONS):
        basis = torch.linalg.qr(_total(team.call("product", basis.numpy()))).Q
    return basis @ eigenvectors(_total(team.call("projected_gram", basis.numpy())))[:, :most]


def _total(parts: Sequence[Any]) -> Tensor:
    """The sum over blocks, in their order."""
    return torch.from_numpy(np.sum(np.stack(parts), axis=0))


class _ClusterInputs:
    """`RidgeInputs` whose features stay on the blocks of a cluster."""

    has_features, weighs_edges = True, False
    mean_cosine = None

    def __init__(self, team: Team, columns: int, widths: Sequence[int]) -> None:
        self.team, self._count = team, 0
        self.widths = sorted({min(width, columns) for width in widths})
        self.edge_index = torch.empty(2, 0, dtype=torch.int64)

    def graph(self, kernels: Sequence[FilterKernel], width: int) -> ClusterGraph:
        """The node features in their first principal directions, ready for these kernels."""
        self._count += 1
        return ClusterGraph(self.team, f"{self._count}", width, filters_of(kernels))


class _ClusterRidge(KernelRidge):
    """Chooses settings as `KernelRidge` does, on features that stay on a cluster."""

    def solve_on(self, inputs: _ClusterInputs, labels: Tensor, seed: int) -> None:
        self.num_classes_ = int(labels.max()) + 1
        self._drawn_seed, self._inputs = seed, inputs  # type: ignore[assignment]
        self._choose(labels)

    def _assemble(self, nodes: Tensor) -> None:
        points = nodes if self._exact else self._inducing_nodes
        team = self._inputs.team  # type: ignore[attr-defined]
        self._system: Any = _ClusterSystem(team, self._graphs, self.members_, points, nodes, self._exact)

    def _solve(self, classes: Tensor) -> None:
        targets = class_targets(classes, self.num_classes_)
        self._proba = self._system.probabilities(targets, self.ridge_, self.inverse_temperature_)


class _ClusterSystem:
    """A `RidgeSystem` whose features are on the blocks of a cluster: exact, or with inducing points."""

    def __init__(
        self, team: Team, graphs: Any, members: tuple[Member, ...], points: Tensor, nodes: Tensor, exact: bool
    ) -> None:
        self.team, self.nodes, self._exact = team, nodes, exact
        kernel = MixtureKernel(graphs, members)
        chosen = kernel.points(points)  # also finds the scales that the kernels need
        between = kernel.between(chosen, chosen).double()
        factor = None if exact else regular_cholesky(between).float().numpy()
        facts = {name: graph.facts for name, graph in graphs.items()}
        self._map = FeatureMap(facts, members, tuple(block.numpy() for block in chosen), factor)
        self._gram = between if exact else self._dual_gram(len(points))

    def _dual_gram(self, columns: int) -> Tensor | None:
        """ΦΦᵀ of the labelled nodes where they are fewer than the inducing points, float64 `[n, n]`."""
        if len(self.nodes) >= columns:
            return None
        answers = self.team.call("labelled_features", self._map, self.nodes.numpy())
        self._labelled = arranged(answers, len(self.nodes))
        return (self._labelled @ self._labelled.t()).double()

    def _moments(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """ΦᵀΦ and ΦᵀY, summed over blocks."""
        answers = self.team.call("moments", self._map, self.nodes.numpy(), targets.numpy())
        return _total([normal for normal, _ in answers]), _total([moments for _, moments in answers])

    def path(self, targets: Tensor, ridges: Sequence[float]) -> Tensor:
        """The leave-one-out scores for each ridge, `[R, n, K]`."""
        if self._gram is not None:
            return leave_one_out_path(self._gram, targets, ridges)
        normal, moments = self._moments(targets)
        values, vectors = torch.linalg.eigh(normal)
        shrunk = 1 / (values.clamp(min=0) + torch.tensor(ridges, dtype=values.dtype)[:, None])
        arrays = (x.numpy() for x in (self.nodes, targets, vectors, shrunk, moments))
        return arranged(self.team.call("left_out", self._map, *arrays), len(self.nodes), dim=1)

    def probabilities(self, targets: Tensor, ridge: float, inverse_temperature: float) -> Tensor:
        """softmax(β · scores) of all nodes, float32 `[N, K]`."""
        if self._gram is None:
            weights = ridge_coefficients(*self._moments(targets), ridge)
        else:
            weights = ridge_coefficients(self._gram, targets, ridge)
            if not self._exact:
                weights = self._labelled.double().t() @ weights
        parts = self.team.call("probabilities", self._map, weights.float().numpy(), inverse_temperature)
        return torch.cat([torch.from_numpy(np.array(part)) for part in parts])
