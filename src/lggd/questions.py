"""The nodes that many problems are asked about, and how well they answer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


class Questions:
    """The nodes of each problem whose class is known, and what it is.

    Args:
        labels: int64 `[Q, N]`, a class or -1 where it is not known.
        name: what errors call them.
    """

    def __init__(self, labels: Tensor, name: str) -> None:
        self.labels, self.name = labels, name
        known = labels >= 0
        problem, node = known.nonzero().unbind(1)
        self.count = known.sum(1)
        self.answer, self.place = labels[problem, node], problem * labels.shape[1] + node
        self._divisor = self.count.clamp(min=1)
        self.counts: list[int] = self.count.tolist()
        self.largest = int(self.answer.max()) if len(self.answer) else -1
        self._alone: dict[int, Questions] = {}

    def alone(self, problem: int) -> Questions:
        """Those of one problem."""
        if problem not in self._alone:
            self._alone[problem] = Questions(self.labels[problem : problem + 1], self.name)
        return self._alone[problem]

    def losses(self, logits: Tensor) -> Tensor:
        """The mean cross-entropy of each problem with these logits `[Q, N, K]`: `[Q]`, 0 where nothing is asked."""
        each = functional.cross_entropy(self._asked(logits), self.answer, reduction="none")
        return self._totals(each) / self._divisor

    def right(self, logits: Tensor) -> Tensor:
        """How many nodes of each problem have their own class on top, float64 `[Q]`."""
        return self._totals((self._asked(logits).argmax(1) == self.answer).double())

    def _asked(self, logits: Tensor) -> Tensor:
        classes = logits.shape[2]
        if self.largest >= classes:
            raise ValueError(
                f"`{self.name}` must hold classes from 0 to {classes - 1}, as many as the module tells apart, "
                f"got {self.largest}."
            )
        return logits.flatten(0, 1).index_select(0, self.place)

    def _totals(self, each: Tensor) -> Tensor:
        # Each problem is summed in the order of its nodes, as it would be alone. Unsafe means unchecked: a check would
        # wait for the device, and the counts are ours.
        total: Tensor = torch.segment_reduce(each, "sum", lengths=self.count, axis=0, unsafe=True, initial=0)
        return total
