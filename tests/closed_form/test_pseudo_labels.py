"""Self-training in closed form: which predictions become labels, and how many."""

from dataclasses import replace

import pytest
import torch

from lggd import KernelRidge, PseudoLabels
from lggd.closed_form import pseudo_labels
from lggd.closed_form.pseudo_labels import self_trained
from lggd.closed_form.solution import RidgeSolution
from lggd.errors import InputError
from support.small_data import blocks

NEAR = {"far_kernels": (), "wide_kernels": (), "topology_kernels": (), "agreement": None}


class Recorder:
    """A system that keeps the labels that it is asked to solve for."""

    def with_nodes(self, nodes):
        self.nodes = nodes
        return self

    def probabilities(self, classes, num_classes, *_):
        self.classes = classes
        return torch.full((1, num_classes), 1 / num_classes)


def joined(labels, p, fraction):
    """The labels and the most confident predictions."""
    if not fraction:
        return labels
    recorder = Recorder()
    self_trained(recorder, labels, p, fraction, 1.0, 1.0)  # type: ignore[arg-type]  # it has what is asked for
    return torch.full_like(labels, -1).index_copy(0, recorder.nodes, recorder.classes)


def test_the_most_confident_of_each_class_join():
    p = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.45, 0.55], [0.7, 0.3]])
    labels = torch.tensor([-1, -1, -1, -1, 1])
    assert joined(labels, p, 0.5).tolist() == [0, -1, 1, -1, 1]
    assert joined(labels, p, 1.0).tolist() == [0, 0, 1, 1, 1]


def test_labels_are_never_changed():
    labels = torch.tensor([1, -1, 0])
    assert joined(labels, torch.tensor([[0.9, 0.1]] * 3), 1.0).tolist() == [1, 0, 0]
    assert labels.tolist() == [1, -1, 0]


def test_there_is_a_limit(monkeypatch):
    monkeypatch.setattr(pseudo_labels, "MAX_PSEUDO_LABELS", 50)
    p = torch.rand(150, 2, generator=torch.Generator().manual_seed(0)).softmax(1)
    assert int((joined(torch.full((150,), -1), p, 1.0) >= 0).sum()) == 50


def test_a_fraction_of_zero_changes_nothing():
    first = torch.rand(4, 2)
    assert self_trained(None, torch.zeros(4), first, 0.0, 1.0, 1.0) is first  # type: ignore[arg-type]


def test_the_fraction_is_one_of_those_to_choose_from():
    model = KernelRidge(pseudo_labels=PseudoLabels((0.2, 0.5), folds=2)).fit(blocks())
    assert model.pseudo_fraction_ in (0.0, 0.2, 0.5)
    p = model.predict_proba()
    assert torch.allclose(p.sum(1), torch.ones(len(p)), atol=1e-5)


def solved(model, labels):
    """The probabilities from these labels alone."""
    solution = model.solution_
    choice = replace(solution.choice, pseudo_fraction=0.0)
    return RidgeSolution.solve(choice, solution.inputs, labels, solution.num_classes, solution.system).probabilities


def halve(model):
    """Lets half of the predictions be pseudo-labels."""
    solution = model.solution_
    choice = replace(solution.choice, pseudo_fraction=0.5)
    model.adopt(RidgeSolution.solve(choice, solution.inputs, solution.labels, solution.num_classes))


def test_the_fraction_has_the_best_predictions_of_folds_that_were_left_out():
    chosen, fractions, folds = set(), (0.2, 0.5, 1.0), 3
    for seed in range(6):
        data = blocks(noise=1.5, labelled=5, seed=seed)
        model = KernelRidge(pseudo_labels=PseudoLabels(fractions, folds), **NEAR).fit(data)
        nodes = data.train_mask.nonzero().squeeze(1)
        order = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
        losses = dict.fromkeys((0.0, *fractions), 0.0)
        for fold in range(folds):
            left_out, known = order[fold::folds], model.labels_.clone()
            known[left_out] = -1
            first = solved(model, known)
            for fraction in losses:
                second = solved(model, joined(known, first, fraction))
                p = (first + second) / 2 if fraction else first
                losses[fraction] -= float(p[left_out, data.y[left_out]].log().sum())
        best = min(losses.values())
        assert losses[model.pseudo_fraction_] <= best + 1e-2  # inducing points round differently
        chosen.add(model.pseudo_fraction_)
    assert len(chosen) > 1  # or else any rule would do


def test_other_labels_may_be_tried_and_leave_the_model_as_it_is():
    data = blocks()
    model = KernelRidge(pseudo_labels=PseudoLabels((0.5,)), growth=float("inf"), **NEAR).fit(data)
    halve(model)
    before, labels = model.predict_proba().clone(), model.labels_.clone()
    labels[[0, 20, 25]] = torch.tensor([-1, 2, 1])
    tried = model.proba_from(labels)
    assert torch.equal(model.predict_proba(), before)
    assert torch.equal(model.proba_from(model.labels_), before)
    assert torch.equal(model.solution_.system.nodes, (model.labels_ >= 0).nonzero().squeeze(1))
    model.remove_labels([0]).add_labels([20, 25], [2, 1])
    torch.testing.assert_close(model.predict_proba(), tried, atol=1e-4, rtol=0)


def test_predictions_are_the_mean_of_both():
    data = blocks()
    model = KernelRidge(pseudo_labels=PseudoLabels((0.5,))).fit(data)
    first = KernelRidge().fit(data).predict_proba()
    halve(model)
    second = solved(model, joined(model.labels_, first, 0.5))
    expected = (first + second) / 2
    assert torch.allclose(model.predict_proba(), expected, atol=1e-3)  # inducing points round differently
    assert not torch.equal(expected, first)


@pytest.mark.parametrize(
    "wrong", [{"fractions": (0.0,)}, {"fractions": (1.5,)}, {"fractions": ("half",)}, {"folds": 1}]
)
def test_wrong_settings(wrong):
    with pytest.raises(InputError):
        PseudoLabels(**wrong)
