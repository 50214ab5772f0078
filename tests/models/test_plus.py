"""LGGD+: several networks, labels they are sure of, and a backbone beside them."""

import copy
from dataclasses import replace

import pytest
import torch
from lggd.features.remembered import remembering
from sklearn.exceptions import NotFittedError
from tests.small_data import CLASSES, blocks, unmasked

import lggd
from lggd import GCN, LGGD, MLP, LGGDPlus, Optimization, PropagatedMLP
from lggd.baselines import GDC, PPR, Heat
from lggd.features import lggd as lggd_features
from lggd.models import plus as plus_module

SHORT = Optimization(epochs=12, patience=None)


def distances(**changes):
    given = {"times": (0.5, 1.0), "initial": PropagatedMLP((8,), pagerank=0.1), "optimization": SHORT}
    return LGGD(**{**given, **changes})


def model(features=None, **changes):
    given = {"members": 2, "backbone": GCN(hidden=8), "optimization": Optimization(epochs=15)}
    return LGGDPlus(features or distances(), **{**given, **changes})


def splits(count=3):
    """The same graph with other nodes labelled."""
    first = blocks(each=14, lonely=1)
    found = []
    for k in range(count):
        data, turn = copy.copy(first), 3 * k
        for name in ("train_mask", "val_mask", "test_mask"):
            setattr(data, name, first[name].roll(turn))
        found.append(data)
    return found


