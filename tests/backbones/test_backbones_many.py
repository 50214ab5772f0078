"""Many backbones at once: each is what it would be alone, and the stacked layers are PyG's."""

import dataclasses

import pytest
import torch
from lggd.backbones.propagation import Propagation, SortedEdges
from lggd.training.loop import learn
from torch import nn
from torch_geometric.nn import ChebConv, GATConv, GCNConv, JumpingKnowledge
from torch_geometric.utils import softmax

from lggd.backbones import GAT, GCN, BackboneLearner, ChebNet, JKNet, attention, initialised, jumping, layers
from lggd.backbones import stack as stacking
from lggd.training import cuda_graph as replay
from lggd.training import engine as learning
from lggd.training.checkpoint import Checkpoint
from lggd.training.dropout import draw_kept
from lggd.training.optimization import Optimization
from small_data import CLASSES, WITHOUT_EFFECT, blocks, random

FEATURES = 2 * CLASSES
EPOCHS, PATIENCE = 15, 4
NAMES = ("one", "two", "three")
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


class Own(nn.Module):
    """A module of one's own that drops values, and has buffers that training changes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES)
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout()

    def forward(self, x, edge_index):
        return self.second(self.dropout(torch.relu(self.norm(self.first(x)))))


class Lazy(Own):
    def __init__(self):
        super().__init__()
        self.first = nn.LazyLinear(8)


with torch.random.fork_rng([]):
    torch.manual_seed(0)
    OWN = [Own(), Lazy()]
OURS = [GCN(hidden=8), GAT(hidden=4, heads=2), ChebNet(hidden=8, terms=3), JKNet(hidden=8)]
every_backbone = pytest.mark.parametrize("backbone", OURS, ids=repr)
every_kind = pytest.mark.parametrize("backbone", [*OURS, *OWN], ids=lambda one: repr(one).split("(\n")[0])


def problems(seed=0):
    """Features `[3, N, F]`, edges, weights, training and validation labels `[3, N]` of three problems on one graph.

    They have different features and labels. The second has labels of chance, so that it soon runs out of patience. The
    third has no validation nodes.
    """
    data = blocks(each=40, noise=1.0, weighted=True, inside=0.05, outside=0.01, seed=seed)
    x = torch.stack([data.x, torch.randn(data.x.shape, generator=random(1)), data.x.flip(1) + 0.1])
    target, validation = torch.full((2, 3, data.num_nodes), -1)
    for q in range(3):
        order = torch.randperm(data.num_nodes, generator=random(q))
        truth = data.y if q != 1 else torch.randint(CLASSES, data.y.shape, generator=random(9))
        for labels, nodes in ((target, order[: 30 + q]), (validation, order[30 + q : 120 if q == 0 else 34])):
            labels[q, nodes] = truth[nodes]
    validation[2] = -1
    return x, data.edge_index, data.edge_weight, target, validation


def made(backbone, chosen=(0, 1, 2), x=None, device="cpu", **settings):
    """A learner of the chosen ones of the problems."""
    own_x, edge_index, edge_weight, target, validation = (each.to(device) for each in problems())
    x = own_x[list(chosen)] if x is None else x.to(device)
    modules = [initialised(backbone, FEATURES, CLASSES, seed=10 + q) for q in chosen]
    optimization = Optimization(**{"lr": 0.02, "epochs": EPOCHS, "patience": PATIENCE, **settings})
    return BackboneLearner(
        modules, x, edge_index, edge_weight, target[list(chosen)], validation[list(chosen)], optimization,
        [10 + q for q in chosen], [NAMES[q] for q in chosen],
    )  # fmt: skip


def told_of(history, name):
    """What a history tells of a problem."""
    return {key.removesuffix(f" {name}"): values for key, values in history.items() if key.endswith(f" {name}")}


def same(state, other):
    return state.keys() == other.keys() and all(torch.equal(state[name], other[name]) for name in state)


def state_of(module):
    """A module's state, but for the one number that counts for nothing."""
    return {name: value for name, value in module.state_dict().items() if name != WITHOUT_EFFECT}


# -- Together as alone -------------------------------------------------------------------------------------------------


