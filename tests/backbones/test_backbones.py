"""The backbones: one contract for all four, exact formulas, the graph they remember, and how they are trained."""

import copy
import math
import pickle

import pytest
import torch
from lggd.backbones.propagation import Propagation, SortedEdges
from lggd.training.loop import learn
from torch import nn
from torch.nn import functional

from lggd import backbones
from lggd.backbones import EPOCHS_WITHOUT_VALIDATION, GAT, GCN, BackboneLearner, ChebNet, JKNet, build_backbone
from lggd.backbones import propagation as propagating
from lggd.backbones import stack as stacking
from lggd.training.checkpoint import Checkpoint
from lggd.training.dropout import LEVELS, draw_kept
from lggd.training.optimization import Optimization
from small_data import WITHOUT_EFFECT

FEATURES, CLASSES = 6, 3
BACKBONES = [GCN(hidden=8), GAT(hidden=4, heads=2), ChebNet(hidden=8), ChebNet(hidden=8, terms=4), JKNet(hidden=6)]
every_backbone = pytest.mark.parametrize("backbone", BACKBONES, ids=repr)
no_edges = torch.zeros(2, 0, dtype=torch.int64)


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def initialised(backbone, seed=0, in_channels=FEATURES, num_classes=CLASSES):
    return backbones.initialised(backbone, in_channels, num_classes, seed)


def undirected(num_nodes=20, num_edges=40, isolated=2, seed=0):
    """Edges in both directions without loops; the last `isolated` nodes have none."""
    edges = torch.randint(num_nodes - isolated, (2, num_edges), generator=random(seed))
    edges = edges[:, edges[0] != edges[1]]
    return torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)


def untidy(num_nodes=12):
    """One-way edges, some of them twice, some of them loops, with weights."""
    edge_index = torch.randint(num_nodes - 1, (2, 40), generator=random(1))
    edge_index[1, :3] = edge_index[0, :3]
    edge_index[:, 3] = edge_index[:, 4]
    return edge_index, torch.rand(40, generator=random(2)) + 0.1


def features(num_nodes=20, dtype=torch.float32):
    return torch.rand(num_nodes, FEATURES, generator=random(3), dtype=dtype)


def dense(edge_index, num_nodes, edge_weight=None, dtype=torch.float64):
    """A with entry (i, j) for the edge j → i."""
    weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
    matrix = torch.zeros(num_nodes, num_nodes, dtype=dtype)
    return matrix.index_put((edge_index[1], edge_index[0]), weight.to(dtype), accumulate=True)


def normalised(matrix):
    """D^-½ M D^-½, and 0 where a degree is 0."""
    root = matrix.sum(1).pow(-0.5)
    root[torch.isinf(root)] = 0
    return root[:, None] * matrix * root[None, :]


def same(state, other):
    return state.keys() == other.keys() and all(torch.equal(state[name], other[name]) for name in state)


# -- One contract ------------------------------------------------------------------------------------------------------


@every_backbone
def test_logits_have_a_row_a_node_and_a_column_a_class(backbone):
    logits = initialised(backbone)(features(), undirected())
    assert logits.shape == (20, CLASSES)
    assert logits.dtype == torch.float32
    assert torch.isfinite(logits).all()


@every_backbone
def test_gradient_reaches_every_parameter(backbone):
    module = initialised(backbone).eval()
    functional.cross_entropy(module(features(), undirected()), torch.arange(20) % CLASSES).backward()
    missed = {name for name, one in module.named_parameters() if one.grad is None or not one.grad.any()}
    assert missed <= {WITHOUT_EFFECT}


@every_backbone
def test_evaluation_gives_the_same_bits_and_training_does_not(backbone):
    module, x, edge_index = initialised(backbone), features(), undirected()
    module.eval()
    assert torch.equal(module(x, edge_index), module(x, edge_index))
    module.train()
    with torch.random.fork_rng([]):
        assert not torch.equal(module(x, edge_index), module(x, edge_index))


@every_backbone
def test_without_dropout_training_is_evaluation(backbone):
    module = initialised(type(backbone)(dropout=0.0))
    x, edge_index = features(), undirected()
    assert torch.equal(module.train()(x, edge_index), module.eval()(x, edge_index))


