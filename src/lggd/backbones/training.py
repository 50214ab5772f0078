"""Training of backbones: equal networks stacked into one computation, and modules of the user called one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lggd.backbones.convolutions import GAT, GCN, ChebNet
from lggd.backbones.jknet import JKNet
from lggd.backbones.network import Drop, Network, UserModule, no_dropout
from lggd.backbones.polynomial import APPNP, GPR, SGC, Perceptron
from lggd.errors import InputError
from lggd.graph.edge_list import check_edges
from lggd.inputs import Labels
from lggd.progress import Callback
from lggd.training.engine import Engine, History, train
from lggd.training.problems import (
    Optimization,
    RandomState,
    SeededModules,
    StackedParameter,
    Targets,
    derived_seeds,
    dropout,
    keep_level,
)
from lggd.validation import read_seed

Seeds = Sequence[int | torch.Generator]


def _dropout_seeds(seeds: Seeds) -> list[int]:
    """Derived seeds: dropout must not repeat the random numbers that initialized the parameters."""
    return [derived_seeds(seed, 1)[0] for seed in seeds]


class _TrainedOnLogits(ABC):
    """Q networks, trained by the cross-entropy of their logits."""

    @abstractmethod
    def _logits(self, training: bool) -> Tensor:
        """The logits of all nodes `[Q, N, K]`, with dropout if `training`."""

    def logits(self) -> Tensor:
        """The logits of all nodes without dropout, `[Q, N, K]`."""
        with torch.no_grad():
            return self._logits(training=False)

    def training_step(self, targets: Targets) -> Tensor:
        losses = self._training_losses(targets)
        torch.autograd.backward(losses.sum())
        return losses.detach()

    def _training_losses(self, targets: Targets) -> Tensor:
        return targets.losses(self._logits(training=True))

    def validate(self, targets: Targets) -> tuple[Tensor, Tensor]:
        logits = self.logits()
        return targets.losses(logits), targets.correct(logits)


class SeparateModules(SeededModules, _TrainedOnLogits):
    """Q modules, each called with the graph and its own features. The Trainable of user-defined backbones."""

    fused = False  # parameters may be of any dtype and layout

    def __init__(
        self, modules: Sequence[nn.Module], x: Tensor, edges: tuple[Tensor, Tensor | None], seeds: Seeds
    ) -> None:
        super().__init__(modules, _dropout_seeds(seeds), x.device)
        self._inputs = [(x if x.dim() == 2 else x[q], *edges) for q in range(len(self.modules))]
        # Lazy layers create their parameters at the first call; Adam needs them now.
        if any(nn.parameter.is_lazy(parameter.value) for parameter in self.parameters()):
            self.logits()

    def _logits(self, training: bool) -> Tensor:
        return torch.stack([self.call(q, *inputs, training=training) for q, inputs in enumerate(self._inputs)])

    def export(self) -> list[nn.Module]:
        """The modules in their current states, in evaluation mode."""
        return [module.eval() for module in self.modules]


class StackedBackbones(_TrainedOnLogits):
    """Q networks of one backbone, each with its own generator for dropout. The Trainable of most models.

    `stacked` holds the parameters `[Q, …]` by their names in the modules. A step never synchronizes with the device, so
    that it can be captured as a CUDA graph.
    """

    fused = True

    def __init__(
        self, modules: Sequence[Network], x: Tensor, edges: tuple[Tensor, Tensor | None], seeds: Seeds
    ) -> None:
        self.modules, self.x, (edge_index, weight) = list(modules), x.detach(), edges
        weight = None if weight is None else weight.detach()
        # Not cached by the module, so that its buffers for Q problems are freed with this object.
        self.graph: Any = modules[0].read_graph(x if x.dim() == 2 else x[0], edge_index, weight)
        self.generators = [torch.Generator(x.device).manual_seed(seed) for seed in _dropout_seeds(seeds)]
        self.keep_level, self.without_decay = keep_level(modules[0].dropout), modules[0].without_decay
        self.stacked: dict[str, Tensor] = torch.func.stack_module_state(self.modules)[0]

    def parameters(self) -> list[StackedParameter]:
        return [
            StackedParameter(name, value, decays=name not in self.without_decay)
            for name, value in self.stacked.items()
            if value.requires_grad
        ]

    def _logits(self, training: bool) -> Tensor:
        drop: Drop = self._dropout if training else no_dropout
        graph = self._training_graph() if training else self.graph
        return self.modules[0].logits(self.stacked, self.x, graph, drop)

    def _training_graph(self) -> Any:
        """The graph of one training step."""
        return self.graph

    def _dropout(self, values: Tensor, rate: float | None = None) -> Tensor:
        return dropout(values, self.generators, self.keep_level if rate is None else keep_level(rate))

    def export(self) -> list[nn.Module]:
        """The modules in their current states, in evaluation mode."""
        with torch.no_grad():
            for q, module in enumerate(self.modules):
                for name, parameter in module.named_parameters():
                    parameter.copy_(self.stacked[name][q])
        return [module.eval() for module in self.modules]


Backbone = GCN | GAT | ChebNet | JKNet | GPR | APPNP | SGC | Perceptron
# Those of the paper, by name.
BACKBONES: dict[str, Backbone] = {"gcn": GCN(), "gat": GAT(), "chebnet": ChebNet(), "jknet": JKNet()}


def build_seeded(
    backbone: Backbone | nn.Module, in_channels: int, num_classes: int, seed: int | torch.Generator
) -> nn.Module:
    """The module of a backbone, on the CPU, with initial parameters that depend on the seed alone.

    A user's module is copied with its current parameters. Torch's global random state is left unchanged.

    >>> from lggd.backbones import GCN
    >>> first, second = (build_seeded(GCN(), in_channels=5, num_classes=3, seed=0) for _ in range(2))
    >>> bool((first.first.lin.weight == second.first.lin.weight).all())
    True
    """
    with torch.device("cpu"), RandomState(read_seed(seed), torch.device("cpu")).in_use():
        if isinstance(backbone, nn.Module):
            return UserModule(backbone, num_classes)
        return backbone.build(in_channels, num_classes)


def trainable_backbones(
    modules: Sequence[nn.Module],
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    seeds: Seeds = (0,),
) -> StackedBackbones | SeparateModules:
    """Q modules on one graph as a Trainable: cross-entropy on the training nodes, with dropout.

    `modules` are distinct results of `build_seeded` for one backbone, and are moved to the device of x. Those of this
    library are evaluated in one forward pass; user-defined ones are called one after the other. `export()` returns the
    modules after training. `x` is float `[N, F]`, shared by all, or `[Q, N, F]`; `seeds` are those of the dropout of
    each module.

    >>> from lggd.training.engine import Engine
    >>> x, edge_index = torch.eye(4), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> modules = [build_seeded(GCN(), in_channels=4, num_classes=2, seed=seed) for seed in (0, 1)]
    >>> networks = trainable_backbones(modules, x, edge_index, seeds=(0, 1))
    >>> engine = Engine(networks, torch.tensor([[0, -1, 1, -1], [-1, 0, -1, 1]]), names=("one", "two"))
    >>> sorted(engine.step())
    ['train_loss one', 'train_loss two']
    """
    for module in modules:
        if not any(parameter.requires_grad for parameter in module.parameters()):
            name = type(module.module if isinstance(module, UserModule) else module).__name__
            rule, remedy = "have parameters that require gradients", "There is nothing to train."
            raise InputError("backbone", rule, but=f"{name} has none", remedy=remedy)
    check_edges(edge_index, edge_weight, x.shape[-2])
    modules, edges = [module.to(x.device) for module in modules], (edge_index, edge_weight)
    networks = [module for module in modules if isinstance(module, Network)]
    if networks:
        return StackedBackbones(networks, x, edges, seeds)
    return SeparateModules(modules, x, edges, seeds)


def train_backbones(
    backbone: Backbone | nn.Module, x: Tensor, edges: tuple[Tensor, Tensor | None], labels: Labels,
    optimization: Optimization, seeds: Sequence[int], stage: str = "backbone", callback: Callback | None = None,
) -> tuple[list[nn.Module], History]:  # fmt: skip
    """Trains one network per seed, all on the same features x `[N, F]` and labels, in one pass.

    Returns the modules in their best states, and the training curves; those of several are named by member.
    """
    modules = [build_seeded(backbone, x.shape[1], labels.num_classes, seed) for seed in seeds]
    trainable = trainable_backbones(modules, x, *edges, seeds)
    history = train_networks(trainable, labels, optimization, stage, callback)
    return trainable.export(), history


def train_networks(
    networks: StackedBackbones | SeparateModules, labels: Labels, optimization: Optimization, stage: str,
    callback: Callback | None,
) -> History:  # fmt: skip
    """Trains Q networks on the same labels to their best states; the curves of several are named by member."""
    count = len(networks.modules)
    targets, validation = (own.expand(count, -1) for own in (labels.train, labels.validation))
    names = [""] if count == 1 else [f"member={k}" for k in range(count)]
    return train(Engine(networks, targets, validation, optimization, names), stage, callback)
