"""Training or validation targets of many problems, with their losses and accuracies."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from lggd.errors import InputError


class Targets:
    """The labelled nodes of Q problems and their classes; `name` is that of the argument in errors.

    `labels` are int64 `[Q, N]`: a class, or -1 where a node is not a target of the problem.
    """

    def __init__(self, labels: Tensor, name: str) -> None:
        self.labels, self.name = labels, name
        is_target, (problems, nodes) = labels >= 0, labels.shape
        self.count = is_target.sum(1)
        self.counts: list[int] = self.count.tolist()
        problem, node = is_target.nonzero().unbind(1)
        self.classes = labels[problem, node]
        self.largest = int(self.classes.max()) if len(self.classes) else -1
        self._divisor = self.count.clamp(min=1)
        # The position of each target among logits [Q, N] and [N, Q].
        self._position, self._position_nodes_first = problem * nodes + node, node * problems + problem
        self._of_problem: dict[int, Targets] = {}

    def of_problem(self, problem: int) -> Targets:
        """The targets of a single problem."""
        if problem not in self._of_problem:
            self._of_problem[problem] = Targets(self.labels[problem : problem + 1], self.name)
        return self._of_problem[problem]

    def losses(self, logits: Tensor, nodes_first: bool = False) -> Tensor:
        """The mean cross-entropy of each problem `[Q]`, over its targets and the leading dimensions; 0 without targets.

        `logits` are `[…, Q, N, K]`, or `[…, N, Q, K]` with `nodes_first`.
        """
        chosen = self._select(logits, nodes_first)
        classes = self.classes.repeat(len(chosen))
        losses = functional.cross_entropy(chosen.flatten(0, 1), classes, reduction="none").view(len(chosen), -1)
        return self._sum_by_problem(losses.mean(0)) / self._divisor

    def correct(self, logits: Tensor) -> Tensor:
        """The number of targets of each problem with the largest logit at their class: `[Q, N, K]` → float64 `[Q]`."""
        chosen = self._select(logits, nodes_first=False)[0]
        return self._sum_by_problem((chosen.argmax(1) == self.classes).double())

    def _select(self, logits: Tensor, nodes_first: bool) -> Tensor:
        shape, num_classes = logits.shape[-3:-1], logits.shape[-1]
        expected = list(reversed(shape) if nodes_first else shape)
        if list(self.labels.shape) != expected:
            raise InputError(self.name, f"be int64 {expected}, one row per problem", list(self.labels.shape))
        if self.largest >= num_classes:
            rule = f"contain classes from 0 to {num_classes - 1}, one per output of the module"
            raise InputError(self.name, rule, self.largest)
        position = self._position_nodes_first if nodes_first else self._position
        return logits.reshape(-1, self.labels.numel(), num_classes).index_select(1, position)

    def _sum_by_problem(self, by_target: Tensor) -> Tensor:
        # In the order of the nodes, so that a problem gets the same bits as alone. `unsafe` skips a check that would
        # wait for the device.
        total: Tensor = torch.segment_reduce(by_target, "sum", lengths=self.count, axis=0, unsafe=True, initial=0)
        return total
