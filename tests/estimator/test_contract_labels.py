"""The contract of `Member`, for every model: adding labels, changing them and taking them back."""

import pytest
import torch

from lggd import Ensemble, LGGDClassifier, LGGDPlus, NearestClass, SelfTraining, load_model
from lggd.errors import InputError
from support.small_data import CLASSES, same
from support.small_models import BASELINES, MODELS, agree, baseline, classifier, learned

NODES = 36
RETRAINED = [*BASELINES, "Ensemble of baselines", "LGGDClassifier without features"]
takes_labels = pytest.mark.parametrize("name", [name for name in MODELS if name not in RETRAINED])


# -- adding -------------------------------------------------------------------------------------------------------


@takes_labels
def test_added_labels_are_used_without_training(name, data, fitted):
    model, before = fitted(name), fitted(name).predict_proba()
    assert model.accepts_labels
    assert model.add_labels([31, 30], [1, 0]) is model
    assert same(learned(model), learned(fitted(name)))
    assert not torch.equal(model.predict_proba(), before)
    assert model.labels_[[30, 31]].tolist() == [0, 1]
    one_by_one = fitted(name).add_labels(torch.tensor([30]), torch.tensor([0])).add_labels(torch.arange(36) == 31, [1])
    assert agree(name, one_by_one.predict_proba(), model.predict_proba())
    assert [(one["nodes"], one["labels"]) for one in model.additions_] == [([30, 31], [0, 1])]
    assert model.additions_[0]["when"].endswith("+00:00")


@pytest.mark.parametrize(
    "make",
    [
        lambda: LGGDPlus(SelfTraining(classifier(None)), NearestClass()),
        lambda: LGGDClassifier(Ensemble(baseline("MixUp"), members=1), None),
    ],
    ids=["LGGDPlus", "LGGDClassifier"],
)
def test_outer_models_refuse_labels_as_those_inside_them(make, data):
    model = make().fit(data)
    with pytest.raises(InputError, match=f"accept labels without training, got {type(model).__name__}"):
        model.add_labels([30], [0])


@pytest.mark.parametrize("name", RETRAINED)
def test_models_that_would_need_training_refuse_labels(name, fitted):
    model = fitted(name)
    assert not model.accepts_labels
    with pytest.raises(InputError, match="Fit it again with all labels, or use a model in closed form") as caught:
        model.add_labels([30], [0])
    assert caught.value.argument == "model"
    for refused in (lambda: model.change_labels([0], [0]), lambda: model.remove_labels([0])):
        with pytest.raises(InputError, match="accept labels without training"):
            refused()
    assert model.additions_ == []


WRONG_LABELS = [
    ([30, 31], [0], "labels"),
    ([30, 31], 0, "labels"),
    ([30], [0, 1], "labels"),
    ([30], [CLASSES], "labels"),
    ([0], [1], "labels"),
    ([30, 30], [0, 1], "labels"),
    ([NODES], [0], "nodes"),
    ([-1], [0], "nodes"),
    ([0.5], [0], "nodes"),
    ([30], ["red"], "labels"),
]


@takes_labels
def test_wrong_labels_are_refused_and_change_nothing(name, fitted):
    model = fitted(name)
    for nodes, labels, argument in WRONG_LABELS:
        with pytest.raises(InputError) as caught:
            model.add_labels(nodes, labels)
        assert caught.value.argument == argument, (nodes, labels)
    assert torch.equal(model.labels_, fitted(name).labels_)
    assert torch.equal(model.predict_proba(), fitted(name).predict_proba())
    assert model.additions_ == []


# -- changing and removing ----------------------------------------------------------------------------------------


@takes_labels
def test_a_label_taken_back_was_never_there(name, fitted):
    model = fitted(name).add_labels([30, 31], [0, 1])
    assert model.remove_labels([31, 30]) is model
    assert torch.equal(model.labels_, fitted(name).labels_)
    assert agree(name, model.predict_proba(), fitted(name).predict_proba())
    assert same(learned(model), learned(fitted(name)))


@takes_labels
def test_a_corrected_label_was_never_wrong(name, fitted):
    model = fitted(name).add_labels([30, 31], [1, 1])
    assert model.change_labels([30], [0]) is model
    correct = fitted(name).add_labels([30, 31], [0, 1])
    assert torch.equal(model.labels_, correct.labels_)
    assert agree(name, model.predict_proba(), correct.predict_proba())


@takes_labels
def test_labels_of_the_fit_can_be_changed_and_removed_too(name, data, fitted):
    model, before = fitted(name), fitted(name).predict_proba()
    node = int(data.train_mask.nonzero()[0])
    other = (int(data.y[node]) + 1) % CLASSES
    changed = model.change_labels([node], [other]).predict_proba()
    assert not torch.equal(changed, before)
    removed = model.remove_labels(torch.arange(NODES) == node).predict_proba()
    assert not torch.equal(removed, changed)
    assert int(model.labels_[node]) == -1
    assert agree(name, model.add_labels([node], [int(data.y[node])]).predict_proba(), before)


@takes_labels
def test_the_record_tells_what_was_changed_and_survives_a_file(name, data, fitted, tmp_path):
    model = fitted(name).add_labels([30], [1]).change_labels([30], [0]).remove_labels([30]).change_labels([], [])
    kept = [{key: value for key, value in one.items() if key != "when"} for one in model.additions_]
    assert kept == [
        {"nodes": [30], "labels": [1]},
        {"nodes": [30], "labels": [0], "change": "changed", "before": [1]},
        {"nodes": [30], "labels": [-1], "change": "removed", "before": [0]},
        {"nodes": [], "labels": [], "change": "changed", "before": []},
    ]
    replayed = fitted(name).labels_
    for one in model.additions_:
        replayed[one["nodes"]] = torch.tensor(one["labels"], dtype=torch.int64)
    assert torch.equal(replayed, model.labels_)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.additions_ == model.additions_
    assert agree(name, loaded.predict_proba(), model.predict_proba())


WRONG_CHANGES = [
    ([30], [0], "nodes", "node 30 has no label. Use add_labels"),
    ([0, 0], [1, 2], "labels", "node 0 has two labels"),
    ([0], [CLASSES], "labels", r"0\.\.2"),
    ([0, 1], [0], "labels", "have 2 entries, one class each"),
    ([NODES], [0], "nodes", r"0\.\.35"),
    ([0.5], [0], "nodes", "whole numbers"),
    ([0, 3, 6, 9], [1, 1, 1, 1], "nodes", "none of class 0. Add another label of that class first"),
]
WRONG_REMOVALS = [
    ([30], "nodes", "node 30 has no label"),
    ([NODES], "nodes", r"0\.\.35"),
    ([-1], "nodes", r"0\.\.35"),
    ([0.5], "nodes", "whole numbers"),
    (torch.ones(5, dtype=torch.bool), "nodes", "as a mask"),
    ([0, 3, 6, 9], "nodes", "at least one label of every class, got none of class 0"),
]


@takes_labels
def test_wrong_changes_are_refused_and_change_nothing(name, fitted):
    model = fitted(name)
    for nodes, labels, argument, message in WRONG_CHANGES:
        with pytest.raises(InputError, match=message) as caught:
            model.change_labels(nodes, labels)
        assert caught.value.argument == argument, (nodes, labels)
    for nodes, argument, message in WRONG_REMOVALS:
        with pytest.raises(InputError, match=message) as caught:
            model.remove_labels(nodes)
        assert caught.value.argument == argument, nodes
    assert torch.equal(model.labels_, fitted(name).labels_)
    assert torch.equal(model.predict_proba(), fitted(name).predict_proba())
    assert model.additions_ == []
