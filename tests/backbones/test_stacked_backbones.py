"""Many backbones at once: each is trained as if alone."""

import pytest
import torch

from lggd.backbones import GCN, build_seeded
from lggd.training import engine
from lggd.training import problems as dropout
from lggd.training.engine import Engine, train
from lggd.training.problems import draw_keep_mask
from support.backbone_cases import backbone_engine, exported, present
from support.small_data import CLASSES
from support.stacked_cases import (
    CLOSE,
    FEATURES,
    NAMES,
    OURS,
    OWN,
    PATIENCE,
    Counting,
    DrawTheSame,
    Own,
    check_alone,
    every_backbone,
    every_kind,
    made,
    problems,
    same,
    state_of,
    told_of,
)


@every_kind
def test_problems_are_trained_as_if_alone(backbone, monkeypatch):
    monkeypatch.setattr(engine, "EPOCHS_WITHOUT_VALIDATION", 9)
    together, history = check_alone(backbone)
    # They do end at different times, and by every rule that there is.
    epochs = [len(history[f"train_loss {name}"]) for name in NAMES]
    assert epochs[1] < epochs[0]
    assert epochs[1] == together.best_epoch[1] + PATIENCE
    assert epochs[2] == together.best_epoch[2] == 9
    assert set(told_of(history, "three")) == {"train_loss"}


@pytest.mark.parametrize("backbone", [OURS[0], OWN[0]], ids=["stacked", "own"])
@pytest.mark.parametrize("patience", [1, None])
def test_problems_are_trained_as_if_alone_with_other_patience(backbone, patience):
    check_alone(backbone, patience=patience)


class DrawFromOne:
    """Planted: all problems draw from the generator of the first."""

    def __call__(self, generators, shape, levels):
        return draw_keep_mask([generators[0]] * len(generators), shape, levels)


class DrawInTurns:
    """Planted: how a problem draws depends on how many there are."""

    def __call__(self, generators, shape, levels):
        for _ in generators:
            kept = draw_keep_mask(generators, shape, levels)
        return kept


@pytest.mark.parametrize("wrong", [DrawFromOne(), DrawTheSame(), DrawInTurns()], ids=lambda one: type(one).__name__)
def test_shared_random_numbers_would_be_caught(wrong, monkeypatch):
    monkeypatch.setattr(dropout, "draw_keep_mask", wrong)
    with pytest.raises(AssertionError):
        check_alone(OURS[0])


def keep_for_all(self, better):
    """Planted: where one is better, all are kept."""
    KEEP(self, better.any().expand(better.shape))


def keep_after_the_end(self):
    """Planted: nothing ever ends on the device."""
    return torch.zeros_like(self._without_validation)


KEEP = Engine._save_best


@pytest.mark.parametrize("backbone", [OURS[0], OWN[0]], ids=["stacked", "own"])
@pytest.mark.parametrize(("name", "wrong"), [("_save_best", keep_for_all), ("_ended", keep_after_the_end)])
def test_a_best_state_of_others_would_be_caught(backbone, name, wrong, monkeypatch):
    monkeypatch.setattr(engine, "EPOCHS_WITHOUT_VALIDATION", 9)
    monkeypatch.setattr(Engine, name, wrong)
    with pytest.raises(AssertionError):
        check_alone(backbone)


def test_a_buffer_made_in_the_first_epoch_is_kept():
    class Counting(Own):
        def forward(self, x, edge_index):
            if self.training:
                self.register_buffer("epoch", getattr(self, "epoch", torch.tensor(0)) + 1)
            return super().forward(x, edge_index)

    learner = made(Counting())
    train(learner, "backbone")
    assert [int(module.module.epoch) for module in exported(learner)] == learner.best_epoch


@every_kind
def test_shared_features_equal_repeated_features(backbone):
    x = problems()[0][0]
    shared, repeated = made(backbone, x=x), made(backbone, x=x.expand(3, *x.shape))
    one, other = train(shared, "backbone"), train(repeated, "backbone")
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert other[name] == pytest.approx(values, rel=1e-4, abs=1e-5)
    assert shared.best_epoch == repeated.best_epoch
    for mine, its in zip(exported(shared), exported(repeated), strict=True):
        torch.testing.assert_close(state_of(mine), state_of(its), **CLOSE)


@every_kind
def test_training_is_deterministic(backbone):
    one, other = made(backbone), made(backbone)
    assert train(one, "backbone") == train(other, "backbone")
    assert same(present(one), present(other))


@every_kind
def test_global_random_state_is_unchanged(backbone):
    before = torch.get_rng_state()
    learner = made(backbone)
    train(learner, "backbone")
    exported(learner)
    assert torch.equal(torch.get_rng_state(), before)


