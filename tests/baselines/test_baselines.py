"""The contract of all baselines, kept by every one of them; and proof that each check would find who breaks it."""

import copy
from dataclasses import dataclass

import pytest
import torch
from sklearn.exceptions import NotFittedError
from test_together import splits
from torch import Tensor

from lggd import Optimization, baselines, fit_together
from lggd.backbones import GCN, initialised
from lggd.backbones.stack import Stack
from lggd.baselines import GDC, GOAL, GPRGNN, PPR, Baseline, Complement, DropEdge, GAugM, GAugO, GraphMix, Heat, MixUp
from lggd.baselines.baseline import VALIDATION
from lggd.estimator.labels import Labels
from lggd.training.cuda_graph import WARM_UP
from small_data import CLASSES, blocks, changed, garbled, random, same, snapshot, unmasked

# More than are run before an epoch is recorded on a GPU.
FEW = Optimization(lr=0.02, weight_decay=5e-4, epochs=6 + WARM_UP, patience=None)
SMALL = GCN(hidden=8)
CLOSE = {"rtol": 1e-3, "atol": 5e-4}
SPLITS = splits(3)


@dataclass(frozen=True)
class Case:
    """A baseline with settings small enough for a test, and settings that it must refuse, each by its name."""

    kind: type
    settings: dict
    wrong: dict
    # What makes it learn something worth comparing on a graph of 200 nodes.
    learning: dict

    def make(self, **settings):
        return self.kind(**{"optimization": FEW, **self.settings, **settings})


def case(kind, settings, wrong, **learning):
    return Case(kind, settings, wrong, learning)


CASES = {
    "DropEdge": case(DropEdge, {"p": 0.4, "backbone": SMALL}, {"p": 1.5, "backbone": "GCN"}),
    "MixUp": case(MixUp, {"backbone": SMALL}, {"alpha": 0.0, "backbone": GCN}),
    "GraphMix": case(
        GraphMix,
        {"hidden": 8, "predictions": 2, "ramp": (2, 5)},
        {"temperature": 0.0, "ramp": 7, "hidden": 0},
        hidden=32,
        ramp=(100, 200),
    ),
    "GPRGNN": case(GPRGNN, {"hidden": 8, "hops": 3}, {"alpha": -0.1, "hops": 0, "dropout": 1.0}, hidden=32),
    "GDC ppr": case(GDC, {"kernel": PPR(0.15), "k": 6, "backbone": SMALL}, {"kernel": "ppr", "k": 0, "dim": 2}),
    "GDC heat": case(GDC, {"kernel": Heat(3.0), "k": 6, "backbone": SMALL}, {"backbone": "GCN"}),
    "GAugM": case(
        GAugM, {"remove": 0.1, "add": 0.2, "predictor_epochs": 8, "backbone": SMALL}, {"remove": 1.1, "add": -1.0}
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
        {
            "k": 2,
            "hidden": 8,
            "pretraining": FEW,
            "complement": Complement(hidden=4, epochs=12),
        },
        {"k": 0, "gamma": -1.0, "delta": "much", "pretrain": "yes", "complement": 16, "pretraining": None},
        hidden=32,
        pretraining=Optimization(lr=0.005, weight_decay=5e-4, epochs=100, patience=50),
    ),
}
EXPORTED = {"DropEdge", "MixUp", "GraphMix", "GPRGNN", "GDC", "GAugM", "GAugO", "GOAL"}
every_case = pytest.mark.parametrize("name", CASES)


def test_all_baselines_are_here():
    kinds = {name for name in baselines.__all__ if _is_baseline(getattr(baselines, name))}
    assert kinds == EXPORTED == {one.kind.__name__ for one in CASES.values()}


def _is_baseline(thing):
    return isinstance(thing, type) and issubclass(thing, Baseline) and thing is not Baseline


# -- The checks: each takes a function that makes a model --------------------------------------------------------------


def check_answers(make):
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
    hit = (model.predict() == data.y)[data.test_mask].float().mean()
    assert model.score(data) == pytest.approx(float(hit))
    assert model.score(data, data.train_mask) == pytest.approx(
        float((model.predict() == data.y)[data.train_mask].float().mean())
    )
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
    # A generator is drawn from, and is enough to say all.
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


