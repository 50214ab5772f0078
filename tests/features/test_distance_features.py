"""What GGD and LGGD share: features and their names, transforms, labels, other data, and errors."""

import copy
import math

import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch_geometric.transforms import Compose

from lggd import GGD, LGGD
from lggd.errors import InputError, InputTypeError
from lggd.scales import MaxScale, SoftmaxScale, Standardize, Unscaled
from lggd.solvers.cauchy import INITIAL_VALUE
from support.small_data import CLASSES, Perceptron, blocks, changed, garbled, permuted, random, same, snapshot, unmasked
from support.small_features import FEATURES, every_features, make
from support.small_models import TIMES, learned

# -- Features ----------------------------------------------------------------------------------------------------------


@every_features
def test_features_are_finite_float32_and_named(name, data, fitted):
    model = fitted(name)
    features = model.features(data)
    assert features.shape == (data.num_nodes, len(TIMES) * CLASSES + model.reachable)
    assert features.dtype == torch.float32
    assert torch.isfinite(features).all()
    assert not features.requires_grad
    expected = [f"class {k}, t={t:g}" for t in TIMES for k in range(CLASSES)]
    assert model.feature_names_ == expected + ["reachable"] * model.reachable


@every_features
def test_each_column_is_what_its_name_says(name, data, fitted):
    model = fitted(name)
    distance = model.distances(data)
    assert distance.shape == (data.num_nodes, len(TIMES), CLASSES)
    torch.testing.assert_close(model.nearness(data), torch.softmax(-distance, 2))
    model.scale, model.cross_fit = Unscaled(), 0
    features = model.features(data)
    for column, column_name in enumerate(model.feature_names_[: len(TIMES) * CLASSES]):
        k, t = column_name.removeprefix("class ").split(", t=")
        assert torch.equal(features[:, column], distance[:, TIMES.index(float(t)), int(k)])


@every_features
def test_distances_are_exactly_0_on_the_boundary_at_all_times(name, data, fitted):
    distance, labels = fitted(name).distances(data), fitted(name).labels_
    labelled = (labels >= 0).nonzero().squeeze(1)
    assert len(labelled) == 12
    assert bool((distance[labelled, :, labels[labelled]] == 0).all())
    others = torch.ones_like(distance, dtype=torch.bool)
    others[labelled, :, labels[labelled]] = False
    assert bool((distance[others] > 0).all())


