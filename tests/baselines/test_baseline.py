"""The contract that every baseline keeps, and proof that its checks find violations."""

import copy
from dataclasses import dataclass

import pytest
import torch
from sklearn.exceptions import NotFittedError

from lggd import Optimization, baselines
from lggd.baselines import Baseline, DropEdge
from lggd.baselines.baseline import BaselineNetworks
from lggd.estimator.member import VALIDATION
from lggd.inputs import Labels
from lggd.training.problems import adam
from reproduction import baselines as others
from support.baseline_cases import (
    CASES,
    CHECKS,
    EXACT,
    FEW,
    SMALL,
    check_global_random_state,
    check_hidden_labels,
    check_history,
    check_inputs_unchanged,
    check_predictions,
    check_refit,
    check_seeds,
    check_together,
    every_case,
    graph,
    networks,
)
from support.small_data import CLASSES, blocks, changed, permuted, random, unmasked

# What all baselines inherit is tried on one of a single stage and on one of several.
two_cases = pytest.mark.parametrize("name", ["MixUp", "GOAL"])


def test_every_baseline_is_exported_and_tested():
    exported = [getattr(room, name) for room in (baselines, others) for name in room.__all__]
    kinds = {kind for kind in exported if issubclass(kind, Baseline) and kind is not Baseline}
    assert kinds == {case.kind for case in CASES.values()}
    assert len(kinds) == 7


@pytest.fixture
def make(name):
    return CASES[name].make


@every_case
@pytest.mark.parametrize("check", CHECKS)
def test_contract(name, check, make):
    CHECKS[check](make)


@every_case
def test_unfitted_models_raise(name, make):
    for method in (
        lambda model: model.predict(),
        lambda model: model.predict_proba(),
        lambda model: model.score(blocks()),
    ):
        with pytest.raises(NotFittedError, match=f"This {CASES[name].kind.__name__} must be fitted first"):
            method(make())


@every_case
def test_invalid_settings_raise_and_leave_the_fit_unchanged(name, make):
    data = blocks()
    fitted = make().fit(data)
    before, history = fitted.probabilities_, fitted.history_
    for argument, value in CASES[name].invalid.items():
        model = copy.copy(fitted)
        setattr(model, argument, value)
        with pytest.raises((ValueError, TypeError), match=f"`{argument}` must"):
            model.fit(blocks(seed=1))
        assert model.probabilities_ is before
        assert model.history_ is history


@two_cases
def test_invalid_optimization_raises(name, make):
    with pytest.raises(TypeError, match="`optimization` must be"):
        make(optimization=None).fit(blocks())


@two_cases
@pytest.mark.parametrize("seed", [-1, 1.5, "one"])
def test_invalid_seeds_raise(name, make, seed):
    with pytest.raises(ValueError, match="`seed` must be"):
        make(seed=seed).fit(blocks())


@every_case
def test_isolated_nodes_and_small_components(name, make):
    data = blocks(lonely=2)
    degree = torch.bincount(data.edge_index[0], minlength=data.num_nodes)
    assert int((degree == 0).sum()) >= 2
    assert make().fit(data).probabilities_.isfinite().all()
    check_together(make, data)


@every_case
def test_unusual_graphs_and_labels(name, make):
    """No edges, weights, sparse features, labels without masks, one label per class, all nodes labelled."""
    data = blocks()
    edgeless = changed(data, edge_index=torch.empty(2, 0, dtype=torch.int64))
    all_labelled = changed(data, train_mask=torch.ones(data.num_nodes, dtype=torch.bool), val_mask=None)
    others = blocks(weighted=True), blocks(sparse=True), unmasked(data), blocks(labelled=1)
    for one in (edgeless, all_labelled, *others):
        assert make().fit(one).probabilities_.isfinite().all()


@every_case
def test_node_features_and_weights_may_be_results_of_another_network(name, make):
    data = blocks(weighted=True)
    expected = make().fit(data).probabilities_
    leaf = [values.clone().requires_grad_() for values in (data.x, data.edge_weight)]
    with torch.inference_mode():
        inferred = [values.clone() for values in (data.x, data.edge_weight)]
    for x, weight in (leaf, [values * 1 for values in leaf], inferred):
        assert torch.equal(make().fit(changed(data, x=x, edge_weight=weight)).probabilities_, expected)
    assert all(values.grad is None for values in leaf)


@every_case
def test_accuracy(name, make):
    data = blocks(each=20, lonely=1, weighted=True)
    model = make(optimization=Optimization(epochs=80), **CASES[name].accurate).fit(data)
    assert model.score(data) > 0.8