def check_alone(backbone, device="cpu", close=CLOSE, **settings):
    """Each problem learns together with the others what it learns alone."""
    together = made(backbone, device=device, **settings)
    history = learn(together, "backbone")
    modules = together.load_best()
    for q, name in enumerate(NAMES):
        alone = made(backbone, [q], device=device, **settings)
        of_it = learn(alone, "backbone")
        expected, found = told_of(of_it, name), told_of(history, name)
        assert {key: len(values) for key, values in found.items()} == {key: len(v) for key, v in expected.items()}
        for key, values in expected.items():
            assert found[key] == pytest.approx(values, rel=close["rtol"], abs=close["atol"])
        assert together.best_epoch[q] == alone.best_epoch[0]
        assert together.best_accuracy[q] == alone.best_accuracy[0]
        torch.testing.assert_close(state_of(modules[q]), state_of(alone.load_best()[0]), **close)
    return together, history


@every_kind
def test_together_as_alone(backbone, monkeypatch):
    monkeypatch.setattr(learning, "EPOCHS_WITHOUT_VALIDATION", 9)
    together, history = check_alone(backbone)
    # They do end at different times, and by every rule that there is.
    epochs = [len(history[f"train_loss {name}"]) for name in NAMES]
    assert epochs[1] < epochs[0]
    assert epochs[1] == together.best_epoch[1] + PATIENCE
    assert epochs[2] == together.best_epoch[2] == 9
    assert together.best_accuracy[2] is None
    assert set(told_of(history, "three")) == {"train_loss"}


@every_kind
@pytest.mark.parametrize("patience", [1, None])
def test_together_as_alone_with_other_patience(backbone, patience):
    check_alone(backbone, patience=patience)


class DrawFromOne:
    """Planted: all problems draw from the generator of the first."""

    def __call__(self, generators, shape, levels):
        return draw_kept([generators[0]] * len(generators), shape, levels)


class DrawTheSame:
    """Planted: all problems drop what the first drops."""

    def __call__(self, generators, shape, levels):
        kept = draw_kept(generators, shape, levels)
        return kept[:1].expand(kept.shape).contiguous()


class DrawInTurns:
    """Planted: how a problem draws depends on how many there are."""

    def __call__(self, generators, shape, levels):
        for _ in generators:
            kept = draw_kept(generators, shape, levels)
        return kept


@every_backbone
@pytest.mark.parametrize("wrong", [DrawFromOne(), DrawTheSame(), DrawInTurns()], ids=lambda one: type(one).__name__)
def test_shared_random_numbers_would_be_caught(backbone, wrong, monkeypatch):
    monkeypatch.setattr(stacking, "draw_kept", wrong)
    with pytest.raises(AssertionError):
        check_alone(backbone)


def keep_for_all(self, better):
    """Planted: where one is better, all are kept."""
    KEEP(self, better.any().expand(better.shape))


def keep_after_the_end(self):
    """Planted: nothing ever ends on the device."""
    return torch.zeros_like(self._unasked)


KEEP = BackboneLearner._keep


@pytest.mark.parametrize("backbone", [OURS[0], OWN[0]], ids=["stacked", "own"])
@pytest.mark.parametrize(("name", "wrong"), [("_keep", keep_for_all), ("_ended", keep_after_the_end)])
def test_a_best_state_of_others_would_be_caught(backbone, name, wrong, monkeypatch):
    monkeypatch.setattr(learning, "EPOCHS_WITHOUT_VALIDATION", 9)
    monkeypatch.setattr(BackboneLearner, name, wrong)
    with pytest.raises(AssertionError):
        check_alone(backbone)


def test_a_buffer_made_in_the_first_epoch_is_kept():
    class Counting(Own):
        def forward(self, x, edge_index):
            if self.training:
                self.register_buffer("epoch", getattr(self, "epoch", torch.tensor(0)) + 1)
            return super().forward(x, edge_index)

    learner = made(Counting())
    learn(learner, "backbone")
    assert [int(module.module.epoch) for module in learner.load_best()] == learner.best_epoch


@every_kind
def test_features_for_all_are_features_for_each(backbone):
    x = problems()[0][0]
    shared, repeated = made(backbone, x=x), made(backbone, x=x.expand(3, *x.shape))
    one, other = learn(shared, "backbone"), learn(repeated, "backbone")
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert other[name] == pytest.approx(values, rel=1e-4, abs=1e-5)
    assert shared.best_epoch == repeated.best_epoch
    for mine, its in zip(shared.load_best(), repeated.load_best(), strict=True):
        torch.testing.assert_close(state_of(mine), state_of(its), **CLOSE)


@every_kind
def test_the_same_bits_every_time(backbone):
    one, other = made(backbone), made(backbone)
    assert learn(one, "backbone") == learn(other, "backbone")
    assert same(one.state(), other.state())


