"""LGGD: learned generalized geodesic distances as features (paper, Sec. 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from lggd.errors import InputError, error_context
from lggd.estimator.fit_task import FitTask
from lggd.features.estimator import DistanceFeatures
from lggd.features.footprint import REMEDY, learning_memory, problems_that_fit
from lggd.features.pipeline import Pipeline
from lggd.features.problems import Problems, horizons_of, sharing_key
from lggd.features.remembered import Recollection, recollection_in_use
from lggd.features.scaling import Scale
from lggd.features.settings import PRESETS, Horizons, Mode, Settings, read_initial
from lggd.graph import Graph
from lggd.learning.flow import Flow
from lggd.learning.networks import MLP, PropagatedMLP
from lggd.learning.parameters import Coefficients
from lggd.memory import explaining_shortage
from lggd.models.passes import in_passes, stage_name
from lggd.solvers.plan import check_times
from lggd.solvers.scheme import FixedStep
from lggd.training.checkpoint import Checkpoint
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback, History


@dataclass(eq=False, repr=False)
class LGGD(DistanceFeatures):
    """Distances to the labelled nodes of each class that have learned from node contents where to start.

    What is None is as the `preset` says: "default" (what measured best on validation), "paper" (its text) or "release"
    (the authors' code). `settings` shows them all.

    - `times`: at which the evolution is read off; T of them and K classes give T·K features.
    - `p`, `scheme`: of the evolution, as in `evolve`.
    - `potential`: ρ, as in `evolve`; or `LearnedPotential()`, or `LearnedEdgeWeights()`.
    - `initial`: the networks behind φ₀: `MLP()`, `PropagatedMLP()`, or a torch module from contents (or contents and
      edge_index) to K values.
    - `horizons`: "each" learns a model a time, "shared" one for all.
    - `cross_fit`: in how many folds the labels are dealt out, so that a labelled node gets the features of a solve
      without its own fold; 0 for none. Otherwise its own label puts a 0 into its own features.
    - `scale`: `MaxScale()`, `Standardize()`, `SoftmaxScale()` or `Unscaled()`; fitted once and kept.
    - `reachable`: whether to add a column that is 1 where a label is in reach. Elsewhere distances only grow with time,
      from φ₀; `cap` bounds them.
    - `mode`: whether the features "replace" `x` or are "concat"-enated to it; `attr_name` puts them elsewhere.
    - `optimization`: of Pipeline 1. `validation`: the share of labels to hold out where no `val_mask` is given.

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> features = lggd.LGGD(times=(1, 2), optimization=lggd.Optimization(epochs=10)).fit(data)
    >>> features.transform(data).x.shape  # 2 times, 2 classes, and whether a label is in reach
    torch.Size([34, 5])
    """

    times: Sequence[float] | None = None
    p: float | None = None
    potential: Coefficients | None = None
    initial: MLP | PropagatedMLP | nn.Module | None = None
    horizons: Horizons | None = None
    cross_fit: int | None = None
    scale: Scale | None = None
    reachable: bool | None = None
    cap: float | None = None
    mode: Mode | None = None
    attr_name: str | None = None
    scheme: FixedStep | None = None
    optimization: Optimization | None = None
    validation: float | None = None
    seed: int | torch.Generator = 0
    preset: Literal["default", "paper", "release"] = "default"

    @property
    def settings(self) -> Settings:
        """All settings, checked, with the preset's where none were given."""
        if self.preset not in PRESETS:
            raise InputError("preset", f"be one of {', '.join(PRESETS)}", repr(self.preset))
        given = {name: getattr(self, name) for name in Settings.__dataclass_fields__}
        changes = {name: value for name, value in given.items() if value is not None}
        if "times" in changes:
            changes["times"] = check_times(changes["times"])
        if "initial" in changes:
            changes["initial"] = read_initial(changes["initial"])
        return replace(PRESETS[self.preset], **changes)

    def __repr__(self) -> str:
        named = ((name, getattr(self, name), field.default) for name, field in self.__dataclass_fields__.items())
        return f"LGGD({', '.join(f'{name}={value!r}' for name, value, default in named if value != default)})"

    @classmethod
    def _learn(
        cls,
        models: Sequence[Self],
        given: Sequence[FitTask],
        callback: Callback | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        settings, recollection = [model.settings for model in models], recollection_in_use()
        known = [
            None if recollection is None else recollection.key(*pair) for pair in zip(settings, given, strict=True)
        ]
        new = [place for place, key in enumerate(known) if not models[place]._recall(recollection, key)]
        keys = [sharing_key(settings[place], given[place]) for place in new]
        each = [len(horizons_of(settings[place])) for place in new]

        def that_fit(number: int) -> int:
            with error_context(given[new[number]].name):
                return problems_that_fit(*_subject(settings[new[number]], given[new[number]]))

        passes = in_passes(keys, each, that_fit)
        for number, numbers in enumerate(passes):
            places = [new[one] for one in numbers]
            stage, mine = stage_name("distances", number, len(passes)), [given[place] for place in places]
            problems, histories = _learn_pass([settings[place] for place in places], mine, stage, callback, checkpoint)
            for part, place in enumerate(places):
                models[place].history_ = histories[part]
                models[place]._take(own := problems.part(part))
                if recollection is not None and known[place] is not None:
                    recollection.keep(known[place], (own, histories[part]))

    def _recall(self, recollection: Recollection | None, key: Any) -> bool:
        """Takes over what was learned before, if it was."""
        found = None if recollection is None or key is None else recollection.find(key)
        if found is None:
            return False
        problems, self.history_ = found
        self._take(problems)
        if self._remembered_graph is not None:
            # Its own graph, of equal edges, would have all that was worked out on the other one worked out anew.
            self._remembered_graph = (self._remembered_graph[0], problems.equation.graph)
        return True

    def _take(self, problems: Problems) -> None:
        self._contents, self._networks = problems.contents, problems.networks
        self._equation, self._flow = problems.equation, problems.flow

    def _pipeline(self, data: Any, graph: Graph) -> Pipeline:
        settings = self.settings
        equation, flow, contents = self._equation, self._flow, self._contents
        if graph is not equation.graph:
            contents = settings.initial.node_features(data, graph)
            widths = [one.shape[1] for one in (self._contents, contents)]
            if widths[0] != widths[1]:
                raise InputError("data.x", "have as many columns as were learned from", data.x.shape[1], "Fit anew.")
            equation = equation.on(graph)
            flow = Flow(graph, equation, settings.times, flow.horizons, settings.p, settings.scheme)
        with torch.no_grad():
            start = self._networks(contents, training=False).abs().detach()
        return Pipeline(graph, equation, flow, start)

    def _learned(self) -> dict[str, Tensor]:
        return {
            owned.name: owned.value.detach() for owned in (*self._networks.parameters(), *self._equation.parameters())
        }

    def _restore_learned(self, data: Any, graph: Graph, state: Mapping[str, Tensor]) -> None:
        self._take(Problems([self.settings], data, graph, self.num_classes_, seeds=[0]))
        with torch.no_grad():
            for owned in (*self._networks.parameters(), *self._equation.parameters()):
                if state[owned.name].shape != owned.value.shape:
                    raise ValueError(
                        f"{owned.name} must have shape {list(owned.value.shape)}, got {list(state[owned.name].shape)}"
                    )
                owned.value.copy_(state[owned.name])


def _subject(settings: Settings, given: FitTask) -> tuple[Any, Graph, Settings, int]:
    return given.data, given.graph, settings, given.labels.num_classes


def _learn_pass(
    settings: Sequence[Settings],
    given: Sequence[FitTask],
    stage: str,
    callback: Callback | None,
    checkpoint: Checkpoint | None,
) -> tuple[Problems, list[History]]:
    """All problems of models that can share a pass, learned, and each model's curves."""
    count = len(settings) * len(horizons_of(settings[0]))
    data, graph, _, classes = subject = _subject(settings[0], given[0])
    what = f"Learning {count} problem{'s' * (count > 1)} in one pass"
    with explaining_shortage(what, lambda: learning_memory(*subject, count), REMEDY):
        with error_context(given[0].name):
            problems = Problems(settings, data, graph, classes, [one.seed for one in given])
        return problems, problems.learn(given, stage, callback, checkpoint)
