"""Requests of models to train backbones, in a common pass if possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lggd.backbones import Backbone, build_seeded, trainable_backbones
from lggd.estimator import FitTask, Labels, TrainingRequest, curves_of
from lggd.training.engine import Callback, Checkpoint, Engine, History, train
from lggd.training.optimization import Optimization


@dataclass(frozen=True, eq=False)
class BackboneRequest(TrainingRequest):
    """A request to train one backbone per seed, all on the same features `x [N, F]` and labels.

    With `shared_x`, x are the node features of the data, which all requests of a pass share.
    """

    order: ClassVar[int] = 2
    kind: ClassVar[str] = "backbone"

    backbone: Backbone | nn.Module
    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None
    labels: Labels
    optimization: Optimization
    seeds: Sequence[int]
    task: FitTask
    shared_x: bool = False
    # Identifies the graph if it is not that of the data; requests with different graphs cannot share a pass.
    graph_key: Any = None

    @property
    def num_problems(self) -> int:
        return len(self.seeds)

    @property
    def names(self) -> list[str]:
        """The names of the networks in errors and curves."""
        if len(self.seeds) == 1:
            return [self.task.name]
        return [self.task.member(k, seed).name for k, seed in enumerate(self.seeds)]

    def key(self) -> tuple[Any, ...]:
        """Requests with equal keys share a pass. A user-defined module is trained alone."""
        backbone = id(self) if isinstance(self.backbone, nn.Module) else self.backbone
        sizes = (self.labels.num_classes, self.x.shape[1], self.shared_x, len(self.seeds))
        return (self.task.inputs, backbone, self.optimization, self.graph_key, *sizes)

    @classmethod
    def train(
        cls, requests: Sequence[BackboneRequest], stage: str, callback: Callback | None, checkpoint: Checkpoint | None
    ) -> list[tuple[list[nn.Module], History]]:
        """Trains the backbones of all requests; returns the modules in their best states and the curves of each."""
        first, members = requests[0], len(requests[0].seeds)
        x = first.x if first.shared_x else torch.stack([request.x for request in requests for _ in request.seeds])
        x = x[0] if x.dim() == 3 and len(x) == 1 else x
        seeds = [seed for request in requests for seed in request.seeds]
        modules = [build_seeded(first.backbone, x.shape[-1], first.labels.num_classes, seed) for seed in seeds]
        trainable = trainable_backbones(modules, x, first.edge_index, first.edge_weight, seeds)
        labels = [request.labels for request in requests for _ in request.seeds]
        targets, validation = (torch.stack([getattr(own, name) for own in labels]) for name in ("train", "validation"))
        names = [name for request in requests for name in request.names]
        engine = Engine(trainable, targets, validation, first.optimization, names)
        history = train(engine, stage, callback, checkpoint)
        engine.load_best()
        trained = trainable.export()
        curves = [member_curves([curves_of(history, name) for name in request.names]) for request in requests]
        return [(trained[k * members : (k + 1) * members], own) for k, own in enumerate(curves)]


def member_curves(histories: Sequence[History]) -> History:
    """The curves of all members, named by member; those of a single member keep their names."""
    if len(histories) == 1:
        return histories[0]
    return {f"{name} member={k}": curve for k, curves in enumerate(histories) for name, curve in curves.items()}
