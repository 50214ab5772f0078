"""What GGD and LGGD share: the boundary they hold, how new labels enter it, and how distances become features."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from lggd.errors import InputError, error_context
from lggd.estimator.fit_task import FitTask, inputs_of, read_graph, read_graphs
from lggd.estimator.labels import Labels, merge_labels
from lggd.features.pipeline import Pipeline, fold_of
from lggd.features.settings import Settings
from lggd.graph import Graph
from lggd.learning.node_features import check_node_features
from lggd.training.checkpoint import Checkpoint
from lggd.training.progress import Callback, History
from lggd.training.randomness import read_seed


class DistanceFeatures(ABC):
    """Distances to the labelled nodes of each class, as node features.

    After `fit`: `labels_` (int64 `[N]`, the class of each node on the boundary, -1 elsewhere), `num_classes_`,
    `feature_names_` and `history_` (numbers by name, an entry an epoch).
    """

    seed: int | torch.Generator
    attr_name: str | None
    labels_: Tensor
    priority_: Tensor
    num_classes_: int
    scale_: Mapping[str, Tensor]
    feature_names_: list[str]
    history_: History
    _remembered_graph: tuple[list[tuple[Tensor, int | None]], Graph] | None
    _remembered_pipeline: Pipeline | None

    # -- what a method must say ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """All settings, checked."""

    @classmethod
    @abstractmethod
    def _learn(
        cls,
        models: Sequence[Self],
        given: Sequence[FitTask],
        callback: Callback | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        """Learns what is to be learned, of all models in as few passes as they need; says so in their `history_`."""

    @abstractmethod
    def _pipeline(self, data: Any, graph: Graph) -> Pipeline:
        """Pipeline 2 on these data, with what was learned."""

    @abstractmethod
    def _learned(self) -> dict[str, Tensor]:
        """What was learned, for saving."""

    @abstractmethod
    def _restore_learned(self, data: Any, graph: Graph, state: Mapping[str, Tensor]) -> None:
        """Takes over what was saved."""

    # -- scikit-learn's verbs -----------------------------------------------------------------------------------

    def fit(self, data: Any, *, callback: Callback | None = None, checkpoint: Checkpoint | None = None) -> Self:
        """Learns from the labels that the data show: `y` with -1 for unlabelled nodes, or `y` with `train_mask`.

        `val_mask` names validation nodes; without it a share of the labels is held out while learning and joins the
        boundary afterwards. Labels of other nodes are never read. A refit forgets all that was learned or added.
        """
        fit_features([self], [data], [""], callback, checkpoint)
        return self

    def hold_out(self, labels: Labels) -> Labels:
        """The labels with validation nodes among them, drawn with this seed where none are given."""
        return labels.hold_out(self.settings.validation, torch.Generator().manual_seed(read_seed(self.seed)))

    def _prepare(self, given: FitTask) -> None:
        """Forgets all and takes the boundary; nothing is learned yet."""
        self._forget()
        self._remembered_graph = (_seen(given.data), given.graph)
        self.num_classes_ = given.labels.num_classes
        self.labels_ = given.labels.train.clone()
        draws = torch.Generator().manual_seed(given.seed)
        self.priority_ = torch.randperm(given.graph.num_nodes, generator=draws).to(given.graph.device)

    def _complete(self, given: FitTask) -> None:
        """What follows from what was learned."""
        distances, _ = self._solve(self._pipeline_on(given.data))
        self.scale_ = self.settings.scale.fit(distances)
        self.feature_names_ = self._names()

    def transform(self, data: Any) -> Any:
        """A shallow copy of the data with the features in it; nothing is changed or learned.

        The graph and its contents are those of `data`, the boundary is `labels_`: labels in `data` are not looked at.
        """
        changed = copy.copy(data)
        if self.attr_name is not None:
            setattr(changed, self.attr_name, self.features(data))
        else:
            changed.x = self.inputs(data)
        return changed

    def fit_transform(
        self, data: Any, *, callback: Callback | None = None, checkpoint: Checkpoint | None = None
    ) -> Any:
        """`fit(data).transform(data)`."""
        return self.fit(data, callback=callback, checkpoint=checkpoint).transform(data)

    def __call__(self, data: Any) -> Any:
        """`transform`, so that it stands in torch_geometric.transforms.Compose."""
        return self.transform(data)

    def add_labels(self, nodes: Any, labels: Any) -> Self:
        """Takes more labelled nodes into the boundary (ids or a mask, and their classes). Nothing is learned anew."""
        self._check_fitted()
        self.labels_ = merge_labels(self.labels_, nodes, labels, self.num_classes_)
        return self

    # -- numbers ------------------------------------------------------------------------------------------------

    def features(self, data: Any) -> Tensor:
        """The features alone, float32 `[N, T·K]`, and a column more where `reachable`; `feature_names_` names them."""
        settings = self.settings
        distances, reachable = self._solve(self._pipeline_on(data))
        scaled = settings.scale.apply(distances, self.scale_).flatten(1)
        return torch.cat([scaled, reachable.unsqueeze(1).float()], 1) if settings.reachable else scaled

    def inputs(self, data: Any) -> Tensor:
        """What a backbone is to see: the features, or the node contents and the features, as `mode` says."""
        features = self.features(data)
        if self.settings.mode == "replace":
            return features
        x = check_node_features(data)
        return torch.cat([x if x.layout == torch.strided else x.to_dense(), features], dim=1)

    def distances(self, data: Any) -> Tensor:
        """The distances behind the features, `[N, T, K]`, unscaled, all known labels on the boundary."""
        return self._capped(self._pipeline_on(data).distances([self.labels_])[0])

    def _solve(self, pipeline: Pipeline) -> tuple[Tensor, Tensor]:
        """Distances `[N, T, K]` and who can reach a label `[N]`; labelled nodes see them without their own fold."""
        known, folds = self.labels_, self.settings.cross_fit
        fold = fold_of(known, self.priority_, folds) if folds else torch.full_like(known, -1)
        boundaries = [known, *(torch.where(fold == j, -1, known) for j in range(folds))]
        solved = pipeline.distances(boundaries)
        distances, reachable = solved[0].clone(), pipeline.reachable(known)
        for j, boundary in enumerate(boundaries[1:]):
            left_out = fold == j
            distances[left_out] = solved[j + 1][left_out]
            reachable[left_out] = pipeline.reachable(boundary)[left_out]
        return self._capped(distances), reachable

    def _capped(self, distances: Tensor) -> Tensor:
        cap = self.settings.cap
        return distances if math.isinf(cap) else distances.clamp(max=cap)

    def _pipeline_on(self, data: Any) -> Pipeline:
        """The pipeline on these data. The last one is remembered, because adding labels changes nothing in it."""
        self._check_fitted()
        if data.num_nodes != len(self.labels_):
            raise InputError(
                "data",
                f"have the {len(self.labels_)} nodes that the labels belong to",
                data.num_nodes,
                "Fit on the new graph.",
            )
        graph = self._graph_of(data)
        if self._remembered_pipeline is None:
            self._remembered_pipeline = self._pipeline(data, graph)
        return self._remembered_pipeline

    def _graph_of(self, data: Any) -> Graph:
        """The graph of these data. The last one is remembered, with all that was worked out on it."""
        seen = _seen(data)
        if self._remembered_graph is not None:
            before, graph = self._remembered_graph
            if len(seen) == len(before) and all(
                a[0] is b[0] and a[1] is not None and a[1] == b[1] for a, b in zip(seen, before, strict=True)
            ):
                return graph
        graph = read_graph(data)
        self._remembered_graph, self._remembered_pipeline = (seen, graph), None
        return graph

    def _forget(self) -> None:
        self._remembered_graph, self._remembered_pipeline = None, None

    def _names(self) -> list[str]:
        settings = self.settings
        names = [f"class {k}, t={t:g}" for t in settings.times for k in range(self.num_classes_)]
        return names + ["reachable"] * settings.reachable

    def _check_fitted(self) -> None:
        if not hasattr(self, "labels_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} must be fitted first. Call fit(data).")

    # -- saving -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Everything learned and known, as tensors by name."""
        self._check_fitted()
        scale = {f"scale.{name}": value for name, value in self.scale_.items()}
        return {"known": self.labels_, "priority": self.priority_, **scale, **self._learned()}

    def restore(self, data: Any, state: Mapping[str, Tensor], num_classes: int) -> Self:
        """Takes over such a state, for the same data."""
        self._forget()
        graph = self._graph_of(data)
        self.num_classes_ = num_classes
        self.labels_, self.priority_ = state["known"].to(graph.device), state["priority"].to(graph.device)
        if self.priority_.shape != (graph.num_nodes,):
            raise ValueError(f"priority must have shape [{graph.num_nodes}], got {list(self.priority_.shape)}")
        settings = self.settings
        wanted = settings.scale.fit(torch.ones(1, len(settings.times), num_classes, device=graph.device))
        self.scale_ = {name: state[f"scale.{name}"].to(graph.device) for name in wanted}
        for name, like in wanted.items():
            if self.scale_[name].shape != like.shape:
                raise ValueError(
                    f"scale.{name} must have shape {list(like.shape)}, got {list(self.scale_[name].shape)}"
                )
        self.history_ = {}
        self._restore_learned(data, graph, state)
        self.feature_names_ = self._names()
        return self