@every_backbone
def test_permuting_nodes_permutes_logits(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    order = torch.randperm(20, generator=random(4))
    moved = module(x[order], order.argsort()[edge_index])
    torch.testing.assert_close(moved, module(x, edge_index)[order], atol=1e-6, rtol=1e-5)


@every_backbone
def test_order_of_edges_does_not_matter(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    order = torch.randperm(edge_index.shape[1], generator=random(4))
    assert torch.equal(module(x, edge_index[:, order]), module(x, edge_index))


@every_backbone
@pytest.mark.parametrize("num_nodes", [1, 4])
def test_nodes_without_edges(backbone, num_nodes):
    module, x = initialised(backbone).eval(), features(num_nodes)
    logits = module(x, no_edges)
    assert torch.isfinite(logits).all()
    logits.sum().backward()
    alone = [module(x[node : node + 1], no_edges) for node in range(num_nodes)]
    torch.testing.assert_close(logits, torch.cat(alone), atol=1e-6, rtol=1e-5)


@every_backbone
def test_an_isolated_node_hears_nothing_of_the_others(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    before = module(x, edge_index)
    x[:18] += 1
    after = module(x, edge_index)
    torch.testing.assert_close(before[18:], after[18:])
    assert not torch.allclose(before[edge_index[0]], after[edge_index[0]])


@every_backbone
def test_the_seed_decides_the_parameters(backbone):
    one, two, other = (initialised(backbone, seed).state_dict() for seed in (0, 0, 1))
    assert same(one, two)
    assert not same(one, other)
    drawn = [initialised(backbone, random(5)).state_dict() for _ in range(2)]
    assert same(*drawn)


@every_backbone
def test_edge_weights_count_except_in_attention(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    weight = torch.rand(edge_index.shape[1], generator=random(6)) + 0.1
    logits, weighted = module(x, edge_index), module(x, edge_index, weight)
    assert torch.equal(logits, weighted) == isinstance(backbone, GAT)
    torch.testing.assert_close(module(x, edge_index, torch.ones_like(weight)), logits)
    torch.testing.assert_close(module(x, edge_index, weight.double()), weighted)


@every_backbone
def test_double_precision(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    single = module(x, edge_index)
    torch.testing.assert_close(module.double()(x.double(), edge_index).float(), single, atol=1e-6, rtol=1e-5)


@every_backbone
def test_choices_are_frozen_and_equal_by_value(backbone):
    with pytest.raises(AttributeError):
        backbone.hidden = 5
    assert copy.deepcopy(backbone) == backbone
    assert hash(copy.deepcopy(backbone)) == hash(backbone)


# -- Exact formulas ----------------------------------------------------------------------------------------------------


def test_defaults_are_the_papers():
    assert GCN() == GCN(hidden=32, dropout=0.5)
    assert GAT() == GAT(hidden=32, heads=8, dropout=0.5)
    assert ChebNet() == ChebNet(hidden=32, terms=2, dropout=0.5)
    assert JKNet() == JKNet(hidden=16, lstm_layers=3, dropout=0.5)


def test_gcn_is_its_formula():
    module, x, edge_index = initialised(GCN(hidden=8)).double().eval(), features(dtype=torch.float64), undirected()
    a = normalised(dense(edge_index, 20) + torch.eye(20, dtype=torch.float64))
    first, second = module.first, module.second
    hidden = torch.relu(a @ (x @ first.lin.weight.T) + first.bias)
    expected = a @ (hidden @ second.lin.weight.T) + second.bias
    torch.testing.assert_close(module(x, edge_index), expected, atol=1e-14, rtol=1e-14)


@pytest.mark.parametrize("terms", [1, 2, 3, 5])
def test_chebnet_is_its_formula(terms):
    module = initialised(ChebNet(hidden=8, terms=terms)).double().eval()
    x, edge_index = features(dtype=torch.float64), undirected()
    moved = -normalised(dense(edge_index, 20))

    def layer(x, conv):
        chebyshev = [x, moved @ x]
        while len(chebyshev) < terms:
            chebyshev.append(2 * moved @ chebyshev[-1] - chebyshev[-2])
        return sum(t @ lin.weight.T for t, lin in zip(chebyshev, conv.lins, strict=False)) + conv.bias

    expected = layer(torch.relu(layer(x, module.first)), module.second)
    torch.testing.assert_close(module(x, edge_index), expected, atol=1e-12, rtol=1e-12)


def test_gat_is_its_formula():
    module = initialised(GAT(hidden=4, heads=3)).double().eval()
    x, edge_index = features(dtype=torch.float64), undirected()
    absent = dense(edge_index, 20) + torch.eye(20, dtype=torch.float64) == 0

    def head(x, conv, number):
        width = conv.out_channels
        value = x @ conv.lin.weight[number * width : (number + 1) * width].T
        score = (value @ conv.att_dst[0, number])[:, None] + (value @ conv.att_src[0, number])[None, :]
        return functional.leaky_relu(score, 0.2).masked_fill(absent, -math.inf).softmax(1) @ value

    hidden = torch.cat([head(x, module.first, number) for number in range(3)], dim=1) + module.first.bias
    expected = head(functional.elu(hidden), module.second, 0) + module.second.bias
    torch.testing.assert_close(module(x, edge_index), expected, atol=1e-13, rtol=1e-13)


def test_gat_widths():
    module = initialised(GAT())
    assert module.first.lin.weight.shape == (8 * 32, FEATURES)
    assert module.second.lin.weight.shape == (CLASSES, 8 * 32)
    assert module.first.att_src.shape == (1, 8, 32)
    assert module.second.att_src.shape == (1, 1, CLASSES)


def test_jknet_is_its_formula():
    module = initialised(JKNet(hidden=6)).double().eval()
    x, edge_index = features(dtype=torch.float64), undirected()
    a = normalised(dense(edge_index, 20) + torch.eye(20, dtype=torch.float64))
    near = torch.relu(a @ (x @ module.first.lin.weight.T) + module.first.bias)
    far = torch.relu(a @ (near @ module.second.lin.weight.T) + module.second.bias)
    both = torch.stack([near, far], dim=1)
    share = module.jump.att(module.jump.lstm(both)[0]).softmax(1)
    expected = a @ (both * share).sum(1) @ module.last.weight.T + module.last.bias
    torch.testing.assert_close(module(x, edge_index), expected, atol=1e-13, rtol=1e-13)


def test_jumping_between_equal_layers_stays():
    x = torch.rand(20, 16, generator=random())
    jump = initialised(JKNet()).jump
    torch.testing.assert_close(jump([x, x]), x)
    assert jump.lstm.hidden_size == 3 * 16 // 2
    assert jump.lstm.bidirectional


def through_pyg(module, backbone, x, edge_index, edge_weight):
    """What PyG's own layers make of the same parameters, by gathering and scattering."""
    from torch_geometric.nn import APPNP

    first, second = module.first, module.second
    if isinstance(backbone, GAT):
        return second(functional.elu(first(x, edge_index)), edge_index)
    near = torch.relu(first(x, edge_index, edge_weight))
    far = second(near, edge_index, edge_weight)
    if not isinstance(backbone, JKNet):
        return far
    return module.last(APPNP(K=1, alpha=0.0)(module.jump([near, torch.relu(far)]), edge_index, edge_weight))


@every_backbone
@pytest.mark.parametrize("weighted", [False, True])
def test_logits_and_gradients_are_those_of_pyg(backbone, weighted):
    module, x = initialised(backbone).double().eval(), features(12, torch.float64).requires_grad_()
    edge_index, edge_weight = untidy()
    # An edge weight that is learned gets its gradient too.
    weight = edge_weight.double().requires_grad_() if weighted else None
    given = [x, *module.parameters(), *([weight] if weighted and not isinstance(backbone, GAT) else [])]
    ours, pygs = module(x, edge_index, weight), through_pyg(module, backbone, x, edge_index, weight)
    torch.testing.assert_close(ours, pygs, atol=1e-12, rtol=1e-12)
    slope = torch.rand(ours.shape, generator=random(7), dtype=torch.float64)
    gradients = (torch.autograd.grad(logits, given, slope) for logits in (ours, pygs))
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=1e-12)


def dropped(backbone, nodes, edges):
    """The shapes of what the paper drops values of, in the order in which it does; a graph has a loop a node."""
    attention = edges + nodes
    return {
        GCN: [(nodes, 8)],
        GAT: [(nodes, FEATURES), (2, attention), (nodes, 8), (1, attention)],
        ChebNet: [(nodes, 8)],
        JKNet: [(nodes, 6), (nodes, 6)],
    }[type(backbone)]


@every_backbone
@pytest.mark.parametrize("training", [True, False])
def test_values_are_dropped_where_the_paper_drops_them(backbone, training, monkeypatch):
    module, edge_index, told = initialised(backbone).train(training), undirected(), []

    def dropout(values, p, training):
        told.append((tuple(values.shape[-2:]), p, training))
        return values

    monkeypatch.setattr(functional, "dropout", dropout)
    module(features(), edge_index)
    assert told == [(shape, 0.5, training) for shape in dropped(backbone, 20, edge_index.shape[1])]


@every_backbone
def test_the_learner_drops_the_same_values(backbone, monkeypatch):
    told = []

    def draw(generators, shape, levels):
        told.append((len(generators), tuple(shape), levels))
        return draw_kept(generators, shape, levels)

    monkeypatch.setattr(stacking, "draw_kept", draw)
    sbm_learner(backbone)[0].step()
    edges = block_model()[1].shape[1]
    assert told == [(1, shape, LEVELS // 2) for shape in dropped(backbone, 80, edges)]


def test_attention_that_is_dropped_counts():
    module, x, edge_index = initialised(GAT()), features(), undirected()
    own = {name: parameter[None] for name, parameter in module.named_parameters()}
    edges = module.remembered(x, edge_index, None)

    def logits(drop):
        return module.logits(
            own, x, edges, lambda values: drop(values) if values.shape[-1] == len(edges.source) else values
        )

    assert not torch.allclose(logits(torch.zeros_like), logits(lambda share: share))


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5, 0.9, 0.999])
def test_what_is_kept_stands_for_what_is_dropped(rate):
    learner, _ = sbm_learner(GCN(dropout=rate))
    values = torch.ones(1, 1000, 50)
    kept = learner._networks._dropped(values)
    assert kept.mean() == pytest.approx(1, abs=0.05 if rate < 0.99 else 0.3)
    assert (kept == 0).float().mean() == pytest.approx(rate, abs=0.01)
    assert len(kept.unique()) == (1 if rate == 0 else 2)


# -- Sums over neighbours ----------------------------------------------------------------------------------------------


def test_propagation_is_a_product_with_exact_gradients():
    edge_index, weight = untidy()
    edges, x = SortedEdges(edge_index, 12), features(12, torch.float64).requires_grad_()
    value = weight.double()[edges.order].requires_grad_()
    expected = dense(edge_index, 12, weight) @ x
    torch.testing.assert_close(Propagation(edges, value)(x[None])[0], expected, atol=1e-14, rtol=1e-14)
    assert torch.autograd.gradcheck(lambda value, x: Propagation(edges, value)(x[None]), (value, x))


def test_products_warn_of_nothing(recwarn):
    for backbone in BACKBONES:
        initialised(backbone)(features(), undirected()).sum().backward()
    assert [str(warning.message) for warning in recwarn] == []


class Counting:
    """Counts the times that a module reads its graph anew."""

    def __init__(self, module):
        self.remembered = module.remembered
        self.read, self.times = self.remembered._read, 0
        self.remembered._read = self

    def __call__(self, *graph):
        self.times += 1
        return self.read(*graph)


@every_backbone
def test_a_graph_is_read_once(backbone):
    module, x, one, other = initialised(backbone), features(), undirected(), undirected(seed=8)
    counting = Counting(module)
    for edge_index in (one, other, one, other):
        module(x, edge_index)
        module(x + 1, edge_index)
    assert counting.times == 2
    for seed in range(5):
        module(x, undirected(seed=seed))
    assert counting.times == 7
    assert len(counting.remembered._kept) == propagating.KEPT


def check_never_stale(backbone):
    """A graph that is changed in any way is seen as changed."""
    module, fresh = initialised(backbone).eval(), initialised(backbone).eval()
    x, edge_index = features(), undirected()
    weight = torch.rand(edge_index.shape[1], generator=random(9)) + 0.1

    def check(*inputs):
        found, expected = module(*inputs), fresh.double()(*(each.double() if each.is_floating_point() else each
                                                            for each in map(torch.clone, inputs)))  # fmt: skip
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)

    check(x, edge_index)
    check(x, edge_index.flip(1))
    check(x, undirected(seed=10)[:, : edge_index.shape[1]])
    edge_index[:, :6] = edge_index[:, :6] * 7 % 18
    check(x, edge_index)
    check(torch.cat([x, x]), edge_index)
    check(x, edge_index, weight)
    weight[:9] *= 5
    check(x, edge_index, weight)
    check(x, edge_index, weight.flip(0))
    check(x, edge_index)
    module.double()
    check(x.double(), edge_index)


@every_backbone
def test_a_remembered_graph_is_never_stale(backbone):
    check_never_stale(backbone)


@pytest.mark.parametrize("forgotten", ["versions", "size_and_type", "tensors"])
def test_a_stale_graph_would_be_caught(monkeypatch, forgotten):
    def looks_alike(self, other):
        by_shape = [tensor.shape for tensor in self.tensors] == [tensor.shape for tensor in other.tensors]
        by_identity = all(mine is its for mine, its in zip(self.tensors, other.tensors, strict=False))
        return all([
            by_shape if forgotten == "tensors" else by_identity and by_shape,
            forgotten == "versions" or self.versions == other.versions,
            forgotten == "size_and_type" or self.size_and_type == other.size_and_type,
        ])  # fmt: skip

    monkeypatch.setattr(propagating._Sight, "shows_the_same_as", looks_alike)
    with pytest.raises((AssertionError, RuntimeError)):
        check_never_stale(GCN())


@every_backbone
def test_the_graph_is_no_part_of_copies_or_saved_states(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    names, logits = set(module.state_dict()), module(x, edge_index)
    assert set(module.state_dict()) == names == {name for name, _ in module.named_parameters()}
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert Counting(twin).remembered._kept == ()
        assert torch.equal(twin(x, edge_index), logits)


@every_backbone
def test_inference_mode_leaves_no_trace(backbone):
    module, x, edge_index = initialised(backbone).eval(), features(), undirected()
    with torch.inference_mode():
        inferred = module(x, edge_index)
        assert torch.equal(module(x, edge_index.clone()), inferred)
    logits = module(x, edge_index)
    logits.sum().backward()
    assert torch.equal(logits, inferred)


# -- Modules of one's own ----------------------------------------------------------------------------------------------


class Own(nn.Module):
    """Its forward records what it was given."""

    def __init__(self, width=CLASSES):
        super().__init__()
        self.linear, self.given = nn.Linear(FEATURES, width), []


class Plain(Own):
    def forward(self, x, edge_index):
        return self.linear(x)


class Named(Own):
    def forward(self, x, edge_index, size=None, *, edge_weight=None):
        self.given.append(edge_weight)
        return self.linear(x)


class Third(Own):
    def forward(self, x, edge_index, weights=None):
        self.given.append(weights)
        return self.linear(x)


class ThirdNeeded(Own):
    def forward(self, x, edge_index, w):
        self.given.append(w)
        return self.linear(x)


class ThirdElse(Own):
    def forward(self, x, edge_index, size=None):
        self.given.append(size)
        return self.linear(x)


@pytest.mark.parametrize("own", [Plain, Named, Third, ThirdNeeded, ThirdElse])
def test_own_modules_are_called_as_they_want(own):
    module, x, edge_index = build_backbone(own(), FEATURES, CLASSES), features(), undirected()
    weight = torch.ones(edge_index.shape[1])
    assert module(x, edge_index, weight).shape == (20, CLASSES)
    assert module(x, edge_index).shape == (20, CLASSES)
    expected = {Plain: [], ThirdElse: [None, None]}.get(own, [weight, None])
    assert all(given is wanted for given, wanted in zip(module.module.given, expected, strict=True))


def test_own_modules_are_copied_with_their_parameters():
    own = Plain()
    module = initialised(own)
    assert same(module.module.state_dict(), own.state_dict())
    assert module.module is not own
    assert module.module.linear.weight is not own.linear.weight


def own_lazy():
    from torch_geometric.nn import GraphSAGE

    return GraphSAGE(-1, 8, num_layers=2, out_channels=2, dropout=0.5)


def test_own_modules_are_never_trained_themselves():
    own = Plain(2)
    before = copy.deepcopy(own.state_dict())
    learner, _ = sbm_learner(own)
    learn(learner, "backbone")
    assert same(own.state_dict(), before)
    assert own.training
    assert all(parameter.grad is None for parameter in own.parameters())
    assert not same(learner.load_best()[0].module.state_dict(), before)


def test_lazy_modules_get_their_parameters_from_the_seed():
    own = own_lazy()
    (one, _), (two, _), (other, _) = (sbm_learner(own, seed=seed) for seed in (0, 0, 1))
    assert same(present(one), present(two))
    assert not same(present(one), present(other))
    assert learn(one, "backbone") == learn(two, "backbone")
    assert any(nn.parameter.is_lazy(parameter) for parameter in own.parameters())


def test_torchs_own_lazy_layers():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.LazyLinear(2)

        def forward(self, x, edge_index):
            return self.linear(x)

    learner, _ = sbm_learner(Lazy())
    assert len(learn(learner, "backbone")["train_loss"]) > 1


@pytest.mark.parametrize("width", [CLASSES - 1, CLASSES + 1])
def test_a_wrong_width_is_refused(width):
    module = build_backbone(Plain(width), FEATURES, CLASSES)
    with pytest.raises(ValueError, match=rf"`backbone` must give logits \[20, 3\].* Plain gave \[20, {width}\].*to 3"):
        module(features(), undirected())


def test_an_answer_that_is_no_tensor_is_refused():
    class Talkative(Plain):
        def forward(self, x, edge_index):
            return self.linear(x), None

    with pytest.raises(ValueError, match="Talkative gave a tuple"):
        build_backbone(Talkative(), FEATURES, CLASSES)(features(), undirected())


@pytest.mark.parametrize(("wrong", "told"), [("gcn", "a str"), (GCN, "the class GCN"), (None, "a NoneType")])
def test_what_is_no_backbone_is_refused(wrong, told):
    with pytest.raises(TypeError, match=f"`backbone` must be GCN\\(\\).*got {told}"):
        build_backbone(wrong, FEATURES, CLASSES)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: GCN(hidden=0), "hidden"),
        (lambda: GCN(hidden=1.5), "hidden"),
        (lambda: GAT(heads=True), "heads"),
        (lambda: ChebNet(terms=0), "terms"),
        (lambda: JKNet(lstm_layers=-1), "lstm_layers"),
        (lambda: JKNet(hidden=1, lstm_layers=1), "hidden"),
        (lambda: GCN(dropout=1.0), "dropout"),
        (lambda: GAT(dropout=-0.1), "dropout"),
        (lambda: ChebNet(dropout=math.nan), "dropout"),
        (lambda: JKNet(dropout="half"), "dropout"),
        (lambda: GCN().build(0, 3), "in_channels"),
        (lambda: GAT().build(3, 0), "num_classes"),
        (lambda: build_backbone(Plain(), 3, "three"), "num_classes"),
    ],
)
def test_wrong_settings_are_refused(make, name):
    with pytest.raises(ValueError, match=f"`{name}`.* must .*got"):
        make()


@every_backbone
@pytest.mark.parametrize(
    ("edge_index", "edge_weight", "told"),
    [
        (torch.tensor([[0, 20], [1, 0]]), None, "`edge_index` must hold node numbers from 0 to 19, got 20"),
        (torch.tensor([[0, 1], [1, -1]]), None, "`edge_index` must hold node numbers from 0 to 19, got -1"),
        (torch.tensor([[0, 1]]), None, r"`edge_index` must be int64 \[2, E\]"),
        (torch.tensor([[0.0], [1.0]]), None, r"`edge_index` must be int64 \[2, E\]"),
    ],
)
def test_wrong_edges_are_refused(backbone, edge_index, edge_weight, told):
    with pytest.raises(ValueError, match=told):
        initialised(backbone)(features(), edge_index, edge_weight)


# -- The learner -------------------------------------------------------------------------------------------------------


# Of the 80 nodes of `block_model`.
TRAIN, VALIDATION = torch.arange(0, 80, 4), torch.arange(1, 80, 4)


def block_model(seed=0):
    """Features, edges and labels of two blocks that keep to themselves; the features alone leave much in doubt."""
    labels = torch.arange(80) // 40
    chance = torch.where(labels[:, None] == labels[None, :], 0.25, 0.01)
    above = (torch.rand(chance.shape, generator=random(seed)) < chance).triu(1)
    x = torch.randn(80, FEATURES, generator=random(seed + 1)) + 0.8 * labels[:, None]
    return x, (above | above.T).nonzero().T.contiguous(), labels


def only(labels, nodes):
    """The labels of some nodes, and -1 elsewhere."""
    return torch.full_like(labels, -1).scatter(0, nodes, labels[nodes])


def sbm_learner(backbone, seed=0, labels=None, validated=True, learner=BackboneLearner, **settings):
    x, edge_index, truth = block_model()
    labels = truth if labels is None else labels
    module = initialised(backbone, seed, num_classes=2)
    made = learner(
        [module], x, edge_index, None, only(labels, TRAIN)[None], only(labels, VALIDATION)[None] if validated else None,
        Optimization(**{"epochs": 12, **settings}), [seed],
    )  # fmt: skip
    return made, truth


def present(learner):
    """The parameters and buffers of a learner's problems as they are now."""
    return {name.removeprefix("now."): value for name, value in learner.state().items() if name.startswith("now.")}


@pytest.mark.parametrize("backbone", [GCN(), GAT(), ChebNet(), JKNet()], ids=repr)
def test_every_backbone_learns_two_blocks(backbone):
    learner, labels = sbm_learner(backbone, epochs=99)
    history = learn(learner, "backbone")
    with torch.no_grad():
        logits = learner.load_best()[0](*block_model()[:2])
    assert (logits.argmax(1) == labels).float().mean() > 0.9
    assert history["train_loss"][-1] < history["train_loss"][0] / 2
    assert max(history["validation_accuracy"]) == learner.best_accuracy[0] > 0.9


@every_backbone
def test_same_seed_same_bits(backbone):
    def trained(seed):
        learner, _ = sbm_learner(backbone, seed)
        history = learn(learner, "backbone")
        return history, learner.state()

    (history, state), (again, state_again), (_, other) = trained(0), trained(0), trained(1)
    assert history == again
    assert same(state, state_again)
    assert not same(state, other)


@every_backbone
def test_dropout_follows_the_seed_of_the_learner(backbone):
    x, edge_index, labels = block_model()
    states = []
    for seed in (0, 1):
        module = initialised(backbone, 0, num_classes=2)
        learner = BackboneLearner([module], x, edge_index, None, labels[None], None, Optimization(), [seed])
        learner.step()
        states.append(learner.load_best()[0].state_dict())
    assert not same(*states)


@every_backbone
def test_torchs_random_numbers_are_left_alone(backbone):
    torch.manual_seed(11)
    before = torch.get_rng_state()
    learner, _ = sbm_learner(backbone)
    learn(learner, "backbone")
    learner.restore(learner.state())
    learner.load_best()
    assert torch.equal(torch.get_rng_state(), before)


def test_torchs_random_numbers_are_put_back_after_an_error():
    class Failing(Plain):
        def forward(self, x, edge_index):
            torch.rand(5)
            raise RuntimeError("planned")

    learner, _ = sbm_learner(Failing(2))
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="planned"):
        learner.step()
    assert torch.equal(torch.get_rng_state(), before)