@pytest.mark.parametrize("readout", ["both", "nearest", "backbone"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_it_answers(readout, share):
    data = blocks(lonely=1)
    fitted = model(readout=readout, self_training=share)
    assert fitted.fit(data) is fitted
    assert fitted.predict_proba().shape == (data.num_nodes, CLASSES)
    torch.testing.assert_close(fitted.predict_proba().sum(1), torch.ones(data.num_nodes))
    assert len(fitted.modules_) == (0 if readout == "nearest" else 2)
    assert fitted.score(data) > 0.5
    assert len(fitted.members_) == 2


def test_both_is_the_mean_of_the_other_two():
    data = blocks()
    answers = {readout: model(readout=readout).fit(data).predict_proba() for readout in ("both", "nearest", "backbone")}
    torch.testing.assert_close(answers["both"], (answers["nearest"] + answers["backbone"]) / 2)


def test_members_differ_and_are_averaged():
    fitted = model(readout="nearest").fit(data := blocks())
    one, other = (torch.softmax(-member.distances(data), 2).mean(1) for member in fitted.members_)
    assert not torch.equal(one, other)
    torch.testing.assert_close(fitted.predict_proba(), (one + other) / 2)


def test_the_backbones_of_members_differ_and_are_averaged():
    fitted = model(readout="backbone").fit(blocks())
    with torch.no_grad():
        one, other = (module(fitted._inputs(), *fitted.edges_).softmax(1) for module in fitted.modules_)
    assert not torch.equal(one, other)
    torch.testing.assert_close(fitted.predict_proba(), (one + other) / 2)


@pytest.mark.parametrize("kernel", [PPR(0.2), Heat(2.0)])
def test_backbones_run_on_the_graph_of_a_diffusion(kernel):
    data = blocks()
    fitted = model(diffusion=kernel, neighbours=5).fit(data)
    diffused = GDC(kernel, 5).transform(data)
    assert torch.equal(fitted.edges_[0], diffused.edge_index)
    assert torch.equal(fitted.edges_[1], diffused.edge_weight)
    assert not torch.equal(fitted.predict_proba(), model().fit(data).predict_proba())
    nearest = (model(diffusion=one, readout="nearest").fit(data).predict_proba() for one in (kernel, None))
    assert torch.equal(*nearest)


def test_the_surest_nodes_of_each_class_are_taken_and_no_others(monkeypatch):
    seen = []
    real = plus_module._with_sure_nodes

    def spy(fit):
        nearness = fit.model._nearness().mean(1)
        seen.append((fit, nearness, labels := real(fit)))
        return labels

    monkeypatch.setattr(plus_module, "_with_sure_nodes", spy)
    data = blocks(each=20)
    model(self_training=0.5, rounds=2, readout="nearest").fit(data)
    assert len(seen) == 2
    for fit, nearness, labels in seen:
        taken = (labels.train >= 0) & (fit.labels.train < 0)
        said = nearness.argmax(1)
        assert bool((labels.train[taken] == said[taken]).all())
        assert bool((labels.train[data.train_mask] == data.y[data.train_mask]).all())
        assert not bool(taken[data.val_mask].any())
        for k in range(CLASSES):
            others = (said == k) & ~data.train_mask & ~data.val_mask
            assert int((taken & (said == k)).sum()) == int(others.sum()) // 2
            left, sure = nearness[others & ~taken, k], nearness[taken & (said == k), k]
            assert not len(left) or not len(sure) or float(left.max()) <= float(sure.min())


def test_the_boundary_stays_at_the_true_labels():
    data = blocks()
    fitted = model(self_training=1.0).fit(data)
    true = torch.where(data.train_mask, data.y, -1)
    assert torch.equal(fitted.labels_, true)
    assert all(torch.equal(member.labels_, true) for member in fitted.members_)


def test_self_training_learns_from_more_labels():
    """With none of it the distances are those of the first round; with all of it they are not."""
    data = blocks()
    plain, again = (model(self_training=share, readout="nearest").fit(data) for share in (0.0, 1.0))
    assert list(plain.history_) == ["distances"]
    assert list(again.history_) == ["distances", "again 1"]
    assert plain.history_["distances"] == again.history_["distances"]
    assert not torch.equal(plain.predict_proba(), again.predict_proba())


@pytest.mark.parametrize("readout", ["both", "nearest"])
def test_together_as_alone(readout):
    data = splits()
    models = [model(readout=readout, seed=seed) for seed in range(3)]
    lggd.fit_together(models, data)
    for seed, (fitted, one) in enumerate(zip(models, data, strict=True)):
        alone = model(readout=readout, seed=seed).fit(one)
        torch.testing.assert_close(fitted.predict_proba(), alone.predict_proba(), rtol=1e-3, atol=1e-4)


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    data = blocks()
    one, same, other = (model(seed=seed).fit(data).predict_proba() for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def leaks(make):
    data = blocks()
    hidden = copy.copy(data)
    hidden.y = torch.where(data.test_mask, data.y[torch.randperm(data.num_nodes)], data.y)
    hidden.y[data.test_mask] = (data.y[data.test_mask] + 1) % CLASSES
    return not torch.equal(make().fit(data).predict_proba(), make().fit(hidden).predict_proba())


def test_hidden_labels_are_never_read():
    assert not leaks(lambda: model(self_training=0.5))


def test_the_check_on_hidden_labels_catches_a_look_at_them(monkeypatch):
    monkeypatch.setattr(plus_module, "_with_sure_nodes", lambda fit: replace(fit.labels, train=fit.data.y.clone()))
    assert leaks(lambda: model(self_training=0.5))


def test_labels_are_added_at_once():
    data = blocks(each=20, noise=1.5)
    fitted = model(seed=3).fit(data)
    parameters = [one.clone() for module in fitted.modules_ for one in module.parameters()]
    new = data.test_mask & (torch.arange(data.num_nodes) % 2 == 0)
    before = fitted.score(data, data.test_mask & ~new)
    assert fitted.add_labels(new, data.y[new]) is fitted
    assert bool((fitted.predict()[new] == data.y[new]).float().mean() >= 0.9)
    assert fitted.score(data, data.test_mask & ~new) >= before - 0.1
    after = [one for module in fitted.modules_ for one in module.parameters()]
    assert all(torch.equal(*pair) for pair in zip(parameters, after, strict=True))
    with pytest.raises(ValueError, match="two labels"):
        fitted.add_labels(new, (data.y[new] + 1) % CLASSES)


def test_contents_stand_beside_the_features_with_their_length():
    data = blocks()
    fitted = model().fit(data)
    inputs = fitted._inputs()
    width = data.x.shape[1]
    torch.testing.assert_close(inputs[:, width:], fitted._nearness().flatten(1))
    torch.testing.assert_close(inputs[:, :width].norm(dim=1).mean(), inputs[:, width:].norm(dim=1).mean())
    alone = model(inputs="features").fit(data)
    torch.testing.assert_close(alone._inputs(), alone._nearness().flatten(1))
    without = model(inputs="contents").fit(data)
    torch.testing.assert_close(without._inputs(), torch.nn.functional.normalize(data.x))


def test_cross_fitted_features_differ_on_labelled_nodes_only():
    data = blocks()
    fitted = model(distances(cross_fit=2)).fit(data)
    same = (fitted._features() - fitted._nearness().flatten(1)).abs().amax(1) < 1e-6
    assert bool(same[~data.train_mask].all())
    assert not bool(same[data.train_mask].all())


def test_held_out_labels_join_the_boundary():
    data = blocks(each=40, labelled=25)
    del data.val_mask
    fitted = model(readout="nearest").fit(data)
    assert torch.equal(fitted.labels_ >= 0, data.train_mask)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"members": 0}, "`members` must be a whole number from 1"),
        ({"rounds": 0}, "`rounds` must be a whole number from 1"),
        ({"self_training": 1.5}, r"`self_training` must be a share in \[0, 1\]"),
        ({"readout": "all"}, "`readout` must be one of"),
        ({"inputs": "none"}, "`inputs` must be one of"),
        ({"backbone": None}, "`backbone` must be"),
        ({"neighbours": 0}, "`neighbours` must be a whole number from 1"),
        ({"diffusion": 0.1}, "`diffusion` must be PPR"),
        ({"optimization": None}, "`optimization` must be"),
        ({"features": 3}, "`features` must be an LGGD"),
        ({"features": LGGD(times=())}, "`times`"),
    ],
)
def test_wrong_settings_are_refused(changes, complaint):
    with pytest.raises((TypeError, ValueError), match=complaint):
        replace(model(), **changes).fit(blocks())


