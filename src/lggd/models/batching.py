"""Many models in one pass: splits, seeds and settings as columns of one computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from lggd.baselines.baseline import Baseline, fit_baselines
from lggd.errors import InputError, InputTypeError
from lggd.features import GGD, LGGD
from lggd.features.estimator import DistanceFeatures, fit_features
from lggd.models.classifier import LGGDClassifier, fit_classifiers
from lggd.models.plus import LGGDPlus, fit_plus
from lggd.training.progress import Callback

Model = TypeVar("Model", bound=LGGDClassifier | LGGDPlus | Baseline | GGD | LGGD)


def fit_together(models: Sequence[Model], data: Any, *, callback: Callback | None = None) -> list[Model]:
    """Fits every model as its own `fit` would, but for rounding, in as few passes as they need. Returns the models.

    `models` are classifiers (`LGGDClassifier`), or `LGGDPlus`, features (`LGGD`, `GGD`) or baselines
    (`lggd.baselines`). `data` are those of all, or a list with those of each: typically one graph with other masks.
    What models may differ in and still share a pass: labels, `seed`, `optimization`, the network's dropout, and all
    that is done with distances once they are learned (`cross_fit`, `scale`, `cap`, `reachable`, `mode`, `attr_name`).
    Others are learned in passes of their own, in the order of the first model of each: another graph or other contents,
    number of classes, `times`, `p`, `potential`, network, `horizons` or `scheme`. Backbones share a pass where they are
    equal, with equal `optimization` and as many inputs; a module of your own is trained alone as a backbone, and as
    `initial` shares a pass with those that were given the same object.

    `callback` hears of "distances" and "backbone", or of "distances 2/3" where there are three passes; what was
    measured has the model in its name, as in "train_loss models[4] t=1". Each model's `history_` holds its own curves
    under their usual names. Where something is wrong with one model, the error says with which, and none is fitted.

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> models = [lggd.LGGD(times=(1, 2), seed=seed, optimization=lggd.Optimization(epochs=10)) for seed in range(3)]
    >>> [tuple(model.features(data).shape) for model in lggd.fit_together(models, data)]
    [(34, 5), (34, 5), (34, 5)]
    """
    models = _checked(models)
    each = list(data) if isinstance(data, (list, tuple)) else [data] * len(models)
    if len(each) != len(models):
        raise InputError(
            "data",
            f"be one PyG Data, or a list with one for each of the {len(models)} models",
            f"a list of {len(each)}",
        )
    names = [f"models[{place}]" for place in range(len(models))]
    fits = {
        LGGDClassifier: fit_classifiers,
        LGGDPlus: fit_plus,
        Baseline: fit_baselines,
        DistanceFeatures: fit_features,
    }
    for kind, fit in fits.items():
        if models and isinstance(models[0], kind):
            fit(models, each, names, callback)  # type: ignore[operator]
    return models


# What a list of models may consist of: all of one kind.
KINDS = {LGGDClassifier: "classifiers", LGGDPlus: "LGGDPlus", Baseline: "baselines", DistanceFeatures: "features"}


def _checked(models: Any) -> list[Any]:
    """All of one kind, no object twice."""
    if not isinstance(models, Sequence):
        raise InputTypeError("models", "be a list of models", type(models).__name__)
    places: dict[int, int] = {}
    kinds = [[name for kind, name in KINDS.items() if isinstance(model, kind)] for model in models]
    for place, model in enumerate(models):
        if not kinds[place]:
            raise TypeError(
                f"models[{place}] must be an LGGDClassifier, LGGDPlus, LGGD, GGD or a baseline, "
                f"got {type(model).__name__}."
            )
        if kinds[place] != kinds[0]:
            raise InputTypeError(
                "models",
                "be all classifiers, all LGGDPlus, all baselines or all features",
                f"{type(models[0]).__name__} first and {type(model).__name__} at {place}",
                "Fit them in two calls.",
            )
        if id(model) in places:
            raise InputError(
                "models",
                "be different objects",
                but=f"models[{places[id(model)]}] and models[{place}] are the same",
                remedy="Make a new one for each, or use copy.copy.",
            )
        places[id(model)] = place
    return list(models)
