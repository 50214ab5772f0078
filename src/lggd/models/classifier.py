"""The LGGD classifier: the nearest class by distance, or a backbone trained on distances as features."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from lggd.backbones import GCN, Backbone, build_seeded
from lggd.backbones.network import check_user_module
from lggd.backbones.training import train_backbones
from lggd.errors import InputError
from lggd.estimator import VALIDATION, Member, with_prefix, without_prefix
from lggd.features import GGD, LGGD, DistanceFeatures
from lggd.inputs import Labels, NodeData
from lggd.models.plus import Ensemble
from lggd.models.sampled_training import sample_labels, streamed_logits
from lggd.progress import Callback
from lggd.training.problems import Optimization, derived_seeds
from lggd.validation import check_instance, read_seed

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(eq=False, repr=False)
class LGGDClassifier(Member):
    """Classify the nodes of a graph from a few labels; further labels can be added without training.

    By default distances are learned by networks, and a GCN is trained on them, as in the paper. With
    `EvolvedKernelRidge()` and no backbone, nothing is trained.

    Parameters
    ----------
    features : LGGD, GGD, EvolvedKernelRidge, Ensemble or None
        The distances to the labelled nodes of each class; None trains the backbone on the node features `x` alone.
    backbone : GCN, GAT, ChebNet, JKNet, GPR, torch.nn.Module or None
        The network that predicts classes from distances as features. A module of your own is called as
        `module(x, edge_index)` with x `[N, in_channels]` and must return logits `[N, K]`; `in_channels` computes that
        width, and one pass before training checks both. None predicts the nearest class by distance.
    optimization : Optimization
        How the backbone is trained.
    seed : int or torch.Generator
        Of the backbone; features have their own.

    Attributes
    ----------
    features_, module_ :
        The fitted features and the trained backbone. See `Member` for the others.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> few = lggd.Optimization(epochs=10)
    >>> model = lggd.LGGDClassifier(lggd.GGD(times=(1, 2)), lggd.GCN(), few).fit(data)
    >>> list(model.history_)
    ['backbone']
    """

    features: DistanceFeatures | Ensemble | None = field(default_factory=LGGD)
    backbone: Backbone | nn.Module | None = GCN()
    optimization: Optimization = Optimization()
    seed: int | torch.Generator = 0

    _inner = "features"

    def __post_init__(self) -> None:
        self.features_: Any  # set by fit

    def check_settings(self) -> None:
        if self.features is None and self.backbone is None:
            raise InputError("backbone", "be set if features is None", "None", "Use a network such as GCN().")
        if self.features is not None:
            check_instance("features", self.features, (DistanceFeatures, Ensemble), "LGGD(), GGD() or None")
            self.features.check_settings()
        if self.backbone is not None:
            description = "a backbone such as GCN(), a torch module or None"
            check_instance("backbone", self.backbone, (Backbone, nn.Module), description)
        check_instance("optimization", self.optimization, Optimization, "an Optimization()")

    def in_channels(self, data: Data) -> int:
        """Return the width of the features that the backbone is trained on, for a module of your own.

        It is T·K for T times and K classes, one more where `features.reachable` is set, and F more where
        `features.concat` appends the node features `[N, F]`; without features it is F.

        Parameters
        ----------
        data : torch_geometric.data.Data
            The graph and its labels, as for `fit`.

        Returns
        -------
        The number of columns of x.

        Examples
        --------
        >>> import lggd
        >>> from torch_geometric.nn import GraphSAGE
        >>> data, model = lggd.load("karate"), lggd.LGGDClassifier(lggd.GGD(times=(1, 2)))
        >>> model.in_channels(data)
        5
        >>> model.backbone = GraphSAGE(model.in_channels(data), 16, num_layers=2, out_channels=2)
        >>> model.optimization = lggd.Optimization(epochs=3)
        >>> model.fit(data).predict().shape
        torch.Size([34])
        """
        return self._input_width(NodeData.read(data), Labels.read(data).num_classes)[0]

    def _input_width(self, nodes: NodeData, num_classes: int) -> tuple[int, str]:
        """The width of the backbone's input, and what it consists of."""
        if self.features is not None:
            return self.features.input_width(nodes, num_classes)
        return nodes.features.shape[1], "the columns of x"

    @property
    def needs_edge_index(self) -> bool:
        if self.features is not None and self.features.needs_edge_index:
            return True
        return self.backbone is not None and getattr(self.backbone, "needs_edge_index", True)

    @property
    def _held_out(self) -> float:
        if isinstance(self.features, GGD) and self.backbone is not None:
            return VALIDATION
        return super()._held_out

    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int, callback: Callback | None) -> None:
        # Before anything is trained: both parts may draw their seeds from one generator.
        features_seed = 0 if self.features is None else read_seed(self.features.seed)
        if isinstance(self.backbone, nn.Module):
            width, meaning = self._input_width(nodes, labels.num_classes)
            check_user_module(self.backbone, width, labels.num_classes, nodes.num_nodes, *nodes.edges, width_of=meaning)
        self._start(nodes, labels.num_classes)
        self.module_: nn.Module | None = None
        self._fit_inner(nodes, labels, features_seed, callback)
        if self.backbone is not None:
            x, targets = self._inputs(nodes), labels
            if nodes.graph is None:
                edges = nodes.edges
            else:
                sample, edge_index, edge_weight, targets = sample_labels(nodes.graph, labels, seed)
                x, edges = x[sample], (edge_index, edge_weight)
            (self.module_,), self.history_["backbone"] = train_backbones(
                self.backbone, x, edges, targets, self.optimization, [seed], callback=callback
            )
        self.labels_ = labels.train.clone()

    def _reseeded(self, seed: int) -> tuple[Self, int]:
        features_seed, backbone_seed = derived_seeds(seed, 2)
        model = copy.copy(self)
        if self.features is not None:
            model.features = copy.copy(self.features)
            model.features.seed = features_seed
        return model, backbone_seed

    def _inputs(self, nodes: NodeData) -> Tensor:
        """The inputs of the backbone, `[N, F]`."""
        inputs: Tensor = nodes.features.to_dense() if self.features_ is None else self.features_.inputs(nodes)
        return inputs

    def _probabilities(self, nodes: NodeData) -> Tensor:
        if self.module_ is None:
            probabilities: Tensor = self.features_._probabilities(nodes)
            return probabilities
        if nodes.graph is not None:
            return torch.softmax(streamed_logits(self.module_, nodes.graph, self._inputs(nodes)), dim=1)
        with torch.no_grad():
            logits = self.module_.eval()(self._inputs(nodes), nodes.edge_index, nodes.edge_weight)
        return torch.softmax(logits, dim=1)

    def _state(self) -> dict[str, Tensor]:
        module = {} if self.module_ is None else with_prefix("backbone.", self.module_.state_dict())
        return {**super()._state(), **module}

    def _restore(self, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        super()._restore(nodes, state)
        self.module_ = None
        if self.backbone is not None:
            module = build_seeded(self.backbone, self._inputs(nodes).shape[1], self.num_classes_, seed=0)
            module.load_state_dict(without_prefix("backbone.", state))
            self.module_ = module.eval()