def test_it_must_be_fitted_first():
    with pytest.raises(NotFittedError):
        model().predict()


def stop_at(stage, time):
    """A callback that breaks off the first epoch of what is called so, when it is heard of for the given time."""
    heard = []

    def callback(progress):
        heard.extend([progress.stage] * (progress.epoch == 1))
        if progress.stage == stage and heard.count(stage) == time:
            raise KeyboardInterrupt

    return callback


# The second time is that of self-training.
STOPS = [("distances", 1), ("distances", 2), ("backbone", 1)]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(("stage", "time"), STOPS)
def test_a_fit_that_is_broken_off_leaves_nothing_fitted(tmp_path, stage, time, before):
    data = blocks()
    broken = model(readout="backbone", self_training=0.5)
    if before:
        broken.fit(data)
    with pytest.raises(KeyboardInterrupt):
        broken.fit(data, callback=stop_at(stage, time))
    for ask in (
        broken.predict,
        broken.predict_proba,
        lambda: broken.score(data),
        lambda: broken.add_labels([data.num_nodes - 1], [0]),
        lambda: broken.save(tmp_path / "model"),
    ):
        with pytest.raises(NotFittedError, match="This LGGDPlus must be fitted first"):
            ask()
    assert not (tmp_path / "model").exists()
    fresh = model(readout="backbone", self_training=0.5).fit(data)
    assert torch.equal(broken.fit(data).predict_proba(), fresh.predict_proba())


@pytest.mark.parametrize(("stage", "time"), [*STOPS[:2], ("backbone 1/2", 1), ("backbone 2/2", 1)])
def test_together_all_are_fitted_or_none_is(stage, time):
    data = splits(3)
    models = [model(), model(backbone=GCN(hidden=4)), model(readout="nearest")]
    lggd.fit_together(models, data)
    with pytest.raises(KeyboardInterrupt):
        lggd.fit_together(models, data, callback=stop_at(stage, time))
    for one in models:
        with pytest.raises(NotFittedError):
            one.predict()


def test_what_it_knows_is_its_own():
    data = unmasked(blocks())
    fitted = model(readout="nearest").fit(data)
    before = fitted.labels_.clone()
    data.y.fill_(-1)
    assert torch.equal(fitted.labels_, before)


def test_it_works_with_plain_contents_and_weights():
    data = blocks(weighted=True, sparse=True)
    fitted = model(distances(initial=MLP((8,)))).fit(data)
    assert fitted.score(data) > 0.4


