"""Self-training in closed form: the most confident predictions join the labels, as many as cross-validation chooses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lggd.closed_form.ridge import LocalSystem
from lggd.inputs.labels import confident_predictions
from lggd.validation import check_instance, check_int, check_real

# More pseudo-labels barely help, and take longer.
MAX_PSEUDO_LABELS = 2000


@dataclass(frozen=True)
class PseudoLabels:
    """Solve a second time with the most confident predictions as labels, and average both predictions.

    Parameters
    ----------
    fractions : tuple of float
        The fractions of the predictions of each class to choose from; 0, no pseudo-labels, is always among them.
    folds : int
        Number of folds of the cross-validation that chooses the fraction.

    Examples
    --------
    >>> import lggd
    >>> model = lggd.KernelRidge(pseudo_labels=lggd.PseudoLabels(fractions=(0.5,))).fit(lggd.load("karate"))
    >>> model.pseudo_fraction_ in (0, 0.5)
    True
    """

    fractions: tuple[float, ...] = (0.1, 0.3, 0.6, 0.9)
    folds: int = 5

    def __post_init__(self) -> None:
        check_int("folds", self.folds, minimum=2)
        check_instance("fractions", self.fractions, (tuple, list), "a tuple such as (0.1, 0.3)")
        for fraction in self.fractions:
            check_real("fractions", fraction, 0, 1, closed="right")

    def choose(self, system: LocalSystem, labels: Tensor, num_classes: int, ridge: float, beta: float) -> float:
        """The fraction with the lowest cross-validated −log p."""
        nodes = (labels >= 0).nonzero().squeeze(1)
        order = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0)).to(nodes.device)]
        losses = dict.fromkeys((0.0, *self.fractions), 0.0)
        for fold in range(self.folds):
            left_out = order[fold :: self.folds]
            known = labels.clone()
            known[left_out] = -1
            nodes = (known >= 0).nonzero().squeeze(1)
            first = system.with_nodes(nodes).probabilities(known[nodes], num_classes, ridge, beta)
            for fraction in losses:
                p = self_trained(system, known, first, fraction, ridge, beta)
                losses[fraction] -= float(p[left_out, labels[left_out]].clamp(min=1e-9).log().sum())
        return min(losses, key=losses.__getitem__)


def self_trained(
    system: LocalSystem, labels: Tensor, first: Tensor, fraction: float, ridge: float, beta: float
) -> Tensor:
    """The mean of the first probabilities and of those with the most confident predictions as labels, `[N, K]`.

    At most `MAX_PSEUDO_LABELS` join the labels.
    """
    if not fraction:
        return first
    nodes, classes = confident_predictions(first, labels < 0, fraction)
    if len(nodes) > MAX_PSEUDO_LABELS:
        drawn = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))[:MAX_PSEUDO_LABELS]
        nodes, classes = nodes[drawn.to(nodes.device)], classes[drawn.to(nodes.device)]
    joined = labels.index_copy(0, nodes, classes)
    labelled = (joined >= 0).nonzero().squeeze(1)
    return (first + system.with_nodes(labelled).probabilities(joined[labelled], first.shape[1], ridge, beta)) / 2
