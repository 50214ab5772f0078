"""Every baseline with settings small enough for a test, the checks of their contract, and their networks."""

from dataclasses import dataclass
from tempfile import TemporaryDirectory

import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from lggd import GCN, ChebNet, JKNet, Optimization, load_model
from lggd.backbones.training import train_networks
from lggd.baselines import GDC, DropEdge
from lggd.filters import PPR, Heat
from lggd.inputs import Labels, NodeData
from lggd.training.cuda_graph import WARM_UP
from lggd.training.problems import Targets
from reproduction.baselines import GOAL, Complement, GAugM, GAugO, GraphMix, MixUp
from support.small_data import CLASSES, blocks, changed, garbled, random, same, snapshot, splits

# On a GPU, more epochs than are run before one is recorded.
EPOCHS = 6 + WARM_UP if torch.cuda.is_available() else 4
FEW = Optimization(lr=0.02, weight_decay=5e-4, epochs=EPOCHS, patience=None)
SMALL = GCN(hidden=8)
CLOSE = {"rtol": 1e-3, "atol": 5e-4}
EXACT = {"rtol": 1e-4, "atol": 1e-5}
SPLIT = splits(1)[0]
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])


@dataclass(frozen=True)
class Case:
    """A baseline with small settings, and invalid settings by name."""

    kind: type
    settings: dict
    invalid: dict
    # Settings that reach a useful accuracy on a graph of 200 nodes.
    accurate: dict

    def make(self, **settings):
        return self.kind(**{"optimization": FEW, **self.settings, **settings})


def case(kind, settings, invalid, **accurate):
    return Case(kind, settings, invalid, accurate)


CASES = {
    "DropEdge": case(DropEdge, {"p": 0.4, "backbone": SMALL}, {"p": 1.5, "backbone": "GCN"}),
    "DropEdge JKNet": case(DropEdge, {"p": 0.4, "backbone": JKNet(hidden=4)}, {"p": True}),
    "DropEdge ChebNet": case(DropEdge, {"p": 0.4, "backbone": ChebNet(hidden=4)}, {}),
    "MixUp": case(MixUp, {"alpha": 2.0, "backbone": SMALL}, {"alpha": 0.0, "backbone": GCN}),
    "GraphMix": case(
        GraphMix,
        {"hidden": 8, "predictions": 2, "ramp": (2, 5)},
        {"temperature": 0.0, "ramp": 7, "hidden": 0},
        hidden=32,
        ramp=(100, 200),
    ),
    "GDC PPR": case(
        GDC, {"kernel": PPR(0.15), "k": 6, "backbone": SMALL}, {"kernel": "ppr", "k": 0, "dim": 2}, backbone=GCN()
    ),
    "GDC heat": case(GDC, {"kernel": Heat(3.0), "k": 6, "backbone": SMALL}, {"backbone": "GCN"}, backbone=GCN()),
    "GDC JKNet": case(GDC, {"kernel": Heat(2.0), "k": 5, "dim": 1, "backbone": JKNet(hidden=4)}, {}),
    "GAugM": case(
        GAugM,
        {"remove": 0.1, "add": 0.2, "predictor_epochs": 8, "backbone": SMALL},
        {"remove": 1.1, "add": -1.0},
        backbone=GCN(),
    ),
    "GAugO": case(
        GAugO,
        {
            "alpha": 0.6,
            "pretrain_predictor": 5,
            "pretrain_classifier": 3,
            "predictor_hidden": 8,
            "predictor_size": 4,
            "backbone": SMALL,
        },
        {"temperature": 0.0, "alpha": 2.0, "pretrain_predictor": -1},
        pretrain_predictor=60,
        pretrain_classifier=20,
    ),
    "GOAL": case(
        GOAL,
        {"k": 2, "hidden": 8, "pretraining": FEW, "complement": Complement(hidden=4, epochs=12)},
        {"k": 0, "gamma": -1.0, "delta": "much", "pretrain": "yes", "complement": 16, "pretraining": None},
        hidden=32,
        pretraining=Optimization(lr=0.005, weight_decay=5e-4, epochs=100, patience=50),
    ),
}
every_case = pytest.mark.parametrize("name", CASES)


# -- The checks of the contract: each takes a function that makes a model ----------------------------------------------


def check_predictions(make):
    data = blocks()
    model = make()
    assert model.fit(data) is model
    probabilities = model.predict_proba()
    assert probabilities is model.probabilities_
    assert probabilities.shape == (data.num_nodes, CLASSES)
    assert probabilities.dtype == torch.float32
    assert not probabilities.requires_grad
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    torch.testing.assert_close(probabilities.sum(1), torch.ones(data.num_nodes))
    assert torch.equal(model.predict(), probabilities.argmax(1))
    correct = (model.predict() == data.y).float()
    assert model.score(data) == pytest.approx(float(correct[data.test_mask].mean()))
    assert model.score(data, data.train_mask) == pytest.approx(float(correct[data.train_mask].mean()))
    assert model.num_classes_ == CLASSES
    assert torch.equal(model.labels_, torch.where(data.train_mask, data.y, -1))


