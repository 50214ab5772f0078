"""What GGD and LGGD share: the boundary they hold, how new labels enter it, and how distances become features."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from lggd.features.pipeline import Pipeline, fold_of
from lggd.features.settings import Settings
from lggd.graph import Graph
from lggd.labels import Labels, merge_labels
from lggd.learning.contents import check_contents
from lggd.training import Callback, Checkpoint, History, seed_of


class DistanceFeatures(ABC):
    """Distances to the labelled nodes of each class, as node features.

    After `fit`: `known_` (int64 `[N]`, the class of each node on the boundary, -1 elsewhere), `num_classes_`,
    `feature_names_` and `history_` (numbers by name, an entry an epoch).
    """

    seed: int | torch.Generator
    attr_name: str | None
    known_: Tensor
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

    @abstractmethod
    def _learn(
        self,
        data: Any,
        graph: Graph,
        labels: Labels,
        seed: int,
        callback: Callback | None,
        checkpoint: Checkpoint | None,
    ) -> History:
        """Learns what is to be learned."""

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
        labels = self.hold_out(Labels.read(data))
        self.fit_labels(data, labels, callback, checkpoint)
        if labels.held_out:
            self.known_ = torch.where(labels.validation >= 0, labels.validation, self.known_)
        return self

    def hold_out(self, labels: Labels) -> Labels:
        """The labels with validation nodes among them, drawn with this seed where none are given."""
        return labels.hold_out(self.settings.validation, torch.Generator().manual_seed(seed_of(self.seed)))

    def fit_labels(
        self, data: Any, labels: Labels, callback: Callback | None = None, checkpoint: Checkpoint | None = None
    ) -> Self:
        """`fit` with labels that were read before; the boundary is made of `labels.train` alone."""
        settings = self.settings
        self._forget()
        try:
            return self._fit_labels(data, settings, labels, callback, checkpoint)
        except BaseException:
            self.__dict__.pop("known_", None)
            raise

    def _fit_labels(
        self, data: Any, settings: Settings, labels: Labels, callback: Callback | None, checkpoint: Checkpoint | None
    ) -> Self:
        graph = self._graph_of(data)
        seed = seed_of(self.seed)
        self.num_classes_ = labels.num_classes
        self.known_ = labels.train.clone()
        draws = torch.Generator().manual_seed(seed)
        self.priority_ = torch.randperm(graph.num_nodes, generator=draws).to(graph.device)
        self.history_ = self._learn(data, graph, labels, seed, callback, checkpoint)
        distances, _ = self._solve(self._pipeline_on(data))
        self.scale_ = settings.scale.fit(distances)
        self.feature_names_ = self._names()
        return self

    def transform(self, data: Any) -> Any:
        """A shallow copy of the data with the features in it; nothing is changed or learned.

        The graph and its contents are those of `data`, the boundary is `known_`: labels in `data` are not looked at.
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
        self.known_ = merge_labels(self.known_, nodes, labels, self.num_classes_)
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
        x = check_contents(data)
        return torch.cat([x if x.layout == torch.strided else x.to_dense(), features], dim=1)

    def distances(self, data: Any) -> Tensor:
        """The distances behind the features, `[N, T, K]`, unscaled, all known labels on the boundary."""
        return self._capped(self._pipeline_on(data).distances([self.known_])[0])

    def _solve(self, pipeline: Pipeline) -> tuple[Tensor, Tensor]:
        """Distances `[N, T, K]` and who can reach a label `[N]`; labelled nodes see them without their own fold."""
        known, folds = self.known_, self.settings.cross_fit
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
        if data.num_nodes != len(self.known_):
            raise ValueError(
                f"`data` must have the {len(self.known_)} nodes that the labels belong to, got {data.num_nodes}. "
                "Fit on the new graph."
            )
        graph = self._graph_of(data)
        if self._remembered_pipeline is None:
            self._remembered_pipeline = self._pipeline(data, graph)
        return self._remembered_pipeline

    def _graph_of(self, data: Any) -> Graph:
        """The graph of these data. The last one is remembered, with all that was worked out on it."""
        # Tensors made for inference have no version: they are read anew every time.
        seen = [(value, None if value.is_inference() else value._version) for value in _inputs(data)]
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
        if not hasattr(self, "known_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} must be fitted first. Call fit(data).")

    # -- saving -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Everything learned and known, as tensors by name."""
        self._check_fitted()
        scale = {f"scale.{name}": value for name, value in self.scale_.items()}
        return {"known": self.known_, "priority": self.priority_, **scale, **self._learned()}

    def restore(self, data: Any, state: Mapping[str, Tensor], num_classes: int) -> Self:
        """Takes over such a state, for the same data."""
        self._forget()
        graph = self._graph_of(data)
        self.num_classes_ = num_classes
        self.known_, self.priority_ = state["known"].to(graph.device), state["priority"].to(graph.device)
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


def read_graph(data: Any) -> Graph:
    """The graph of PyG data, which must be symmetric."""
    if not hasattr(data, "edge_index") or not hasattr(data, "num_nodes"):
        raise TypeError(f"`data` must be a PyG Data, got {type(data).__name__}.")
    try:
        return Graph.from_pyg(data, dtype=torch.float32)
    except ValueError as wrong:
        if "symmetrize" not in str(wrong):
            raise
        sentence = str(wrong).split(" Use ")[0].split(" Pass ")[0].replace("`edges`", "`data.edge_index`")
        raise ValueError(f"{sentence} Apply torch_geometric.transforms.ToUndirected() to the data first.") from wrong


def _inputs(data: Any) -> list[Tensor]:
    """The tensors that a pipeline depends on."""
    named = (getattr(data, name, None) for name in ("edge_index", "x", "edge_weight", "edge_attr"))
    return [value for value in named if isinstance(value, Tensor)]
