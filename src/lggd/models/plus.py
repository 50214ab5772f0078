"""LGGD+: learned distances as we would use them today. What measured best on validation, in one recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize as unit_rows

from lggd.backbones import GAT, GCN, ChebNet, JKNet, build_seeded, trainable_backbones
from lggd.diffusion import PPR, DiffusionGraph, Heat
from lggd.errors import InputError, InputTypeError, error_context
from lggd.estimator import storage
from lggd.estimator.fit_task import FitTask, first_equal, read_graphs, same_inputs, without_labels
from lggd.estimator.labels import Labels, accuracy, merge_labels
from lggd.features import LGGD
from lggd.features.estimator import fit_to_labels
from lggd.features.scaling import SoftmaxScale
from lggd.files import replacing_folder
from lggd.graph import Graph, read_weight
from lggd.learning.networks import PropagatedMLP
from lggd.learning.node_features import check_node_features
from lggd.models.passes import history_of, in_passes, stage_name
from lggd.training.engine import Engine, train
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback, History
from lggd.training.randomness import read_seed

FORMAT = "lggd plus model"
Backbone = GCN | GAT | ChebNet | JKNet
Readout = Literal["both", "nearest", "backbone"]
Inputs = Literal["both", "features", "contents"]


def _distances() -> LGGD:
    initial = PropagatedMLP(hidden=(256, 64), pagerank=0.1)
    return LGGD(times=(0.2, 0.4, 0.6, 0.8, 1.0), initial=initial)


@dataclass(eq=False)
class LGGDPlus:
    """Classifies the nodes of a graph by learned distances, better than `LGGDClassifier`, and for more work.

    1. `members` networks with seeds of their own stand behind each φ₀. They see the contents of a node, of its
       neighbourhood, and of what a personalised PageRank reaches. Their softmax(−f) are averaged. As many backbones are
       trained on them, and their probabilities are averaged too.
    2. `self_training`: the nodes that they are surest of, this share of each class, are taken for labelled, and the
       distances are learned once more, `rounds` times. The boundary stays at the true labels. 0 leaves it out.
    3. `readout`: "nearest" answers with the mean of softmax(−f) over times and members; "backbone" with networks
       trained on these values; "both" with the mean of the two.
    4. `inputs`: backbones see these values as "features", the node "contents", or "both", of equal length on average.
    5. `diffusion`, PPR(alpha) or Heat(t): backbones run on the graph of each node's `neighbours` strongest partners
       in that diffusion, as in `lggd.diffusion.DiffusionGraph`; None leaves it on the given graph.

    `features` say how distances are learned, cross-fitted or not; their seed, scale, mode, reachable column and
    attr_name are not used. Labels and data as for `LGGD.fit`. After `fit`: `members_` (fitted features), `modules_`
    (trained backbones, none where they have no say), `labels_`, `num_classes_`, `history_`. New labels enter the
    boundary at once, by `add_labels`.

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> model = lggd.LGGDPlus(lggd.LGGD(times=(1, 2)), members=2, readout="nearest").fit(data)
    >>> model.predict_proba().shape
    torch.Size([34, 2])
    """

    features: LGGD = field(default_factory=_distances)
    backbone: Backbone = GCN()
    members: int = 3
    self_training: float = 0.3
    rounds: int = 1
    readout: Readout = "both"
    inputs: Inputs = "both"
    diffusion: PPR | Heat | None = None
    neighbours: int = 64
    optimization: Optimization = Optimization()
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        # Declared here, set by fit: a fitted model has them, an unfitted one has not.
        self.members_: list[LGGD]
        self.modules_: list[nn.Module]
        self.labels_: Tensor
        self.num_classes_: int
        self.data_: Any
        self.contents_length_: float
        self.edges_: tuple[Tensor, Tensor | None]
        self._near: Tensor | None
        self.history_: dict[str, History]

    def fit(self, data: Any, *, callback: Callback | None = None) -> Self:
        """Learns distances, then once more with what they are sure of, then trains the backbone."""
        fit_plus([self], [data], [""], callback)
        return self

    # -- answers ------------------------------------------------------------------------------------------------

    def predict(self) -> Tensor:
        """The most probable class of each node of the graph that it was fitted to, int64 `[N]`."""
        return self.predict_proba().argmax(1)

    def predict_proba(self) -> Tensor:
        """The probability of each class, float32 `[N, K]`."""
        self._check_fitted()
        nearest = self._nearness().mean(1)
        if not self.modules_:
            return nearest
        inputs = self._inputs()
        with torch.no_grad():
            answers = [torch.softmax(module(inputs, *self.edges_), dim=1) for module in self.modules_]
        answer = torch.stack(answers).mean(0)
        return answer if self.readout == "backbone" else (answer + nearest) / 2

    def score(self, data: Any, mask: Tensor | None = None) -> float:
        """The share of right answers over `mask`, or `data.test_mask`, or all labels that it does not know."""
        return accuracy(self.predict(), data, mask, self.labels_)

    def add_labels(self, nodes: Any, labels: Any) -> Self:
        """Takes in more labels (node ids or a mask, and their classes): a new boundary, no retraining."""
        self._check_fitted()
        self._take_in(merge_labels(self.labels_, nodes, labels, self.num_classes_))
        return self

    def _nearness(self) -> Tensor:
        """How near each class is, softmax(−f(t)) averaged over the members, `[N, T, K]`; kept until labels change."""
        if self._near is None:
            near = [torch.softmax(-one.distances(self.data_), dim=2) for one in self.members_]
            self._near = torch.stack(near).mean(0)
        return self._near

    def _features(self) -> Tensor:
        """The same as features, `[N, T·K]`: without a labelled node's own fold, where they are cross-fitted."""
        if not self.features.settings.cross_fit:
            return self._nearness().flatten(1)
        folded = [one.features(self.data_) for one in self.members_]
        return torch.stack(folded).mean(0)

    def _inputs(self) -> Tensor:
        """What backbones see: contents with rows of one length, which is the features' mean one, and features."""
        if self.inputs == "features":
            return self._features()
        x = check_node_features(self.data_)
        x = unit_rows(x if x.layout == torch.strided else x.to_dense())
        return x if self.inputs == "contents" else torch.cat([x * self.contents_length_, self._features()], dim=1)

    def _take_in(self, known: Tensor) -> None:
        """Answers from these labels; a model that knows some is fitted."""
        self._set_boundary(known)
        self.labels_ = known

    def _set_boundary(self, known: Tensor) -> None:
        self._near = None
        for member in self.members_:
            member.labels_ = known

    # -- files --------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Writes all that predictions need, the graph included, into a folder; it replaces a model already there."""
        self._check_fitted()
        settings = {
            "format": FORMAT,
            "version": storage.VERSION,
            "settings": {one.name: storage.to_plain(getattr(self, one.name), one.name) for one in fields(self)},
            "num_classes": self.num_classes_,
            "contents_length": self.contents_length_ if self.modules_ else None,
            "history": storage.to_plain(self.history_, "history"),
        }
        weights = {"known": self.labels_}
        for k, member in enumerate(self.members_):
            weights |= {f"members.{k}.{name}": value for name, value in member.state().items()}
        for k, module in enumerate(self.modules_):
            weights |= {f"modules.{k}.{name}": value for name, value in module.state_dict().items()}
        with replacing_folder(folder, marker=storage.SETTINGS_FILE) as temporary:
            storage.write_tensors(temporary / storage.WEIGHTS_FILE, weights)
            storage.write_tensors(temporary / storage.GRAPH_FILE, storage.pack_graph(self.data_))
            storage.write_json(temporary / storage.SETTINGS_FILE, settings)

    @classmethod
    def load(cls, folder: str | Path) -> LGGDPlus:
        """A saved model, ready to predict and to take in labels."""
        folder = Path(folder)
        settings = storage.read_settings(folder, FORMAT)
        graph = storage.read_tensors(folder / storage.GRAPH_FILE, ["edge_index", "num_nodes"])
        weights = storage.read_tensors(folder / storage.WEIGHTS_FILE, ["known"])
        try:
            given = settings["settings"].items()
            model = cls(**{name: storage.from_plain(value, name, {}) for name, value in given})
            model._check()
            model.data_, model.num_classes_ = storage.unpack_graph(graph), int(settings["num_classes"])
            model.contents_length_, model.history_ = settings["contents_length"], settings["history"]
            model._restore(weights)
            model.predict_proba()
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as wrong:
            raise ValueError(f"`{folder}` must be a saved model whose files fit together, but: {wrong}") from wrong
        return model

    def _restore(self, weights: Mapping[str, Tensor]) -> None:
        """Takes over the numbers of a saved model."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}

        self.members_ = [
            member.restore(self.data_, part(f"members.{k}."), self.num_classes_)
            for k, member in enumerate(self._new_members())
        ]
        self._take_in(weights["known"])
        self.modules_, self.edges_ = [], self._edges()
        for k in range(self.members if self.readout != "nearest" else 0):
            module = build_seeded(self.backbone, self._inputs().shape[1], self.num_classes_, seed=0)
            module.load_state_dict(part(f"modules.{k}."))
            self.modules_.append(module.eval())

    # -- fitting ------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if not isinstance(self.features, LGGD):
            raise InputTypeError("features", "be an LGGD()", repr(self.features))
        if not isinstance(self.backbone, Backbone):
            raise InputTypeError("backbone", "be GCN(), GAT(), ChebNet() or JKNet()", repr(self.backbone))
        if not isinstance(self.optimization, Optimization):
            raise InputTypeError("optimization", "be an Optimization()", repr(self.optimization))
        if not isinstance(self.diffusion, (PPR, Heat, type(None))):
            raise InputTypeError("diffusion", "be PPR(alpha), Heat(t) or None", repr(self.diffusion))
        for name, least in (("members", 1), ("rounds", 1), ("neighbours", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(name, f"be a whole number from {least}", repr(value))
        if not 0 <= self.self_training <= 1:
            raise InputError("self_training", "be a share in [0, 1]", repr(self.self_training), "0 is without.")
        for name, kind in (("readout", Readout), ("inputs", Inputs)):
            if getattr(self, name) not in get_args(kind):
                allowed = ", ".join(map(repr, get_args(kind)))
                raise InputError(name, f"be one of {allowed}", repr(getattr(self, name)))
        _ = self.features.settings

    def _new_members(self) -> list[LGGD]:
        """Features with nothing of their own beyond the distances: what is done with them is said here."""
        scale = SoftmaxScale()
        return [replace(self.features, scale=scale, reachable=False, attr_name=None) for _ in range(self.members)]

    def _edges(self) -> tuple[Tensor, Tensor | None]:
        """What the backbone runs on, and its weights."""
        data = self.data_
        if self.diffusion is not None:
            data = DiffusionGraph(self.diffusion, self.neighbours).transform(data)
        return data.edge_index, read_weight(data)

    def _check_fitted(self) -> None:
        if not hasattr(self, "labels_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("This LGGDPlus must be fitted first. Call fit(data).")


@dataclass(frozen=True, eq=False)
class _Fit:
    """A model on its way to being fitted, and the seeds of its members and of their backbones."""

    model: LGGDPlus
    data: Any
    graph: Graph
    labels: Labels
    seeds: Sequence[int]
    backbone_seeds: Sequence[int]
    name: str

    @property
    def names(self) -> list[str]:
        """What errors and curves call the members."""
        return [f"{self.name} member {k}".strip().replace(" ", "-") for k in range(self.model.members)]

    def given(self, labels: Labels) -> list[FitTask]:
        """What each member is fitted to."""
        pairs = zip(self.seeds, self.names, strict=True)
        return [FitTask(self.data, self.graph, labels, seed, name) for seed, name in pairs]


def fit_plus(models: Sequence[LGGDPlus], data: Sequence[Any], names: Sequence[str], callback: Callback | None) -> None:
    """Fits each model to its data as `fit` says; `names` are what errors and curves call the models."""
    fits = _read(models, data, names)
    for fit in fits:
        fit.model.__dict__.pop("labels_", None)  # a fit that is broken off leaves a model that is not fitted
        fit.model.num_classes_, fit.model.data_ = fit.labels.num_classes, without_labels(fit.data)
        fit.model.history_, fit.model.modules_ = {}, []
    _learn_distances(fits, [fit.labels for fit in fits], "distances", callback)
    for number in range(max(fit.model.rounds for fit in fits)):
        again = [fit for fit in fits if fit.model.self_training and number < fit.model.rounds]
        if again:
            _learn_distances(again, [_with_sure_nodes(fit) for fit in again], f"again {number + 1}", callback)
    _train_backbones([fit for fit in fits if fit.model.readout != "nearest"], callback)
    for fit in fits:
        fit.model._take_in(fit.labels.known)


def _read(models: Sequence[LGGDPlus], data: Sequence[Any], names: Sequence[str]) -> list[_Fit]:
    graphs = read_graphs(data, names)
    fits = []
    for model, one, graph, name in zip(models, data, graphs, names, strict=True):
        with error_context(name):
            model._check()
            draws = torch.Generator().manual_seed(read_seed(model.seed))
            labels = Labels.read(one).hold_out(model.features.settings.validation, draws)
            seeds = [read_seed(draws) for _ in range(2 * model.members)]
        fits.append(_Fit(model, one, graph, labels, seeds[: model.members], seeds[model.members :], name))
    return fits


def _learn_distances(fits: Sequence[_Fit], labels: Sequence[Labels], stage: str, callback: Callback | None) -> None:
    """All members of all models in as few passes as they need; then the boundary is what is truly known."""
    members = [fit.model._new_members() for fit in fits]
    given = [one for fit, seen in zip(fits, labels, strict=True) for one in fit.given(seen)]
    fit_to_labels([one for of_model in members for one in of_model], given, callback)
    for fit, own in zip(fits, members, strict=True):
        fit.model.members_ = own
        fit.model.history_[stage] = _told_apart([one.history_ for one in own])
        fit.model._set_boundary(fit.labels.train)  # not known_ yet: that would say that the model is fitted


def _with_sure_nodes(fit: _Fit) -> Labels:
    """The labels, and those nodes that the members are surest of, a share of what they say of each class."""
    model, labels = fit.model, fit.labels
    sureness, said = model._nearness().mean(1).max(1)
    train = labels.train.clone()
    open_to_it = (labels.train < 0) & (labels.validation < 0)
    for k in range(labels.num_classes):
        nodes = ((said == k) & open_to_it).nonzero().squeeze(1)
        surest = sureness[nodes].argsort(descending=True, stable=True)
        train[nodes[surest[: int(model.self_training * len(nodes))]]] = k
    return replace(labels, train=train)


def _train_backbones(fits: Sequence[_Fit], callback: Callback | None) -> None:
    same_data = first_equal([fit.data for fit in fits], same_inputs)
    keys = [(first, *_backbone_key(fit)) for first, fit in zip(same_data, fits, strict=True)]
    passes = in_passes(keys, [fit.model.members for fit in fits])
    for number, places in enumerate(passes):
        _train_pass([fits[place] for place in places], stage_name("backbone", number, len(passes)), callback)


def _backbone_key(fit: _Fit) -> tuple[Any, ...]:
    """All in which models must agree to be trained in one pass on the same data."""
    model, settings = fit.model, fit.model.features.settings
    graph = model.diffusion, model.neighbours
    sizes = fit.labels.num_classes, len(settings.times), model.members
    return model.backbone, model.optimization, model.inputs, *sizes, *graph


def _train_pass(fits: Sequence[_Fit], stage: str, callback: Callback | None) -> None:
    """All members of these models, each model's on the features that its members have in common."""
    first = fits[0].model
    edges = first._edges()
    seen = []
    for fit in fits:
        fit.model.edges_ = edges
        fit.model.contents_length_ = float(fit.model._features().norm(dim=1).mean())
        seen.append(fit.model._inputs())
    x = torch.stack(seen).repeat_interleave(first.members, 0)
    target, validation = (
        torch.stack([getattr(fit.labels, of) for fit in fits]).repeat_interleave(first.members, 0)
        for of in ("train", "validation")
    )
    seeds = [seed for fit in fits for seed in fit.backbone_seeds]
    modules = [build_seeded(first.backbone, x.shape[2], first.num_classes_, seed) for seed in seeds]
    names = [name for fit in fits for name in fit.names]
    networks = trainable_backbones(modules, x, *edges, seeds)
    engine = Engine(networks, target, validation, first.optimization, names)
    history = train(engine, stage, callback)
    engine.load_best()
    trained = networks.export()
    for place, fit in enumerate(fits):
        fit.model.modules_ = trained[place * first.members : (place + 1) * first.members]
        fit.model.history_["backbone"] = _told_apart([history_of(history, name) for name in fit.names])


def _told_apart(histories: Sequence[History]) -> History:
    """The curves of all members, under names that say whose they are."""
    return {f"{name} member={k}": curve for k, one in enumerate(histories) for name, curve in one.items()}
