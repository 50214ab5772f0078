"""LGGD: what is trained, on which data, with which settings."""

import math

import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import nn

from lggd import LGGD, MLP, RK4, DegreePotential, LearnedEdgeWeights, Optimization, PropagatedMLP
from lggd.errors import InputError, InputTypeError
from lggd.scales import MaxScale, SoftmaxScale
from support.small_data import Perceptron, blocks, changed, random, same, unmasked
from support.small_features import FEATURES, make

# -- Settings ----------------------------------------------------------------------------------------------------------

AUTHORS = {
    "initial": MLP(hidden=(512, 128), dropout=0.5, activation="relu", normalize=False, zeros=0),
    "scale": MaxScale(),
    "reachable": False,
    "cap": math.inf,
    "scheme": RK4(step=0.1, force=True),
    "optimization": Optimization(lr=0.01, weight_decay=0.005, epochs=150, patience=None),
}
PRESETS = {
    "default": {
        "potential": DegreePotential(-1.0),
        "initial": PropagatedMLP(hidden=(128,), dropout=0.5, hops=2, activation="relu", normalize=True, zeros=0),
        "per_time": True,
        "scale": SoftmaxScale(temperature=1.0),
        "reachable": True,
        "cap": 1e6,
        "scheme": RK4(step=None, force=False),
        "optimization": Optimization(lr=0.01, weight_decay=0.002, epochs=150, patience=None),
    },
    "paper": {**AUTHORS, "potential": DegreePotential(-0.5), "per_time": False},
    "release": {**AUTHORS, "potential": LearnedEdgeWeights(DegreePotential(-0.5)), "per_time": True},
}
CONSTRUCTORS = {"default": LGGD, "paper": LGGD.paper, "release": LGGD.release}
every_preset = pytest.mark.parametrize("preset", PRESETS)


@every_preset
def test_the_settings_of_the_paper_and_of_the_authors_code(preset):
    shared = {"times": (1.0, 2.0, 3.0, 4.0, 5.0), "p": 1.0, "cross_fit": 0, "concat": False, "attr_name": None}
    expected = {**shared, "validation": 0.2, "seed": 0, **PRESETS[preset]}
    assert CONSTRUCTORS[preset]().get_params(deep=False) == expected


@every_preset
@pytest.mark.parametrize(
    "change",
    [{"times": (0.5,)}, {"p": 2.0}, {"cross_fit": 5}, {"reachable": True}, {"cap": 3.0}, {"potential": None}],
    ids=str,
)
def test_settings_that_are_passed_replace_those_of_the_paper(preset, change):
    changed_model, model = CONSTRUCTORS[preset](**change), CONSTRUCTORS[preset]()
    assert changed_model.get_params(deep=False) == {**model.get_params(deep=False), **change}


def test_only_settings_other_than_the_defaults_are_shown():
    assert repr(LGGD()) == "LGGD()"
    assert repr(LGGD(times=(1, 2), per_time=False)) == "LGGD(times=(1, 2), per_time=False)"
    assert repr(LGGD(potential=torch.ones(2))) == "LGGD(potential=tensor([1., 1.]))"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"validation": 1.0}, InputError),
        ({"validation": -0.1}, InputError),
        ({"initial": "mlp"}, InputTypeError),
        ({"optimization": 100}, InputTypeError),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_by_name(wrong, error, data):
    (setting,) = wrong
    with pytest.raises(error, match=f"`{setting}`"):
        make("LGGD", **wrong).fit(data)


# -- Training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_time", [True, False])
def test_every_epoch_is_reported_and_kept_in_the_history(per_time, data):
    reports = []
    model = make("LGGD", per_time=per_time).fit(data, callback=reports.append)
    assert [(one.stage, one.done, one.total) for one in reports] == [("distances", e, 4) for e in range(1, 5)]
    names = ["t=1", "t=2"] if per_time else ["all times"]
    history = model.history_["distances"]
    assert set(history) == {f"{metric} {name}" for metric in ("train_loss", "validation_loss") for name in names}
    assert {name: [one.metrics[name] for one in reports] for name in history} == history


def test_training_lowers_the_loss(data):
    model = make("LGGD", optimization=Optimization(epochs=60, patience=None, weight_decay=0.0)).fit(data)
    for name, losses in model.history_["distances"].items():
        assert losses[-1] < 0.8 * losses[0], name


def test_labels_held_out_join_the_boundary_after_training():
    data = unmasked(blocks(each=20, labelled=20, validated=0))
    for validation, name in ((0.2, True), (0.0, False)):
        model = make("LGGD", validation=validation).fit(data)
        assert torch.equal(model.labels_, data.y)
        assert ("validation_loss t=1" in model.history_["distances"]) == name


@pytest.mark.parametrize("validation", [1.0, -0.1, "0.2", math.nan])
def test_a_validation_that_is_no_fraction_is_refused(validation, data):
    with pytest.raises(InputError, match=r"`validation` must lie in \[0, 1\)"):
        make("LGGD", validation=validation).fit(data)


