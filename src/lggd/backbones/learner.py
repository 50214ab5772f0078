"""The training of backbones: cross-entropy on the labelled nodes, stopped by the accuracy on the validation nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lggd.backbones.copies import Copies
from lggd.backbones.networks import Backbone, Network, build_backbone
from lggd.backbones.stack import Stack
from lggd.errors import InputError
from lggd.graph.edge_index import check_edges
from lggd.training.engine import NetworkLearner
from lggd.training.optimization import Optimization
from lggd.training.randomness import RandomState, read_seed


def initialised(
    backbone: Backbone | nn.Module, in_channels: int, num_classes: int, seed: int | torch.Generator
) -> nn.Module:
    """The module of a backbone, with first parameters that depend on the seed alone, on the CPU.

    A module of one's own keeps the parameters it has, in a copy. Torch's global random numbers stay as they are.

    >>> from lggd.backbones import GCN
    >>> one, other = (initialised(GCN(), in_channels=5, num_classes=3, seed=0) for _ in range(2))
    >>> bool((one.first.lin.weight == other.first.lin.weight).all())
    True
    """
    with torch.device("cpu"), RandomState(read_seed(seed), torch.device("cpu")).in_use():
        return build_backbone(backbone, in_channels, num_classes)


class BackboneLearner(NetworkLearner):
    """Trains modules that `initialised` or `build_backbone` made, an epoch a step; a `Learner` for `training.learn`.

    Q problems on one graph, as `NetworkLearner` learns them: an epoch is a step of Adam on the mean cross-entropy over
    the training nodes, with dropout, and then an evaluation without. Modules of a backbone of ours must have equal
    sizes, and one computation serves all. Modules of one's own are called one after the other.

    Args:
        modules: Q different ones, trained on the device of x; they hold the result after `load_best`.
        x: features, float `[N, F]` for all or `[Q, N, F]`.
        edge_index: int64 `[2, E]`.
        edge_weight: float `[E]` or None.
        target: int64 `[Q, N]`, the class of each training node and -1 elsewhere.
        validation: int64 `[Q, N]`, the class of each validation node and -1 elsewhere; None where there is none.
        optimization: how Adam is run.
        seeds: of the dropout, one a problem.
        names: what tells the problems apart in the history; "" adds nothing.

    >>> from lggd.backbones import GCN
    >>> x, edge_index = torch.eye(4), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> modules = [initialised(GCN(), in_channels=4, num_classes=2, seed=seed) for seed in (0, 1)]
    >>> target = torch.tensor([[0, -1, 1, -1], [-1, 0, -1, 1]])
    >>> learner = BackboneLearner(modules, x, edge_index, None, target, seeds=(0, 1), names=("one", "two"))
    >>> sorted(learner.step())
    ['train_loss one', 'train_loss two']
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        target: Tensor,
        validation: Tensor | None = None,
        optimization: Optimization = Optimization(),
        seeds: Sequence[int | torch.Generator] = (0,),
        names: Sequence[str] = ("",),
    ) -> None:
        _check_problems(modules, x, seeds, names)
        check_edges(edge_index, edge_weight, x.shape[-2])
        target = _read_labels("target", target, len(modules), x)
        validation = None if validation is None else _read_labels("validation", validation, len(modules), x)
        self._modules = _together([module.to(x.device) for module in modules], x, edge_index, edge_weight, seeds)
        super().__init__(self._modules, target, validation, optimization, names)

    def load_best(self) -> list[nn.Module]:
        """The modules with their best states, and their dropout off."""
        self._put_best()
        return list(self._modules.export())


def _together(
    modules: Sequence[nn.Module],
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None,
    seeds: Sequence[int | torch.Generator],
) -> Stack | Copies:
    """Stacked where they are ours, one after the other where they are not."""
    for module in modules:
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise InputError(
                "modules",
                "have parameters that ask for gradients",
                but=f"{type(module).__name__} has none",
                remedy="There is nothing to train.",
            )
    # Seeds drawn from the seeds: the numbers that drop values must not be those that parameters started from.
    drawn = [read_seed(torch.Generator().manual_seed(read_seed(seed))) for seed in seeds]
    networks = [module for module in modules if isinstance(module, Network)]
    if not networks:
        return Copies(modules, x, edge_index, edge_weight, drawn)
    if len(networks) < len(modules):
        raise InputError(
            "modules",
            "all be of a backbone of ours or all of one's own",
            f"{len(networks)} of {len(modules)} of ours",
            "Train them apart.",
        )
    return Stack(networks, x, edge_index, edge_weight, drawn)


def _read_labels(name: str, labels: Tensor, problems: int, x: Tensor) -> Tensor:
    shape = [problems, x.shape[-2]]
    if list(labels.shape) != shape or labels.dtype != torch.int64:
        raise InputError(
            name,
            f"be int64 {shape}, a class a node and -1 where it is not known, a row a module",
            f"{labels.dtype} {list(labels.shape)}",
        )
    return labels.to(x.device)


def _check_problems(
    modules: Sequence[nn.Module], x: Tensor, seeds: Sequence[int | torch.Generator], names: Sequence[str]
) -> None:
    problems = len(modules)
    if not problems or len({id(module) for module in modules}) < problems:
        raise InputError(
            "modules",
            "be different modules, one a problem and at least one",
            f"{problems}{(' with some of them twice' if problems else '')}",
            "Copy them, for each is trained in place.",
        )
    if x.dim() not in (2, 3) or not x.is_floating_point():
        raise InputError(
            "x", "be float [N, F], a row a node, or [Q, N, F]", f"{x.dtype} {list(x.shape)}", "Use x.float()."
        )
    if x.dim() == 3 and len(x) != problems:
        raise InputError("x", f"be [N, F] or [{problems}, N, F] for {problems} modules", list(x.shape))
    for argument, given in (("seeds", seeds), ("names", names)):
        if len(given) != problems:
            raise InputError(argument, f"have one a module, {problems} in all", len(given))
    if len(set(names)) < problems:
        raise InputError("names", "tell the problems apart", list(names))