def without_validation_mask(**settings):
    """Labels enough for `fit` to hold some out for validation."""
    return changed(blocks(each=26, labelled=22, validated=0, **settings), val_mask=None, test_mask=None)


@two_cases
def test_held_out_nodes_count_as_labelled(name, make):
    """They selected the epoch, so that no score may count them as unseen."""
    data = without_validation_mask()
    model = make().fit(data)
    assert "validation_accuracy" in model.history_["training"]
    assert torch.equal(model.labels_, torch.where(data.train_mask, data.y, -1))
    unseen = (model.predict() == data.y)[~data.train_mask].float().mean()
    assert model.score(data) == pytest.approx(float(unseen))
    with pytest.raises(ValueError, match="contain a node with a label"):
        model.score(unmasked(changed(data, val_mask=data.train_mask, test_mask=data.train_mask)))


@two_cases
def test_held_out_nodes_are_not_trained_on(name, make):
    """The fit equals one with the same nodes in `val_mask`, where they stay unlabelled."""
    data = without_validation_mask()
    labels = Labels.read(data).hold_out(VALIDATION, random(3))
    given = changed(data, train_mask=labels.train >= 0, val_mask=labels.validation >= 0)
    model, other = make(seed=3).fit(data), make(seed=3).fit(given)
    assert torch.equal(model.probabilities_, other.probabilities_)
    assert model.history_ == other.history_
    assert torch.equal(other.labels_, labels.train)


def test_labels_are_copied():
    data = unmasked(blocks())
    model = DropEdge(backbone=SMALL, optimization=FEW).fit(data)
    before = model.labels_.clone()
    data.y.fill_(-1)
    assert torch.equal(model.labels_, before)


def test_predictions_are_for_the_graph_of_the_fit():
    data = blocks()
    model = DropEdge(backbone=SMALL, optimization=FEW).fit(data)
    assert model.predict_proba(data.clone()) is model.probabilities_
    with pytest.raises(ValueError, match="`data` must be the graph that the baseline was fitted to"):
        model.predict(blocks(seed=1))
    with pytest.raises(ValueError, match="accept labels without training, got DropEdge"):
        model.add_labels([20], [1])


def with_weight(value, name="edge_weight"):
    """With this weight on edge 3 and its reverse."""
    data = blocks(weighted=True)
    i, j = data.edge_index[:, 3].tolist()
    both = (data.edge_index == i).any(0) & (data.edge_index == j).any(0)
    weight = data.edge_weight.masked_fill(both, value)
    return changed(changed(data, edge_weight=None), **{name: weight})


NO_EDGES = "`edge_index` must be int64 .2, E., got None. Pass two rows"
INVALID_WEIGHT = "must be 0 or above and finite, got"
INVALID_GRAPHS = {
    "no edges": (lambda: changed(blocks(), edge_index=None), NO_EDGES),
    "adj_t": (lambda: changed(blocks(), edge_index=None, adj_t=torch.eye(36).to_sparse_csr()), NO_EDGES),
    "negative": (lambda: with_weight(-0.5), rf"`edge_weight` {INVALID_WEIGHT} -0.5 on edge \(0, \d+\)"),
    "NaN": (lambda: with_weight(torch.nan), f"`edge_weight` {INVALID_WEIGHT} nan on edge"),
    "inf": (lambda: with_weight(torch.inf), f"`edge_weight` {INVALID_WEIGHT} inf on edge"),
    "edge_attr": (lambda: with_weight(-0.5, "edge_attr"), f"`edge_attr` {INVALID_WEIGHT} -0.5 on edge"),
}


@every_case
@pytest.mark.parametrize("kind", INVALID_GRAPHS)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_invalid_graphs_raise(name, make, kind):
    invalid, message = INVALID_GRAPHS[kind]
    with pytest.raises(ValueError, match=f"^{message}"):
        make().fit(invalid())
    if hasattr(make(), "transform"):
        with pytest.raises(ValueError, match=f"^{message}"):
            make().transform(invalid())


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("GDC", "GAug"))])
def test_directed_graphs_raise(name, make):
    data = blocks()
    directed = changed(data, edge_index=data.edge_index[:, data.edge_index[0] < data.edge_index[1]])
    with pytest.raises(ValueError, match="both directions"):
        make().fit(directed)


@every_case
def test_callback_is_called_every_epoch(name, make):
    calls = []
    make().fit(blocks(), callback=calls.append)
    training = [progress for progress in calls if progress.stage == "training"]
    assert [progress.done for progress in training] == list(range(1, FEW.epochs + 1))
    assert all("train_loss" in progress.metrics for progress in training)


