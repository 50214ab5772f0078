"""The methods of the table that are made of distances. Their keywords are the settings that a row may have."""

from __future__ import annotations

from lggd.compare.making import AnyBackbone, Training, called, named
from lggd.diffusion import PPR, Heat
from lggd.equation.potential import DegreePotential
from lggd.errors import InputError
from lggd.features import GGD, LGGD
from lggd.features.scaling import MaxScale, Scale, SoftmaxScale, Standardize, Unscaled
from lggd.learning.networks import MLP, PropagatedMLP
from lggd.learning.parameters import Coefficients, LearnedEdgeWeights, LearnedPotential, LearnedTimeScale
from lggd.models.classifier import LGGDClassifier
from lggd.models.plus import LGGDPlus
from lggd.solvers.scheme import RK4
from lggd.training.optimization import Optimization

SCALES: dict[str, Scale] = {
    "max": MaxScale(),
    "standard": Standardize(),
    "softmax": SoftmaxScale(),
    "none": Unscaled(),
}
# Distances are read off at this many multiples of a unit of time.
TIMES = 5


def alone(training: Training) -> LGGDClassifier:
    """The backbone on node contents."""
    return LGGDClassifier(None, training.backbone, training.optimization, training.seed)


def ggd(
    training: Training,
    *,
    time: float = 1.0,
    alpha: float = -1.0,
    p: float = 1.0,
    step: float = 0.0,
    scale: str = "max",
    reachable: bool = False,
    cross_fit: int = 0,
    mode: str = "replace",
    readout: str = "backbone",
) -> LGGDClassifier:
    """Distances from topology alone. The settings mean what they mean in `lggd`."""
    features = GGD(
        times=_times(time),
        p=float(p),
        potential=DegreePotential(alpha),
        cross_fit=cross_fit,
        scale=named("scale", scale, SCALES),
        reachable=reachable,
        mode=mode,  # type: ignore[arg-type]
        scheme=_scheme(step),
        seed=training.seed,
    )
    return LGGDClassifier(features, _read_by(readout, training), training.optimization, training.seed)


def lggd(
    training: Training,
    *,
    time: float = 1.0,
    alpha: float = -0.5,
    p: float = 1.0,
    step: float = 0.0,
    initial: str = "mlp",
    hops: int = 2,
    mlp_hidden: str = "512-128",
    mlp_dropout: float = 0.5,
    mlp_input_dropout: float = 0.0,
    mlp_lr: float = 0.01,
    mlp_weight_decay: float = 0.005,
    epochs: int = 150,
    potential: str = "degree",
    horizons: str = "each",
    scale: str = "max",
    reachable: bool = False,
    cross_fit: int = 0,
    mode: str = "replace",
    readout: str = "backbone",
) -> LGGDClassifier:
    """Learned distances at `time` · (1, …, 5). `potential` is what is learned beside φ₀.

    "degree" is nothing, as ρ = δ^alpha; "learned" a factor of it for each node, "time" one for all nodes, "edges" the
    weights of edges, "both" those and a factor for each node. `mlp_input_dropout` is of the initial "mlp" alone.

    `step` is that of RK4, 0 for the largest safe one. `readout` is the backbone, or the nearest class by distance.
    """
    features = LGGD(
        times=_times(time),
        p=float(p),
        potential=_potential(potential, alpha),
        initial=_initial(initial, mlp_hidden, mlp_dropout, hops, input_dropout=mlp_input_dropout),
        horizons=horizons,  # type: ignore[arg-type]
        cross_fit=cross_fit,
        scale=named("scale", scale, SCALES),
        reachable=reachable,
        mode=mode,  # type: ignore[arg-type]
        scheme=_scheme(step),
        optimization=_learning(mlp_lr, mlp_weight_decay, epochs),
        seed=training.seed,
    )
    return LGGDClassifier(features, _read_by(readout, training), training.optimization, training.seed)


