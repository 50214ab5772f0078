"""Settings by validation on one split: the same number of trials for every method, over spaces by kind of setting."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.baselines import (
    APPNP,
    GDC,
    GPRGNN,
    PPR,
    SGC,
    CorrectAndSmooth,
    DropEdge,
    Heat,
    LabelPropagation,
    MLPClassifier,
)
from lggd.comparison.configs import Setting
from lggd.comparison.evaluation import evaluate, read_probabilities
from lggd.comparison.methods import Categorical, SearchSpace
from lggd.comparison.peers import GraphLabelSpreading
from lggd.models.plus import SelfTraining
from lggd.training.optimization import Optimization

DROPOUT, HIDDEN, RESTART, SPREAD = (0.2, 0.5, 0.8), (16, 32, 64), (0.05, 0.1, 0.2), (0.5, 0.8, 0.9, 0.99)
_NETWORK: Mapping[str, tuple[Setting, ...]] = {"hidden": HIDDEN, "dropout": DROPOUT}
# The same for every method that has such a part, the caller's models included. Methods without any, such as kernel
# ridge regression, choose their settings themselves, by leaving one label out.
SPACES: Mapping[type, Mapping[str, tuple[Setting, ...]]] = {
    Optimization: {"weight_decay": (1e-6, 5e-4, 5e-3), "lr": (0.003, 0.01, 0.03)},
    **dict.fromkeys((GCN, GAT, ChebNet, JKNet, MLPClassifier), _NETWORK),
    **{kind: {**_NETWORK, "alpha": RESTART, "hops": (5, 10)} for kind in (APPNP, GPRGNN)},
    SGC: {"hops": (1, 2, 3, 5)},
    PPR: {"alpha": RESTART},
    Heat: {"t": (1.0, 3.0, 5.0)},
    GDC: {"k": (32, 64, 128)},
    DropEdge: {"p": (0.2, 0.5, 0.8)},
    LabelPropagation: {"alpha": SPREAD},
    GraphLabelSpreading: {"alpha": SPREAD},
    CorrectAndSmooth: {"correct_alpha": SPREAD, "smooth_alpha": SPREAD},
    SelfTraining: {"fraction": (0.0, 0.3, 0.5)},
}


def search_space(model: Any) -> dict[str, SearchSpace]:
    """Returns the space of each setting that can be searched, with the model's own value first.

    >>> from lggd.baselines import SGC
    >>> sorted(search_space(SGC()))
    ['hops', 'optimization__lr', 'optimization__weight_decay']
    """
    if not is_dataclass(model) or not hasattr(model, "get_params"):
        return {}
    params: dict[str, Any] = model.get_params()
    space: dict[str, SearchSpace] = {}
    for path, value in params.items():
        owner, _, field = path.rpartition("__")
        choices = SPACES.get(type(params[owner] if owner else model), {}).get(field, ())
        others = [type(value)(each) for each in choices if each != value]
        if others:
            space[path] = Categorical((value, *others))
    return space


def choose_settings(
    candidate: Any, seed: int, data: Any, trials: int, journal: Path, name: str
) -> tuple[dict[str, Setting], float | None]:
    """Returns the settings with the highest validation accuracy of `trials` fits, and it; `data` has no test labels.

    Trials are in a journal, so that a search that was killed continues. The caller has the only claim on `name`.
    """
    space = search_space(candidate.model(seed))
    if not space:
        return {}, None
    from lggd.comparison.search import Search
    from lggd.comparison.study import SharedStudy, open_journal

    def validation(settings: dict[str, Setting], _: Any) -> list[float]:
        model = candidate.model(seed).set_params(**settings).fit(data)
        found = model.predict_proba()
        shape = data.num_nodes, int(data.y.max()) + 1
        probabilities = read_probabilities(candidate.name, found, *shape, data.y.device)
        return [evaluate(probabilities, data.y, data.val_mask)["accuracy"]]

    first = {path: values.middle for path, values in space.items()}
    about = {"splits": 1, "space": {path: list(values.ends) for path, values in space.items()}}
    study = SharedStudy(
        open_journal(journal), _study_name(name, about), space=space, first=first, about=about, seed=seed
    )
    study.abandon_running()  # by processes that were killed
    search = Search(study, validation, trials, slug=candidate.name, dataset=name)
    while search.done < trials:
        if not search.step():
            raise RuntimeError(f"Another process runs trials of {name}, although this one has the claim on them.")
    choice = search.choice()
    if choice.settings is None:
        raise MemoryError(f"none of {trials} trials succeeded: {choice.reason}")
    return dict(choice.settings), choice.validation


def _study_name(name: str, about: Mapping[str, Any]) -> str:
    """Another space is another study."""
    return f"{name}/{hashlib.sha256(repr(about).encode()).hexdigest()[:8]}"