def test_given_validation_labels_never_join_the_boundary(data, fitted):
    for name in FEATURES:
        assert torch.equal(fitted(name).labels_, torch.where(data.train_mask, data.y, -1))


def test_an_unfitted_lggd_is_no_transform(data):
    with pytest.raises(NotFittedError):
        make("LGGD")(data)


# -- Other data of the same nodes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned potential", "module"])
def test_other_edges_are_seen_and_then_forgotten(name, data, fitted):
    model, before = fitted(name), fitted(name).features(data)
    fewer = changed(data, edge_index=data.edge_index[:, (data.edge_index != 20).all(0)])
    without = model.features(fewer)
    assert not torch.equal(without, before)
    assert torch.equal(model.features(data), before)
    assert torch.equal(model.features(changed(data, edge_index=fewer.edge_index.clone())), without)


@pytest.mark.parametrize("name", ["LGGD", "module"])
def test_node_features_changed_in_place_are_seen(name):
    data = blocks()
    model = make(name).fit(data)
    before = model.features(data)
    data.x[0] += 1
    assert not torch.equal(model.features(data), before)
    data.x[0] -= 1
    torch.testing.assert_close(model.features(data), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned weights"])
def test_edge_weights_changed_in_place_are_seen(name):
    data = blocks(weighted=True)
    model = make(name).fit(data)
    before = model.features(data)
    data.edge_weight.fill_(0.5)
    assert not torch.equal(model.features(data), before)


def test_learned_weights_belong_to_their_edges(data, fitted):
    fewer = changed(data, edge_index=data.edge_index[:, (data.edge_index != 20).all(0)])
    with pytest.raises(InputError, match=r"`data`.*edges"):
        fitted("learned weights").transform(fewer)


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned weights"])
def test_the_order_of_the_edges_does_not_matter(name, data, fitted):
    order = torch.randperm(data.edge_index.shape[1], generator=random(2))
    shuffled = changed(data, edge_index=data.edge_index[:, order])
    torch.testing.assert_close(fitted(name).features(shuffled), fitted(name).features(data))


@pytest.mark.parametrize("name", ["GGD", "LGGD"])
def test_inference_tensors_are_fine(name, data, fitted):
    with torch.inference_mode():
        made = changed(data, x=data.x.clone(), edge_index=data.edge_index.clone())
    assert torch.equal(fitted(name).features(made), fitted(name).features(data))


# -- Node features -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["LGGD", "two folds", "concat"])
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_node_features_give_the_features_of_dense_ones(name, layout):
    data = blocks(sparse=True)
    data.x = data.x.to_sparse(layout=layout)
    dense = changed(data, x=data.x.to_dense())
    one, other = make(name).fit(data).transform(data).x, make(name).fit(dense).transform(dense).x
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_sparse_node_features_are_never_made_dense(monkeypatch):
    data = blocks(sparse=True)

    def refuse(*_, **__):
        raise MemoryError

    monkeypatch.setattr(torch.Tensor, "to_dense", refuse)
    for initial in (MLP((8,), normalize=True, zeros=2), PropagatedMLP((8,))):
        make("LGGD", initial=initial).fit(data).transform(data)
    with pytest.raises(MemoryError):
        make("LGGD", concat=True).fit(data).transform(data)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["LGGD", "module"])
def test_node_features_must_be_finite(name, bad, sparse, data):
    x = data.x.clone()
    x[3, 1] = bad
    with pytest.raises(InputError, match=r"`data.x`.*finite"):
        make(name).fit(changed(data, x=x.to_sparse_coo() if sparse else x))


@pytest.mark.parametrize("shape", [(36,), (35, 6), (36, 0), (36, 2, 3)])
def test_node_features_of_another_shape_are_refused(shape, data):
    with pytest.raises(InputError, match=r"`data.x`"):
        make("LGGD").fit(changed(data, x=torch.ones(shape)))


@pytest.mark.parametrize("width", [5, 7])
def test_another_number_of_node_features_is_refused(width, data, fitted):
    with pytest.raises(InputError, match=r"`data.x`"):
        fitted("LGGD").transform(changed(data, x=torch.ones(36, width)))


# -- Modules of the user's ---------------------------------------------------------------------------------------------


def test_a_module_of_the_users_is_never_changed(data):
    module = Perceptron()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    training, required = module.training, [one.requires_grad for one in module.parameters()]
    make("module", initial=module).fit(data).transform(data)
    assert same(before, module.state_dict())
    assert (module.training, [one.requires_grad for one in module.parameters()]) == (training, required)
    assert all(one.grad is None for one in module.parameters())


@pytest.mark.parametrize("classes", [2, 4])
def test_a_module_of_the_wrong_width_is_refused(classes, data):
    with pytest.raises(InputError, match=f"`initial`.*3 classes.*{classes}"):
        make("module", initial=nn.Linear(6, classes)).fit(data)


def test_a_module_must_return_one_row_per_node(data):
    class Sums(nn.Linear):
        def forward(self, x):
            return super().forward(x).sum(0)

    with pytest.raises(InputError, match=r"`initial`.*\[3\]"):
        make("module", initial=Sums(6, 3)).fit(data)