def check_together(make, data=SPLITS, close=CLOSE):
    """Several at once are as if alone: their answers, and their curves."""
    together = fit_together([make(seed=seed) for seed in range(len(data))], data)
    for seed, (model, one) in enumerate(zip(together, data, strict=True)):
        alone = make(seed=seed).fit(one)
        torch.testing.assert_close(model.probabilities_, alone.probabilities_, **close)
        assert model.history_["training"].keys() == alone.history_["training"].keys()
        for curve, values in alone.history_["training"].items():
            wide = 2 / int(one.val_mask.sum()) if curve == "validation_accuracy" else 2e-3
            assert model.history_["training"][curve] == pytest.approx(values, rel=2e-2, abs=wide)


def check_refit(make):
    model = make().fit(blocks(seed=1))
    fresh = make().fit(SPLITS[0])
    assert torch.equal(model.fit(SPLITS[0]).probabilities_, fresh.probabilities_)
    assert model.history_ == fresh.history_


def check_random_numbers(make):
    """Torch's global random numbers neither change nor change anything."""
    data = blocks()
    before = torch.get_rng_state()
    first = make().fit(data).probabilities_
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng([]):
        torch.manual_seed(987)
        assert torch.equal(first, make().fit(data).probabilities_)


def check_inputs(make):
    data = blocks(weighted=True)
    before = snapshot(data)
    make().fit(data)
    assert same(before, data.to_dict())


# -- Kept by all -------------------------------------------------------------------------------------------------------


@pytest.fixture
def make(name):
    return CASES[name].make


CHECKS = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_answers,
        check_history,
        check_seeds,
        check_hidden_labels,
        check_together,
        check_refit,
        check_random_numbers,
        check_inputs,
    )
}


@every_case
@pytest.mark.parametrize("check", CHECKS)
def test_the_contract_is_kept(name, check, make):
    CHECKS[check](make)


@every_case
def test_unfitted_models_say_so(name, make):
    for ask in (
        lambda model: model.predict(),
        lambda model: model.predict_proba(),
        lambda model: model.score(blocks()),
    ):
        with pytest.raises(NotFittedError, match=f"This {CASES[name].kind.__name__} must be fitted first"):
            ask(make())


@every_case
def test_wrong_settings_are_refused_before_anything_is_lost(name, make):
    data = blocks()
    for argument, value in CASES[name].wrong.items():
        model = make().fit(data)
        before, history = model.probabilities_, model.history_
        setattr(model, argument, value)
        with pytest.raises((ValueError, TypeError), match=f"`{argument}` must"):
            model.fit(blocks(seed=1))
        assert model.probabilities_ is before
        assert model.history_ is history
        with pytest.raises((ValueError, TypeError), match=rf"models\[1\]: `{argument}` must"):
            fit_together([make(), make(**{argument: value})], data)


@every_case
def test_a_wrong_optimization_is_refused(name, make):
    with pytest.raises(TypeError, match="`optimization` must be"):
        make(optimization=None).fit(blocks())


@every_case
@pytest.mark.parametrize("seed", [-1, 1.5, "one"])
def test_wrong_seeds_are_refused(name, make, seed):
    with pytest.raises(ValueError, match="`seed` must be"):
        make(seed=seed).fit(blocks())


@every_case
def test_lonely_nodes_and_small_components(name, make):
    """Two isolated nodes and more, and a pair beside the rest; together as alone, too."""
    data = blocks(lonely=2)
    degree = torch.bincount(data.edge_index[0], minlength=data.num_nodes)
    assert int((degree == 0).sum()) >= 2
    assert make().fit(data).probabilities_.isfinite().all()
    check_together(make, splits(2, lonely=2))


@every_case
def test_no_edges_at_all(name, make):
    data = changed(blocks(), edge_index=torch.empty(2, 0, dtype=torch.int64))
    assert make().fit(data).probabilities_.isfinite().all()


@every_case
def test_weights_sparse_contents_and_unmasked_labels(name, make):
    for data in (blocks(weighted=True), blocks(sparse=True), unmasked(blocks()), blocks(labelled=1)):
        assert make().fit(data).probabilities_.isfinite().all()


def held_out_by_fit(**more):
    """Labels enough for `fit` to hold some out: with their mask, and no other."""
    return changed(blocks(each=26, labelled=22, validated=0, **more), val_mask=None, test_mask=None)


@every_case
def test_nodes_that_fit_holds_out_are_known(name, make):
    """They chose the epoch that answers, so that no score may count them as unseen."""
    data = held_out_by_fit()
    model = make().fit(data)
    assert "validation_accuracy" in model.history_["training"]
    assert torch.equal(model.labels_, torch.where(data.train_mask, data.y, -1))
    unseen = (model.predict() == data.y)[~data.train_mask].float().mean()
    assert model.score(data) == pytest.approx(float(unseen))
    with pytest.raises(ValueError, match="at least one node with a label"):
        model.score(unmasked(changed(data, val_mask=data.train_mask, test_mask=data.train_mask)))