@every_backbone
def test_learners_may_take_turns(backbone):
    alone, _ = sbm_learner(backbone)
    for _ in range(6):
        alone.step()
    one, other = sbm_learner(backbone)[0], sbm_learner(backbone, seed=1)[0]
    for _ in range(6):
        one.step()
        torch.rand(3)
        other.step()
    assert same(one.state(), alone.state())


@every_backbone
def test_hidden_labels_change_nothing(backbone):
    learner, labels = sbm_learner(backbone)
    garbage = torch.randint(2, labels.shape, generator=random(12))
    seen = torch.cat([TRAIN, VALIDATION])
    garbage[seen] = labels[seen]
    other, _ = sbm_learner(backbone, labels=garbage)
    assert learn(learner, "backbone") == learn(other, "backbone")
    assert same(learner.state(), other.state())


@pytest.mark.parametrize("validated", [True, False])
@pytest.mark.parametrize("backbone", [*BACKBONES, Plain(2), own_lazy()], ids=lambda one: repr(one).split("\n")[0])
def test_interrupted_training_goes_on_bit_for_bit(backbone, validated, tmp_path):
    settings = {"epochs": 15, "validated": validated}
    whole, _ = sbm_learner(backbone, **settings)
    history = learn(whole, "backbone")

    def interrupt(progress):
        if progress.epoch in (4, 9):
            raise KeyboardInterrupt

    def attempt(callback):
        learner, _ = sbm_learner(backbone, **settings)
        return learner, learn(learner, "backbone", callback, Checkpoint(tmp_path, "key", every=0))

    with pytest.raises(KeyboardInterrupt):
        attempt(interrupt)
    torch.rand(7)
    resumed, told = attempt(None)
    assert told == history
    assert same(resumed.state(), whole.state())
    assert same(resumed.load_best()[0].state_dict(), whole.load_best()[0].state_dict())