@every_kind
def test_names_in_the_history(backbone):
    measured = made(backbone).step()
    names = {f"{measure} {name}" for name in NAMES for measure in ("train_loss", "validation_loss")}
    names |= {f"validation_accuracy {name}" for name in NAMES}
    assert set(measured) == names - {"validation_loss three", "validation_accuracy three"}
    x, edge_index, _, target, validation = problems()
    modules = [build_seeded(backbone, FEATURES, CLASSES, seed=0) for _ in range(2)]
    two = backbone_engine(
        modules, x[:2], edge_index, None, target[:2], validation[:2], seeds=(0, 1), names=("", "other")
    )
    assert set(two.step()) == {
        "train_loss", "validation_loss", "validation_accuracy",
        "train_loss other", "validation_loss other", "validation_accuracy other",
    }  # fmt: skip


@every_kind
def test_an_ended_problem_may_diverge(backbone):
    """A problem that has ended keeps its best state, and its loss no longer matters."""
    learner = made(backbone, epochs=40)
    while learner._running[1]:
        learner.step()
    assert all(learner._running[::2])
    for owned in learner.trainable.parameters():
        if owned.value.is_floating_point() and owned.owner in (None, 1):
            with torch.no_grad():
                (owned.value if owned.owner == 1 else owned.value[1]).fill_(torch.nan)
    measured = learner.step()
    assert not any(name.endswith(" two") for name in measured)
    assert all(value == value for value in measured.values())
    for module in exported(learner):
        assert all(torch.isfinite(value).all() for value in module.state_dict().values())


@every_kind
def test_a_loss_that_is_not_finite_names_its_problem(backbone):
    x = problems()[0].clone()
    x[1, 3] = torch.inf
    with pytest.raises(FloatingPointError, match=r"The loss of 'two' must stay finite, got .* at epoch 1\. Lower `lr`"):
        train(made(backbone, x=x), "backbone")


@every_backbone
def test_trained_modules_have_their_own_memory(backbone):
    learner = made(backbone)
    learner.step()
    modules = exported(learner)
    for module in modules:
        assert not module.training
        for parameter in module.parameters():
            assert parameter.untyped_storage().nbytes() == parameter.numel() * parameter.element_size()
    logits = [module(x, problems()[1]) for module, x in zip(modules, problems()[0], strict=True)]
    assert not torch.allclose(logits[0], logits[1])


@every_backbone
def test_frozen_parameters_stay(backbone):
    x, edge_index, edge_weight, target, validation = problems()
    modules = [build_seeded(backbone, FEATURES, CLASSES, seed=q) for q in range(3)]
    for module in modules:
        module.first.bias.requires_grad_(False).fill_(0.5)
    learner = backbone_engine(modules, x, edge_index, edge_weight, target, validation, seeds=range(3), names=NAMES)
    for _ in range(3):
        learner.step()
    trained = exported(learner)
    assert all(mine is its for mine, its in zip(trained, modules, strict=True))
    assert all((module.first.bias == 0.5).all() for module in trained)


@every_backbone
def test_edge_weights_receive_no_gradients(backbone):
    x, edge_index, edge_weight, target, _ = problems()
    weight = edge_weight.requires_grad_()
    module = build_seeded(backbone, FEATURES, CLASSES, seed=0)
    learner = backbone_engine([module], x[0], edge_index, weight, target[:1])
    for _ in range(2):
        learner.step()
    assert weight.grad is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ("one", "two", "one")}, "`names` must be distinct, got"),
        ({"names": ("one", "two")}, "`names` must contain one value per problem, 3 in all, got 2"),
        ({"unlabelled": 1}, "`train` must contain the class of at least one training node of 'two', got none"),
    ],
)
def test_invalid_input_is_rejected(change, message):
    x, edge_index, edge_weight, target, validation = problems()
    given = {"x": x, "seeds": (0, 1, 2), "names": NAMES, "unlabelled": [], **change}
    target[given.pop("unlabelled")] = -1
    modules = [build_seeded(backbone, FEATURES, CLASSES, seed=0) for backbone in [GCN()] * 3]
    with pytest.raises(ValueError, match=message):
        backbone_engine(
            modules, edge_index=edge_index, edge_weight=edge_weight, train=target, validation=validation, **given
        )


@every_backbone
def test_the_graph_of_stacked_backbones_is_not_cached(backbone):
    learner = made(backbone)
    learner.step()
    x, *edges = problems()[:3]
    for module in exported(learner):
        counting = Counting(module)
        module(x[0], *edges)
        assert counting.times == 1
