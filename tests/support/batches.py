"""Models that are fitted together: cases of one pass and of several, and the check that each is as if fitted alone."""

from __future__ import annotations

from dataclasses import replace

import torch

from lggd import (
    GAT,
    GCN,
    GGD,
    LGGD,
    MLP,
    RK4,
    BackboneReadout,
    ChebNet,
    Ensemble,
    JKNet,
    LearnedEdgeWeights,
    LearnedPotential,
    LGGDClassifier,
    LGGDPlus,
    MaxScale,
    Optimization,
    PropagatedMLP,
    Standardize,
    Unscaled,
    fit_together,
)
from lggd.training.cuda_graph import WARM_UP
from support.small_data import WITHOUT_EFFECT, Averages, Perceptron, splits
from support.small_models import TIMES, WIDTH, distances

# On a GPU, more epochs than are run before one is recorded.
EPOCHS, MORE = (4 + WARM_UP, 10 + WARM_UP) if torch.cuda.is_available() else (3, 4)
FEW = Optimization(lr=0.02, weight_decay=0.002, epochs=EPOCHS, patience=None)
SOME = Optimization(epochs=MORE, patience=None)
CLOSE = {"rtol": 1e-3, "atol": 5e-4}
# Adam divides a gradient by its own size. One that is nothing but rounding moves a weight as far as any other, and what
# is rounded depends on the processor and on how large the whole is. Random numbers of others would change nearly all
# weights, not so few.
FEW_WEIGHTS = 0.01
MODULE = Perceptron()
DATA = splits(3)
PATIENT = [
    Optimization(lr=0.2, weight_decay=0.0, epochs=12, patience=1),
    Optimization(lr=0.2, weight_decay=0.0, epochs=7, patience=None),
    Optimization(lr=0.2, weight_decay=0.0, epochs=20, patience=3),
]


def learned(**settings):
    return distances(**{"optimization": FEW, **settings})


# Everything that one pass can hold.
FEATURES = {
    "seeds": lambda: [learned(seed=seed) for seed in range(3)],
    "splits": lambda: [learned(seed=3) for _ in DATA],
    "rates and decays": lambda: [
        learned(optimization=replace(FEW, lr=lr, weight_decay=decay))
        for lr, decay in ((0.02, 0.002), (0.1, 0.0), (0.02, 0.5))
    ],
    "neighbours with the same rate": lambda: [learned(optimization=replace(FEW, lr=lr)) for lr in (0.02, 0.02, 0.1)],
    "epochs and patience": lambda: [learned(optimization=one) for one in PATIENT],
    "dropout": lambda: [learned(initial=MLP((8,), dropout=rate)) for rate in (0.0, 0.5, 0.3)],
    "settings after training": lambda: [
        learned(cross_fit=2, scale=MaxScale(), reachable=False),
        learned(cross_fit=5, scale=Standardize(), cap=1.5, attr_name="far"),
        learned(concat=True, scale=Unscaled(), validation=0.3),
    ],
    "default": lambda: [LGGD(times=TIMES, optimization=FEW, seed=seed) for seed in range(3)],
    "paper": lambda: [LGGD.paper(times=TIMES, optimization=FEW, seed=seed) for seed in range(3)],
    "release": lambda: [LGGD.release(times=TIMES, optimization=FEW, seed=seed) for seed in range(3)],
    "learned potential": lambda: [learned(potential=LearnedPotential(), seed=seed) for seed in range(3)],
    "learned weights": lambda: [learned(potential=LearnedEdgeWeights(), seed=seed) for seed in range(3)],
    "both, with rates": lambda: [
        learned(potential=LearnedEdgeWeights(LearnedPotential()), optimization=replace(FEW, lr=lr))
        for lr in (0.02, 0.1, 0.1)
    ],
    "one model for all times": lambda: [learned(per_time=False, seed=seed) for seed in range(3)],
    "propagated": lambda: [
        learned(initial=PropagatedMLP((8,), hops=1, dropout=rate), seed=seed) for seed, rate in enumerate((0.5, 0.2, 0))
    ],
    "p, scheme and a tensor": lambda: [
        learned(p=2.0, scheme=RK4(step=0.2), potential=torch.full((36,), 0.5), seed=seed) for seed in range(3)
    ],
    "one module": lambda: [learned(initial=MODULE, seed=seed) for seed in range(3)],
    "GGD": lambda: [GGD(TIMES), GGD((1.0,), p=2.0, cross_fit=0), GGD(TIMES, seed=4, scale=MaxScale())],
}

