"""The classifier that is solved: what it may see, in what order, on which graphs, and in files."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from lggd import EdgeAgreement, InputError, KernelRidge, load, load_model
from lggd.closed_form import ridge, selection
from lggd.closed_form.pseudo_labels import PseudoLabels
from lggd.closed_form.ridge import ExactSystem, InducedSystem
from lggd.closed_form.solution import RidgeSolution
from lggd.filters import Hops
from lggd.inputs import Labels
from lggd.kernels import FilterKernel, Linear
from support.small_data import CLASSES, blocks, changed, garbled, permuted, random, unmasked

# For tests of many fits: few kernels, no search for edge weights.
QUICK = {
    "kernels": (FilterKernel((Hops(0), Hops(2)), Linear()),),
    "far_kernels": (), "wide_kernels": (), "topology_kernels": (), "agreement": None,
}  # fmt: skip
CLOSE = {"atol": 1e-5, "rtol": 0}
VARIANTS = {
    "default": {},
    "quick": QUICK,
    "no topology": {"topology_kernels": ()},
    "given edge weights": {"agreement": None},
    "one kernel": {"max_kernels": 1},
    "pseudo-labels": {"pseudo_labels": PseudoLabels()},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def make(variant="default", **changes):
    return KernelRidge(**{**VARIANTS[variant], **changes})


@pytest.fixture
def induced(monkeypatch):
    """Inducing points even for small graphs."""
    monkeypatch.setattr(ridge, "MAX_EXACT_NODES", 10)


# -- hidden labels ------------------------------------------------------------------------------------------------


def check_hidden_labels(model, data):
    expected = copy.deepcopy(model).fit(data).predict_proba()
    hidden = (~(data.train_mask | data.val_mask)).nonzero().squeeze(1)
    y = data.y.clone()
    y[hidden] = y[hidden[torch.randperm(len(hidden), generator=random())]]
    for other in (garbled(data), changed(data, y=y)):
        assert torch.equal(copy.deepcopy(model).fit(other).predict_proba(), expected)


@every_variant
def test_hidden_labels_are_unreachable(variant):
    check_hidden_labels(make(variant), blocks(noise=1.0))


def test_the_check_on_hidden_labels_catches_a_leak(monkeypatch):
    monkeypatch.setattr(Labels, "read", lambda data: Labels.checked(data.y % CLASSES, torch.full_like(data.y, -1)))
    with pytest.raises(AssertionError):
        check_hidden_labels(make("quick"), blocks(noise=1.0))


# -- labels that arrive -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["default", "pseudo-labels"])
def test_asking_twice_gives_the_same_bits(variant):
    one, other = (make(variant).fit(blocks()).add_labels([30, 20], [0, 2]) for _ in range(2))
    assert torch.equal(one.predict_proba(), one.predict_proba())
    assert torch.equal(one.predict_proba(), other.predict_proba())
    assert torch.equal(one.leave_one_out_proba(), other.leave_one_out_proba())


def check_order(model, order):
    """The same labels, one by one in this order and all at once, up to rounding."""
    data = blocks(labelled=5)
    start = model.fit(data)
    at_once = copy.deepcopy(start).add_labels(order, data.y[order])
    for node in order:
        start.add_labels([node], data.y[[node]])
    torch.testing.assert_close(start.predict_proba(), at_once.predict_proba(), **CLOSE)


@settings(max_examples=15)
@given(order=st.permutations(range(25, 30)))
def test_labels_in_any_order_give_the_same_predictions(order):
    check_order(KernelRidge(**QUICK, growth=math.inf), order)


def test_labels_in_any_order_give_the_same_predictions_with_inducing_points(induced):
    model = KernelRidge(**QUICK, growth=math.inf)
    check_order(model, [29, 25, 27])
    assert isinstance(model.solution_.system, InducedSystem)


def test_the_check_on_the_order_catches_labels_that_come_too_late(monkeypatch):
    def late(self, nodes):
        return with_nodes(self, nodes) if len(nodes) % 2 == 0 else self

    with_nodes = ExactSystem.with_nodes
    model = KernelRidge(**QUICK, growth=math.inf).fit(blocks(labelled=5))
    monkeypatch.setattr(ExactSystem, "with_nodes", late)
    with pytest.raises((AssertionError, RuntimeError)):
        check_order(model, [25, 26])


def same_settings(model, labels):
    """A model with the settings of another one, solved for these labels from scratch."""
    fresh, solution = copy.copy(model), model.solution_
    fresh.adopt(RidgeSolution.solve(solution.choice, solution.inputs, labels, solution.num_classes))
    return fresh


@settings(max_examples=15)
@given(seed=st.integers(0, 999))
def test_labels_that_come_and_go_give_a_fresh_fit_with_the_same_settings(seed):
    data, draws = blocks(labelled=5), random(seed)
    model = KernelRidge(**QUICK, growth=math.inf).fit(data)
    for _ in range(4):
        unlabelled = (model.labels_ < 0).nonzero().squeeze(1)
        new = unlabelled[torch.randperm(len(unlabelled), generator=draws)[:3]]
        model.add_labels(new, torch.randint(CLASSES, (3,), generator=draws))
        model.change_labels(new[:1], (model.labels_[new[:1]] + 1) % CLASSES)
        model.remove_labels(new[1:2])
    # Random labels and a small ridge make large coefficients, which multiply the rounding of the kernel.
    fresh = same_settings(model, model.labels_)
    torch.testing.assert_close(model.predict_proba(), fresh.predict_proba(), atol=5e-4, rtol=0)


def test_settings_are_chosen_again_when_labels_have_multiplied():
    data = blocks(noise=1.0)
    nodes = torch.arange(12, 30)
    model = make().fit(data).add_labels(nodes, data.y[nodes])
    fresh = make().fit(unmasked(changed(data, train_mask=torch.arange(36) < 30)))
    assert model.kernels_ == fresh.kernels_
    assert (model.ridge_, model.inverse_temperature_, model.loss_) == (
        fresh.ridge_,
        fresh.inverse_temperature_,
        fresh.loss_,
    )
    torch.testing.assert_close(model.predict_proba(), fresh.predict_proba(), **CLOSE)
    kept = make(growth=math.inf).fit(data)
    before = kept.kernels_, kept.ridge_, kept.inverse_temperature_
    assert (kept.add_labels(nodes, data.y[nodes]).kernels_, kept.ridge_, kept.inverse_temperature_) == before


def test_a_choice_that_fails_changes_nothing(monkeypatch):
    data = blocks(noise=1.0)
    model = make(growth=1.01).fit(data)
    before = model.predict_proba().clone(), model.kernels_, model.labels_.clone()

    def fail(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(selection, "choose_settings", fail)
    new = (model.labels_ < 0).nonzero().squeeze(1)[:5]
    with pytest.raises(RuntimeError):
        model.add_labels(new, data.y[new])
    monkeypatch.undo()
    assert torch.equal(model.predict_proba(), before[0])
    assert torch.equal(model.labels_, before[2])
    assert model.kernels_ == before[1]
    assert model.add_labels(new, data.y[new]).predict_proba().isfinite().all()
    assert model.solution_.choice.num_labels == int((model.labels_ >= 0).sum())


# -- graphs -------------------------------------------------------------------------------------------------------


def lines(x, y, edges, **more):
    edge_index = torch.tensor([*edges, *((j, i) for i, j in edges)], dtype=torch.int64).reshape(-1, 2).t().contiguous()
    return Data(x=x, edge_index=edge_index, y=torch.tensor(y), num_nodes=len(y), **more)


X = torch.randn(8, 5, generator=random(1))
CHAIN = [(i, i + 1) for i in range(7)]
FEW = [0, -1, -1, -1, -1, -1, -1, 1]
GRAPHS = {
    "isolated nodes": blocks(lonely=3),
    "sparse x": blocks(sparse=True),
    "no x": changed(blocks(), x=None),
    "float64 x": changed(blocks(), x=blocks().x.double()),
    "weights": blocks(weighted=True),
    "float64 weights": changed(blocks(weighted=True), edge_weight=blocks(weighted=True).edge_weight.double()),
    "one label per class": blocks(labelled=1, validated=0),
    "a component without labels": lines(X, FEW, [(0, 1), (6, 7), (2, 3), (3, 4)]),
    "no edges": lines(X, FEW, []),
    "no edges and no x": lines(None, FEW, []),
    "one class": lines(X, [0, -1, -1, -1, -1, -1, -1, 0], CHAIN),
    "one label": lines(X, [0, *[-1] * 7], CHAIN),
    "constant x": lines(torch.ones(8, 3), FEW, CHAIN),
    "zero x": lines(torch.zeros(8, 3), FEW, CHAIN),
    "huge x": lines(1e18 * X, FEW, CHAIN),
    "tiny x": lines(1e-18 * X, FEW, CHAIN),
    "wide x": lines(torch.randn(8, 700, generator=random()), FEW, CHAIN),
    "all labelled": lines(X, [0, 1, 0, 1, 0, 1, 0, 1], CHAIN),
    "self-loops": lines(X, FEW, [*CHAIN, (2, 2)]),
    "one node": lines(X[:1], [0], []),
    "two nodes": lines(X[:2], [0, 1], [(0, 1)]),
    "equal nodes": lines(X[:1].repeat(8, 1), FEW, []),
}


# Where folds or confident predictions may be missing.
HARD = ("one label per class", "no edges and no x", "one class", "one label", "all labelled", "one node", "equal nodes")


@pytest.mark.parametrize(
    ("graph", "variant"),
    [*((graph, "default") for graph in GRAPHS), *((graph, "pseudo-labels") for graph in HARD)],
)
def test_every_graph_has_probabilities(graph, variant, tmp_path):
    model = make(variant).fit(GRAPHS[graph])
    probabilities = model.predict_proba()
    nodes = GRAPHS[graph].num_nodes
    assert probabilities.shape == (nodes, model.num_classes_)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(nodes))
    for values in (model.leave_one_out_proba(), model.variance()):
        assert bool(values.isfinite().all())
    assert set(model.suggest(2).tolist()) <= set((model.labels_ < 0).nonzero().squeeze(1).tolist())
    model.save(tmp_path / "model")
    torch.testing.assert_close(load_model(tmp_path / "model").predict_proba(), probabilities, **CLOSE)


@pytest.mark.parametrize("graph", ["isolated nodes", "sparse x", "no x", "float64 x", "weights", "one label per class"])
def test_blocks_are_told_apart_on_every_graph(graph):
    data = GRAPHS[graph]
    assert make().fit(data).score(data) > (0.5 if "one" in graph or "sparse" in graph or "isolated" in graph else 0.7)


def test_float64_features_give_the_predictions_of_float32():
    one, other = (make().fit(GRAPHS[graph]) for graph in ("float64 x", "float64 weights"))
    assert torch.equal(one.predict_proba(), make().fit(blocks()).predict_proba())
    torch.testing.assert_close(other.predict_proba(), make().fit(GRAPHS["weights"]).predict_proba(), **CLOSE)


def test_other_names_of_nodes_give_the_same_predictions():
    data, to = blocks(), torch.randperm(36, generator=random(2))
    one, other = make("given edge weights").fit(data), make("given edge weights").fit(permuted(data, to))
    torch.testing.assert_close(other.predict_proba()[to], one.predict_proba(), atol=1e-3, rtol=0)


def test_another_graph_is_refused():
    model = make("quick").fit(blocks())
    with pytest.raises(InputError, match="the graph that the model was fitted to") as caught:
        model.predict(blocks(seed=1))
    assert caught.value.argument == "data"
    assert torch.equal(model.predict(blocks()), model.predict())


# -- many nodes ---------------------------------------------------------------------------------------------------


def test_inducing_points_give_the_exact_solution_where_they_are_all_nodes(induced):
    model = make("no topology").fit(blocks())
    assert isinstance(model.solution_.system, InducedSystem)
    choice = replace(model.solution_.choice, exact=True)
    exact = RidgeSolution.solve(choice, model.solution_.inputs, model.labels_, CLASSES)
    assert isinstance(exact.system, ExactSystem)
    torch.testing.assert_close(model.predict_proba(), exact.probabilities, atol=1e-3, rtol=0)


def test_few_inducing_points_still_tell_classes_apart(induced):
    data = blocks(noise=0.3)
    model = make(inducing=14).fit(data)
    assert model.solution_.choice.inducing.shape == (14,)
    assert set((model.labels_ >= 0).nonzero().squeeze(1).tolist()) <= set(model.solution_.choice.inducing.tolist())
    assert model.score(data) > 0.8


# -- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "graph"),
    [
        ("default", "isolated nodes"),
        ("default", "no x"),
        ("default", "weights"),
        ("given edge weights", "weights"),
        ("no topology", "no x"),
        ("one kernel", "isolated nodes"),
        ("pseudo-labels", "weights"),
    ],
)
def test_a_loaded_model_predicts_and_learns_as_the_saved_one(variant, graph, tmp_path):
    check_files(make(variant), GRAPHS[graph], tmp_path)


@pytest.mark.parametrize("variant", ["default", "pseudo-labels"])
def test_a_loaded_model_keeps_its_inducing_points(variant, induced, tmp_path):
    # Labels that arrived after the inducing points were drawn must not draw them again.
    check_files(make(variant, inducing=13), blocks(), tmp_path)


def test_a_loaded_model_stays_exact_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(ridge, "MAX_EXACT_LABELS", 12)
    model = check_files(make("quick", inducing=13, growth=math.inf), blocks(), tmp_path)
    assert isinstance(model.solution_.system, ExactSystem)


def check_files(model, data, folder):
    model.fit(data).add_labels([20], [2])
    model.save(folder / "model")
    loaded = load_model(folder / "model")
    assert (loaded.kernels_, loaded.ridge_) == (model.kernels_, model.ridge_)
    torch.testing.assert_close(loaded.predict_proba(), model.predict_proba(), **CLOSE)
    loaded.save(folder / "again")
    again = load_model(folder / "again")
    assert torch.equal(again.predict_proba(), loaded.predict_proba())
    for one in (model, again):
        one.add_labels([13], [1])
    torch.testing.assert_close(again.predict_proba(), model.predict_proba(), **CLOSE)
    return again


# -- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"kernels": ()}, "kernels"),
        ({"kernels": (Linear(),)}, "kernels"),
        ({"far_kernels": (Hops(16),)}, "far_kernels"),
        ({"wide_kernels": (Hops(1),)}, "wide_kernels"),
        ({"topology_kernels": (Hops(1),)}, "topology_kernels"),
        ({"widths": ()}, "widths"),
        ({"widths": (0,)}, "widths"),
        ({"max_kernels": 0}, "max_kernels"),
        ({"inducing": 0}, "inducing"),
        ({"agreement": True}, "agreement"),
        ({"pseudo_labels": 0.5}, "pseudo_labels"),
        ({"growth": 1.0}, "growth"),
        ({"growth": math.nan}, "growth"),
    ],
)
def test_wrong_settings_are_refused(changes, argument):
    with pytest.raises(InputError) as caught:
        KernelRidge(**changes).fit(blocks())
    assert caught.value.argument == argument


def test_the_chosen_settings_are_among_the_given_ones():
    data = blocks(noise=1.0)
    model = make(max_kernels=2, widths=(3, 5), agreement=EdgeAgreement(1)).fit(data)
    assert 1 <= len(model.kernels_) <= 2
    assert {graph.x.shape[1] for name, graph in model.solution_.system.kernel.graphs.items() if name != "topology"} == {
        3,
        5,
    }
    assert model.loss_ < math.log(CLASSES)
    assert model.history_ == {}


def test_digits_are_told_apart_from_five_labels_a_class():
    data = load("digits")
    assert make().fit(data).score(data) > 0.94
