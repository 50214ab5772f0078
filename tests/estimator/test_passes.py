"""How models are grouped into passes, what the callback reports, and errors that name the model."""

from dataclasses import replace

import pytest
import torch

from lggd import (
    GCN,
    GGD,
    LGGD,
    RK4,
    DegreePotential,
    Graph,
    LearnedPotential,
    LGGDClassifier,
    Optimization,
    estimate_memory,
    fit_together,
)
from lggd._system.memory import equal
from lggd.errors import InputError, InputTypeError
from lggd.estimator import passes
from lggd.estimator.inputs import same_inputs
from lggd.estimator.passes import curves_of, first_equal, in_passes
from lggd.features.training_memory import USABLE, fitting_problems
from reproduction.baselines import MixUp
from support.batches import CLASSIFIERS, DATA, DIVIDED, FEATURES, FEW, SOME, learned, stages
from support.small_data import CLASSES, Averages, blocks, changed, splits
from support.small_models import TIMES, WIDTH, is_fitted, plus, stop_at

# -- Groups ------------------------------------------------------------------------------------------------------------


def test_requests_with_equal_keys_share_a_pass_up_to_a_limit(monkeypatch):
    assert in_passes([("a",)] * 7 + [("b",)] * 2, [5] * 9) == [[*range(7)], [7, 8]]
    monkeypatch.setattr(passes, "MOST_PROBLEMS", 10)
    assert in_passes([("a",), ("b",)] * 3 + [("a",)] * 2, [4] * 8) == [[0], [1], [2, 4], [3, 5], [6, 7]]
    assert in_passes([("a",)] * 3, [11] * 3) == [[0], [1], [2]]
    assert in_passes([], []) == []


def test_passes_are_as_large_as_memory_allows(monkeypatch):
    assert in_passes([("a",)] * 4, [2] * 4, lambda place: 5) == [[0, 1], [2, 3]]
    assert in_passes([("a",)] * 3, [2] * 3, lambda place: 1) == [[0], [1], [2]]
    assert in_passes([("a",), ("b",)], [2, 2], lambda place: 1 / 0) == [[0], [1]]  # one model is one pass anyway
    data, few = DATA[0], Optimization(epochs=2, patience=None)
    models = [LGGD(times=TIMES, optimization=few, seed=seed) for seed in range(4)]
    needed = estimate_memory(data, models[0], models=2).total / USABLE + 1
    monkeypatch.setattr("lggd._system.memory.free_memory", lambda device: needed)
    assert stages(models, data) == ["distances 1/2", "distances 2/2"]
    monkeypatch.setattr("lggd._system.memory.free_memory", lambda device: None)
    assert fitting_problems(data, Graph.from_pyg(data), models[0], CLASSES) > 10**9


def test_the_first_equal_value_is_found():
    assert first_equal([3, 1, 3, 2, 1], lambda one, other: one == other) == [0, 1, 0, 3, 1]
    assert first_equal([], equal) == []


def test_keys_are_compared_by_their_entries():
    assert equal((1, torch.ones(2), GCN()), (1, torch.ones(2), GCN()))
    assert not equal((1, torch.ones(2)), (1, torch.zeros(2)))
    assert not equal(torch.ones(2), torch.ones(2, dtype=torch.float64))
    assert not equal((1, 2), (1,))
    assert not equal(1, 1.0)
    assert equal(LearnedPotential(torch.ones(3)), LearnedPotential(torch.ones(3)))
    assert not equal(GGD, LGGD)
    assert equal(GGD, GGD)
    assert same_inputs(blocks(sparse=True), blocks(sparse=True))
    assert not same_inputs(blocks(), blocks(weighted=True))
    assert not same_inputs(blocks(), blocks(seed=1))


def test_curves_of_models_are_told_apart():
    history = {"a models[1] t=1": [1.0], "a models[11] t=1": [2.0], "b models[1]": [3.0], "b": [4.0]}
    assert curves_of(history, "models[1]") == {"a t=1": [1.0], "b": [3.0]}
    assert curves_of(history, "models[11]") == {"a t=1": [2.0]}
    assert curves_of(history, "") == history
    members = {"a member-1 t=1": [1.0], "a member-11 t=1": [2.0], "b member-1": [3.0], "b member-1-member-1": [4.0]}
    assert curves_of(members, "member-1") == {"a t=1": [1.0], "b": [3.0]}


