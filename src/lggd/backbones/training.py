"""Backbones as trainables: equal networks stacked into one computation, and modules of the user called one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lggd.backbones.convolutions import GAT, GCN, ChebNet
from lggd.backbones.jknet import JKNet
from lggd.backbones.layers import Drop
from lggd.backbones.network import Network, check_sizes
from lggd.backbones.polynomial import GPR
from lggd.backbones.user_module import UserModule
from lggd.errors import InputError, InputTypeError
from lggd.graph.edge_index import check_edges
from lggd.training.optimization import GroupedAdam, Optimization, SeededModules, StackedParameter, Targets
from lggd.training.randomness import RandomState, SeededGenerators, dropout, keep_level, read_seed
from lggd.validation import check_same_length


class SeparateModules(SeededModules):
    """Q modules, each called with the graph and its own features. The Trainable of user-defined backbones."""

    def __init__(
        self, modules: Sequence[nn.Module], x: Tensor, edges: tuple[Tensor, Tensor | None], seeds: Sequence[int]
    ) -> None:
        super().__init__(modules, seeds, x.device)
        self._inputs = [(x if x.dim() == 2 else x[q], *edges) for q in range(len(self.modules))]
        for q, module in enumerate(self.modules):
            # Lazy layers create their parameters at the first call; Adam needs them now.
            if any(nn.parameter.is_lazy(tensor) for tensor in chain(module.parameters(), module.buffers())):
                self._logits(q, training=False)

    def _logits(self, q: int, training: bool) -> Tensor:
        """The logits of one problem, `[1, N, K]`."""
        with torch.set_grad_enabled(training):
            return self.call(q, *self._inputs[q], training=training).unsqueeze(0)

    def logits(self) -> Tensor:
        """The logits of all nodes without dropout, `[Q, N, K]`."""
        return torch.cat([self._logits(q, training=False) for q in range(len(self.modules))])

    def optimizer(self, optimizations: Sequence[Optimization]) -> GroupedAdam:
        # Not fused, so that parameters may be of any dtype and layout.
        return GroupedAdam(self.parameters(), optimizations, fused=False)

    def training_step(self, targets: Targets, running: Sequence[bool]) -> Tensor:
        losses = torch.zeros(len(running), dtype=torch.float64, device=targets.labels.device)
        for q in (q for q, is_running in enumerate(running) if is_running):
            loss = targets.of_problem(q).losses(self._logits(q, training=True))
            loss.sum().backward()  # type: ignore[no-untyped-call]
            losses[q] = loss.detach()[0]
        return losses

    def validate(self, targets: Targets, running: Sequence[bool]) -> tuple[Tensor, Tensor]:
        losses, correct = torch.zeros(2, len(running), dtype=torch.float64, device=targets.labels.device)
        for q in (q for q, is_running in enumerate(running) if is_running and targets.counts[q]):
            logits, target = self._logits(q, training=False), targets.of_problem(q)
            losses[q], correct[q] = target.losses(logits)[0], target.correct(logits)[0]
        return losses, correct

    def export(self) -> list[nn.Module]:
        """The modules in their current states, in evaluation mode."""
        return [module.eval() for module in self.modules]


class StackedBackbones(SeededGenerators):
    """Q networks of one backbone, each with its own generator for dropout. The Trainable of most models.

    `stacked` holds the parameters `[Q, …]` by their names in the modules. A step never synchronizes with the device, so
    that it can be captured as a CUDA graph.
    """

    def __init__(
        self, modules: Sequence[Network], x: Tensor, edges: tuple[Tensor, Tensor | None], seeds: Sequence[int]
    ) -> None:
        _check_equal(modules)
        self.modules, self.x, (edge_index, weight) = list(modules), x.detach(), edges
        weight = None if weight is None else weight.detach()
        # Not cached by the module, so that its buffers for Q problems are freed with this object.
        self.graph: Any = modules[0].read_graph(x if x.dim() == 2 else x[0], edge_index, weight)
        self.generators = [torch.Generator(x.device).manual_seed(seed) for seed in seeds]
        self.keep_level = keep_level(modules[0].choice.dropout)
        parameters = [dict(module.named_parameters()) for module in self.modules]
        self.stacked = {
            name: torch.stack([own[name].detach() for own in parameters]).requires_grad_(parameter.requires_grad)
            for name, parameter in parameters[0].items()
        }

    def parameters(self) -> list[StackedParameter]:
        return [StackedParameter(name, value) for name, value in self.stacked.items()]

    def optimizer(self, optimizations: Sequence[Optimization]) -> Optimizer:
        return GroupedAdam(self.parameters(), optimizations)

    def training_step(self, targets: Targets, running: Sequence[bool]) -> Tensor:
        losses = self._training_losses(targets)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def _training_losses(self, targets: Targets) -> Tensor:
        return targets.losses(self._forward(self._dropout))

    def validate(self, targets: Targets, running: Sequence[bool]) -> tuple[Tensor, Tensor]:
        logits = self.logits()
        return targets.losses(logits), targets.correct(logits)

    def logits(self) -> Tensor:
        """The logits of all nodes without dropout, `[Q, N, K]`."""
        with torch.no_grad():
            return self._forward(nn.Identity())

    def _forward(self, drop: Drop) -> Tensor:
        return self.modules[0].logits(self.stacked, self.x, self.graph, drop)

    def _dropout(self, values: Tensor) -> Tensor:
        return dropout(values, self.generators, self.keep_level)

    def export(self) -> list[nn.Module]:
        """The modules in their current states, in evaluation mode."""
        with torch.no_grad():
            for q, module in enumerate(self.modules):
                for name, parameter in module.named_parameters():
                    parameter.copy_(self.stacked[name][q])
        return [module.eval() for module in self.modules]


def _check_equal(modules: Sequence[Network]) -> None:
    def layout(module: Network) -> tuple[Any, ...]:
        parameters = module.named_parameters()
        return module.choice, [(name, value.shape, value.dtype, value.requires_grad) for name, value in parameters]

    for q, module in enumerate(modules):
        if layout(module) != layout(modules[0]):
            found = f"number {q}, a {module.choice}, differs from the first, a {modules[0].choice}"
            remedy = "Train them separately."
            raise InputError("modules", "have the same backbone and equal sizes", but=found, remedy=remedy)


Backbone = GCN | GAT | ChebNet | JKNet | GPR
# Those of the paper, by name.
BACKBONES: dict[str, Backbone] = {"gcn": GCN(), "gat": GAT(), "chebnet": ChebNet(), "jknet": JKNet()}


def build_backbone(backbone: Backbone | nn.Module, in_channels: int, num_classes: int) -> nn.Module:
    """The module of a backbone, or a copy of a user's module that checks the shape of its output.

    >>> import torch
    >>> from torch_geometric.nn import GraphSAGE
    >>> module = build_backbone(GraphSAGE(-1, 16, num_layers=2, out_channels=3), in_channels=5, num_classes=3)
    >>> module(torch.ones(2, 5), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 3])
    """
    if isinstance(backbone, Backbone):
        return backbone.build(in_channels, num_classes)
    check_sizes(in_channels, num_classes)
    if isinstance(backbone, nn.Module):
        return UserModule(backbone, num_classes)
    found = f"the class {backbone.__name__}" if isinstance(backbone, type) else f"a {type(backbone).__name__}"
    rule = "be GCN(), GAT(), ChebNet(), JKNet(), GPR() or a torch.nn.Module"
    raise InputTypeError("backbone", rule, found, "Pass an object instead of a class or a name.")


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
        return build_backbone(backbone, in_channels, num_classes)


def trainable_backbones(
    modules: Sequence[nn.Module],
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    seeds: Sequence[int | torch.Generator] = (0,),
) -> StackedBackbones | SeparateModules:
    """Q modules on one graph as a Trainable: cross-entropy on the training nodes, with dropout.

    `modules` are distinct results of `build_seeded` or `build_backbone`, and are moved to the device of x. Those of
    this library's backbones must have equal sizes and are evaluated in one forward pass; user-defined ones are called
    one after the other. `export()` returns the modules after training. `x` is float `[N, F]`, shared by all, or
    `[Q, N, F]`; `seeds` are those of the dropout of each module.

    >>> from lggd.training.engine import Engine
    >>> x, edge_index = torch.eye(4), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> modules = [build_seeded(GCN(), in_channels=4, num_classes=2, seed=seed) for seed in (0, 1)]
    >>> networks = trainable_backbones(modules, x, edge_index, seeds=(0, 1))
    >>> engine = Engine(networks, torch.tensor([[0, -1, 1, -1], [-1, 0, -1, 1]]), names=("one", "two"))
    >>> sorted(engine.step())
    ['train_loss one', 'train_loss two']
    """
    _check_modules(modules, x, seeds)
    check_edges(edge_index, edge_weight, x.shape[-2])
    modules, edges = [module.to(x.device) for module in modules], (edge_index, edge_weight)
    # Derived seeds: dropout must not repeat the random numbers that initialized the parameters.
    dropout_seeds = [read_seed(torch.Generator().manual_seed(read_seed(seed))) for seed in seeds]
    networks = [module for module in modules if isinstance(module, Network)]
    if not networks:
        return SeparateModules(modules, x, edges, dropout_seeds)
    if len(networks) < len(modules):
        rule = "all be backbones of this library or all be user-defined"
        found = f"{len(networks)} of {len(modules)} of this library"
        raise InputError("modules", rule, found, "Train them separately.")
    return StackedBackbones(networks, x, edges, dropout_seeds)


def _check_modules(modules: Sequence[nn.Module], x: Tensor, seeds: Sequence[int | torch.Generator]) -> None:
    problems = len(modules)
    if not problems or len({id(module) for module in modules}) < problems:
        rule, found = "be distinct modules, one per problem and at least one", f"{problems} with duplicates"
        raise InputError("modules", rule, found if problems else "0", "Copy them: each is trained in place.")
    for module in modules:
        if not any(parameter.requires_grad for parameter in module.parameters()):
            rule, found = "have parameters that require gradients", f"{type(module).__name__} has none"
            raise InputError("modules", rule, but=found, remedy="There is nothing to train.")
    if x.dim() not in (2, 3) or not x.is_floating_point():
        rule = "be float [N, F], one row per node, or [Q, N, F]"
        raise InputError("x", rule, f"{x.dtype} {list(x.shape)}", "Use x.float().")
    if x.dim() == 3 and len(x) != problems:
        raise InputError("x", f"be [N, F] or [{problems}, N, F] for {problems} modules", list(x.shape))
    check_same_length("seeds", seeds, problems, "module")