def check_history(make):
    history = make().fit(blocks()).history_["training"]
    assert set(history) == {"train_loss", "validation_loss", "validation_accuracy"}
    assert {len(curve) for curve in history.values()} == {FEW.epochs}
    assert all(isinstance(value, float) for curve in history.values() for value in curve)


def check_seeds(make):
    data = blocks()
    first = make(seed=3).fit(data).probabilities_
    assert torch.equal(first, make(seed=3).fit(data).probabilities_)
    assert not torch.equal(first, make(seed=4).fit(data).probabilities_)
    assert torch.equal(*(make(seed=random(8)).fit(data).probabilities_ for _ in range(2)))


def check_hidden_labels(make):
    data = blocks(lonely=1)
    first = make().fit(data).probabilities_
    hidden = (~(data.train_mask | data.val_mask)).nonzero().squeeze(1)
    y = data.y.clone()
    y[hidden] = y[hidden[torch.randperm(len(hidden), generator=random(6))]]
    assert not torch.equal(y, data.y)
    for other in (changed(data, y=y), garbled(data)):
        assert torch.equal(first, make().fit(other).probabilities_)


def check_together(make, data=SPLIT, close=EXACT):
    """Networks of several seeds that are trained in one pass have the predictions and losses of each alone."""
    model, seeds, labels = make(), (0, 1, 2), Labels.read(data)
    made = model._networks(NodeData.read(data), labels, seeds, None)
    history = train_networks(made, labels, model.optimization, "training", None)
    for seed, logits in zip(seeds, made.logits(), strict=True):
        alone = make(seed=seed).fit(data)
        torch.testing.assert_close(torch.softmax(logits, 1).float(), alone.probabilities_, **close)
        for curve, values in alone.history_["training"].items():
            tolerance = 2 / int(data.val_mask.sum()) if curve == "validation_accuracy" else 2e-3
            assert history[f"{curve} member={seed}"] == pytest.approx(values, rel=2e-2, abs=tolerance)


def check_refit(make):
    model = make().fit(blocks(seed=1))
    fresh = make().fit(SPLIT)
    assert torch.equal(model.fit(SPLIT).probabilities_, fresh.probabilities_)
    assert model.history_ == fresh.history_


def check_global_random_state(make):
    """Torch's global random state neither changes nor has an effect."""
    data = blocks()
    before = torch.get_rng_state()
    first = make().fit(data).probabilities_
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng([]):
        torch.manual_seed(987)
        assert torch.equal(first, make().fit(data).probabilities_)


def check_inputs_unchanged(make):
    data = blocks(weighted=True)
    before = snapshot(data)
    make().fit(data)
    assert same(before, data.to_dict())


def check_saved_model(make):
    model = make(seed=3).fit(blocks())
    with TemporaryDirectory() as folder:
        model.save(folder)
        loaded = load_model(folder)
    assert repr(loaded) == repr(model)
    assert torch.equal(loaded.predict_proba(), model.predict_proba())
    assert torch.equal(loaded.labels_, model.labels_)
    assert loaded.history_ == model.history_


CHECKS = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_predictions,
        check_history,
        check_seeds,
        check_hidden_labels,
        check_together,
        check_refit,
        check_global_random_state,
        check_inputs_unchanged,
        check_saved_model,
    )
}


# -- Networks before their training ------------------------------------------------------------------------------------


def graph(weighted=True, **settings):
    """A small graph with nodes that have no edges."""
    return blocks(**{"weighted": weighted, "lonely": 2, "seed": 3, **settings})


def networks(model, data, seeds=(0,)):
    """The networks of a baseline before their first epoch, and their training targets."""
    labels = Labels.read(data)
    model.check_settings()
    made = model._networks(NodeData.read(data), labels, seeds, None)
    return made, Targets(torch.stack([labels.train] * len(seeds)), "target")


def identity(values, *_):
    return values


def dense_matrix(source, target, entry, nodes):
    return torch.zeros(nodes, nodes).index_put_((target, source), entry, accumulate=True)


def dense_adjacency(data):
    """Â `[N, N]`, by PyG."""
    index, entry = gcn_norm(data.edge_index, data.get("edge_weight"), data.num_nodes)
    return dense_matrix(index[0], index[1], entry, data.num_nodes)