@every_case
def test_and_they_are_not_learned_from(name, make):
    """As if the same nodes had been given in `val_mask`, where they stay unknown."""
    data = held_out_by_fit()
    labels = Labels.read(data).hold_out(VALIDATION, random(3))
    given = changed(data, train_mask=labels.train >= 0, val_mask=labels.validation >= 0)
    model, other = make(seed=3).fit(data), make(seed=3).fit(given)
    assert torch.equal(model.probabilities_, other.probabilities_)
    assert model.history_ == other.history_
    assert torch.equal(other.labels_, labels.train)


def test_what_is_known_is_its_own():
    data = unmasked(blocks())
    model = DropEdge(backbone=SMALL, optimization=FEW).fit(data)
    before = model.labels_.clone()
    data.y.fill_(-1)
    assert torch.equal(model.labels_, before)


def weighted(value, name="edge_weight"):
    """With this weight on the edge 3 and on its other direction."""
    data = blocks(weighted=True)
    end, other = data.edge_index[:, 3].tolist()
    both = (data.edge_index == end).any(0) & (data.edge_index == other).any(0)
    weight = data.edge_weight.masked_fill(both, value)
    return changed(changed(data, edge_weight=None), **{name: weight})


NO_EDGES = "`edge_index` must be int64 .2, E., got None. Give edges"
BAD_GRAPHS = {
    "no edges": (lambda: changed(blocks(), edge_index=None), NO_EDGES),
    "adj_t": (lambda: changed(blocks(), edge_index=None, adj_t=torch.eye(36).to_sparse_csr()), NO_EDGES),
    "negative": (lambda: weighted(-0.5), r"`edge_weight` must be 0 or above and finite, got -0.5 on edge \(0, \d+\)"),
    "NaN": (lambda: weighted(torch.nan), "`edge_weight` must be 0 or above and finite, got nan on edge"),
    "inf": (lambda: weighted(torch.inf), "`edge_weight` must be 0 or above and finite, got inf on edge"),
    "edge_attr": (lambda: weighted(-0.5, "edge_attr"), "`edge_attr` must be 0 or above and finite, got -0.5 on edge"),
}


@every_case
@pytest.mark.parametrize("kind", BAD_GRAPHS)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_bad_graphs_are_refused_by_name(name, make, kind):
    bad, complaint = BAD_GRAPHS[kind]
    with pytest.raises(ValueError, match=f"^{complaint}"):
        make().fit(bad())
    with pytest.raises(ValueError, match=rf"^models\[1\]: {complaint}"):
        fit_together([make(), make()], [blocks(), bad()])
    if hasattr(make(), "transform"):
        with pytest.raises(ValueError, match=f"^{complaint}"):
            make().transform(bad())


@every_case
def test_splits_of_unlike_sizes_together(name, make):
    """One has few training nodes, one has no validation nodes."""
    fewer = SPLITS[1].train_mask.clone()
    fewer[fewer.nonzero()[CLASSES::2].squeeze(1)] = False
    data = [SPLITS[0], changed(SPLITS[1], train_mask=fewer), changed(SPLITS[2], val_mask=torch.zeros(36).bool())]
    models = fit_together([make(seed=seed) for seed in range(3)], data)
    for seed, model in enumerate(models):
        torch.testing.assert_close(model.probabilities_, make(seed=seed).fit(data[seed]).probabilities_, **CLOSE)
    assert set(models[2].history_["training"]) == {"train_loss"}


@every_case
def test_a_callback_hears_of_every_epoch(name, make):
    heard = []
    make().fit(blocks(), callback=heard.append)
    told = [progress for progress in heard if progress.stage == "training"]
    assert [progress.epoch for progress in told] == list(range(1, FEW.epochs + 1))
    assert all("train_loss" in progress.metrics for progress in told)


# -- Planted: those who break the contract, each found by the check of it ----------------------------------------------


@dataclass(eq=False)
class Plain(Baseline):
    """Keeps the contract: a backbone and no more."""

    def _check(self):
        pass

    def _networks(self, subject, problems, callback):
        modules = [initialised(SMALL, subject.x.shape[1], subject.num_classes, one.seed) for one in problems]
        return Stack(modules, subject.x, subject.edge_index, subject.edge_weight, [one.seed + 1 for one in problems])


