"""The paper's figures as jobs: a drawing in the folder of results, and its numbers in a line."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from lggd.compare.runner import circumstances
from lggd.paper.dragon import dragon
from lggd.paper.figures import draw_geodesic, draw_robustness, save
from lggd.paper.geodesic import geodesic
from lggd.paper.jobs import Job, Setup
from lggd.paper.robustness import robustness
from lggd.training.progress import Callback, Progress

FIGURES = "figures"
# As a page shows them: results are kept for good, and a drawing of 80,000 points should not outweigh all their numbers.
DOTS_PER_INCH = 80


class FigureJob(Job):
    """A drawing and its numbers."""

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """What the numbers depend on."""

    @abstractmethod
    def draw(self, setup: Setup, callback: Callback | None) -> tuple[Figure, dict[str, Any]]:
        """The drawing and the numbers."""

    @property
    def title(self) -> str:
        return f"Figure: {self.experiment}"

    def identities(self, setup: Setup) -> list[dict[str, Any]]:
        return [{"experiment": self.experiment, "config": self.config, "seed": setup.seed}]

    def lines(
        self, setup: Setup, wanted: Sequence[Mapping[str, Any]], callback: Callback | None
    ) -> Iterator[dict[str, Any]]:
        for one in wanted:
            began = time.perf_counter()
            figure, numbers = self.draw(setup, callback)
            path = self._path(setup)
            path.parent.mkdir(parents=True, exist_ok=True)
            save(figure, path, DOTS_PER_INCH)
            place = path.relative_to(setup.results.folder).as_posix()
            yield {**one, **numbers, "figure": place, **circumstances("cpu", time.perf_counter() - began)}

    def has_all(self, setup: Setup) -> bool:
        return self._path(setup).is_file()

    def _path(self, setup: Setup) -> Path:
        return setup.results.folder / FIGURES / f"{self.experiment}.png"


@dataclass(frozen=True)
class RobustnessJob(FigureJob):
    """How far distances move when edges are wrong (paper, Fig. 1 and 2)."""

    experiment: str = "robustness"
    points: int = 20_000
    epsilon: float = 0.05
    extra_edges: tuple[int, ...] = (10, 100, 1000)
    draws: int = 5

    @property
    def config(self) -> dict[str, Any]:
        return {
            "points": self.points, "epsilon": self.epsilon, "extra_edges": list(self.extra_edges), "draws": self.draws
        }  # fmt: skip

    def draw(self, setup: Setup, callback: Callback | None) -> tuple[Figure, dict[str, Any]]:
        def tell(solved: int, total: int) -> None:
            if callback is not None:
                callback(Progress("distances", solved, total, {}))

        found = robustness(
            points=self.points,
            epsilon=self.epsilon,
            extra_edges=self.extra_edges,
            seeds=self.draws,
            seed=setup.seed,
            progress=tell,
        )
        changes = [
            {"p": _exponent(p), "extra_edges": count, "mean": float(values.mean()), "each": values.tolist()}
            for p in found.exponents
            for count, values in zip(found.extra_edges, found.change[p], strict=True)
        ]
        return draw_robustness(found), {"change": changes}


@dataclass(frozen=True)
class GeodesicJob(FigureJob):
    """The way through a dragon (paper, teaser)."""

    experiment: str = "geodesic"

    @property
    def config(self) -> dict[str, Any]:
        return {"shape": "dragon", "p": "inf"}

    def draw(self, setup: Setup, callback: Callback | None) -> tuple[Figure, dict[str, Any]]:
        found = geodesic(dragon(), p=math.inf)
        ends = {"source": list(found.source), "target": list(found.target)}
        return draw_geodesic(found), {**ends, "distance": found.length, "path_pixels": len(found.path)}


def _exponent(p: float) -> float | str:
    """JSON knows no infinity."""
    return "inf" if math.isinf(p) else p
