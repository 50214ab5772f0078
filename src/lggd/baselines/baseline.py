"""The base classes of baselines, trained and untrained, and what they share: data, networks and training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones import Backbone
from lggd.backbones.network import Network
from lggd.backbones.training import StackedBackbones
from lggd.errors import InputError
from lggd.estimator import NodeClassifier, check_shape
from lggd.estimator.inputs import Labels, same_inputs, stored_graph
from lggd.estimator.passes import UNLIMITED, FitSteps, FitTask, TrainingRequest, curves_of
from lggd.graph.edge_list import check_node_features, read_edges
from lggd.progress import Callback
from lggd.training.engine import Checkpoint, Engine, History, train
from lggd.training.problems import Optimization, RandomState, derived_seeds, read_seed
from lggd.validation import check_instance, check_sizes_and_dropout

# Maximum number of entries of the copies of x in a pass.
DROPOUT_ENTRIES = 2**29


@dataclass(frozen=True, eq=False)
class BaselineData:
    """The data shared by all problems of a pass: node features float32 `[N, F]`, edges, edge weights or None, and K."""

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None
    num_classes: int

    @property
    def num_nodes(self) -> int:
        return len(self.x)


class BaselineNetworks(StackedBackbones):
    """One network per problem, made by `build(in_channels, num_classes)` with its seed, or one of `seeds`."""

    def __init__(
        self, build: Callable[[int, int], Network], data: BaselineData, problems: Problems,
        seeds: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self.problems, modules = problems, []
        seeds = [problem.seed for problem in problems] if seeds is None else seeds
        for seed in seeds:
            with torch.device("cpu"), RandomState(seed, torch.device("cpu")).in_use():
                modules.append(build(data.x.shape[1], data.num_classes).to(data.x.device))
        dropout_seeds = [derived_seeds(seed, 1)[0] for seed in seeds]
        super().__init__(modules, data.x, (data.edge_index, data.edge_weight), dropout_seeds)

    def labels(self, name: str) -> Tensor:
        """The "train" or "validation" labels of all problems, int64 `[Q, N]`."""
        return torch.stack([getattr(problem.labels, name) for problem in self.problems])

    def train(
        self, optimization: Optimization, stage: str, callback: Callback | None, checkpoint: Checkpoint | None = None
    ) -> tuple[Tensor, History]:
        """Trains; returns the logits `[Q, N, K]` in the best states, and the training curves."""
        names = [problem.task.name for problem in self.problems]
        engine = Engine(self, self.labels("train"), self.labels("validation"), optimization, names)
        history = train(engine, stage, callback, checkpoint)
        return self.logits(), history


@dataclass(eq=False, repr=False)
class Baseline(NodeClassifier):
    """Base class of the methods that LGGD is compared with, with the interface of `LGGDClassifier`.

    Baselines are transductive: they predict only for the graph they were fitted to. Their predictions are
    `probabilities_`, float32 `[N, K]`; see `NodeClassifier` for the other attributes. With `lggd.fit_together`,
    baselines that differ only in labels and seed are trained in one pass.

    Examples
    --------
    >>> import lggd
    >>> model = lggd.baselines.DropEdge(p=0.3, optimization=lggd.Optimization(epochs=20))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    # Whether the networks drop entries of x, a copy of which is then made for every problem.
    _drops_inputs: ClassVar[bool] = False
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
    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        """Preprocesses, pretrains and returns the networks of all problems of a pass, on the first of its models."""

    def _capacity(self, data: BaselineData) -> int:
        """Returns the maximum number of problems per pass; override it if memory or the method sets a limit."""
        return max(1, DROPOUT_ENTRIES // data.x.numel()) if self._drops_inputs else UNLIMITED

    @property
    def accepts_labels(self) -> bool:
        return False  # baselines must be trained again

    def check_settings(self) -> None:
        check_instance("optimization", self.optimization, Optimization, "an Optimization()")
        check_sizes_and_dropout(self, self._may_be_zero)
        self._check()

    def _fit_to(self, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
        x = check_node_features(task.data).to_dense()
        data = BaselineData(x, *read_edges(task.data, len(x)), labels.num_classes)
        self._start(task.data, labels.num_classes)
        request = BaselineRequest(self, data, labels, read_seed(seed), task)
        ((self.probabilities_, self.history_[request.stage]),) = yield [request]

    def _probabilities(self, data: Any) -> Tensor:
        if not same_inputs(data, self.data_):
            raise InputError("data", "be the graph that the baseline was fitted to", "another one", "Fit it again.")
        return self.probabilities_

    def _state(self) -> dict[str, Tensor]:
        return {"probabilities": self.probabilities_}

    def _restore(self, data: Any, state: Mapping[str, Tensor]) -> None:
        expected = torch.empty(data.num_nodes, self.num_classes_, device="meta")
        self.probabilities_ = check_shape("probabilities", state["probabilities"], expected)


@dataclass(frozen=True, eq=False)
class BaselineRequest(TrainingRequest):
    """The request of one baseline to be trained: a problem of a pass."""

    order: ClassVar[int] = 1
    kind: ClassVar[str] = "training"

    model: Baseline
    data: BaselineData
    labels: Labels
    seed: int
    task: FitTask

    def key(self) -> tuple[Any, ...]:
        """Everything but the seed."""
        settings = [getattr(self.model, field.name) for field in fields(self.model) if field.name != "seed"]
        return (self.task.inputs, self.data.num_classes, type(self.model), *settings)

    def capacity(self) -> int:
        return self.model._capacity(self.data)

    @classmethod
    def train(
        cls, requests: Sequence[BaselineRequest], stage: str, callback: Callback | None, checkpoint: Checkpoint | None
    ) -> list[tuple[Tensor, History]]:
        """Returns the probabilities and curves of each request."""
        model = requests[0].model
        networks = model._networks(requests[0].data, requests, callback)
        logits, history = networks.train(model.optimization, stage, callback, checkpoint)
        return [
            (torch.softmax(own, dim=1).float(), curves_of(history, request.task.name))
            for own, request in zip(logits, requests, strict=True)
        ]


# The problems of a pass.
Problems = Sequence[BaselineRequest]


def check_backbone_kind(backbone: object, kinds: tuple[type, ...] = get_args(Backbone), remedy: str = "") -> None:
    """Raises an `InputError` unless `backbone` is an object of one of these classes."""
    *others, last = (f"{kind.__name__}()" for kind in kinds)
    check_instance("backbone", backbone, kinds, f"{', '.join(others)} or {last}" if others else last, remedy)


@dataclass(eq=False, repr=False)
class UntrainedBaseline(NodeClassifier):
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

    def _fit_to(self, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
        if stored_graph(task.data) is None:
            read_edges(task.data, len(labels.train))  # raises an error if they are invalid
        self._start(task.data, labels.num_classes)
        self.labels_ = labels.train.clone()
        yield from ()

    def _probabilities(self, data: Any) -> Tensor:
        edges = read_edges_of_same_size(data, len(self.labels_))
        return to_probabilities(self._scores(*edges, self.labels_), self.labels_)


def read_edges_of_same_size(data: Any, num_nodes: int) -> tuple[Tensor, Tensor | None]:
    """The edges of PyG data and their weights; raises an error if it does not have this number of nodes."""
    check_same_size(data, num_nodes)
    return read_edges(data, num_nodes)


def check_same_size(data: Any, num_nodes: int) -> None:
    """Raises an error if data do not have this number of nodes, that of the labels."""
    if data.num_nodes != num_nodes:
        raise InputError("data", f"have {num_nodes} nodes, as the graph of the fit", data.num_nodes, "Fit it again.")


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