def test_states_are_copies():
    learner, _ = sbm_learner(GCN())
    learner.step()
    state = learner.state()
    kept = {name: value.clone() for name, value in state.items()}
    for _ in range(5):
        learner.step()
    assert same(state, kept)
    learner.restore(state)
    learner.step()
    learner.load_best()
    assert same(state, kept)


# -- Which epoch is the best -------------------------------------------------------------------------------------------


class Scripted(nn.Module):
    """Gets as many validation nodes right as the script says for each epoch, and remembers the epoch in its state."""

    def __init__(self, script):
        super().__init__()
        self.script, self.weight = script, nn.Parameter(torch.zeros(2))
        self.register_buffer("epoch", torch.tensor(0))

    def forward(self, x, edge_index, edge_weight=None):
        if self.training:
            self.epoch += 1
            return self.weight.expand(len(x), 2)
        right = torch.arange(len(x)) < self.script[int(self.epoch) - 1]
        return functional.one_hot(right.long(), 2).float()


def scripted(script, learner=BackboneLearner, validated=True, **settings):
    x, labels = torch.ones(4, 1), torch.ones(4, dtype=torch.int64)
    optimization = Optimization(**{"epochs": len(script), **settings})
    return learner(
        [Scripted(script)], x, no_edges, None, labels[None], labels[None] if validated else None, optimization
    )


