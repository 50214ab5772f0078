"""Which labels look wrong, and which nodes to label next."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from lggd import Graph, InputError, KernelRidge, distance, load
from lggd.closed_form import kernel_ridge
from lggd.closed_form.uncertainty import greedy_choice, margins
from support.real_data import REAL_DATA, needs_real_data
from support.small_data import blocks, changed, random, unmasked

# With this fraction of the labels wrong, at least half of those are in the first part of the suspicious ones.
WRONG, FIRST = 0.1, 0.15


@pytest.fixture(scope="module")
def fitted():
    model = KernelRidge().fit(blocks(labelled=6, lonely=2))
    return lambda: copy.deepcopy(model)


# -- leave-one-out ------------------------------------------------------------------------------------------------


def test_leave_one_out_probabilities_are_those_without_the_label(fitted):
    model = fitted()
    left_out = model.leave_one_out_proba()
    nodes = (model.labels_ >= 0).nonzero().squeeze(1)
    assert (left_out.shape, left_out.dtype) == ((len(nodes), 3), torch.float32)
    for row, node in zip(left_out, nodes, strict=True):
        without = fitted().remove_labels([int(node)])
        torch.testing.assert_close(row, without.predict_proba()[node], atol=1e-4, rtol=0)


def test_the_own_label_does_not_matter_to_its_leave_one_out_probabilities(fitted):
    model = fitted()
    node = int((model.labels_ >= 0).nonzero()[3])
    model.change_labels([node], [(int(model.labels_[node]) + 1) % 3])
    torch.testing.assert_close(model.leave_one_out_proba()[3], fitted().leave_one_out_proba()[3])


# -- suspicious labels --------------------------------------------------------------------------------------------


def test_suspicious_labels_come_in_order_with_the_class_to_use_instead(fitted):
    found = fitted().suspicious_labels()
    model, left_out = fitted(), fitted().leave_one_out_proba()
    labelled = (model.labels_ >= 0).nonzero().squeeze(1)
    assert len(found) == len(labelled)
    assert torch.equal(found.nodes.sort().values, labelled)
    assert torch.equal(found.labels, model.labels_[found.nodes])
    assert bool((found.probability.diff() >= 0).all())
    place = torch.searchsorted(labelled, found.nodes)
    assert torch.equal(found.probability, left_out[place, found.labels])
    assert torch.equal(found.suggested, left_out[place].argmax(1))


@pytest.mark.parametrize("node", [0, 4, 11])
def test_a_wrong_label_is_the_most_suspicious_and_its_class_is_suggested(node):
    data = blocks(labelled=6, noise=0.2)
    y = data.y.clone()
    y[node] = (y[node] + 1) % 3
    found = KernelRidge().fit(changed(data, y=y)).suspicious_labels()
    assert (int(found.nodes[0]), int(found.suggested[0])) == (node, int(data.y[node]))
    assert float(found.probability[0]) < 0.5


def corrupted(data, seed):
    """The data with a tenth of its training labels wrong, and those nodes."""
    draws, nodes = random(1000 + seed), data.train_mask.nonzero().squeeze(1)
    classes = int(data.y.max()) + 1
    wrong = nodes[torch.randperm(len(nodes), generator=draws)[: round(WRONG * len(nodes))]]
    y = data.y.clone()
    y[wrong] = (y[wrong] + torch.randint(1, classes, wrong.shape, generator=draws)) % classes
    return unmasked(changed(data, y=y, val_mask=torch.zeros_like(data.train_mask))), wrong


def found_fraction(datasets):
    """Which part of the wrong labels is among the most suspicious ones."""
    found = total = 0
    for seed, data in enumerate(datasets):
        spoiled, wrong = corrupted(data, seed)
        suspicious = KernelRidge(seed=seed).fit(spoiled).suspicious_labels().nodes
        found += int(torch.isin(wrong, suspicious[: round(FIRST * len(suspicious))]).sum())
        total += len(wrong)
    return found / total


def test_wrong_labels_of_digits_are_found():
    assert found_fraction(load("digits", split=split) for split in range(2)) >= 0.8


@needs_real_data
def test_wrong_labels_of_cora_are_found():
    assert found_fraction(load("cora", split=split, root=REAL_DATA) for split in range(3)) >= 0.5


# -- suggestions --------------------------------------------------------------------------------------------------


def greedy_by_hand(covariance, candidates, doubt, ridge, count):
    """Every time the covariance of a Gaussian process with one more observation, whole and by a dense inverse."""
    chosen = []
    for _ in range(count):
        gains = []
        for node in candidates.tolist():
            seen = [*chosen, node]
            before, after = (
                covariance
                - covariance[:, s] @ torch.linalg.inv(covariance[s][:, s] + ridge * torch.eye(len(s))) @ covariance[s]
                for s in (chosen, seen)
            )
            gains.append(float((doubt * (before - after).diagonal()).sum()) if node not in chosen else -1.0)
        chosen.append(int(candidates[torch.tensor(gains).argmax()]))
    return chosen


@given(seed=st.integers(0, 999), count=st.integers(1, 4), ridge=st.floats(0.05, 2))
def test_suggestions_reduce_the_variance_most_one_after_another(seed, count, ridge):
    draws = random(seed)
    root = torch.randn(9, 6, generator=draws, dtype=torch.float64)
    covariance, doubt = root @ root.t(), torch.rand(9, generator=draws).double()
    candidates = torch.randperm(9, generator=draws)[:5].sort().values
    found = candidates[greedy_choice(covariance[candidates], candidates, doubt, ridge, count)]
    assert found.tolist() == greedy_by_hand(covariance, candidates, doubt, ridge, count)


def test_suggestions_are_unlabelled_nodes_without_repetition(fitted):
    model = fitted()
    before = model.predict_proba()
    found = model.suggest(5)
    assert (found.dtype, len(set(found.tolist()))) == (torch.int64, 5)
    assert bool((model.labels_[found] < 0).all())
    assert torch.equal(found, model.suggest(5))
    assert torch.equal(found[:2], model.suggest(2))
    assert model.suggest().tolist() == found[:1].tolist()
    assert torch.equal(model.predict_proba(), before)
    everything = model.suggest(1000)
    assert torch.equal(everything.sort().values, (model.labels_ < 0).nonzero().squeeze(1))


def test_a_model_that_knows_all_labels_suggests_none():
    data = changed(blocks(), train_mask=torch.ones(36, dtype=torch.bool), val_mask=None)
    assert KernelRidge().fit(data).suggest(3).tolist() == []


def test_suggestions_spread():
    """Of two far copies of one graph, alike in everything, both get a label."""
    x = torch.eye(2).repeat_interleave(6, 0) + 0.1 * torch.randn(12, 2, generator=random())
    ring = torch.tensor([[i, (i + 1) % 6] for i in range(6)])
    edges = torch.cat([ring, ring.flip(1), ring + 6, ring.flip(1) + 6]).t().contiguous()
    y = torch.full((12,), -1)
    y[0], y[6] = 0, 1
    data = changed(blocks(each=4), x=x, edge_index=edges, y=y, train_mask=None, val_mask=None, test_mask=None)
    found = KernelRidge().fit(data).suggest(2)
    assert sorted((found // 6).tolist()) == [0, 1]


def test_suggested_labels_help_more_than_random_ones():
    before, suggested, drawn = [], [], []
    for split in range(2):
        data = load("digits", split=split, labels_per_class=2)
        model = KernelRidge().fit(data)
        nodes = model.suggest(10)
        unlabelled = (model.labels_ < 0).nonzero().squeeze(1)
        others = unlabelled[torch.randperm(len(unlabelled), generator=random(split))[:10]]
        test = model.labels_ < 0
        test[nodes] = test[others] = False
        before.append(model.score(data, test))
        for chosen, scores in ((nodes, suggested), (others, drawn)):
            scores.append(copy.deepcopy(model).add_labels(chosen, data.y[chosen]).score(data, test))
    assert sum(suggested) > sum(drawn)
    assert sum(suggested) > sum(before)


@pytest.mark.parametrize("most", [1, 4])
def test_few_candidates_are_the_least_certain(fitted, most, monkeypatch):
    monkeypatch.setattr(kernel_ridge, "MAX_CANDIDATES", most)
    model = fitted()
    margin = margins(model.predict_proba())
    margin[model.labels_ >= 0] = 2
    least = margin.argsort(stable=True)[: max(most, 2)]
    assert set(model.suggest(2).tolist()) <= set(least.tolist())


@pytest.mark.parametrize("k", [0, -1, 1.5, None, "2"])
def test_wrong_numbers_are_refused(fitted, k):
    with pytest.raises(InputError, match="`k`"):
        fitted().suggest(k)


# -- variance -----------------------------------------------------------------------------------------------------


def test_the_variance_does_not_depend_on_classes_and_falls_with_labels(fitted):
    model = fitted()
    before = model.variance()
    assert (before.shape, before.dtype) == ((36,), torch.float32)
    first = int((model.labels_ == 0).nonzero()[0])
    assert torch.equal(model.change_labels([first], [1]).variance(), before)
    after = model.add_labels([20], [2]).variance()
    assert bool((after <= before + 1e-5).all())
    assert float(after[20]) < float(before[20])


def test_margins_are_between_the_two_most_probable_classes():
    found = margins(torch.tensor([[0.2, 0.5, 0.3], [1 / 3] * 3, [0.0, 0.0, 1.0]]))
    torch.testing.assert_close(found, torch.tensor([0.2, 0.0, 1.0]))
    assert torch.equal(margins(torch.ones(2, 1)), torch.ones(2))


def test_probabilities_of_all_nodes_without_their_own_labels(fitted):
    model = fitted()
    found, labelled = model.left_out_proba(), model.labels_ >= 0
    assert torch.equal(found[labelled], model.leave_one_out_proba())
    assert torch.equal(found[~labelled], model.predict_proba()[~labelled])


@pytest.mark.parametrize(
    "use",
    [
        "leave_one_out_proba",
        "left_out_proba",
        "variance",
        "suspicious_labels",
        "suggest",
        "edge_weights",
    ],
)
def test_an_unfitted_model_says_so(use):
    with pytest.raises(NotFittedError, match="must be fitted first"):
        getattr(KernelRidge(), use)()


def test_an_unfitted_model_predicts_from_no_labels():
    with pytest.raises(NotFittedError, match="must be fitted first"):
        KernelRidge().proba_from(torch.tensor([0, 1, -1]))


def wrong_edges(count=120, seed=0):
    """Blocks with as many edges between unlike classes as there are edges, and which edges those are."""
    data = blocks(each=20, labelled=8, noise=0.3, seed=seed)
    pairs = torch.randint(data.num_nodes, (2, count), generator=random(seed))
    pairs = pairs[:, data.y[pairs[0]] != data.y[pairs[1]]]
    edges = torch.unique(torch.cat([data.edge_index, pairs, pairs.flip(0)], 1), dim=1)
    return changed(data, edge_index=edges), data.y[edges[0]] != data.y[edges[1]]


def test_learned_weights_tell_wrong_edges_from_true_ones():
    data, wrong = wrong_edges()
    model = KernelRidge().fit(data)
    assert model.solution_.choice.edge_weights  # agreement pays here
    weight = model.edge_weights()
    assert weight.shape == (data.edge_index.shape[1],)
    assert float(weight.min()) > 0
    assert float(weight.max()) == 1
    assert float(weight[~wrong].mean()) > 2 * float(weight[wrong].mean())


def test_learned_weights_are_a_metric():
    data, _ = wrong_edges(400)
    model = KernelRidge().fit(data)
    sources = [((model.labels_ == k).nonzero().squeeze(1)).tolist() for k in range(3)]
    plain, weighted = (
        Graph.from_edges(data.edge_index, weight, num_nodes=data.num_nodes) for weight in (None, model.edge_weights())
    )

    def accuracy(graph, p):
        return float((distance(graph, sources, p=p).value.argmin(1) == data.y)[~data.train_mask].double().mean())

    for p in (1, 2, float("inf")):
        assert accuracy(weighted, p) > accuracy(plain, p)


def test_all_edges_count_equally_without_agreement():
    data = blocks()
    model = KernelRidge(agreement=None).fit(data)
    assert torch.equal(model.edge_weights(), torch.ones(data.edge_index.shape[1]))
    strangers = ~torch.isin(torch.arange(1, 36), data.edge_index[1, data.edge_index[0] == 0])
    model.add_edges([[0], [1 + int(strangers.nonzero()[0])]])
    assert len(model.edge_weights()) == data.edge_index.shape[1] + 2
    weighted = blocks(weighted=True)
    expected = weighted.edge_weight / weighted.edge_weight.max()
    assert torch.allclose(KernelRidge(agreement=None).fit(weighted).edge_weights(), expected)
