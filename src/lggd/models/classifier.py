"""From a graph with a few labels to predictions: distances as features, and a backbone that reads them."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from lggd.backbones import GAT, GCN, ChebNet, JKNet, build_seeded, trainable_backbones
from lggd.errors import InputError, InputTypeError, error_context
from lggd.estimator import storage
from lggd.estimator.fit_task import FitTask, first_equal, read_graphs, same_inputs, without_labels
from lggd.estimator.labels import Labels, accuracy, merge_labels
from lggd.features import GGD, LGGD
from lggd.features.estimator import fit_to_labels
from lggd.files import replacing_folder
from lggd.graph import read_weight
from lggd.learning.node_features import check_node_features
from lggd.models.passes import history_of, in_passes, stage_name
from lggd.training.checkpoint import Checkpoint
from lggd.training.engine import Engine, train
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback, History
from lggd.training.randomness import read_seed

Backbone = GCN | GAT | ChebNet | JKNet | nn.Module
# The share of labels to hold out for validation where none are given and no features say otherwise.
VALIDATION = 0.2


@dataclass(eq=False)
class LGGDClassifier:
    """Classifies the nodes of a graph, and takes in new labels at once, without retraining.

    `features` are `LGGD()` or `GGD()`; None trains the backbone on the node contents alone. `backbone` is `GCN()`,
    `GAT()`, `ChebNet()`, `JKNet()` or any torch module called as module(x, edge_index) that gives K values a node;
    None answers with the nearest class by distance. Data are PyG's, with labels as for `LGGD.fit`.

    After `fit`: `features_` and `module_` (fitted copies), `num_classes_`, `labels_` (the labels in use, int64 `[N]`,
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
        self.labels_: Tensor
        self.num_classes_: int
        self.data_: Any
        self.additions_: list[dict[str, Any]]
        self.history_: dict[str, History]
        self.metadata_: dict[str, Any]

    def fit(self, data: Any, *, callback: Callback | None = None, checkpoint: Checkpoint | None = None) -> Self:
        """Learns distances, then trains the backbone on them. Stages are called "distances" and "backbone"."""
        fit_classifiers([self], [data], [""], callback, checkpoint)
        return self

    def _check(self) -> None:
        """Refuses wrong settings, whatever the data."""
        if self.features is None and self.backbone is None:
            raise ValueError(
                "`features` or `backbone` must be given, got None for both. Nothing would be left to answer."
            )
        if not isinstance(self.features, (GGD, LGGD, type(None))):
            raise InputTypeError("features", "be LGGD(), GGD() or None", repr(self.features))
        if not isinstance(self.backbone, (GCN, GAT, ChebNet, JKNet, nn.Module, type(None))):
            raise InputTypeError("backbone", "be one such as GCN(), a torch module or None", repr(self.backbone))
        if not isinstance(self.optimization, Optimization):
            raise InputTypeError("optimization", "be an Optimization()", repr(self.optimization))
        if self.features is not None:
            _ = self.features.settings  # checked as they are read

    def _read_labels(self, data: Any) -> Labels:
        self._check()
        labels = Labels.read(data)
        if isinstance(self.features, LGGD):
            share = self.features.settings.validation
        else:
            # Distances alone, with nothing learned, have no use for validation nodes.
            share = 0.0 if self.backbone is None else VALIDATION
        return labels.hold_out(share, torch.Generator().manual_seed(read_seed(self.seed)))

    def _prepare(self, data: Any, labels: Labels) -> None:
        """Forgets all; nothing is learned yet."""
        self.__dict__.pop("labels_", None)  # a fit that is broken off leaves a model that is not fitted
        self.num_classes_ = labels.num_classes
        self.additions_, self.history_, self.metadata_ = [], {}, {}
        self.data_, self.features_, self.module_ = without_labels(data), copy.copy(self.features), None

    def _complete(self, labels: Labels) -> None:
        """Takes all labels into use, those held out for validation as well."""
        self.labels_ = labels.known
        if self.features_ is not None:
            self.features_.labels_ = self.labels_

    def _inputs(self, data: Any) -> Tensor:
        """What the backbone sees."""
        if self.features_ is not None:
            return self.features_.inputs(data)
        x = check_node_features(data)
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
        return accuracy(self.predict(data), data, mask, self.labels_)

    def add_labels(self, nodes: Any, labels: Any) -> Self:
        """Takes in more labels (node ids or a mask, and their classes): new boundary, new features, no retraining."""
        self._check_fitted()
        if self.features_ is None:
            raise InputError("features", "not be None to add labels: a backbone alone would have to be retrained")
        before = self.labels_
        self.labels_ = merge_labels(before, nodes, labels, self.num_classes_)
        self.features_.labels_ = self.labels_
        new = (self.labels_ != before).nonzero().squeeze(1)
        when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.additions_.append({"when": when, "nodes": new.tolist(), "labels": self.labels_[new].tolist()})
        return self

    # -- files --------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Writes all that predictions need, the graph included, into a folder; it replaces a model already there.

        `metadata_`, a dictionary of your own, is kept with it as JSON: names of nodes and classes, for example.
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
            "about": self.metadata_,
        }
        weights = {"known": self.labels_}
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
            model._check()
            model.num_classes_ = int(settings["num_classes"])
            model.additions_ = list(settings["additions"])
            model.history_ = {
                stage: {name: [storage.from_plain(v, name, {}) for v in values] for name, values in history.items()}
                for stage, history in settings["history"].items()
            }
            model.metadata_ = dict(settings["about"])
            num_inputs = settings["num_inputs"]
            if (num_inputs is None) != (model.backbone is None):
                raise ValueError("a backbone comes with its number of inputs")
        except KeyError as wrong:
            raise InputError(path, "be complete", but=f"it lacks {wrong}") from wrong
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
        self.labels_ = weights["known"]
        nodes = self.data_.num_nodes
        if (
            self.labels_.shape != (nodes,)
            or int(self.labels_.min()) < -1
            or int(self.labels_.max()) >= self.num_classes_
        ):
            raise ValueError(f"known must hold a class from 0 to {self.num_classes_ - 1}, or -1, for {nodes} nodes")
        self.features_, self.module_ = copy.copy(self.features), None
        if self.features_ is not None:
            mine = {n.removeprefix("features."): v for n, v in weights.items() if n.startswith("features.")}
            self.features_.restore(self.data_, {"known": self.labels_, **mine}, self.num_classes_)
        if self.backbone is not None and num_inputs is not None:
            module = build_seeded(self.backbone, num_inputs, self.num_classes_, seed=0)
            mine = {n.removeprefix("backbone."): v for n, v in weights.items() if n.startswith("backbone.")}
            module.load_state_dict(mine)
            self.module_ = module.eval()

    def _check_fitted(self) -> None:
        if not hasattr(self, "labels_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("This LGGDClassifier must be fitted first. Call fit(data).")


@dataclass(frozen=True, eq=False)
class _Fit:
    """A model on its way to being fitted: to which data, with which labels and seeds, and what it is called."""

    model: LGGDClassifier
    data: Any
    labels: Labels
    distances_seed: int
    backbone_seed: int
    name: str

    @classmethod
    def read(cls, model: LGGDClassifier, data: Any, name: str) -> _Fit:
        """Reads and checks; several models may draw seeds from one generator, and here each draws all of its own."""
        with error_context(name):
            labels = model._read_labels(data)
            distances = 0 if model.features is None else read_seed(model.features.seed)
            backbone = 0 if model.backbone is None else read_seed(model.seed)
        return cls(model, data, labels, distances, backbone, name)


def fit_classifiers(
    models: Sequence[LGGDClassifier],
    data: Sequence[Any],
    names: Sequence[str],
    callback: Callback | None,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Fits each model to its data as `fit` says; all of them, or none where something is wrong with one.

    `names` are what errors and curves call the models.
    """
    fits = [_Fit.read(*parts) for parts in zip(models, data, names, strict=True)]
    distances = [fit for fit in fits if fit.model.features is not None]
    graphs = read_graphs([fit.data for fit in distances], [fit.name for fit in distances])
    for fit in fits:
        fit.model._prepare(fit.data, fit.labels)
    given = [
        FitTask(fit.data, graph, fit.labels, fit.distances_seed, fit.name)
        for fit, graph in zip(distances, graphs, strict=True)
    ]
    features = [fit.model.features_ for fit in distances if fit.model.features_ is not None]
    fit_to_labels(features, given, callback, checkpoint)
    for fit, learned in zip(distances, features, strict=True):
        fit.model.history_["distances"] = learned.history_
    _train_backbones([fit for fit in fits if fit.model.backbone is not None], callback, checkpoint)
    for fit in fits:
        fit.model._complete(fit.labels)


def _train_backbones(fits: Sequence[_Fit], callback: Callback | None, checkpoint: Checkpoint | None) -> None:
    same_data = first_equal([fit.data for fit in fits], same_inputs)
    keys = [(first, *_backbone_key(fit.model)) for first, fit in zip(same_data, fits, strict=True)]
    passes = in_passes(keys, [1] * len(fits))
    for number, places in enumerate(passes):
        mine = [fits[place] for place in places]
        # A module of the user's is trained alone, and what is wrong with it shows in its first step.
        with error_context(mine[0].name if len(mine) == 1 else ""):
            _train_pass(mine, stage_name("backbone", number, len(passes)), callback, checkpoint)


def _backbone_key(model: LGGDClassifier) -> tuple[Any, ...]:
    """All in which models must agree to be trained in one pass on the same data; every module of the user's differs."""
    mine = id(model) if isinstance(model.backbone, nn.Module) else model.backbone
    features = model.features_
    inputs = None if features is None else (features.settings.mode, len(features.feature_names_))
    return mine, model.optimization, model.num_classes_, inputs


def _train_pass(fits: Sequence[_Fit], stage: str, callback: Callback | None, checkpoint: Checkpoint | None) -> None:
    first = fits[0].model
    # Without features all see the same contents.
    seen = [fit.model._inputs(fit.model.data_) for fit in (fits[:1] if first.features is None else fits)]
    x = seen[0] if len(seen) == 1 else torch.stack(seen)
    modules = [
        build_seeded(fit.model.backbone, x.shape[-1], first.num_classes_, fit.backbone_seed)  # type: ignore[arg-type]
        for fit in fits
    ]
    networks = trainable_backbones(
        modules, x, first.data_.edge_index, read_weight(first.data_), [fit.backbone_seed for fit in fits]
    )
    engine = Engine(
        networks,
        torch.stack([fit.labels.train for fit in fits]),
        torch.stack([fit.labels.validation for fit in fits]),
        first.optimization,
        [fit.name for fit in fits],
    )
    history = train(engine, stage, callback, checkpoint)
    engine.load_best()
    for fit, module in zip(fits, networks.export(), strict=True):
        fit.model.module_ = module
        fit.model.history_["backbone"] = history_of(history, fit.name)