CLASSIFIERS = {
    "GCN": lambda: [LGGDClassifier(learned(seed=s), GCN(hidden=8), SOME, seed=s) for s in range(3)],
    "GAT": lambda: [LGGDClassifier(learned(), GAT(hidden=4, heads=2), SOME, seed=s) for s in range(3)],
    "ChebNet": lambda: [LGGDClassifier(learned(cross_fit=2), ChebNet(hidden=8), SOME, seed=s) for s in range(3)],
    "JKNet": lambda: [LGGDClassifier(GGD(TIMES), JKNet(hidden=6), SOME, seed=s) for s in range(3)],
    "patience": lambda: [
        LGGDClassifier(learned(seed=s), GCN(hidden=8), Optimization(lr=0.1, epochs=30, patience=2), seed=s)
        for s in range(3)
    ],
    "no backbone": lambda: [LGGDClassifier(learned(seed=s), None) for s in range(3)],
    "no features": lambda: [LGGDClassifier(None, GCN(hidden=8), SOME, seed=s) for s in range(3)],
    "GGD": lambda: [LGGDClassifier(GGD(TIMES), GCN(hidden=8), SOME, seed=s) for s in range(3)],
    "GGD alone": lambda: [LGGDClassifier(GGD(TIMES), None) for _ in range(3)],
    "concat": lambda: [LGGDClassifier(learned(concat=True), GCN(hidden=8), SOME, seed=s) for s in range(3)],
}
# What takes several passes, and how many: of distances and of backbones.
DIVIDED = {
    "times": (lambda: [learned(), learned(times=(1.0, 3.0)), learned()], 2, 0),
    "p": (lambda: [learned(), learned(p=2.0), learned(p=2.0)], 2, 0),
    "potential": (lambda: [learned(), learned(potential=LearnedPotential()), learned(potential=None)], 3, 0),
    "potentials": (lambda: [learned(potential=torch.full((36,), r)) for r in (0.5, 0.6, 0.5)], 2, 0),
    "hidden": (lambda: [learned(), learned(initial=MLP((9,))), learned(initial=MLP((8, 8)))], 3, 0),
    "network": (lambda: [learned(), learned(initial=PropagatedMLP((8,))), learned()], 2, 0),
    "hops": (lambda: [learned(initial=PropagatedMLP((8,), hops=h)) for h in (1, 2, 1)], 2, 0),
    "activation": (lambda: [learned(initial=MLP((8,), activation=a)) for a in ("relu", "tanh", "relu")], 2, 0),
    "per time": (lambda: [learned(), learned(per_time=False), learned()], 2, 0),
    "scheme": (lambda: [learned(), learned(scheme=RK4(step=0.1)), learned()], 2, 0),
    "modules": (lambda: [learned(initial=Perceptron()) for _ in range(3)], 3, 0),
    "features": (lambda: [learned(), GGD(TIMES), learned(seed=1)], 1, 0),
    "kinds": (
        lambda: [
            learned(),
            LGGDClassifier(learned(seed=1), GCN(hidden=8), SOME),
            LGGDPlus(Ensemble(learned(), 2), BackboneReadout(GCN(hidden=8), 1, use_x=False, optimization=SOME)),
        ],
        1,
        1,
    ),
    "backbones": (
        lambda: [LGGDClassifier(learned(seed=s), b, SOME) for s, b in enumerate((GCN(8), GAT(4), GCN(8)))],
        1,
        2,
    ),
    "optimizations": (
        lambda: [LGGDClassifier(learned(), GCN(8), replace(SOME, lr=lr)) for lr in (0.01, 0.02, 0.02)],
        1,
        2,
    ),
    "widths": (
        lambda: [LGGDClassifier(learned(reachable=r), GCN(8), SOME) for r in (True, False, True)],
        1,
        2,
    ),
    "inputs": (
        lambda: [LGGDClassifier(f, GCN(8), SOME) for f in (learned(), GGD(TIMES), None)],
        1,
        2,
    ),
    "modules as backbones": (lambda: [LGGDClassifier(learned(), Averages(WIDTH), SOME) for _ in range(3)], 1, 3),
    "everything": (
        lambda: [
            LGGDClassifier(learned(initial=Perceptron()), Averages(WIDTH), SOME),
            LGGDClassifier(None, JKNet(hidden=6), SOME),
            LGGDClassifier(learned(times=(2.0,)), None),
        ],
        2,
        2,
    ),
}


def parameters(model):
    """Everything that was learned and has an effect, by name."""
    return {name: value for name, value in model._state().items() if not name.endswith(WITHOUT_EFFECT)}


def predictions(model, data):
    return model.inputs(data) if isinstance(model, (GGD, LGGD)) else model.predict_proba(data)


def check_close(value, expected, name, close, few):
    """All entries are close, but for a fraction of `few`."""
    away = ~torch.isclose(value, expected, **close)
    assert away.float().mean() <= few, f"{name}: {int(away.sum())} of {away.numel()} differ"


def check_same(model, alone, data, close=CLOSE, few=FEW_WEIGHTS, few_predictions=0.0):
    """Labels, curves, parameters and predictions agree, but for a fraction of the parameters and predictions."""
    assert torch.equal(model.labels_, alone.labels_)
    assert model.num_classes_ == alone.num_classes_
    assert model.history_.keys() == alone.history_.keys()
    for stage, curves in alone.history_.items():
        assert model.history_[stage].keys() == curves.keys()
        for name, curve in curves.items():
            assert len(model.history_[stage][name]) == len(curve)
            torch.testing.assert_close(torch.tensor(model.history_[stage][name]), torch.tensor(curve), **close)
    assert parameters(model).keys() == parameters(alone).keys()
    for name, value in parameters(alone).items():
        check_close(parameters(model)[name], value, name, close, few)
    check_close(predictions(model, data), predictions(alone, data), "predictions", close, few_predictions)


def check_as_if_alone(make, data, *tolerances):
    """Every model of the call is what it is after a fit of its own."""
    models = make()
    assert fit_together(models, data) == models
    for k, (model, alone) in enumerate(zip(models, make(), strict=True)):
        own = data[k] if isinstance(data, list) else data
        check_same(model, alone.fit(own), own, *tolerances)


def stages(models, data):
    """The stages that the callback reports, in order."""
    reports = []
    fit_together(models, data, callback=reports.append)
    return list(dict.fromkeys(report.stage for report in reports))