def check_best(learner_class, script, best):
    learner = scripted(script, learner_class)
    history = learn(learner, "backbone")
    assert history["validation_accuracy"] == [right / 4 for right in script]
    assert learner.best_epoch == [best]
    assert learner.best_accuracy == [script[best - 1] / 4]
    (module,) = learner.load_best()
    assert module.epoch == best
    assert not module.training


BEST = [([2, 3, 3, 1], 2), ([0, 0, 0], 1), ([1, 4, 2, 4], 2), ([1, 2, 3, 4], 4), ([4, 3, 2, 1], 1)]


@pytest.mark.parametrize(("script", "best"), BEST)
def test_the_first_of_the_largest_accuracies_is_the_best(script, best):
    check_best(BackboneLearner, script, best)


class TakesTheLast(BackboneLearner):
    """Planted: as good as the best is good enough."""

    def step(self):
        self._best_right -= 1
        return super().step()


class NeverKeepsAccuracyZero(BackboneLearner):
    """Planted: the first epoch has to beat 0."""

    def __init__(self, *args):
        super().__init__(*args)
        self._best_right.zero_()


class KeepsNoCopy(BackboneLearner):
    """Planted: the best state goes on learning."""

    def __init__(self, *args):
        super().__init__(*args)
        self._best = {owned.name: owned.value for owned in self._networks.owned()}