@every_kind
def test_interrupted_training_goes_on_bit_for_bit(backbone, tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "EPOCHS_WITHOUT_VALIDATION", 9)
    whole = made(backbone)
    history = learn(whole, "backbone")

    def interrupt(progress):
        # The second problem has ended by then, the others have not.
        if progress.epoch == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(made(backbone), "backbone", interrupt, Checkpoint(tmp_path, "key", every=0))
    resumed = made(backbone)
    assert learn(resumed, "backbone", None, Checkpoint(tmp_path, "key", every=0)) == history
    assert same(resumed.state(), whole.state())
    assert (resumed.best_epoch, resumed.best_accuracy) == (whole.best_epoch, whole.best_accuracy)
    for mine, its in zip(resumed.load_best(), whole.load_best(), strict=True):
        assert same(mine.state_dict(), its.state_dict())


@every_kind
def test_a_restored_learner_knows_what_has_ended(backbone):
    learner = made(backbone, epochs=40)
    while all(learner._running):
        learner.step()
    other = made(backbone, epochs=40)
    other.restore(learner.state())
    assert other._running == learner._running
    assert other.step() == learner.step()


@every_kind
def test_torchs_random_numbers_are_left_alone(backbone):
    before = torch.get_rng_state()
    learner = made(backbone)
    learn(learner, "backbone")
    learner.load_best()
    assert torch.equal(torch.get_rng_state(), before)


@every_kind
def test_names_in_the_history(backbone):
    measured = made(backbone).step()
    names = {f"{measure} {name}" for name in NAMES for measure in ("train_loss", "validation_loss")}
    names |= {f"validation_accuracy {name}" for name in NAMES}
    assert set(measured) == names - {"validation_loss three", "validation_accuracy three"}
    x, edge_index, _, target, validation = problems()
    modules = [initialised(backbone, FEATURES, CLASSES, seed=0) for _ in range(2)]
    two = BackboneLearner(
        modules, x[:2], edge_index, None, target[:2], validation[:2], seeds=(0, 1), names=("", "other")
    )
    assert set(two.step()) == {
        "train_loss", "validation_loss", "validation_accuracy",
        "train_loss other", "validation_loss other", "validation_accuracy other",
    }  # fmt: skip


@every_kind
def test_what_ended_may_go_astray(backbone):
    """A problem that has ended keeps its best state, and its loss no longer matters."""
    learner = made(backbone, epochs=40)
    while learner._running[1]:
        learner.step()
    assert all(learner._running[::2])
    for owned in learner._networks.owned():
        if owned.value.is_floating_point() and owned.owner in (None, 1):
            with torch.no_grad():
                (owned.value if owned.owner == 1 else owned.value[1]).fill_(torch.nan)
    measured = learner.step()
    assert not any(name.endswith(" two") for name in measured)
    assert all(value == value for value in measured.values())
    for module in learner.load_best():
        assert all(torch.isfinite(value).all() for value in module.state_dict().values())


@every_kind
def test_a_loss_that_is_not_finite_is_told_of_its_problem(backbone):
    x = problems()[0].clone()
    x[1, 3] = torch.inf
    with pytest.raises(FloatingPointError, match=r"The loss of 'two' must stay finite, got .* at epoch 1\. Lower `lr`"):
        learn(made(backbone, x=x), "backbone")


@every_backbone
def test_trained_modules_have_their_own_memory(backbone):
    learner = made(backbone)
    learner.step()
    modules = learner.load_best()
    for module in modules:
        assert not module.training
        for parameter in module.parameters():
            assert parameter.untyped_storage().nbytes() == parameter.numel() * parameter.element_size()
    logits = [module(x, problems()[1]) for module, x in zip(modules, problems()[0], strict=True)]
    assert not torch.allclose(logits[0], logits[1])


@every_backbone
def test_frozen_parameters_stay(backbone):
    x, edge_index, edge_weight, target, validation = problems()
    modules = [initialised(backbone, FEATURES, CLASSES, seed=q) for q in range(3)]
    for module in modules:
        module.first.bias.requires_grad_(False).fill_(0.5)
    learner = BackboneLearner(modules, x, edge_index, edge_weight, target, validation, seeds=range(3), names=NAMES)
    for _ in range(3):
        learner.step()
    trained = learner.load_best()
    assert all(mine is its for mine, its in zip(trained, modules, strict=True))
    assert all((module.first.bias == 0.5).all() for module in trained)


