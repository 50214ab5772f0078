"""The baselines of the table. Their keywords are the settings that a row may have.

Each is imported by who asks for it. Where a backbone is one that it cannot work on, its own check says so.
"""

from __future__ import annotations

from lggd.baselines import Baseline
from lggd.compare.making import Training, called, named
from lggd.training.optimization import Optimization


def mix_up(training: Training, *, alpha: float = 1.0) -> Baseline:
    from lggd.baselines.mixup import MixUp

    return MixUp(alpha, training.backbone, **training.common)  # type: ignore[arg-type]


def drop_edge(training: Training, *, p: float = 0.5) -> Baseline:
    from lggd.baselines.dropedge import DropEdge

    return DropEdge(p, training.backbone, **training.common)  # type: ignore[arg-type]


def gaug_m(
    training: Training, *, remove: float = 0.0, add: float = 0.0, predictor_epochs: int = 200, predictor_seed: int = 7
) -> Baseline:
    from lggd.baselines.gaug_m import GAugM

    return GAugM(remove, add, predictor_epochs, predictor_seed, training.backbone, **training.common)


def gaug_o(
    training: Training,
    *,
    alpha: float = 1.0,
    beta: float = 0.8,
    temperature: float = 1.2,
    pretrain_predictor: int = 160,
    pretrain_classifier: int = 30,
    predictor_hidden: int = 128,
    predictor_size: int = 32,
) -> Baseline:
    from lggd.baselines.gaug_o import GAugO

    pretraining, sizes = (pretrain_predictor, pretrain_classifier), (predictor_hidden, predictor_size)
    return GAugO(alpha, beta, temperature, *pretraining, *sizes, training.backbone, **training.common)  # type: ignore[arg-type]


def gdc(
    training: Training, *, kernel: str = "ppr", alpha: float = 0.05, t: float = 5.0, k: int = 64, dim: int = 0
) -> Baseline:
    """`alpha` is that of the kernel "ppr", `t` that of "heat"."""
    from lggd.baselines.gdc import GDC
    from lggd.diffusion import PPR, Heat

    kernels: dict[str, PPR | Heat] = {"ppr": PPR(alpha), "heat": Heat(t)}
    return GDC(named("kernel", kernel, kernels), k, dim, training.backbone, **training.common)


def gpr_gnn(
    training: Training,
    *,
    alpha: float = 0.1,
    hops: int = 10,
    hidden: int = 64,
    dropout: float = 0.5,
    propagation_dropout: float = 0.5,
) -> Baseline:
    from lggd.baselines.gprgnn import GPRGNN

    return GPRGNN(alpha, hops, hidden, dropout, propagation_dropout, **training.common)


def goal(
    training: Training,
    *,
    k: int = 100,
    alpha: float = 1.0,
    beta: float = 0.5,
    gamma: float = 1.5,
    delta: float = 0.5,
    hidden: int = 512,
    pretrain: bool = True,
    pretrain_epochs: int = 200,
    complement_hidden: int = 16,
    complement_layers: int = 3,
    complement_epochs: int = 200,
) -> Baseline:
    """The complement is made with a network of its own, `complement_hidden` wide at its end."""
    from lggd.baselines.complement_graph import Complement
    from lggd.baselines.goal import GOAL

    with called(epochs="pretrain_epochs"):
        pretraining = Optimization(lr=0.005, weight_decay=5e-4, epochs=pretrain_epochs, patience=50)
    with called(hidden="complement_hidden", layers="complement_layers", epochs="complement_epochs"):
        complement = Complement(complement_hidden, complement_layers, complement_epochs)
    return GOAL(k, alpha, beta, gamma, delta, hidden, pretrain, pretraining, complement, **training.common)


def graph_mix(
    training: Training,
    *,
    hidden: int = 16,
    dropout: float = 0.5,
    predictions: int = 10,
    temperature: float = 0.1,
    unlabelled_weight: float = 10.0,
    ramp_begin: int = 500,
    ramp_end: int = 1000,
) -> Baseline:
    from lggd.baselines.graphmix import GraphMix

    ramp = (ramp_begin, ramp_end)
    return GraphMix(hidden, dropout, predictions, temperature, unlabelled_weight, ramp, **training.common)
