"""The nodes that many problems are asked about, and how well they answer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from lggd.errors import InputError


class Targets:
    """The nodes of each problem whose class is known, and what it is.

    Args:
        labels: int64 `[Q, N]`, a class or -1 where it is not known.
        name: what errors call them.
        nodes_first: whether logits come as `[…, N, Q, K]` instead of `[…, Q, N, K]`.
    """

    def __init__(self, labels: Tensor, name: str, nodes_first: bool = False) -> None:
        self.labels, self.name = labels, name
        known = labels >= 0
        problem, node = known.nonzero().unbind(1)
        self.count = known.sum(1)
        self.counts: list[int] = self.count.tolist()
        self.answer = labels[problem, node]
        self.largest = int(self.answer.max()) if len(self.answer) else -1
        problems, nodes = labels.shape
        self._place = node * problems + problem if nodes_first else problem * nodes + node
        self._divisor = self.count.clamp(min=1)
        self._alone: dict[int, Targets] = {}

    def alone(self, problem: int) -> Targets:
        """Those of one problem."""
        if problem not in self._alone:
            self._alone[problem] = Targets(self.labels[problem : problem + 1], self.name)
        return self._alone[problem]

    def losses(self, logits: Tensor) -> Tensor:
        """The mean cross-entropy of each problem, `[Q]`: over its nodes and what stands for … in the logits' shape.

        0 where nothing is asked.
        """
        asked = self._asked(logits)
        answers = self.answer.repeat(len(asked))
        each = functional.cross_entropy(asked.flatten(0, 1), answers, reduction="none").view(len(asked), -1)
        return self._totals(each.mean(0)) / self._divisor

    def right(self, logits: Tensor) -> Tensor:
        """How many nodes of each problem have their own class on top of logits `[Q, N, K]`, float64 `[Q]`."""
        return self._totals((self._asked(logits)[0].argmax(1) == self.answer).double())

    def _asked(self, logits: Tensor) -> Tensor:
        """The logits of the nodes that are asked about, one problem after the other, `[…, n, K]`."""
        classes = logits.shape[-1]
        if self.largest >= classes:
            raise InputError(
                self.name, f"hold classes from 0 to {classes - 1}, as many as the module tells apart", self.largest
            )
        return logits.reshape(-1, self.labels.numel(), classes).index_select(1, self._place)

    def _totals(self, each: Tensor) -> Tensor:
        # Each problem is summed in the order of its nodes, as it would be alone. Unsafe means unchecked: a check would
        # wait for the device, and the counts are ours.
        total: Tensor = torch.segment_reduce(each, "sum", lengths=self.count, axis=0, unsafe=True, initial=0)
        return total