# -- Networks ----------------------------------------------------------------------------------------------------------


@every_case
def test_logits_are_deterministic(name, make):
    made, targets = networks(make(), graph(), (0, 1))
    assert torch.equal(made.logits(), made.logits())
    assert torch.equal(made.validate(targets)[0], targets.losses(made.logits()))


def check_all_parameters_change(make):
    """After three steps every parameter of every problem has changed."""
    made, targets = networks(make(), graph(), (0, 1, 2, 3))
    before = {one.name: one.value.detach().clone() for one in made.parameters()}
    optimizer = adam(made.parameters(), FEW)
    for _ in range(3):
        optimizer.zero_grad()
        made.training_step(targets)
        optimizer.step()
    for one in made.parameters():
        moved = (one.value != before[one.name]).flatten(1) if one.value.dim() > 1 else one.value[:, None] > 0
        assert bool(moved.any(1).all()), one.name


@every_case
def test_gradients_reach_every_parameter(name, make):
    check_all_parameters_change(make)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("DropEdge", "MixUp", "GraphMix"))])
def test_initial_logits_are_permutation_equivariant(name, make):
    data = graph(weighted=False)
    to = torch.randperm(data.num_nodes, generator=random(2))
    one, other = (networks(make(), each)[0].logits()[0] for each in (data, permuted(data, to)))
    torch.testing.assert_close(other[to], one, **EXACT)


# -- Planted violations of the contract, each found by its check -------------------------------------------------------


@dataclass(eq=False, repr=False)
class Plain(Baseline):
    """Keeps the contract: a backbone."""

    def _check(self):
        pass

    def _networks(self, nodes, labels, seeds, callback):
        return BaselineNetworks(SMALL.build, nodes, labels, seeds)


class Leaking(Plain):
    """Trains on hidden labels, where they are classes."""

    def fit(self, data, *, callback=None):
        shown = ~data.val_mask & (data.y >= 0) & (data.y < CLASSES)
        return super().fit(changed(data, train_mask=shown), callback=callback)


class Unnormalized(Plain):
    def fit(self, data, *, callback=None):
        super().fit(data, callback=callback)
        self.probabilities_ = 2 * self.probabilities_
        return self


class WithoutHistory(Plain):
    def fit(self, data, *, callback=None):
        super().fit(data, callback=callback)
        self.history_ = {"training": {}}
        return self


class IgnoringSeed(Plain):
    def fit(self, data, *, callback=None):
        self.seed = 0
        return super().fit(data, callback=callback)


class SharedGenerator(Plain):
    def _networks(self, nodes, labels, seeds, callback):
        stack = super()._networks(nodes, labels, seeds, callback)
        stack.generators = [stack.generators[0]] * len(seeds)
        return stack


class WarmStart(Plain):
    def fit(self, data, *, callback=None):
        before = getattr(self, "probabilities_", None)
        super().fit(data, callback=callback)
        if before is not None:
            self.probabilities_ = (self.probabilities_ + before) / 2
        return self


class DrawingGlobally(Plain):
    def _networks(self, nodes, labels, seeds, callback):
        torch.rand(1)
        return super()._networks(nodes, labels, seeds, callback)


class DependingOnGlobalState(Plain):
    def _networks(self, nodes, labels, seeds, callback):
        with torch.random.fork_rng([]):
            stack = super()._networks(nodes, labels, seeds, callback)
            stack.x = stack.x + torch.randn(stack.x.shape)
            return stack


class ChangingInputs(Plain):
    def fit(self, data, *, callback=None):
        data.x.mul_(2)
        return super().fit(data, callback=callback)


def planted(kind):
    return lambda **settings: kind(**{"optimization": FEW, **settings})


@pytest.mark.parametrize("check", CHECKS)
def test_plain_baseline_keeps_the_contract(check):
    CHECKS[check](planted(Plain))


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Unnormalized, check_predictions),
        (WithoutHistory, check_history),
        (IgnoringSeed, check_seeds),
        (Leaking, check_hidden_labels),
        (SharedGenerator, check_together),
        (WarmStart, check_refit),
        (DrawingGlobally, check_global_random_state),
        (DependingOnGlobalState, check_global_random_state),
        (ChangingInputs, check_inputs_unchanged),
    ],
)
def test_checks_find_violations(kind, check):
    with pytest.raises(AssertionError):
        check(planted(kind))