@every_features
def test_the_nearest_class_is_predicted(name, data, fitted):
    model = fitted(name)
    mean = model.distances(data).mean(1)
    near = torch.exp(mean.amin(1, keepdim=True) - mean)
    torch.testing.assert_close(model.predict_proba(), near / near.sum(1, keepdim=True))
    assert torch.equal(model.predict()[data.train_mask], data.y[data.train_mask])


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned potential", "learned weights", "module"])
def test_edge_weights_have_an_effect(name, data):
    weighted = blocks(weighted=True)
    assert torch.equal(weighted.edge_index, data.edge_index)
    assert not torch.equal(make(name).fit(weighted).features(weighted), make(name).fit(data).features(data))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        GGD(TIMES, cross_fit=0),
        GGD(TIMES, cross_fit=0, p=2.0, initial_value=5.0),
        make("LGGD", initial__hidden=(8,), initial__dropout=0.0),
        make("learned potential", initial__dropout=0.0),
        make("paper", initial__hidden=(8,), initial__dropout=0.0),
        make("module", initial=Perceptron(dropout=0.0)),
    ],
    ids=["GGD", "GGD, p=2", "LGGD", "learned potential", "all times", "module"],
)
def test_permuting_nodes_permutes_features(model, weighted):
    data = blocks(weighted=weighted, lonely=1)
    to = torch.randperm(data.num_nodes, generator=random(8))
    features = copy.copy(model).fit(data).features(data)
    moved_data = permuted(data, to)
    moved = copy.copy(model).fit(moved_data).features(moved_data)
    torch.testing.assert_close(moved[to], features, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(moved, features, rtol=1e-3, atol=1e-4)


# -- Fitting -----------------------------------------------------------------------------------------------------------


@every_features
def test_the_same_seed_gives_the_same_bits_whatever_the_global_random_numbers(name, data, fitted):
    with torch.random.fork_rng([]):
        torch.manual_seed(1234)
        before = torch.get_rng_state()
        again = make(name).fit(data)
        assert torch.equal(torch.get_rng_state(), before)
    assert same(learned(again), learned(fitted(name)))
    other = make(name, seed=1).fit(data).features(data)
    random_features = isinstance(FEATURES[name], LGGD) or FEATURES[name].cross_fit > 0
    assert torch.equal(other, fitted(name).features(data)) != random_features


@every_features
def test_hidden_labels_are_unreachable(name, data, fitted):
    other = make(name).fit(garbled(data))
    assert torch.equal(other.features(garbled(data)), fitted(name).features(data))
    assert torch.equal(fitted(name).features(garbled(data, seed=9)), fitted(name).features(data))


@every_features
def test_a_refit_forgets_and_transforming_changes_nothing(name, data, fitted):
    model = make(name).fit(blocks(each=9, seed=3)).add_labels([26], [2]).fit(data)
    assert torch.equal(model.features(data), fitted(name).features(data))
    state, before = learned(model), snapshot(data)
    model.transform(data)
    assert same(state, learned(model))
    assert same(before, snapshot(data))


@every_features
def test_a_fitted_model_can_be_copied_whole(name, data, fitted):
    model = fitted(name)
    other = copy.deepcopy(model)
    assert torch.equal(other.features(data), model.features(data))
    other.add_labels([data.num_nodes - 1], [0])
    assert int(model.labels_[-1]) == -1


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned weights", "concat"])
def test_a_model_fitted_to_sparse_node_features_can_be_copied(name):
    data = blocks(sparse=True)
    model = make(name).fit(data)
    assert torch.equal(copy.deepcopy(model).features(data), model.features(data))


# -- Transforms --------------------------------------------------------------------------------------------------------


@every_features
def test_transform_replaces_x_or_appends_to_it(name, data, fitted):
    model = fitted(name)
    x = model.transform(data).x
    assert torch.equal(x, model.inputs(data))
    if model.concat:
        assert torch.equal(x[:, : data.x.shape[1]], data.x)
        x = x[:, data.x.shape[1] :]
    assert torch.equal(x, model.features(data))
    assert torch.equal(make(name).fit_transform(data).x, model.transform(data).x)


@every_features
def test_attr_name_is_where_the_features_go(name, data, fitted):
    model = fitted(name)
    model.attr_name = "distances"
    transformed = model.transform(data)
    assert torch.equal(transformed.distances, model.features(data))
    assert transformed.x is data.x
    assert "distances" not in data


@every_features
def test_it_is_a_transform_of_pyg(name, data, fitted):
    model = fitted(name)
    composed = Compose([model, lambda d: changed(d, seen=torch.tensor(1))])(data)
    assert torch.equal(composed.x, model.transform(data).x)
    assert int(composed.seen) == 1


@every_features
def test_unfitted_use_is_refused(name, data):
    model = make(name)
    for use in (model.transform, model.features, model.inputs, model.distances, model.nearness):
        with pytest.raises(NotFittedError, match="fit"):
            use(data)


# -- Labels ------------------------------------------------------------------------------------------------------------


@every_features
def test_adding_labels_is_solving_with_the_larger_boundary(name, data, fitted):
    nodes, labels = [30, 31, 34], [0, 1, 1]
    larger, model = fitted(name), fitted(name)
    larger.labels_ = larger.labels_.clone()
    larger.labels_[nodes] = torch.tensor(labels)
    assert model.add_labels(nodes, labels) is model
    assert torch.equal(model.features(data), larger.features(data))
    assert not torch.equal(model.features(data), fitted(name).features(data))
    assert torch.equal(model.labels_, larger.labels_)
    assert same(learned(model), learned(fitted(name)))


@pytest.mark.parametrize("name", ["GGD", "LGGD"])
def test_adding_labels_one_by_one_is_adding_them_at_once(name, data, fitted):
    at_once = fitted(name).add_labels([30, 31], [0, 1])
    one_by_one = fitted(name).add_labels([31], [1]).add_labels(torch.tensor([30]), [0]).add_labels([31], [1])
    assert torch.equal(at_once.features(data), one_by_one.features(data))


@pytest.mark.parametrize("scale", [MaxScale(), Standardize(), SoftmaxScale(None)], ids=repr)
def test_features_keep_the_scale_they_were_fitted_with(scale, data):
    model = GGD(TIMES, scale=scale, cross_fit=0, reachable=False, initial_value=20.0).fit(data)
    fitted_to = scale.fit(model.distances(data))
    model.add_labels(data.val_mask, data.y[data.val_mask])
    expected = scale.apply(model.distances(data), fitted_to).flatten(1)
    assert torch.equal(model.features(data), expected)
    anew = scale.apply(model.distances(data), scale.fit(model.distances(data))).flatten(1)
    assert not torch.equal(model.features(data), anew)


# -- Unreachable nodes -------------------------------------------------------------------------------------------------


@every_features
def test_unreachable_nodes_have_finite_features(name):
    data = blocks(lonely=2)
    assert torch.isfinite(make(name).fit(data).features(data)).all()


@pytest.mark.parametrize("name", ["GGD", "LGGD", "five folds, all times", "learned weights"])
def test_the_reachable_column_tells_who_shares_a_component_with_a_label(name):
    data = blocks(lonely=2)
    model = make(name).fit(data)
    assert model.feature_names_[-1] == "reachable"
    assert model.features(data)[:, -1].tolist() == [1.0] * 30 + [0.0] * 6
    own = 0 if model.cross_fit else 1  # a labelled node does not see its own label where folds are used
    assert model.add_labels([34], [0]).features(data)[-6:, -1].tolist() == [0, 0, 0, 0, own, 1]


def test_a_cap_bounds_distances():
    data = blocks(lonely=2)
    assert float(GGD(TIMES).fit(data).distances(data).max()) == INITIAL_VALUE
    assert float(GGD(TIMES, cap=math.inf).fit(data).distances(data).max()) == INITIAL_VALUE + 2
    capped = GGD(TIMES, cap=50.0, scale=Unscaled()).fit(data)
    assert float(capped.distances(data).max()) == float(capped.features(data).max()) == 50
    low = make("LGGD", cap=0.25, scale=Unscaled()).fit(data)
    assert float(low.distances(data).max()) == float(low.features(data)[:, :-1].max()) == 0.25


def test_a_graph_without_edges_is_fine():
    data = changed(blocks(), edge_index=torch.zeros(2, 0, dtype=torch.int64))
    for name in ("GGD", "LGGD", "learned weights", "learned potential"):
        assert torch.isfinite(make(name).fit(data).features(data)).all()


@pytest.mark.parametrize("scale", [Unscaled(), MaxScale(), Standardize(), SoftmaxScale(), SoftmaxScale(None)], ids=repr)
@pytest.mark.parametrize("cross_fit", [0, 2])
def test_every_scale_gives_finite_features_of_a_single_class(scale, cross_fit):
    data = unmasked(blocks(lonely=1))
    data.y = data.y.clamp(max=0)
    for model in (GGD(TIMES, scale=scale, cross_fit=cross_fit), make("LGGD", scale=scale, cross_fit=cross_fit)):
        features = model.fit(data).features(data)
        assert features.shape == (data.num_nodes, 3)
        assert torch.isfinite(features).all()


# -- Errors ------------------------------------------------------------------------------------------------------------


@every_features
def test_data_without_labels_are_refused(name, data):
    with pytest.raises(InputTypeError, match=r"`data.y`"):
        make(name).fit(changed(data, y=None))
    with pytest.raises(InputError, match=r"`data.y`"):
        make(name).fit(changed(data, y=torch.full_like(data.y, -1)))


@pytest.mark.parametrize("name", ["LGGD", "paper", "concat", "GGD, concat", "module"])
def test_data_without_node_features_are_refused_where_they_are_needed(name, data):
    without = changed(data, x=None)
    with pytest.raises(InputTypeError, match=r"`data.x`"):
        make(name).fit(without).transform(without)


@pytest.mark.parametrize("name", ["GGD", "LGGD"])
def test_directed_edges_are_refused_with_a_remedy(name, data):
    one_way = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    with pytest.raises(InputError, match=r"`data.edge_index`.*ToUndirected"):
        make(name).fit(changed(data, edge_index=one_way))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"edge_weight": 5.0},
            r"`data.edge_weight` must lie in \(0, 1\], got 5 on .* Divide all weights by the largest\.$",
        ),
        ({"edge_attr": 0.0}, r"`data.edge_attr` must be positive and finite, got 0 on"),
    ],
)
def test_weights_are_refused_by_their_name_in_the_data(wrong, message, data):
    weights = {name: torch.full((data.num_edges,), value) for name, value in wrong.items()}
    with pytest.raises(InputError, match=message):
        make("GGD").fit(changed(data, **weights))


@every_features
def test_another_number_of_nodes_is_refused(name, fitted):
    with pytest.raises(InputError, match=r"`data` must have the 36 nodes.*27"):
        fitted(name).transform(blocks(each=9))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"cross_fit": 1}, InputError),
        ({"cross_fit": -1}, InputError),
        ({"cross_fit": True}, InputError),
        ({"cross_fit": 2.5}, InputError),
        ({"cap": 0.0}, InputError),
        ({"cap": math.nan}, InputError),
        ({"cap": "far"}, InputTypeError),
        ({"p": 0.5}, InputError),
        ({"times": (2, 1)}, InputError),
        ({"times": (0, 1)}, InputError),
        ({"times": ()}, InputError),
        ({"times": (1, 1)}, InputError),
        ({"times": (1, math.inf)}, InputError),
        ({"scale": "max"}, InputTypeError),
        ({"scheme": "rk4"}, InputTypeError),
        ({"seed": -1}, InputError),
        ({"seed": 1.5}, InputError),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["GGD", "LGGD"])
def test_wrong_settings_are_refused_by_name(name, wrong, error, data):
    (setting,) = wrong
    with pytest.raises(error, match=f"`{setting}`"):
        make(name, **wrong).fit(data)