@pytest.mark.parametrize("name", [name for name in FEATURES if name != "GGD"])
def test_features_that_can_share_a_pass_do(name):
    assert stages(FEATURES[name](), DATA) == ["distances"]


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if "alone" not in name])
def test_classifiers_that_can_share_a_pass_do(name):
    models = CLASSIFIERS[name]()
    trained = isinstance(models[0].features, LGGD)
    assert stages(models, DATA) == ["distances"] * trained + ["backbone"] * (models[0].backbone is not None)


def numbered(stage, count):
    """The names of the passes of a stage: "distances", or "distances 1/2" and "distances 2/2"."""
    return [stage] if count == 1 else [f"{stage} {k + 1}/{count}" for k in range(count)]


@pytest.mark.parametrize("name", DIVIDED)
def test_models_that_cannot_share_a_pass_are_divided(name):
    make, distances, backbones = DIVIDED[name]
    assert stages(make(), DATA) == numbered("distances", distances) + numbered("backbone", backbones)


def test_equal_data_share_a_pass_and_a_graph_though_they_are_different_objects():
    data = [changed(one, edge_index=one.edge_index.clone(), x=one.x.clone()) for one in DATA]
    models = [learned(seed=s) for s in range(3)]
    assert stages(models, data) == ["distances"]
    assert models[0]._problems.flow.graph is models[2]._problems.flow.graph
    sparse = [changed(one, x=one.x.clone()) for one in splits(2, sparse=True)]
    assert stages([learned(), learned()], sparse) == ["distances"]


def test_potentials_that_are_the_same_function_share_a_pass_and_others_do_not():
    class Halves:
        def __call__(self, graph):
            return torch.full((graph.num_nodes,), 0.5)

    one = Halves()
    assert stages([learned(potential=one), learned(potential=one)], DATA[0]) == ["distances"]
    assert len(stages([learned(potential=Halves()), learned(potential=Halves())], DATA[0])) == 2
    equal_ones = [LearnedPotential(DegreePotential(-0.5)) for _ in range(2)]
    assert stages([learned(potential=one) for one in equal_ones], DATA[0]) == ["distances"]


# -- Progress ----------------------------------------------------------------------------------------------------------


def test_the_callback_is_told_of_every_model_until_it_ends():
    reports = []
    models = fit_together(FEATURES["epochs and patience"](), DATA, callback=reports.append)
    assert {report.stage for report in reports} == {"distances"}
    assert [report.done for report in reports] == list(range(1, len(reports) + 1))
    assert {report.epochs for report in reports} == {20}
    for k, model in enumerate(models):
        for name, curve in model.history_["distances"].items():
            metric, problem = name.split(" ", 1)
            values = [report.metrics.get(f"{metric} models[{k}] {problem}") for report in reports]
            assert values == curve + [None] * (len(reports) - len(curve))
    assert len(models[1].history_["distances"]["train_loss t=1"]) == 7


def test_stages_come_in_the_same_order_for_all_kinds_of_models():
    models = [plus(), LGGDClassifier(learned(), GCN(8), SOME), MixUp(optimization=FEW), GGD(TIMES), learned()]
    expected = ["distances", "self-training 1 distances", "training", "backbone 1/2", "backbone 2/2"]
    assert stages(models, DATA[0]) == expected
    assert all(map(is_fitted, models))


# -- Errors ------------------------------------------------------------------------------------------------------------

BAD_DATA = {
    "no labels": lambda d: changed(d, y=None),
    "no training nodes": lambda d: changed(d, train_mask=torch.zeros_like(d.train_mask)),
    "one-way edges": lambda d: changed(d, edge_index=d.edge_index[:, d.edge_index[0] < d.edge_index[1]]),
    "no node features": lambda d: changed(d, x=None),
    "NaN": lambda d: changed(d, x=d.x * torch.nan),
    "no data": lambda d: 3,
}


@pytest.mark.parametrize("kind", BAD_DATA)
@pytest.mark.parametrize("classifier", [False, True])
def test_an_error_names_the_model_whose_data_are_wrong_and_none_is_fitted(kind, classifier):
    models = [LGGDClassifier(learned(), GCN(8), SOME) if classifier else learned() for _ in range(3)]
    with pytest.raises(InputError, match=r"^models\[1\]: `data"):
        fit_together(models, [DATA[0], BAD_DATA[kind](DATA[1]), DATA[2]])
    assert not any(map(is_fitted, models))