@every_backbone
def test_weights_that_ask_for_gradients_get_none(backbone):
    x, edge_index, edge_weight, target, _ = problems()
    weight = edge_weight.requires_grad_()
    module = initialised(backbone, FEATURES, CLASSES, seed=0)
    learner = BackboneLearner([module], x[0], edge_index, weight, target[:1])
    for _ in range(2):
        learner.step()
    assert weight.grad is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"modules": [GCN(), GCN(hidden=4), GCN()]}, r"`modules` must be of one choice .* number 1, of GCN\(hidden=4"),
        ({"modules": [GCN(), GAT(), GCN()]}, r"`modules` must be of one choice .* number 1, of GAT\("),
        ({"modules": [GCN(), GCN(dropout=0.1), GCN()]}, r"`modules` must be of one choice"),
        ({"modules": [GCN(), GCN(), OWN[0]]}, "`modules` must all be of a backbone of ours or .*got 2 of 3"),
        ({"names": ("one", "two", "one")}, "`names` must tell the problems apart, got"),
        ({"names": ("one", "two")}, "`names` must have one a module, 3 in all, got 2"),
        ({"seeds": (0,)}, "`seeds` must have one a module, 3 in all, got 1"),
        ({"x": torch.ones(2, 120, FEATURES)}, r"`x` must be \[N, F\] or \[3, N, F\] for 3 modules, got \[2, 120, 6\]"),
        ({"unlabelled": 1}, "`target` must hold the class of at least one training node of 'two', got none"),
    ],
)
def test_wrong_input_is_refused(change, told):
    x, edge_index, edge_weight, target, validation = problems()
    given = {"modules": [GCN()] * 3, "x": x, "seeds": (0, 1, 2), "names": NAMES, "unlabelled": [], **change}
    target[given.pop("unlabelled")] = -1
    modules = [initialised(backbone, FEATURES, CLASSES, seed=0) for backbone in given.pop("modules")]
    with pytest.raises(ValueError, match=told):
        BackboneLearner(
            modules, edge_index=edge_index, edge_weight=edge_weight, target=target, validation=validation, **given
        )


# -- Stacked layers are PyG's ------------------------------------------------------------------------------------------


Q, NODES = 3, 14


def untidy():
    """One-way edges among all nodes but the last, some of them twice, some of them loops, with weights."""
    edge_index = torch.randint(NODES - 1, (2, 50), generator=random(1))
    edge_index[1, :3] = edge_index[0, :3]
    edge_index[:, 3] = edge_index[:, 4]
    return edge_index, torch.rand(50, generator=random(2), dtype=torch.float64) + 0.1


def values(*shape, seed=3):
    return torch.randn(*shape, generator=random(seed), dtype=torch.float64)


def stacked(modules):
    """Their parameters by name, `[Q, …]`."""
    each = [dict(module.named_parameters()) for module in modules]
    return {name: torch.stack([one[name] for one in each]) for name in each[0]}


def some(kind, *sizes, **settings):
    """Q layers of a kind of PyG's, with parameters that are nowhere 0."""
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        made = [kind(*sizes, **settings).double() for _ in range(Q)]
        for module in made:
            for parameter in module.parameters():
                nn.init.normal_(parameter)
    return made


def gcn():
    modules, (edge_index, weight) = some(GCNConv, FEATURES, 4), untidy()
    spread = layers.gcn_adjacency(edge_index, weight, NODES, torch.float64)

    def ours(x, p):
        return layers.gcn_conv(x, p["lin.weight"], p["bias"], spread)

    return modules, lambda module, x: module(x, edge_index, weight), ours


def chebyshev(terms):
    modules, (edge_index, weight) = some(ChebConv, FEATURES, 4, K=terms), untidy()
    spread = layers.scaled_laplacian(edge_index, weight, NODES, torch.float64)

    def ours(x, p):
        return layers.cheb_conv(x, [p[f"lins.{k}.weight"] for k in range(terms)], p["bias"], spread)

    return modules, lambda module, x: module(x, edge_index, weight), ours


def attentive(heads):
    modules, (edge_index, _) = some(GATConv, FEATURES, 4, heads=heads), untidy()
    edges = layers.edges_with_loops(edge_index, None, NODES, torch.float64)

    def ours(x, p):
        each = layers.gat_conv(x, p["lin.weight"], p["att_src"], p["att_dst"], edges, 0.2, lambda share: share)
        return each.transpose(1, 2).flatten(2) + p["bias"][:, None]

    return modules, lambda module, x: module(x, edge_index), ours


