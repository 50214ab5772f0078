"""Reports of long work while it runs: one form for training, building, solving and comparing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """A report of long work.

    Parameters
    ----------
    stage : str
        The name of the stage, such as "distances", "backbone" or "edges".
    done : int
        The number of finished steps, such as epochs or rows.
    total : int or None
        The number of steps in all, an upper bound where work may stop early; None where it is unknown.
    metrics : mapping of str to float
        Measurements of the last step, such as losses.

    Examples
    --------
    >>> import lggd
    >>> seen = []
    >>> model = lggd.LGGDClassifier(None, lggd.GCN(), lggd.Optimization(epochs=3))
    >>> _ = model.fit(lggd.load("karate"), callback=seen.append)
    >>> [(progress.stage, progress.done, progress.total) for progress in seen]
    [('backbone', 1, 3), ('backbone', 2, 3), ('backbone', 3, 3)]
    """

    stage: str
    done: int
    total: int | None
    metrics: Mapping[str, float] = field(default_factory=dict)


Callback = Callable[[Progress], None]