@pytest.mark.parametrize(
    "wrong",
    [
        {"times": (2, 1)}, {"p": 0.5}, {"cross_fit": 1}, {"seed": -1}, {"initial": "mlp"}, {"scale": "max"},
        {"potential": torch.ones(3)}, {"initial": Averages(4)}, {"scheme": RK4(step=50.0)},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("classifier", [False, True])
def test_an_error_names_the_model_whose_settings_are_wrong_and_none_is_fitted(wrong, classifier):
    features = [learned(), learned(), learned(**wrong)]
    models = [LGGDClassifier(one, GCN(8), SOME) for one in features] if classifier else features
    (setting,) = wrong
    argument = "step" if setting == "scheme" else setting
    with pytest.raises(InputError, match=rf"^models\[2\]: `{argument}`") as refused:
        fit_together(models, DATA)
    assert refused.value.argument == argument
    assert not any(map(is_fitted, models))


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        (LGGDClassifier(None, None), "backbone"),
        (LGGDClassifier("LGGD"), "features"),
        (LGGDClassifier(learned(), "GCN"), "backbone"),
        (LGGDClassifier(GGD(times=(2, 1)), None), "times"),
    ],
)
def test_an_error_names_the_classifier_whose_parts_are_wrong(wrong, argument):
    models = [LGGDClassifier(GGD(TIMES), None), wrong]
    with pytest.raises(InputError, match=rf"^models\[1\]: `{argument}`"):
        fit_together(models, DATA[0])
    assert not any(map(is_fitted, models))


class FailsInTraining(Averages):
    def forward(self, x, edge_index):
        if self.training:
            raise RuntimeError("out of luck")
        return super().forward(x, edge_index)


def test_a_backbone_of_the_users_with_another_width_names_the_model():
    models = [LGGDClassifier(GGD(TIMES), None), LGGDClassifier(learned(), Averages(WIDTH + 1), SOME)]
    with pytest.raises(InputError, match=rf"^models\[1\]: `backbone` must accept node features of width {WIDTH}"):
        fit_together(models, DATA[0])
    assert not any(map(is_fitted, models))


def test_an_error_inside_a_backbone_of_the_users_names_the_model():
    models = [LGGDClassifier(GGD(TIMES), None), LGGDClassifier(learned(), FailsInTraining(WIDTH), SOME)]
    with pytest.raises(RuntimeError, match="out of luck") as caught:
        fit_together(models, DATA[0])
    assert caught.value.__notes__ == ["This happened in models[1]."]
    assert not any(map(is_fitted, models))


def test_a_failed_fit_leaves_models_unfitted_that_were_fitted_before():
    models = fit_together([learned(seed=s) for s in range(2)], DATA[0])
    with pytest.raises(InputError, match=r"models\[1\]: `data"):
        fit_together(models, [DATA[1], changed(DATA[0], train_mask=torch.zeros_like(DATA[0].train_mask))])
    assert not any(map(is_fitted, models))


def test_a_loss_that_is_not_finite_names_the_model():
    models = [learned(), learned(optimization=replace(FEW, lr=1e30)), learned()]
    with pytest.raises(FloatingPointError, match=r"models\[1\] t=1.*`lr`"):
        fit_together(models, DATA)
    assert not any(map(is_fitted, models))


@pytest.mark.parametrize(
    ("make", "stage"),
    [
        (FEATURES["seeds"], "distances"),
        (DIVIDED["p"][0], "distances 2/2"),
        (CLASSIFIERS["GCN"], "distances"),
        (CLASSIFIERS["GCN"], "backbone"),
        (DIVIDED["backbones"][0], "backbone 2/2"),
        (lambda: [plus(), GGD(TIMES), plus(seed=1)], "self-training 1 distances"),
        (lambda: [MixUp(optimization=FEW, seed=s) for s in range(3)], "training"),
    ],
)
def test_interrupted_models_are_unfitted(make, stage):
    models = fit_together(make(), DATA)
    with pytest.raises(KeyboardInterrupt):
        fit_together(models, DATA, callback=stop_at(stage, 2))
    assert not any(map(is_fitted, models))


def test_models_must_be_a_list_of_models_and_no_object_twice():
    model = learned()
    for wrong, error, message in (
        (model, InputTypeError, "`models`"),
        ([model, "LGGD"], InputTypeError, r"models\[1\].*str"),
        ([model, learned(), model], InputError, r"models\[0\] and models\[2\]"),
    ):
        with pytest.raises(error, match=message):
            fit_together(wrong, DATA[0])
    assert not is_fitted(model)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_must_be_as_many_data_as_models(count):
    with pytest.raises(InputError, match=f"`data`.*2 models.*{count}"):
        fit_together([learned(), learned()], DATA[:count])


def test_no_models_are_no_work():
    assert fit_together([], DATA[0]) == []
    assert is_fitted(fit_together((learned(),), (DATA[0],))[0])