@pytest.mark.parametrize("changes", [{}, {"readout": "nearest"}, {"diffusion": Heat(1.0), "inputs": "contents"}])
def test_saved_and_loaded_it_answers_the_same(tmp_path, changes):
    data = blocks(weighted=True)
    fitted = model(**changes).fit(data)
    fitted.save(tmp_path / "model")
    loaded = LGGDPlus.load(tmp_path / "model")
    assert torch.equal(loaded.predict_proba(), fitted.predict_proba())
    new = data.test_mask.nonzero()[:3].squeeze(1)
    for one in (fitted, loaded):
        one.add_labels(new, data.y[new])
    assert torch.equal(loaded.predict_proba(), fitted.predict_proba())
    assert torch.equal(loaded.labels_, fitted.labels_)
    assert not any(hasattr(one.data_, "y") and one.data_.y is not None for one in (fitted, loaded))


def test_what_is_no_such_model_is_refused(tmp_path):
    data = blocks()
    lggd.LGGDClassifier(distances(), backbone=None).fit(data).save(tmp_path / "other")
    with pytest.raises(ValueError, match="must be the settings of a saved lggd plus model"):
        LGGDPlus.load(tmp_path / "other")
    model(readout="nearest").fit(data).save(tmp_path / "mine")
    settings = tmp_path / "mine" / "model.json"
    settings.write_text(settings.read_text().replace('"members": 2', '"members": 3'))
    with pytest.raises(ValueError, match="must be a saved model whose files fit together"):
        LGGDPlus.load(tmp_path / "mine")


def count_learned(monkeypatch):
    """How many models are learned in each pass."""
    passes, real = [], lggd_features._learn_pass
    monkeypatch.setattr(lggd_features, "_learn_pass", lambda s, *rest: passes.append(len(s)) or real(s, *rest))
    return passes


def test_what_is_remembered_is_not_learned_again(monkeypatch):
    passes, data = count_learned(monkeypatch), splits(2)
    with remembering():
        first = [model(seed=seed) for seed in range(2)]
        other = [model(seed=seed, readout="nearest", diffusion=Heat(1.0)) for seed in range(2)]
        lggd.fit_together(first, data)
        lggd.fit_together(other, data)
        assert passes == [4, 4]  # two rounds of two networks for each of two splits, once
        changed = model(distances(times=(0.5, 0.7)), self_training=0.0).fit(data[0])
        assert passes == [4, 4, 2]
    for seed, one in enumerate(data):
        again = model(seed=seed, readout="nearest").fit(one)
        torch.testing.assert_close(other[seed].predict_proba(), again.predict_proba(), rtol=1e-3, atol=1e-4)
    assert passes == [4, 4, 2, 2, 2, 2, 2]
    new = data[0].test_mask.nonzero()[0]
    before = first[0].predict_proba()
    other[0].add_labels(new, data[0].y[new])
    assert torch.equal(first[0].predict_proba(), before)
    assert changed.predict_proba().shape == before.shape


@pytest.mark.parametrize("change", ["label", "validation", "x", "x in place", "edge", "seed"])
def test_what_differs_is_learned_again(monkeypatch, change):
    passes, data = count_learned(monkeypatch), blocks()
    other = data.clone()
    if change == "label":
        other.y[data.train_mask.nonzero()[0]] = 1
    elif change == "validation":
        other.val_mask[data.val_mask.nonzero()[0]] = False
    elif change == "x":
        other.x[0, 0] += 1
    elif change == "edge":
        other.edge_index = data.edge_index[:, (data.edge_index.amin(0) != data.edge_index[0, 0])]
    elif change == "x in place":
        other.x = data.x
    with remembering():
        distances().fit(data)
        if change == "x in place":
            data.x[0, 0] += 1
        distances(seed=int(change == "seed")).fit(other)
        distances(cross_fit=2).fit(data)
    assert len(passes) == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_it_answers_as_on_a_cpu():
    data = blocks(each=30)
    here, there = model().fit(data), model().fit(data.to("cuda"))
    assert abs(here.score(data.cpu()) - there.score(data.to("cuda"))) < 0.15