@pytest.mark.parametrize("wrong", [TakesTheLast, NeverKeepsAccuracyZero, KeepsNoCopy])
def test_another_rule_would_be_caught(wrong):
    caught = []
    for script, best in BEST:
        try:
            check_best(wrong, script, best)
        except AssertionError:
            caught.append(script)
    assert caught


def check_patience(learner_class, script, patience, epochs):
    learner = scripted(script, learner_class, patience=patience)
    assert len(learn(learner, "backbone")["train_loss"]) == epochs
    assert learner.finished == (epochs < len(script))


@pytest.mark.parametrize(
    ("script", "patience", "epochs"),
    [
        ([1, 1, 1, 1, 1, 1], 2, 3),
        ([1, 1, 2, 2, 2, 2], 2, 5),
        ([1, 1, 2, 1, 3, 3, 4, 4], 2, 8),
        ([4, 3, 2, 1], 1, 2),
        ([4, 3, 2, 1], None, 4),
    ],
)
def test_patience_counts_epochs_without_a_larger_accuracy(script, patience, epochs):
    check_patience(BackboneLearner, script, patience, epochs)


def test_patience_with_equals_would_be_caught():
    with pytest.raises(AssertionError):
        check_patience(TakesTheLast, [1, 1, 1, 1, 1, 1], 2, 3)


