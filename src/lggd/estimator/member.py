"""The interface of all models: fit, predict, add, change and remove labels, save and load."""

from __future__ import annotations

import copy
import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from lggd._system.files import replacing_folder
from lggd.errors import InputError
from lggd.estimator import storage
from lggd.estimator.settings import changed_params, format_setting, get_params, model_card, saveable
from lggd.inputs.graph_change import GraphChange, new_edges, new_nodes, removed_edges
from lggd.inputs.labels import Labels, accuracy, merge_labels, remove_labels, replace_labels
from lggd.inputs.node_data import NodeData
from lggd.progress import Callback
from lggd.training.engine import History, without_prefix
from lggd.validation import read_seed

if TYPE_CHECKING:
    from torch_geometric.data import Data

# The fraction of labels that most models hold out for validation.
VALIDATION = 0.2


class Member(ABC):
    """A model of the classes of nodes.

    It classifies the nodes of the graph that it is fitted to. Subclasses are dataclasses whose fields are their
    settings. Attributes set by `fit` end in an underscore.

    Attributes
    ----------
    labels_ : Tensor
        The labels in use, int64 `[N]`, -1 for unlabelled nodes.
    num_classes_ : int
    history_ : dict
        Training curves by stage: `history_["backbone"]["train_loss"]` holds one value per epoch.
    additions_ : list of dict
        The labels set by `add_labels`, with timestamps. Those of `change_labels` and `remove_labels` also have
        `change`, "changed" or "removed", and the labels `before`; the label of a removed one is -1.
    data_ : NodeData
        The graph and the node features.
    metadata_ : dict
        User data for JSON, such as the names of nodes and classes; saved with the model.

    Examples
    --------
    >>> import lggd
    >>> isinstance(lggd.KernelRidge(), Member)
    True
    """

    seed: int | torch.Generator
    labels_: Tensor
    num_classes_: int
    data_: NodeData
    history_: dict[str, History]
    additions_: list[dict[str, Any]]
    metadata_: dict[str, Any]

    # The setting that is a model itself, or None; `_fit_inner` fits a copy of it, the attribute of that name with "_".
    _inner: ClassVar[str] = ""

    @property
    def needs_edge_index(self) -> bool:
        """Whether predictions need `data.edge_index`; others also work on a graph on disk, block by block."""
        return True

    @property
    def accepts_labels(self) -> bool:
        """Whether `add_labels` works, without training; delegates to the inner model, if there is one."""
        return not self._inner or (self._inner_model is not None and self._inner_model.accepts_labels)

    @property
    def accepts_nodes(self) -> bool:
        """Whether `add_nodes`, `add_edges` and `remove_edges` work, because the graph can change without training."""
        return self._inner_model is not None and self._inner_model.accepts_nodes

    @property
    def _inner_model(self) -> Member | None:
        return getattr(self, self._inner) if self._inner else None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        saveable(cls)

    @abstractmethod
    def check_settings(self) -> None:
        """Checks the settings, without data; raises an `InputError` if one is invalid."""

    @abstractmethod
    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int, callback: Callback | None) -> None:
        """Fits the model to these labels.

        Afterwards only the training labels are in use, so that an outer model can be trained on its predictions.
        """

    def _fit_inner(self, nodes: NodeData, labels: Labels, seed: int, callback: Callback | None) -> None:
        """Fits a copy of the inner model, and adds its curves to those of this one; None stays None."""
        inner = copy.copy(self._inner_model)
        setattr(self, f"{self._inner}_", inner)
        if inner is not None:
            inner._fit_to(nodes, labels, seed, callback)
            self.history_ |= inner.history_

    def _reseeded(self, seed: int) -> tuple[Self, int]:
        """A copy for one member of an ensemble, and the seed to fit it with; its parts have derived seeds."""
        model, inner = copy.copy(self), self._inner_model
        if inner is not None:
            inner, seed = inner._reseeded(seed)
            setattr(model, self._inner, inner)
        return model, seed

    @abstractmethod
    def _probabilities(self, nodes: NodeData) -> Tensor:
        """The probability of each class, float32 `[N, K]`."""

    def _parts(self) -> Mapping[str, Member]:
        """Fitted models inside this one, by the prefix that the names of their tensors have in `_state`."""
        return {} if self._inner_model is None else {f"{self._inner}.": getattr(self, f"{self._inner}_")}

    def _state(self) -> dict[str, Tensor]:
        """The learned tensors by name; by default those of all parts."""
        return {prefix + name: x for prefix, part in self._parts().items() for name, x in part._state().items()}

    def _restore(self, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        """Restores such a state; `labels_` and `num_classes_` are already set. By default restores the inner model."""
        if self._inner:
            inner = self._restored(self._inner_model, nodes, without_prefix(f"{self._inner}.", state))
            setattr(self, f"{self._inner}_", inner)

    def fit(self, data: Data, *, callback: Callback | None = None) -> Self:
        """Fit the model to a graph with some labelled nodes.

        A fit that fails leaves the model unfitted; a refit discards everything learned or added before.

        Parameters
        ----------
        data : torch_geometric.data.Data
            A graph with node features `x` and labels: `y` with -1 for unlabelled nodes, or `y` with `train_mask`.
            `val_mask` marks validation nodes; without it, a fraction of the labels is held out during training and
            joins the others afterwards. No other entry of `y` is read.
        callback : callable, optional
            Called with a `Progress` after every epoch.

        Returns
        -------
        The model itself.

        Examples
        --------
        >>> import lggd
        >>> lggd.KernelRidge().fit(lggd.load("karate")).num_classes_
        2
        """
        with torch.inference_mode(False), torch.enable_grad():  # the caller may have disabled gradients
            nodes = NodeData.read(data)
            try:
                self.check_settings()
                nodes.check_storage(type(self).__name__, self.needs_edge_index)
                seed = read_seed(self.seed)
                labels = Labels.read(data).hold_out(self._held_out, torch.Generator().manual_seed(seed))
                self._fit_to(nodes, labels, seed, callback)
                self._set_labels(labels.known)
            except BaseException:
                self._unfit()
                raise
        return self

    @property
    def _held_out(self) -> float:
        """The fraction of labels to hold out where there are no validation nodes; that of an inner model, if any."""
        return VALIDATION if self._inner_model is None else self._inner_model._held_out

    def _start(self, nodes: NodeData, num_classes: int) -> None:
        """Resets the fitted attributes."""
        self._unfit()
        self.num_classes_, self.data_ = num_classes, nodes
        self.history_, self.additions_, self.metadata_ = {}, [], {}

    def _unfit(self) -> None:
        self.__dict__.pop("labels_", None)  # a model with labels counts as fitted

    def predict(self, data: Data | NodeData | None = None) -> Tensor:
        """Return the most probable class of each node, int64 `[N]`; without data, of the graph it was fitted to."""
        return self.predict_proba(data).argmax(1)

    def predict_proba(self, data: Data | NodeData | None = None) -> Tensor:
        """Return the probability of each class, float32 `[N, K]`; without data, on the graph it was fitted to.

        >>> import lggd
        >>> lggd.KernelRidge().fit(lggd.load("karate")).predict_proba().shape
        torch.Size([34, 2])
        """
        self._check_fitted()
        return self._probabilities(self.data_ if data is None else NodeData.read(data))

    def score(self, data: Data, mask: Tensor | None = None) -> float:
        """Return the accuracy over `mask`, or `data.test_mask`, or the labels in `data.y` that the model lacks.

        >>> import lggd
        >>> data = lggd.load("karate")
        >>> 0.5 < lggd.KernelRidge().fit(data).score(data) <= 1
        True
        """
        return accuracy(self.predict(data), data, mask, self.labels_)

    def add_labels(self, nodes: Any, labels: Any) -> Self:
        """Add labels without training.

        Parameters
        ----------
        nodes : sequence of int, or bool mask
            The nodes that are now labelled.
        labels : sequence of int
            Their classes, one per node.

        Returns
        -------
        The model itself.

        Examples
        --------
        >>> import lggd
        >>> lggd.KernelRidge().fit(lggd.load("karate")).add_labels([8], [1]).labels_[8].item()
        1
        """
        return self._relabel("added", merge_labels, nodes, labels)

    def change_labels(self, nodes: Any, labels: Any) -> Self:
        """Correct labels without training; a class keeps at least one label. Returns the model.

        Parameters
        ----------
        nodes : sequence of int, or bool mask
            Labelled nodes.
        labels : sequence of int
            Their correct classes, one per node.

        Examples
        --------
        >>> import lggd
        >>> model = lggd.KernelRidge().fit(lggd.load("karate")).add_labels([0], [0])
        >>> model.change_labels([0], [1]).labels_[0].item()
        1
        """
        return self._relabel("changed", replace_labels, nodes, labels)

    def remove_labels(self, nodes: Any) -> Self:
        """Take labels back without training; a class keeps at least one label. Returns the model.

        Parameters
        ----------
        nodes : sequence of int, or bool mask
            Labelled nodes, which are unlabelled from now on.

        Examples
        --------
        >>> import lggd
        >>> model = lggd.KernelRidge().fit(lggd.load("karate")).add_labels([0], [0])
        >>> model.remove_labels([0]).labels_[0].item()
        -1
        """
        return self._relabel("removed", remove_labels, nodes)

    def _relabel(self, change: str, relabelled: Callable[..., Tensor], *nodes_and_labels: Any) -> Self:
        """Uses other labels and records the difference in `additions_`."""
        self._check_fitted()
        if not self.accepts_labels:
            remedy = "Fit it again with all labels, or use a model in closed form, such as KernelRidge()."
            raise InputError("model", "accept labels without training", type(self).__name__, remedy)
        before, labels = self.labels_, relabelled(self.labels_, *nodes_and_labels, self.num_classes_)
        nodes = (labels != before).nonzero().squeeze(1)
        self._set_labels(labels)
        when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record = {"when": when, "nodes": nodes.tolist(), "labels": labels[nodes].tolist()}
        if change != "added":
            record |= {"change": change, "before": before[nodes].tolist()}
        self.additions_.append(record)
        return self

    def _set_labels(self, labels: Tensor) -> None:
        """Uses these labels for predictions, in all parts too."""
        self.labels_ = labels
        for part in self._parts().values():
            part._set_labels(labels)

    def add_nodes(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Self:
        """Add nodes without labels, and edges, without training; `accepts_nodes` says whether the model can.

        Parameters
        ----------
        x : Tensor or array
            Node features of the M new nodes `[M, F]`, which get the numbers N..N + M - 1. If the graph has no node
            features, `[M, 0]`, or None: then the edges name the new nodes.
        edge_index : Tensor or array
            Edges between any nodes, int64 `[2, E]`. One direction of each is enough.
        edge_weight : Tensor or array, optional
            Their weights `[E]`; required if the graph has weights.

        Returns
        -------
        The model itself.

        Examples
        --------
        >>> import lggd
        >>> data = lggd.load("karate")
        >>> lggd.KernelRidge().fit(data).add_nodes(data.x[:1], [[34, 34], [0, 1]]).predict().shape
        torch.Size([35])
        """
        return self._changed_by(new_nodes, x, edge_index, edge_weight)

    def add_edges(self, edge_index: Any, edge_weight: Any = None) -> Self:
        """Add edges between known nodes without training; one direction of each is enough. See `add_nodes`.

        >>> import lggd
        >>> lggd.KernelRidge().fit(lggd.load("karate")).add_edges([[0], [33]]).data_.num_edges
        158
        """
        return self._changed_by(new_edges, edge_index, edge_weight)

    def remove_edges(self, edge_index: Any) -> Self:
        """Remove edges without training, in both directions; one direction of each is enough. See `add_nodes`.

        >>> import lggd
        >>> lggd.KernelRidge().fit(lggd.load("karate")).remove_edges([[0], [1]]).data_.num_edges
        154
        """
        return self._changed_by(removed_edges, edge_index)

    def _changed_by(self, change: Callable[..., GraphChange], *nodes_or_edges: Any) -> Self:
        self._check_fitted()
        if not self.accepts_nodes:
            remedy = "Fit again on the new graph, or use KernelRidge()."
            raise InputError("model", "accept nodes and edges without training", type(self).__name__, remedy)
        if self.data_.graph is not None:
            remedy = "Build the graph again with the new nodes and edges, and fit on it."
            raise InputError("model", "be fitted to a graph in memory to accept nodes and edges", "one on disk", remedy)
        self._change_graph(change(self.data_, *nodes_or_edges))
        return self

    def _change_graph(self, change: GraphChange) -> None:
        """Uses another graph for predictions, in all parts too."""
        for part in self._parts().values():
            part._change_graph(change)
        self.data_, self.labels_ = change.nodes, change.grow_labels(self.labels_)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; with `deep` also those of nested settings, as "features__times"."""
        return get_params(self, deep)

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; "features__times" changes a nested setting.

        >>> import lggd
        >>> lggd.LGGDClassifier(lggd.GGD()).set_params(features__times=(1, 2)).features
        GGD(times=(1, 2))
        """
        for name, value in changed_params(self, params).items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return format_setting(self)

    def _repr_html_(self) -> str:
        """The settings, and of a fitted model its labels and training curves, for notebooks."""
        return model_card(self)

    def save(self, folder: str | Path) -> None:
        """Save everything that predictions need, the graph included, into a folder; replaces a model there.

        >>> import tempfile, lggd
        >>> model = lggd.KernelRidge().fit(lggd.load("karate"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(folder)
        ...     bool((lggd.load_model(folder).predict() == model.predict()).all())
        True
        """
        self._check_fitted()
        with replacing_folder(folder, marker=storage.SETTINGS_FILE) as temporary:
            storage.write_model(self, temporary)

    @classmethod
    def load(cls, folder: str | Path, **modules: nn.Module) -> Self:
        """Load a saved model of this kind; see `lggd.load_model`."""
        model = storage.load_model(folder, **modules)
        if not isinstance(model, cls):
            remedy = f"Use {type(model).__name__}.load or lggd.load_model."
            raise InputError(str(folder), f"contain a saved {cls.__name__}", f"a {type(model).__name__}", remedy)
        return model

    def _restored(self, model: Any, nodes: NodeData, state: Mapping[str, Tensor]) -> Any:
        """Returns a copy of an inner model, restored from its saved state; None stays None."""
        if model is None:
            return None
        model = copy.copy(model)
        model._start(nodes, self.num_classes_)
        model.labels_ = self.labels_
        model._restore(nodes, state)
        return model

    def _check_fitted(self) -> None:
        if not hasattr(self, "labels_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} must be fitted first. Call fit(data).")
