"""Backbones by name, their modules, and many modules as one Trainable."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lggd.backbones.chebnet import ChebNet
from lggd.backbones.gat import GAT
from lggd.backbones.gcn import GCN
from lggd.backbones.jknet import JKNet
from lggd.backbones.network import Network, check_sizes
from lggd.backbones.separate_modules import SeparateModules
from lggd.backbones.stacked_backbones import StackedBackbones
from lggd.backbones.user_module import UserModule
from lggd.errors import InputError, InputTypeError
from lggd.graph.edge_index import check_edges
from lggd.training.randomness import RandomState, read_seed
from lggd.validation import check_same_length

Backbone = GCN | GAT | ChebNet | JKNet
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
    raise InputTypeError(
        "backbone",
        "be GCN(), GAT(), ChebNet(), JKNet() or a torch.nn.Module",
        found,
        "Pass an object instead of a class or a name.",
    )


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

    Modules of this library's backbones must have equal sizes and are evaluated in one forward pass; user-defined ones
    are called one after the other. `export()` returns the modules after training.

    Parameters
    ----------
    modules : sequence of nn.Module
        Q distinct modules returned by `build_seeded` or `build_backbone`; they are moved to the device of x.
    x : Tensor
        Node features, float `[N, F]` shared by all or `[Q, N, F]`.
    edge_index : Tensor
        int64 `[2, E]`.
    edge_weight : Tensor, optional
        float `[E]`.
    seeds : sequence of int or torch.Generator
        One seed per module, for its dropout.

    Examples
    --------
    >>> from lggd.backbones import GCN
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
    modules = [module.to(x.device) for module in modules]
    # Derived seeds: dropout must not repeat the random numbers that initialized the parameters.
    dropout_seeds = [read_seed(torch.Generator().manual_seed(read_seed(seed))) for seed in seeds]
    networks = [module for module in modules if isinstance(module, Network)]
    if not networks:
        return SeparateModules(modules, x, edge_index, edge_weight, dropout_seeds)
    if len(networks) < len(modules):
        raise InputError(
            "modules",
            "all be backbones of this library or all be user-defined",
            f"{len(networks)} of {len(modules)} of this library",
            "Train them separately.",
        )
    return StackedBackbones(networks, x, edge_index, edge_weight, dropout_seeds)


def _check_modules(modules: Sequence[nn.Module], x: Tensor, seeds: Sequence[int | torch.Generator]) -> None:
    problems = len(modules)
    if not problems or len({id(module) for module in modules}) < problems:
        raise InputError(
            "modules",
            "be distinct modules, one per problem and at least one",
            f"{problems}{' with duplicates' if problems else ''}",
            "Copy them: each is trained in place.",
        )
    for module in modules:
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise InputError(
                "modules",
                "have parameters that require gradients",
                but=f"{type(module).__name__} has none",
                remedy="There is nothing to train.",
            )
    if x.dim() not in (2, 3) or not x.is_floating_point():
        raise InputError(
            "x", "be float [N, F], one row per node, or [Q, N, F]", f"{x.dtype} {list(x.shape)}", "Use x.float()."
        )
    if x.dim() == 3 and len(x) != problems:
        raise InputError("x", f"be [N, F] or [{problems}, N, F] for {problems} modules", list(x.shape))
    check_same_length("seeds", seeds, problems, "module")