@pytest.mark.parametrize("given", ["none", "all -1"])
def test_without_validation_the_last_epoch_counts(given):
    learner = scripted([1] * 300, validated=False)
    if given == "all -1":
        labels = torch.ones(4, dtype=torch.int64)
        learner = BackboneLearner([Scripted([1] * 300)], torch.ones(4, 1), no_edges, None, labels[None], -labels[None])
    assert learner.epochs == min(300, EPOCHS_WITHOUT_VALIDATION)
    history = learn(learner, "backbone")
    assert set(history) == {"train_loss"}
    assert len(history["train_loss"]) == EPOCHS_WITHOUT_VALIDATION
    assert learner.best_epoch == [EPOCHS_WITHOUT_VALIDATION]
    assert not learner.finished
    assert learner.best_accuracy == [None]
    assert learner.load_best()[0].epoch == EPOCHS_WITHOUT_VALIDATION


def test_without_validation_fewer_epochs_are_fewer():
    assert scripted([1] * 7, validated=False).epochs == 7


def test_the_losses_are_the_means_over_their_nodes():
    learner, labels = sbm_learner(GCN(dropout=0.0))
    x, edge_index, _ = block_model()

    def expected(nodes):
        with torch.no_grad():
            module = initialised(GCN(dropout=0.0), num_classes=2)
            module.load_state_dict({name: value[0] for name, value in present(learner).items()})
            logits = module(x, edge_index)
        right = (logits[nodes].argmax(1) == labels[nodes]).float().mean()
        return float(-logits.log_softmax(1)[nodes, labels[nodes]].mean()), float(right)

    for _ in range(3):
        before = expected(TRAIN)
        measured = learner.step()
        # The training loss is measured before the step, the validation after it.
        assert measured["train_loss"] == pytest.approx(before[0])
        assert (measured["validation_loss"], measured["validation_accuracy"]) == pytest.approx(expected(VALIDATION))


def test_adam_is_torchs_adam():
    learner, labels = sbm_learner(GCN(dropout=0.0), validated=False, weight_decay=0.1, lr=0.05)
    twin = initialised(GCN(dropout=0.0), num_classes=2)
    adam = torch.optim.Adam(twin.parameters(), lr=0.05, weight_decay=0.1)
    x, edge_index, _ = block_model()
    for _ in range(5):
        learner.step()
        adam.zero_grad()
        functional.cross_entropy(twin(x, edge_index)[TRAIN], labels[TRAIN]).backward()
        adam.step()
    torch.testing.assert_close(learner.load_best()[0].state_dict(), twin.state_dict(), rtol=1e-5, atol=1e-6)


def test_adam_is_torchs_adam_for_own_modules():
    learner, labels = sbm_learner(Plain(2), validated=False, weight_decay=0.1, lr=0.05)
    twin = Plain(2)
    twin.load_state_dict({name.removeprefix("0.module."): value for name, value in present(learner).items()})
    adam = torch.optim.Adam(twin.parameters(), lr=0.05, weight_decay=0.1)
    x, edge_index, _ = block_model()
    for _ in range(5):
        learner.step()
        adam.zero_grad()
        functional.cross_entropy(twin(x, edge_index)[TRAIN], labels[TRAIN]).backward()
        adam.step()
    torch.testing.assert_close(learner.load_best()[0].module.state_dict(), twin.state_dict(), rtol=1e-5, atol=1e-6)


