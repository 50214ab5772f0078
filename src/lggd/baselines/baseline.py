"""The base classes of baselines, trained and untrained, and what they share: data, networks and training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, get_args

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones import Backbone
from lggd.backbones.network import Network
from lggd.backbones.training import StackedBackbones, train_networks
from lggd.errors import InputError
from lggd.estimator import Member, check_shape
from lggd.inputs import Labels, NodeData
from lggd.progress import Callback
from lggd.training.problems import Optimization, RandomState
from lggd.validation import check_instance, check_sizes_and_dropout


class BaselineNetworks(StackedBackbones):
    """One network per seed, made by `build(in_channels, num_classes)`, for the same node features and edges."""

    def __init__(
        self, build: Callable[[int, int], Network], nodes: NodeData, labels: Labels, seeds: Sequence[int]
    ) -> None:
        x, modules = nodes.features.to_dense(), []
        for seed in seeds:
            with torch.device("cpu"), RandomState(seed, torch.device("cpu")).in_use():
                modules.append(build(x.shape[1], labels.num_classes).to(x.device))
        super().__init__(modules, x, nodes.edges, seeds)


@dataclass(eq=False, repr=False)
class Baseline(Member):
    """Base class of the methods that LGGD is compared with, with the interface of `LGGDClassifier`.

    Baselines are transductive: they predict only for the graph they were fitted to. Their predictions are
    `probabilities_`, float32 `[N, K]`; see `Member` for the other attributes.

    Examples
    --------
    >>> import lggd
    >>> model = lggd.baselines.DropEdge(p=0.3, optimization=lggd.Optimization(epochs=20))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    # Settings of type int that may be 0.
    _may_be_zero: ClassVar[tuple[str, ...]] = ()
    _: KW_ONLY
    optimization: Optimization = Optimization()
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        self.probabilities_: Tensor  # set by fit

    def _check(self) -> None:
        """Raises an `InputError` if a setting is invalid, other than the sizes and dropout rates of all baselines."""

    @abstractmethod
    def _networks(
        self, nodes: NodeData, labels: Labels, seeds: Sequence[int], callback: Callback | None
    ) -> BaselineNetworks:
        """Preprocesses, pretrains and returns a network per seed."""

    @property
    def accepts_labels(self) -> bool:
        return False  # baselines must be trained again

    def check_settings(self) -> None:
        check_instance("optimization", self.optimization, Optimization, "an Optimization()")
        check_sizes_and_dropout(self, self._may_be_zero)
        self._check()

    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int, callback: Callback | None) -> None:
        self._start(nodes, labels.num_classes)
        networks = self._networks(nodes, labels, [seed], callback)
        self.history_["training"] = train_networks(networks, labels, self.optimization, "training", callback)
        self.probabilities_ = torch.softmax(networks.logits()[0], dim=1).float()

    def _probabilities(self, nodes: NodeData) -> Tensor:
        if not nodes.equals(self.data_):
            raise InputError("data", "be the graph that the baseline was fitted to", "another one", "Fit it again.")
        return self.probabilities_

    def _state(self) -> dict[str, Tensor]:
        return {"probabilities": self.probabilities_}

    def _restore(self, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        expected = torch.empty(nodes.num_nodes, self.num_classes_, device="meta")
        self.probabilities_ = check_shape("probabilities", state["probabilities"], expected)


def check_backbone_kind(backbone: object, kinds: tuple[type, ...] = get_args(Backbone), remedy: str = "") -> None:
    """Raises an `InputError` unless `backbone` is an object of one of these classes."""
    *others, last = (f"{kind.__name__}()" for kind in kinds)
    check_instance("backbone", backbone, kinds, f"{', '.join(others)} or {last}" if others else last, remedy)


@dataclass(eq=False, repr=False)
class UntrainedBaseline(Member):
    """Base class of methods without training. More labels can be added at any time; node features are not used."""

    needs_edge_index = False
    _: KW_ONLY
    seed: int | torch.Generator = 0

    @abstractmethod
    def _scores(self, edge_index: Tensor, edge_weight: Tensor | None, labels: Tensor) -> Tensor:
        """Returns scores of all classes, 0 or above, float64 `[N, K]`; rows need not sum to 1 and may be 0."""

    @property
    def _held_out(self) -> float:
        return 0.0

    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int, callback: Callback | None) -> None:
        if nodes.graph is None:
            _ = nodes.edges  # raises an error if they are invalid
        self._start(nodes, labels.num_classes)
        self.labels_ = labels.train.clone()

    def _probabilities(self, nodes: NodeData) -> Tensor:
        check_same_size(nodes, len(self.labels_))
        return to_probabilities(self._scores(*nodes.edges, self.labels_), self.labels_)


def check_same_size(nodes: NodeData, num_nodes: int) -> None:
    """Raises an error if data do not have this number of nodes, that of the labels."""
    if nodes.num_nodes != num_nodes:
        raise InputError("data", f"have {num_nodes} nodes, as the graph of the fit", nodes.num_nodes, "Fit it again.")


def one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """The classes of labelled nodes as rows of the identity, and rows of 0 elsewhere, float64 `[N, K]`.

    >>> one_hot(torch.tensor([1, -1]), num_classes=2).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    return functional.one_hot(labels + 1, num_classes + 1)[:, 1:].double()


def to_probabilities(scores: Tensor, labels: Tensor) -> Tensor:
    """Scores `[N, K]` with rows divided by their sum, float32.

    A row of 0, as of a node that no label reaches, becomes the share of each class among the labels.

    >>> to_probabilities(torch.tensor([[3.0, 1.0], [0.0, 0.0]]), torch.tensor([1, -1]))
    tensor([[0.7500, 0.2500],
            [0.0000, 1.0000]])
    """
    total = scores.sum(1, keepdim=True)
    shares = one_hot(labels, scores.shape[1]).mean(0)
    return torch.where(total > 0, scores / total, shares / shares.sum()).float()