class Peeking(Plain):
    """Learns from hidden labels, too, where they are classes."""

    def fit(self, data, *, callback=None):
        shown = ~data.val_mask & (data.y >= 0) & (data.y < CLASSES)
        return super().fit(changed(data, train_mask=shown), callback=callback)


class Overconfident(Plain):
    """Says more than 1 in all."""

    def fit(self, data, *, callback=None):
        super().fit(data, callback=callback)
        self.probabilities_ = 2 * self.probabilities_
        return self


class Silent(Plain):
    """Tells nothing of its training."""

    def fit(self, data, *, callback=None):
        super().fit(data, callback=callback)
        self.history_ = {"training": {}}
        return self


class Stubborn(Plain):
    """Has one seed, whatever it is told."""

    def fit(self, data, *, callback=None):
        self.seed = 0
        return super().fit(data, callback=callback)


class Mixing(Plain):
    """Lets problems draw from the generator of the first."""

    def _networks(self, subject, problems, callback):
        stack = super()._networks(subject, problems, callback)
        stack.generators = [stack.generators[0]] * len(problems)
        return stack


class Remembering(Plain):
    """Goes on from what it knew."""

    def fit(self, data, *, callback=None):
        before = getattr(self, "probabilities_", None)
        super().fit(data, callback=callback)
        if before is not None:
            self.probabilities_ = (self.probabilities_ + before) / 2
        return self


class Drawing(Plain):
    """Draws from torch's global random numbers."""

    def _networks(self, subject, problems, callback):
        torch.rand(1)
        return super()._networks(subject, problems, callback)


class Seeding(Plain):
    """Depends on torch's global random numbers, though it puts them back."""

    def _networks(self, subject, problems, callback):
        with torch.random.fork_rng([]):
            stack = super()._networks(subject, problems, callback)
            stack.x = stack.x + torch.randn(stack.x.shape)
            return stack


class Scaling(Plain):
    """Changes what it is given."""

    def fit(self, data, *, callback=None):
        data.x.mul_(2)
        return super().fit(data, callback=callback)


def planted(kind):
    return lambda **settings: kind(**{"optimization": FEW, **settings})


@pytest.mark.parametrize("check", CHECKS)
def test_a_plain_one_keeps_the_contract(check):
    CHECKS[check](planted(Plain))


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Overconfident, check_answers),
        (Silent, check_history),
        (Stubborn, check_seeds),
        (Peeking, check_hidden_labels),
        (Mixing, check_together),
        (Remembering, check_refit),
        (Drawing, check_random_numbers),
        (Seeding, check_random_numbers),
        (Scaling, check_inputs),
    ],
)
def test_who_breaks_the_contract_is_found(kind, check):
    with pytest.raises(AssertionError):
        check(planted(kind))


# -- On a CUDA device --------------------------------------------------------------------------------------------------


def there(data):
    return copy.copy(data).to("cuda")


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@needs_cuda
@every_case
def test_there_it_learns_as_well_as_here(name, make):
    """Two problems at once, on 201 nodes, with epochs enough to be recorded and replayed."""
    data = splits(2, each=67, labelled=12, validated=20, inside=0.15, outside=0.02, noise=0.3)
    settings = {"optimization": Optimization(weight_decay=5e-4, epochs=150), **CASES[name].learning}

    def models():
        return [make(seed=seed, **settings) for seed in range(2)]

    here = fit_together(models(), data)
    on_gpu = fit_together(models(), [there(one) for one in data])
    for model, other, one in zip(here, on_gpu, data, strict=True):
        assert isinstance(other.probabilities_, Tensor)
        assert other.probabilities_.is_cuda
        assert other.probabilities_.isfinite().all()
        accuracy = other.score(there(one))
        assert accuracy == pytest.approx(model.score(one), abs=0.1)
        assert accuracy > 0.6


@pytest.mark.gpu
@needs_cuda
@every_case
def test_together_as_alone_there(name, make):
    check_together(make, [there(one) for one in SPLITS], {"rtol": 1e-2, "atol": 5e-3})


@pytest.mark.gpu
@needs_cuda
@every_case
def test_same_bits_and_hidden_labels_there(name, make):
    data = blocks(lonely=1)
    first = make().fit(there(data)).probabilities_
    assert torch.equal(first, make().fit(there(data)).probabilities_)
    assert torch.equal(first, make().fit(there(garbled(data))).probabilities_)