# -- What the learner refuses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validated", [True, False])
def test_a_loss_that_is_not_finite_is_told(validated):
    x, edge_index, labels = block_model()
    learner, _ = sbm_learner(GCN(), lr=1e30, validated=validated)
    with pytest.raises(FloatingPointError, match=r"at epoch \d\. Lower `lr`, now 1e\+30, or check .* features"):
        learn(learner, "backbone")
    x[3] = math.nan
    learner = BackboneLearner([initialised(GCN(), num_classes=2)], x, edge_index, None, labels[None])
    with pytest.raises(FloatingPointError, match=r"The loss must stay finite, .* at epoch 1\."):
        learner.step()


@pytest.mark.parametrize(
    ("name", "wrong", "told"),
    [
        ("x", torch.ones(80, FEATURES, dtype=torch.int64), r"`x` must be float \[N, F\]"),
        ("x", torch.ones(80), r"`x` must be float \[N, F\]"),
        ("x", torch.ones(2, 80, FEATURES), r"`x` must be \[N, F\] or \[1, N, F\] for 1 modules, got \[2, 80, 6\]"),
        ("edge_index", None, r"`edge_index` must be int64 \[2, E\], got None"),
        ("edge_index", torch.tensor([[80], [0]]), "`edge_index` must hold node numbers from 0 to 79, got 80"),
        ("edge_weight", torch.ones(3), r"`edge_weight` must have shape \[\d+\].*got \[3\]"),
        ("target", torch.ones(1, 79, dtype=torch.int64), r"`target` must be int64 \[1, 80\]"),
        ("target", torch.ones(80, dtype=torch.int64), r"`target` must be int64 \[1, 80\].*got torch.int64 \[80\]"),
        ("target", torch.ones(1, 80), r"`target` must be int64 \[1, 80\].*got torch.float32"),
        ("target", torch.full((1, 80), -1), "`target` must hold the class of at least one"),
        ("validation", torch.ones(80, 1, dtype=torch.int64), r"`validation` must be int64 \[1, 80\]"),
        ("target", torch.full((1, 80), 2), "`target` must hold classes from 0 to 1, .*got 2"),
        ("validation", torch.full((1, 80), 5), "`validation` must hold classes from 0 to 1, .*got 5"),
        ("modules", [nn.Identity()], "`modules` must have parameters"),
        ("modules", [], "`modules` must be different modules, one a problem and at least one, got 0"),
        ("modules", [initialised(GCN(), num_classes=2)] * 2, "`modules` must be different .* some of them twice"),
        ("seeds", [1, 2], "`seeds` must have one a module, 1 in all, got 2"),
        ("names", [], "`names` must have one a module, 1 in all, got 0"),
    ],
)
def test_wrong_input_is_refused(name, wrong, told):
    x, edge_index, labels = block_model()
    modules = [initialised(GCN(), num_classes=2)]
    given = {"modules": modules, "x": x, "edge_index": edge_index, "edge_weight": None, "target": labels[None],
             "validation": labels[None], name: wrong}  # fmt: skip
    with pytest.raises(ValueError, match=told):
        BackboneLearner(**given).step()


# -- On a CUDA device --------------------------------------------------------------------------------------------------

on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


class TestCuda:
    pytestmark = on_gpu

    @every_backbone
    def test_logits_and_gradients_are_those_of_the_cpu(self, backbone):
        edge_index, weight = untidy()
        found = []
        for device in ("cpu", "cuda"):
            module = initialised(backbone).double().eval().to(device)
            logits = module(features(12, torch.float64).to(device), edge_index.to(device), weight.to(device))
            logits.square().sum().backward()
            found.append([each.cpu() for each in (logits.detach(), *(one.grad for one in module.parameters()))])
        torch.testing.assert_close(*found, atol=1e-10, rtol=1e-10)

    @every_backbone
    def test_a_module_may_move(self, backbone):
        module, x, edge_index = initialised(backbone).eval(), features(), undirected()
        before = module(x, edge_index)
        moved = module.cuda()(x.cuda(), edge_index.cuda())
        torch.testing.assert_close(moved.cpu(), before, atol=1e-4, rtol=1e-4)
        assert torch.equal(module.cpu()(x, edge_index), before)

    @every_backbone
    def test_training_resumes_and_leaves_random_numbers_alone(self, backbone, tmp_path):
        x, edge_index, labels = (each.cuda() for each in block_model())
        before = torch.get_rng_state(), torch.cuda.get_rng_state()

        def learner(seed=0):
            module = initialised(backbone, seed, num_classes=2)
            known, optimization = labels[None], Optimization(epochs=10)
            return BackboneLearner([module], x, edge_index, None, known, known, optimization, [seed])

        whole, half = learner(), learner()
        for _ in range(10):
            whole.step()
        for _ in range(5):
            half.step()
        checkpoint = Checkpoint(tmp_path, "key", every=0)
        checkpoint.save("stage", half.state())
        resumed = learner()
        resumed.restore(checkpoint.load("stage"))
        for _ in range(5):
            resumed.step()
        after = torch.get_rng_state(), torch.cuda.get_rng_state()
        assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
        states = [{name: value for name, value in one.state().items() if WITHOUT_EFFECT not in name}
                  for one in (resumed, whole)]  # fmt: skip
        torch.testing.assert_close(*states, atol=1e-4, rtol=1e-3)
        assert torch.equal(resumed.state()["random.0"], whole.state()["random.0"])
