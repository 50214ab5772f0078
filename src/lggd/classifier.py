"""From a graph with a few labels to predictions: distances as features, and a backbone that reads them."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from lggd import storage
from lggd.backbones import GAT, GCN, BackboneLearner, ChebNet, JKNet, initialised
from lggd.data.files import replacing_folder
from lggd.features import GGD, LGGD
from lggd.graph import read_weight
from lggd.labels import Labels, merge_labels
from lggd.learning.contents import check_contents
from lggd.training import Callback, Checkpoint, History, Optimization, learn, seed_of

Backbone = GCN | GAT | ChebNet | JKNet | nn.Module
# The share of labels to hold out for validation where none are given and no features say otherwise.
VALIDATION = 0.2


@dataclass(eq=False)
class LGGDClassifier:
    """Classifies the nodes of a graph, and takes in new labels at once, without retraining.

    `features` are `LGGD()` or `GGD()`; None trains the backbone on the node contents alone. `backbone` is `GCN()`,
    `GAT()`, `ChebNet()`, `JKNet()` or any torch module called as module(x, edge_index) that gives K values a node;
    None answers with the nearest class by distance. Data are PyG's, with labels as for `LGGD.fit`.

    After `fit`: `features_` and `module_` (fitted copies), `num_classes_`, `known_` (the labels in use, int64 `[N]`,
    -1 elsewhere), `history_` (training curves by stage) and `additions_` (what `add_labels` took in, and when).

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> model = lggd.LGGDClassifier(lggd.GGD(times=(1, 2)), backbone=None).fit(data)
    >>> model.predict().shape
    torch.Size([34])
    """

    features: GGD | LGGD | None = field(default_factory=LGGD)
    backbone: Backbone | None = GCN()
    optimization: Optimization = Optimization()
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        # Declared here, set by fit: a fitted model has them, an unfitted one has not.
        self.features_: GGD | LGGD | None
        self.module_: nn.Module | None
        self.known_: Tensor
        self.num_classes_: int
        self.data_: Any
        self.additions_: list[dict[str, Any]]
        self.history_: dict[str, History]
        self.about_: dict[str, Any]

    def fit(self, data: Any, *, callback: Callback | None = None, checkpoint: Checkpoint | None = None) -> Self:
        """Learns distances, then trains the backbone on them. Stages are called "distances" and "backbone"."""
        if self.features is None and self.backbone is None:
            raise ValueError(
                "`features` or `backbone` must be given, got None for both. Nothing would be left to answer."
            )
        self._check_kinds()
        labels = self._read_labels(data)
        self.__dict__.pop("known_", None)  # a fit that is broken off leaves a model that is not fitted
        self.num_classes_ = labels.num_classes
        self.additions_, self.history_, self.about_ = [], {}, {}
        self.data_ = _without_labels(data)
        self.features_ = copy.copy(self.features)
        if self.features_ is not None:
            self.features_.fit_labels(data, labels, callback, checkpoint)
            self.history_["distances"] = self.features_.history_
        self.module_ = None
        if self.backbone is not None:
            self._train_backbone(self.backbone, labels, callback, checkpoint)
        everything = torch.where(labels.validation >= 0, labels.validation, labels.train)
        self.known_ = everything if labels.held_out else labels.train.clone()
        if self.features_ is not None:
            self.features_.known_ = self.known_
        return self

    def _check_kinds(self) -> None:
        if not isinstance(self.features, (GGD, LGGD, type(None))):
            raise TypeError(f"`features` must be LGGD(), GGD() or None, got {self.features!r}.")
        if not isinstance(self.backbone, (GCN, GAT, ChebNet, JKNet, nn.Module, type(None))):
            raise TypeError(f"`backbone` must be one such as GCN(), a torch module or None, got {self.backbone!r}.")
        if not isinstance(self.optimization, Optimization):
            raise TypeError(f"`optimization` must be an Optimization(), got {self.optimization!r}.")

    def _read_labels(self, data: Any) -> Labels:
        labels = Labels.read(data)
        if isinstance(self.features, LGGD):
            share = self.features.settings.validation
        else:
            # Distances alone, with nothing learned, have no use for validation nodes.
            share = 0.0 if self.backbone is None else VALIDATION
        return labels.hold_out(share, torch.Generator().manual_seed(seed_of(self.seed)))

    def _train_backbone(
        self, backbone: Backbone, labels: Labels, callback: Callback | None, checkpoint: Checkpoint | None
    ) -> None:
        data, seed = self.data_, seed_of(self.seed)
        x = self._inputs(data)
        module = initialised(backbone, x.shape[1], self.num_classes_, seed)
        learner = BackboneLearner(
            module,
            x,
            data.edge_index,
            read_weight(data),
            labels.train,
            labels.validation if labels.has_validation else None,
            self.optimization,
            seed,
        )
        self.history_["backbone"] = learn(learner, "backbone", callback, checkpoint)
        learner.load_best()
        self.module_ = learner.module

    def _inputs(self, data: Any) -> Tensor:
        """What the backbone sees."""
        if self.features_ is not None:
            return self.features_.inputs(data)
        x = check_contents(data)
        return x if x.layout == torch.strided else x.to_dense()

    # -- answers ------------------------------------------------------------------------------------------------

    def predict(self, data: Any = None) -> Tensor:
        """The most probable class of each node, int64 `[N]`; without data, of the nodes it was fitted on."""
        return self.predict_proba(data).argmax(1)

    def predict_proba(self, data: Any = None) -> Tensor:
        """The probability of each class, float32 `[N, K]`. Without a backbone: softmax of −f, f the mean over times."""
        self._check_fitted()
        data = self.data_ if data is None else data
        if self.module_ is None:
            return torch.softmax(-self.features_.distances(data).mean(1), dim=1)  # type: ignore[union-attr]
        return torch.softmax(self._logits(data), dim=1)

    def _logits(self, data: Any) -> Tensor:
        module = self.module_
        module.eval()  # type: ignore[union-attr]
        with torch.no_grad():
            logits: Tensor = module(self._inputs(data), data.edge_index, read_weight(data))  # type: ignore[misc]
        return logits

    def score(self, data: Any, mask: Tensor | None = None) -> float:
        """The share of right answers over `mask`, or `data.test_mask`, or all labels that it does not know."""
        self._check_fitted()
        y = getattr(data, "y", None)
        if not isinstance(y, Tensor):
            raise TypeError(f"`data.y` must be a tensor of classes to compare with, got {type(y).__name__}.")
        if mask is None:
            mask = getattr(data, "test_mask", None)
        if mask is None:
            mask = (y >= 0) & (self.known_ < 0)
        if mask.shape != y.shape or mask.dtype != torch.bool:
            raise ValueError(f"`mask` must be a mask of shape {list(y.shape)}, got {mask.dtype} {list(mask.shape)}.")
        counted = mask & (y >= 0)
        if not bool(counted.any()):
            raise ValueError("`mask` must hold at least one node with a label in `data.y`, got none.")
        return float((self.predict(data)[counted] == y[counted]).float().mean())

    def add_labels(self, nodes: Any, labels: Any) -> Self:
        """Takes in more labels (node ids or a mask, and their classes): new boundary, new features, no retraining."""
        self._check_fitted()
        if self.features_ is None:
            raise ValueError("`features` must not be None to add labels: a backbone alone would have to be retrained.")
        before = self.known_
        self.known_ = merge_labels(before, nodes, labels, self.num_classes_)
        self.features_.known_ = self.known_
        new = (self.known_ != before).nonzero().squeeze(1)
        when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.additions_.append({"when": when, "nodes": new.tolist(), "labels": self.known_[new].tolist()})
        return self

    # -- files --------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Writes all that predictions need, the graph included, into a folder; it replaces a model already there.

        `about_`, a dictionary of your own, is kept with it as JSON: names of nodes and classes, for example.
        """
        self._check_fitted()
        settings = {
            "format": storage.FORMAT,
            "version": storage.VERSION,
            "features": storage.to_plain(self.features_, "features"),
            "backbone": storage.to_plain(self.backbone, "backbone"),
            "optimization": storage.to_plain(self.optimization, "optimization"),
            "seed": storage.to_plain(self.seed, "seed"),
            "num_classes": self.num_classes_,
            "num_inputs": None if self.module_ is None else self._inputs(self.data_).shape[1],
            "additions": self.additions_,
            "history": storage.to_plain(self.history_, "history"),
            "about": self.about_,
        }
        weights = {"known": self.known_}
        if self.features_ is not None:
            weights |= {f"features.{n}": value for n, value in self.features_.state().items() if n != "known"}
        if self.module_ is not None:
            weights |= {f"backbone.{name}": value for name, value in self.module_.state_dict().items()}
        with replacing_folder(folder, marker=storage.SETTINGS_FILE) as temporary:
            storage.write_tensors(temporary / storage.WEIGHTS_FILE, weights)
            storage.write_tensors(temporary / storage.GRAPH_FILE, storage.pack_graph(self.data_))
            storage.write_json(temporary / storage.SETTINGS_FILE, settings)

    @classmethod
    def load(
        cls, folder: str | Path, *, backbone: nn.Module | None = None, initial: nn.Module | None = None
    ) -> LGGDClassifier:
        """A saved model, ready to predict. Modules of your own must be passed again: only parameters are saved."""
        folder = Path(folder)
        settings = storage.read_settings(folder)
        given = {"backbone": backbone, "initial": initial}
        modules = {name: module for name, module in given.items() if module is not None}
        path = folder / storage.SETTINGS_FILE
        try:
            parts = {
                name: storage.from_plain(settings[name], name, modules)
                for name in ("features", "backbone", "optimization", "seed")
            }
            model = cls(**parts)
            model._check_kinds()
            model.num_classes_ = int(settings["num_classes"])
            model.additions_ = list(settings["additions"])
            model.history_ = {
                stage: {name: [storage.from_plain(v, name, {}) for v in values] for name, values in history.items()}
                for stage, history in settings["history"].items()
            }
            model.about_ = dict(settings["about"])
            num_inputs = settings["num_inputs"]
            if (num_inputs is None) != (model.backbone is None):
                raise ValueError("a backbone comes with its number of inputs")
        except KeyError as wrong:
            raise ValueError(f"`{path}` must be complete, but it lacks {wrong}.") from wrong
        except (TypeError, ValueError, AttributeError) as wrong:
            raise ValueError(f"`{path}` must be the settings of a saved model, but: {wrong}") from wrong
        path = folder / storage.GRAPH_FILE
        graph = storage.read_tensors(path, ["edge_index", "num_nodes"])
        weights = storage.read_tensors(folder / storage.WEIGHTS_FILE, ["known"])
        try:
            model.data_ = storage.unpack_graph(graph)
        except (ValueError, RuntimeError) as wrong:
            raise ValueError(f"`{path}` must be the graph of a saved model, but: {wrong}") from wrong
        try:
            model._restore(weights, num_inputs)
            model.predict_proba()
        except (KeyError, RuntimeError, ValueError, TypeError, IndexError) as wrong:
            raise ValueError(f"`{folder}` must be a saved model whose files fit together, but: {wrong}") from wrong
        return model

    def _restore(self, weights: Mapping[str, Tensor], num_inputs: int | None) -> None:
        """Takes over the numbers of a saved model."""
        self.known_ = weights["known"]
        nodes = self.data_.num_nodes
        if self.known_.shape != (nodes,) or int(self.known_.min()) < -1 or int(self.known_.max()) >= self.num_classes_:
            raise ValueError(f"known must hold a class from 0 to {self.num_classes_ - 1}, or -1, for {nodes} nodes")
        self.features_, self.module_ = copy.copy(self.features), None
        if self.features_ is not None:
            mine = {n.removeprefix("features."): v for n, v in weights.items() if n.startswith("features.")}
            self.features_.restore(self.data_, {"known": self.known_, **mine}, self.num_classes_)
        if self.backbone is not None and num_inputs is not None:
            module = initialised(self.backbone, num_inputs, self.num_classes_, seed=0)
            mine = {n.removeprefix("backbone."): v for n, v in weights.items() if n.startswith("backbone.")}
            module.load_state_dict(mine)
            self.module_ = module.eval()

    def _check_fitted(self) -> None:
        if not hasattr(self, "known_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("This LGGDClassifier must be fitted first. Call fit(data).")


def _without_labels(data: Any) -> Any:
    """The graph and its contents alone: what predictions may depend on besides the labels that were given."""
    from torch_geometric.data import Data

    kept = {name: getattr(data, name, None) for name in ("x", "edge_index", "edge_weight", "edge_attr")}
    return Data(**{name: value for name, value in kept.items() if value is not None}, num_nodes=data.num_nodes)