def lggd_plus(
    training: Training,
    *,
    time: float = 0.2,
    alpha: float = -1.0,
    p: float = 1.0,
    initial: str = "propagated",
    hops: int = 2,
    pagerank: float = 0.1,
    mlp_hidden: str = "256-64",
    mlp_dropout: float = 0.5,
    mlp_lr: float = 0.01,
    mlp_weight_decay: float = 0.002,
    epochs: int = 150,
    potential: str = "degree",
    horizons: str = "each",
    cross_fit: int = 0,
    members: int = 3,
    self_training: float = 0.3,
    rounds: int = 1,
    readout: str = "both",
    inputs: str = "both",
    diffusion: str = "none",
    diffusion_alpha: float = 0.1,
    diffusion_t: float = 3.0,
    neighbours: int = 64,
) -> LGGDPlus:
    """`pagerank` 0 is none; the settings of distances mean what they mean in `lggd`.

    `diffusion_alpha` is that of the diffusion "ppr", `diffusion_t` that of "heat".
    """
    features = LGGD(
        times=_times(time),
        p=float(p),
        potential=_potential(potential, alpha),
        initial=_initial(initial, mlp_hidden, mlp_dropout, hops, pagerank),
        horizons=horizons,  # type: ignore[arg-type]
        cross_fit=cross_fit,
        optimization=_learning(mlp_lr, mlp_weight_decay, epochs),
    )
    with called(alpha="diffusion_alpha", t="diffusion_t"):
        kinds = {"none": None, "ppr": PPR(diffusion_alpha), "heat": Heat(diffusion_t)}
    return LGGDPlus(
        features,
        training.backbone,
        members,
        self_training,
        rounds,
        readout,  # type: ignore[arg-type]
        inputs,  # type: ignore[arg-type]
        named("diffusion", diffusion, kinds),
        neighbours,
        training.optimization,
        training.seed,
    )


def _times(unit: float) -> tuple[float, ...]:
    return tuple(unit * number for number in range(1, TIMES + 1))


def _learning(lr: float, weight_decay: float, epochs: int) -> Optimization:
    with called(lr="mlp_lr", weight_decay="mlp_weight_decay"):
        return Optimization(lr, weight_decay, epochs, patience=None)


def _scheme(step: float) -> RK4:
    return RK4(step=step or None)


def _read_by(readout: str, training: Training) -> AnyBackbone | None:
    return named("readout", readout, {"backbone": training.backbone, "nearest": None})


def _potential(potential: str, alpha: float) -> Coefficients:
    degree = DegreePotential(alpha)
    kinds: dict[str, Coefficients] = {
        "degree": degree,
        "learned": LearnedPotential(degree),
        "time": LearnedTimeScale(degree),
        "edges": LearnedEdgeWeights(degree),
        "both": LearnedEdgeWeights(LearnedPotential(degree)),
    }
    return named("potential", potential, kinds)


def _initial(
    initial: str, hidden: str, dropout: float, hops: int, pagerank: float = 0.0, input_dropout: float = 0.0
) -> MLP | PropagatedMLP:
    widths = _widths(hidden)
    if input_dropout and initial != "mlp":
        raise InputError("mlp_input_dropout", 'be 0 unless initial is "mlp"', f"{input_dropout} and {initial!r}")
    with called(hidden="mlp_hidden", dropout="mlp_dropout", input_dropout="mlp_input_dropout"):
        kinds: dict[str, MLP | PropagatedMLP] = {
            "mlp": MLP(hidden=widths, dropout=dropout, input_dropout=input_dropout),
            "propagated": PropagatedMLP(hidden=widths, dropout=dropout, hops=hops, pagerank=pagerank or None),
        }
    return named("initial", initial, kinds)


def _widths(text: str) -> tuple[int, ...]:
    """The sizes of hidden layers, written as "512-128"."""
    try:
        return tuple(int(width) for width in text.split("-") if width)
    except ValueError as wrong:
        raise InputError("mlp_hidden", 'be sizes such as "512-128"', repr(text)) from wrong