def fit_features(
    models: Sequence[DistanceFeatures],
    data: Sequence[Any],
    names: Sequence[str],
    callback: Callback | None,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Fits each model to its data as `fit` says; all of them, or none where something is wrong with one.

    `names` are what errors and curves call the models.
    """
    labels, seeds = [], []
    for model, one, name in zip(models, data, names, strict=True):
        with error_context(name):
            labels.append(model.hold_out(Labels.read(one)))
            seeds.append(read_seed(model.seed))
    graphs = read_graphs(data, names)
    given = [FitTask(*parts) for parts in zip(data, graphs, labels, seeds, names, strict=True)]
    fit_to_labels(models, given, callback, checkpoint)
    for model, seen in zip(models, labels, strict=True):
        if seen.held_out:
            model.labels_ = torch.where(seen.validation >= 0, seen.validation, model.labels_)


def fit_to_labels(
    models: Sequence[DistanceFeatures],
    given: Sequence[FitTask],
    callback: Callback | None,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Fits each model to what is given to it; the boundary is made of training labels alone."""
    for model, one in zip(models, given, strict=True):
        with error_context(one.name):
            _ = model.settings  # wrong ones are refused before anything is forgotten
    try:
        for model, one in zip(models, given, strict=True):
            model._prepare(one)
        kinds: dict[type[DistanceFeatures], None] = dict.fromkeys(type(model) for model in models)
        for kind in kinds:
            mine = [k for k, model in enumerate(models) if type(model) is kind]
            kind._learn([models[k] for k in mine], [given[k] for k in mine], callback, checkpoint)
        for model, one in zip(models, given, strict=True):
            with error_context(one.name):
                model._complete(one)
    except BaseException:
        for model in models:
            model.__dict__.pop("labels_", None)
        raise


def _seen(data: Any) -> list[tuple[Tensor, int | None]]:
    """The tensors that a pipeline depends on, and how often they have changed."""
    # Tensors made for inference have no version: they are read anew every time.
    return [(value, None if value.is_inference() else value._version) for value in inputs_of(data) if value is not None]
