"""Which models learn in one pass, what the passes are called, and which curves of a pass belong to which model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from lggd.estimator.fit_task import equal, first_equal
from lggd.training.progress import History

# The most problems of a pass: beyond some hundred, more of them gain nothing and take memory.
PROBLEMS_AT_ONCE = 256


def in_passes(
    keys: Sequence[tuple[Any, ...]], problems: Sequence[int], that_fit: Callable[[int], int] = lambda place: 2**62
) -> list[list[int]]:
    """Places of the models that learn in one pass: those with the same key, in their order.

    The k-th has `problems[k]` problems, as many as all with its key. Too many for one pass are divided evenly: more
    than `PROBLEMS_AT_ONCE`, or than `that_fit(k)` says of the first. Passes come in the order of their first models.

    >>> in_passes([("a",), ("b",), ("a",)], [5, 5, 5])
    [[0, 2], [1]]
    """
    groups: dict[int, list[int]] = {}
    for place, first in enumerate(first_equal(keys, equal)):
        groups.setdefault(first, []).append(place)
    passes = []
    for first, members in groups.items():
        at_once = PROBLEMS_AT_ONCE if len(members) == 1 else min(PROBLEMS_AT_ONCE, that_fit(first))
        at_most = max(1, at_once // problems[first])
        count = -(-len(members) // at_most)
        bounds = [len(members) * k // count for k in range(count + 1)]
        passes += [members[start:end] for start, end in pairwise(bounds)]
    return sorted(passes)


def stage_name(stage: str, place: int, count: int) -> str:
    """What the pass at that place is called: "distances", or "distances 2/3" where there are several.

    >>> stage_name("distances", 1, 3)
    'distances 2/3'
    """
    return stage if count == 1 else f"{stage} {place + 1}/{count}"


def history_of(history: History, model: str) -> History:
    """The curves of one model, under the names that it gives them by itself; of the only one where it has no name.

    >>> history_of({"train_loss models[1] t=2": [0.5], "train_loss models[2] t=2": [0.7]}, "models[1]")
    {'train_loss t=2': [0.5]}
    """
    if not model:
        return history
    curves = {}
    for name, values in history.items():
        kind, _, about = name.partition(" ")
        if about == model or about.startswith(f"{model} "):
            curves[" ".join([kind, *about.split()[1:]])] = values
    return curves