LAYERS = {
    "GCNConv": gcn,
    **{f"ChebConv {terms}": lambda terms=terms: chebyshev(terms) for terms in (1, 2, 3, 4, 6)},
    **{f"GATConv {heads}": lambda heads=heads: attentive(heads) for heads in (1, 3)},
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("own", [True, False], ids=["own features", "shared features"])
def test_stacked_layers_are_pygs(layer, own):
    modules, theirs, ours = layer()
    x = (values(Q, NODES, FEATURES) if own else values(NODES, FEATURES)).requires_grad_()
    expected = torch.stack([theirs(module, x[q] if own else x) for q, module in enumerate(modules)])
    found = ours(x, stacked(modules))
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    parameters = [x, *(one for module in modules for one in module.parameters())]
    slope = values(*found.shape, seed=4)
    gradients = (torch.autograd.grad(logits, parameters, slope) for logits in (found, expected))
    torch.testing.assert_close(*gradients, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_the_lstm_is_torchs(length):
    modules = some(nn.LSTM, FEATURES, 5, bidirectional=True, batch_first=True)
    sequence = [values(Q, NODES, FEATURES, seed=k).requires_grad_() for k in range(length)]
    found = torch.stack(jumping.bidirectional_lstm(sequence, stacked(modules)), dim=2)
    expected = torch.stack([module(torch.stack(sequence, dim=2)[q])[0] for q, module in enumerate(modules)])
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    parameters = [*sequence, *(one for module in modules for one in module.parameters())]
    slope = values(*found.shape, seed=4)
    # A sequence of one never gets to use its recurrent weights.
    gradients = (torch.autograd.grad(states, parameters, slope, allow_unused=True) for states in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one if one is not None else torch.zeros_like(other), other, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("length", [2, 3])
def test_jumping_is_pygs(length):
    modules = some(JumpingKnowledge, "lstm", FEATURES, 3)
    near = [values(Q, NODES, FEATURES, seed=k) for k in range(length)]
    expected = torch.stack([module([one[q] for one in near]) for q, module in enumerate(modules)])
    torch.testing.assert_close(jumping.jumping_knowledge(near, stacked(modules)), expected, atol=1e-12, rtol=1e-12)


def edges_with_loops():
    return layers.edges_with_loops(untidy()[0], None, NODES, torch.float64)


def test_attention_is_a_softmax_with_exact_gradients():
    edges, ends = edges_with_loops(), [values(NODES, 4, seed=seed).requires_grad_() for seed in (3, 4)]
    score = nn.functional.leaky_relu(ends[0][edges.source] + ends[1][edges.target], 0.2)
    expected = softmax(score, edges.target, num_nodes=NODES).t()
    torch.testing.assert_close(attention.attention(*ends, edges, 0.2), expected, atol=1e-14, rtol=1e-14)
    assert torch.autograd.gradcheck(lambda sent, received: attention.attention(sent, received, edges, 0.2), ends)


def test_attention_of_any_size_is_finite():
    edges = edges_with_loops()
    sent = values(NODES, 1) * 1e6
    share = attention.attention(sent, -2 * sent, edges, 0.2)
    assert torch.isfinite(share).all()
    torch.testing.assert_close(edges.sums(share.t().contiguous()), torch.ones(NODES, 1, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reductions_over_edges(dtype):
    edges = edges_with_loops()
    each = values(len(edges.source), 3).to(dtype)
    into, out_of = (
        [each[ends == node] for node in range(NODES)] for ends in (edges.target, edges.source)
    )  # fmt: skip
    torch.testing.assert_close(edges.sums(each), torch.stack([one.sum(0) for one in into]))
    torch.testing.assert_close(edges.sums_by_source(each), torch.stack([one.sum(0) for one in out_of]))
    assert torch.equal(edges.maxima(each), torch.stack([one.amax(0) for one in into]))


@pytest.mark.parametrize("width", [1, 3, 8, 11])
def test_propagation_of_many_has_exact_gradients(width):
    edge_index, weight = untidy()
    edges = SortedEdges(edge_index, NODES)
    value, x = weight[edges.order].requires_grad_(), values(Q, NODES, width).requires_grad_()
    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    matrix = matrix.index_put((edges.target, edges.source), value.detach(), accumulate=True)
    torch.testing.assert_close(Propagation(edges, value)(x), matrix @ x, atol=1e-13, rtol=1e-13)
    moved = x.detach().transpose(0, 1).contiguous().transpose(0, 1)
    torch.testing.assert_close(Propagation(edges, value)(moved), matrix @ x, atol=1e-13, rtol=1e-13)
    assert torch.autograd.gradcheck(lambda value, x: Propagation(edges, value)(x), (value, x))


def test_copies_of_a_graph_are_as_many_graphs():
    edges, x = edges_with_loops(), values(Q, NODES, 4)
    value = values(Q, len(edges.source), seed=5)
    expected = torch.stack([edges.matrix(of) @ one for of, one in zip(value, x, strict=True)])
    spread = Propagation(edges.repeated(Q), value.flatten())
    torch.testing.assert_close(spread(x.view(1, -1, 4)).view(x.shape), expected, atol=1e-13, rtol=1e-13)
    assert edges.repeated(Q) is edges.repeated(Q)


@every_backbone
def test_the_graph_of_a_stack_is_not_kept_by_its_modules(backbone):
    learner = made(backbone)
    learner.step()
    assert all(module.remembered._kept == () for module in learner.load_best())


# -- On a CUDA device --------------------------------------------------------------------------------------------------


on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
# Sums in another order: on a GPU they are cut according to the size of the whole.
CLOSE_ON_GPU = {"rtol": 5e-3, "atol": 5e-4}


class TestCuda:
    pytestmark = on_gpu

    @every_kind
    def test_together_as_alone(self, backbone, monkeypatch):
        recordings, record = [], replay.CUDAGraphStep._record
        monkeypatch.setattr(replay.CUDAGraphStep, "_record", lambda self: recordings.append(self) or record(self))
        monkeypatch.setattr(learning, "EPOCHS_WITHOUT_VALIDATION", 9)
        together, history = check_alone(backbone, "cuda", CLOSE_ON_GPU)
        assert len(history["train_loss one"]) > replay.WARM_UP + 2
        assert (together._epoch in recordings) == (backbone in OURS)

    @every_backbone
    def test_shared_random_numbers_would_be_caught(self, backbone, monkeypatch):
        monkeypatch.setattr(stacking, "draw_kept", DrawTheSame())
        with pytest.raises(AssertionError):
            check_alone(backbone, "cuda", CLOSE_ON_GPU)

    @every_backbone
    def test_recorded_as_not_recorded(self, backbone, monkeypatch):
        recorded = made(backbone, device="cuda")
        history = learn(recorded, "backbone")
        monkeypatch.setattr(replay, "WARM_UP", 1000)
        plain = made(backbone, device="cuda")
        for name, values in learn(plain, "backbone").items():
            assert history[name] == pytest.approx(values, rel=1e-3, abs=1e-4)
        assert recorded.best_epoch == plain.best_epoch
        # What was drawn is the same to the bit.
        for q in range(3):
            assert torch.equal(recorded.state()[f"random.{q}"], plain.state()[f"random.{q}"])

    @every_backbone
    def test_without_dropout_it_is_the_cpu(self, backbone):
        backbone = dataclasses.replace(backbone, dropout=0.0)
        histories = [learn(made(backbone, device=device), "backbone") for device in ("cpu", "cuda")]
        for name, values in histories[0].items():
            if name.startswith("train_loss"):
                assert histories[1][name][:5] == pytest.approx(values[:5], rel=5e-3, abs=5e-4)

    @every_kind
    def test_features_for_all_are_features_for_each(self, backbone):
        x = problems()[0][0]
        shared, repeated = (made(backbone, x=each, device="cuda") for each in (x, x.expand(3, *x.shape)))
        one, other = learn(shared, "backbone"), learn(repeated, "backbone")
        for name, values in one.items():
            assert other[name][:6] == pytest.approx(values[:6], rel=5e-3, abs=5e-4)

    @every_kind
    def test_interrupted_training_goes_on(self, backbone, tmp_path):
        whole, half = made(backbone, device="cuda"), made(backbone, device="cuda")
        told = [whole.step() for _ in range(10)]
        for _ in range(5):
            half.step()
        checkpoint = Checkpoint(tmp_path, "key", every=0)
        checkpoint.save("stage", half.state())
        resumed = made(backbone, device="cuda")
        # It has a recording already, of tensors that stay where they are.
        for _ in range(replay.WARM_UP + 1):
            resumed.step()
        resumed.restore(checkpoint.load("stage"))
        for expected in told[5:]:
            assert resumed.step() == pytest.approx(expected, rel=1e-3, abs=1e-4)
        for name, value in resumed.state().items():
            if name.startswith("random."):
                assert torch.equal(value, whole.state()[name])
