"""Baselines that learn on other graphs than the given one: GDC, GAug-M, GAug-O."""

import gc
import math
import weakref
from dataclasses import replace

import pytest
import torch
from torch.nn import functional
from torch_geometric import transforms
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected, to_dense_adj

import lggd
from lggd import GAT, GCN, ChebNet, JKNet, Optimization, fit_together
from lggd.backbones import initialised
from lggd.baselines import drawn_graphs, edge_predictor, gaug_m, gaug_o, gdc
from lggd.baselines.baseline import BaselineProblem, BaselineData
from lggd.baselines.drawn_graphs import DrawnGraphs
from lggd.baselines.edge_predictor import Reconstruction, VariationalEncoder, joined_pairs
from lggd.baselines.gaug_m import GAugM, edited
from lggd.baselines.gaug_o import GAugO
from lggd.baselines.gdc import GDC, PPR, Heat, strongest, transition
from lggd.training.targets import Targets
from small_data import blocks, changed

F64 = torch.float64
SHORT = Optimization(epochs=12, patience=None)
KERNELS = [PPR(0.05), PPR(0.3), PPR(1.0), Heat(0.1), Heat(5.0), Heat(40.0)]
MODELS = [
    GDC(k=8, optimization=SHORT),
    GDC(Heat(2.0), k=5, dim=1, backbone=JKNet(), optimization=SHORT),
    GAugM(remove=0.2, add=0.3, predictor_epochs=10, optimization=SHORT),
    GAugO(alpha=0.5, pretrain_predictor=5, pretrain_classifier=5, optimization=SHORT),
]


def named(model):
    return type(model).__name__


def like(model, **settings):
    return replace(model, **settings)


def small_blocks(monkeypatch, entries=64):
    """Work in blocks of a few rows, so that small graphs have several."""
    for module in (edge_predictor, gdc):
        monkeypatch.setattr(module, "ENTRIES_AT_ONCE", {"cpu": entries, "cuda": entries})


def dense(edge_index, weight, num_nodes):
    return to_dense_adj(edge_index, edge_attr=weight, max_num_nodes=num_nodes)[0]


def dense_transition(data):
    """T by its definition, float64 `[N, N]`."""
    weight = torch.ones(data.num_edges) if data.edge_weight is None else data.edge_weight
    loops = dense(data.edge_index, weight.double(), data.num_nodes) + torch.eye(data.num_nodes, dtype=F64)
    scale = loops.sum(1).rsqrt()
    return scale[:, None] * loops * scale[None, :]


def closed_form(kernel, data):
    """S by eigenvalues."""
    value, vector = torch.linalg.eigh(dense_transition(data))
    if isinstance(kernel, PPR):
        value = kernel.alpha / (1 - (1 - kernel.alpha) * value)
    else:
        value = torch.exp(-kernel.t * (1 - value))
    return (vector * value) @ vector.t()


def whole(kernel, data):
    """S as the library has it, `[N, N]`."""
    n = data.num_nodes
    where, what = strongest(transition(data.edge_index, data.edge_weight, n), kernel.chebyshev(), n)
    return torch.zeros(n, n, dtype=F64).scatter_(1, where, what)


# -- every one of them -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_alone_and_in_a_batch_are_the_same(model):
    data = blocks(lonely=2)
    splits = [data, changed(data, train_mask=data.val_mask, val_mask=data.train_mask), data]
    together = fit_together([like(model, seed=seed) for seed in (0, 1, 2)], splits)
    for seed, (split, one) in enumerate(zip(splits, together, strict=True)):
        alone = like(model, seed=seed).fit(split)
        torch.testing.assert_close(one.probabilities_, alone.probabilities_, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(together[0].probabilities_, together[2].probabilities_)


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_hidden_labels_do_not_matter_and_a_seed_decides_everything(model):
    data = blocks(lonely=1)
    hidden = ~(data.train_mask | data.val_mask)
    garbage = torch.where(hidden, data.y.flip(0), data.y)
    probabilities = like(model).fit(data).probabilities_
    gdc._KEPT.forget(), gaug_m._VECTORS.forget(), gaug_m._EDITED.forget()
    assert torch.equal(probabilities, like(model).fit(changed(data, y=garbage)).probabilities_)


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_they_learn_and_never_change_what_they_are_given(model):
    data = blocks(each=20, lonely=1, weighted=True)
    before = data.clone()
    fitted = like(model, optimization=Optimization(epochs=80)).fit(data)
    assert fitted.score(data) > 0.8
    torch.testing.assert_close(fitted.probabilities_.sum(1), torch.ones(data.num_nodes))
    tensors = ("x", "edge_index", "edge_weight", "y", "train_mask", "val_mask")
    assert all(torch.equal(data[name], before[name]) for name in tensors)


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_graphs_without_edges_are_ordinary(model):
    data = changed(blocks(), edge_index=torch.zeros(2, 0, dtype=torch.int64))
    assert like(model).fit(data).probabilities_.isfinite().all()


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_one_direction_is_not_enough(model):
    data = blocks()
    oneway = changed(data, edge_index=data.edge_index[:, data.edge_index[0] < data.edge_index[1]])
    gdc._KEPT.forget()
    with pytest.raises(ValueError, match="both directions"):
        like(model).fit(oneway)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (lambda: GDC(PPR(alpha=0)), "`alpha` must lie in \\[1e-05, 1\\]"),
        (lambda: GDC(Heat(t=0)), "`t` must be positive"),
        (lambda: GDC(k=0), "`k` must be a whole number from 1"),
        (lambda: GDC(dim=2), "`dim` must be 0"),
        (lambda: GDC("ppr"), "`kernel` must be PPR"),
        (lambda: GDC(backbone="gcn"), "`backbone` must be GCN"),
        (lambda: GAugM(remove=1.5), "`remove` must be at most 1"),
        (lambda: GAugM(add=-0.1), "`add` must be 0 or above"),
        (lambda: GAugM(predictor_epochs=0), "`predictor_epochs` must be"),
        (lambda: GAugM(predictor_seed=-1), "`predictor_seed` must be"),
        (lambda: GAugO(alpha=1.1), "`alpha` must lie in"),
        (lambda: GAugO(temperature=0), "`temperature` must be above 0"),
        (lambda: GAugO(beta=math.nan), "`beta` must be 0 or above"),
        (lambda: GAugO(pretrain_predictor=-1), "`pretrain_predictor` must be a whole number from 0"),
        (lambda: GAugO(backbone=GAT()), "`backbone` must be GCN"),
    ],
)
def test_wrong_settings_are_refused(settings, complaint):
    with pytest.raises((TypeError, ValueError), match=complaint):
        settings().fit(blocks())


@pytest.mark.parametrize(
    ("kernel", "value", "complaint"),
    [
        (PPR, 1e-9, r"`alpha` must lie in \[1e-05, 1\], got 1e-09.*use 0.05"),
        (PPR, 1e-17, r"`alpha` must lie in \[1e-05, 1\], got 1e-17.*use 0.05"),
        (Heat, 1e12, r"`t` must be positive and at most 1e\+06, got 1000000000000.0.*use 5"),
        (Heat, math.inf, r"`t` must be positive and at most 1e\+06, got inf.*use 5"),
    ],
)
def test_kernels_that_would_not_end_are_refused(kernel, value, complaint):
    with pytest.raises(ValueError, match=complaint):
        kernel(value)


@pytest.mark.parametrize("kernel", [PPR(gdc.LEAST_ALPHA), Heat(gdc.LARGEST_T)], ids=str)
def test_the_widest_kernels_end_and_are_exact(kernel):
    coefficients = kernel.chebyshev()
    assert len(coefficients) < 10_000
    assert math.fsum(coefficients) == pytest.approx(1, abs=2 * gdc.TOLERANCE)


# -- GDC ---------------------------------------------------------------------------------------------------------------


def check_diffusion(kernel, data):
    computed = whole(kernel, data)
    torch.testing.assert_close(computed, closed_form(kernel, data), rtol=0, atol=2 * gdc.TOLERANCE)
    torch.testing.assert_close(computed, computed.t())
    weight = torch.ones(data.num_edges) if data.edge_weight is None else data.edge_weight
    root = (1 + dense(data.edge_index, weight.double(), data.num_nodes).sum(1)).sqrt()
    torch.testing.assert_close(computed @ root, root)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_diffusion_is_its_closed_form(kernel, weighted, monkeypatch):
    small_blocks(monkeypatch)
    check_diffusion(kernel, blocks(weighted=weighted, lonely=2))


@pytest.mark.parametrize("bug", [lambda terms: terms[:-10], lambda terms: [terms[0] / 2, *terms[1:]]])
def test_a_wrong_diffusion_is_found(bug, monkeypatch):
    honest = PPR.chebyshev
    monkeypatch.setattr(PPR, "chebyshev", lambda self: bug(honest(self)))
    with pytest.raises(AssertionError):
        check_diffusion(PPR(0.05), blocks())


@pytest.mark.parametrize("kernel", [PPR(1.0), Heat(1e-12)], ids=str)
def test_diffusion_that_does_not_spread_is_the_identity(kernel):
    torch.testing.assert_close(whole(kernel, blocks()), torch.eye(36, dtype=F64))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kernel", [PPR(0.1), Heat(3.0)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_gdc_has_the_edges_of_pyg(kernel, dim, weighted):
    data = blocks(weighted=weighted)
    how = {"method": "ppr", "alpha": kernel.alpha} if isinstance(kernel, PPR) else {"method": "heat", "t": kernel.t}
    given = Data(edge_index=data.edge_index, num_nodes=data.num_nodes)
    if weighted:
        given.edge_attr = data.edge_weight.double()
    rival = transforms.GDC(1, "sym", "col", how, {"method": "topk", "k": 7, "dim": dim}, exact=True)(given)
    mine = GDC(kernel, k=7, dim=dim).transform(data)
    theirs = dense(rival.edge_index, rival.edge_attr, data.num_nodes).float()
    torch.testing.assert_close(dense(mine.edge_index, mine.edge_weight, data.num_nodes), theirs, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("dim", [0, 1])
def test_gdc_keeps_k_partners_and_shares_that_add_up(dim):
    data = blocks()
    made = GDC(k=6, dim=dim).transform(data)
    ends = made.edge_index[1 - dim]
    assert torch.bincount(ends, minlength=36).tolist() == [6] * 36
    into = torch.zeros(36).index_add_(0, made.edge_index[1], made.edge_weight)
    torch.testing.assert_close(into[into > 0], torch.ones(int((into > 0).sum())))
    assert (made.edge_weight > 0).all()
    assert made.x is data.x
    assert data.edge_weight is None


def test_gdc_invents_no_edges_between_components():
    data = blocks(lonely=3)
    made = GDC(k=100).transform(data)
    lonely = torch.arange(36) >= 27
    assert (lonely[made.edge_index[0]] == lonely[made.edge_index[1]]).all()
    assert torch.bincount(made.edge_index[1])[27] == 1


def test_a_gcn_takes_the_shares_as_they_are():
    data = blocks()
    model = GDC(k=6, optimization=Optimization(epochs=1, patience=None), backbone=GCN(dropout=0))
    made = model.transform(data)
    subject = BaselineData(data.x, data.edge_index, None, 3)
    problem = BaselineProblem(data.y, data.y, 5, "")
    stack = model._networks(subject, [problem], None)
    module = initialised(GCN(dropout=0), 6, 3, seed=5)
    spread = dense(made.edge_index, made.edge_weight, 36).t()
    hidden = torch.relu(spread @ data.x @ module.first.lin.weight.t() + module.first.bias)
    expected = spread @ hidden @ module.second.lin.weight.t() + module.second.bias
    torch.testing.assert_close(stack.answers()[0], expected)


@pytest.mark.parametrize("backbone", [GAT(), ChebNet()], ids=str)
def test_other_backbones_learn_on_the_diffused_graph_as_on_any(backbone):
    data = blocks()
    model = GDC(k=6, backbone=backbone, optimization=SHORT)
    as_any = lggd.LGGDClassifier(features=None, backbone=backbone, optimization=SHORT).fit(model.transform(data))
    assert torch.equal(model.fit(data).probabilities_, as_any.predict_proba())


def test_the_diffusion_is_computed_once(monkeypatch):
    gdc._KEPT.forget()
    data, calls = blocks(), []
    honest = gdc.strongest
    monkeypatch.setattr(gdc, "strongest", lambda *given: calls.append(1) or honest(*given))
    GDC(k=5).transform(data)
    GDC(k=5, dim=1).transform(data.clone())
    assert len(calls) == 1
    GDC(k=5).transform(changed(data, edge_index=data.edge_index[:, :0]))
    assert len(calls) == 2


# -- The edge predictor ------------------------------------------------------------------------------------------------


def dense_reconstruction(z, pairs):
    """w · mean BCE with weighted positives, by torch, of z `[N, D]`."""
    n = len(z)
    target = torch.eye(n, dtype=z.dtype)
    target[pairs[0], pairs[1]] = target[pairs[1], pairs[0]] = 1
    apart = n * n - target.sum()
    loss = functional.binary_cross_entropy_with_logits(z @ z.t(), target, pos_weight=apart / target.sum())
    return n * n / (2 * apart) * loss


def check_reconstruction(make):
    data = blocks(lonely=2)
    pairs = joined_pairs(data.edge_index, 36)
    z = torch.randn(2, 36, 4, dtype=F64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    losses = make(pairs, 36)(z)
    (mine,) = torch.autograd.grad((losses * torch.tensor([1.0, 3.0])).sum(), z)
    by_definition = torch.stack([dense_reconstruction(one, pairs) for one in z])
    (theirs,) = torch.autograd.grad((by_definition * torch.tensor([1.0, 3.0])).sum(), z)
    torch.testing.assert_close(losses, by_definition)
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("entries", [36, 200, 2**20])
def test_the_loss_over_all_pairs_and_its_gradient_are_torchs(entries, monkeypatch):
    small_blocks(monkeypatch, entries)
    check_reconstruction(Reconstruction)


@pytest.mark.parametrize("bug", ["joined_weight", "scale"])
def test_a_wrong_loss_is_found(bug):
    class Wrong(Reconstruction):
        def __init__(self, *given):
            super().__init__(*given)
            setattr(self, bug, getattr(self, bug) * 1.01)

    with pytest.raises(AssertionError):
        check_reconstruction(Wrong)


def test_a_gradient_that_forgets_half_of_the_pairs_is_found(monkeypatch):
    small_blocks(monkeypatch, 200)
    honest = edge_predictor._as_if_apart

    def lower_half_forgotten(z):
        total, told = honest(z)
        return total, told * torch.linspace(1, 0.9, z.shape[1], dtype=z.dtype).view(1, -1, 1)

    monkeypatch.setattr(edge_predictor, "_as_if_apart", lower_half_forgotten)
    with pytest.raises(AssertionError):
        check_reconstruction(Reconstruction)


def test_the_variational_loss_is_its_definition():
    data = blocks(weighted=True)
    encoder = VariationalEncoder(data.x.double(), data.edge_index, data.edge_weight, seed=3)
    state = encoder.generator.get_state()
    loss = encoder.loss()
    encoder.generator.set_state(state)
    spread = dense_transition(data)
    x = data.x.double() / data.x.double().abs().sum(1, keepdim=True)
    first, second = (weight[0].t() for weight in encoder.weights)
    both = spread @ functional.elu(spread @ x @ first) @ second
    mean, log_deviation = both[:, :16], both[:, 16:]
    noise = torch.randn(1, 36, 16, dtype=F64, generator=encoder.generator)[0]
    far = -0.5 * (1 + 2 * log_deviation - mean**2 - log_deviation.exp() ** 2).sum(1).mean()
    pairs = joined_pairs(data.edge_index, 36)
    expected = dense_reconstruction(mean + noise * log_deviation.exp(), pairs) + far / 36
    torch.testing.assert_close(loss, expected)


def test_the_predictor_tells_edges_from_other_pairs():
    data = blocks(each=20)
    z = VariationalEncoder(data.x, data.edge_index, None).train(200)
    score, joined = z @ z.t(), dense(data.edge_index, None, 60) > 0
    others = ~joined & ~torch.eye(60, dtype=torch.bool)
    better = (score[joined].view(-1, 1) > score[others].view(1, -1)).float().mean()
    assert better > 0.85


# -- GAug-M ------------------------------------------------------------------------------------------------------------


def pair_set(edge_index):
    return {tuple(pair) for pair in edge_index.t().tolist()}


def check_edit(edit, entries, monkeypatch):
    small_blocks(monkeypatch, entries)
    data = blocks(lonely=2)
    z = torch.randn(36, 5, generator=torch.Generator().manual_seed(1))
    before = joined_pairs(data.edge_index, 36)
    new, _ = edit(z, data.edge_index, None, 0.3, 0.55)
    after = joined_pairs(new, 36)
    count = before.shape[1]
    removed, added = (pair_set(one) - pair_set(other) for one, other in ((before, after), (after, before)))
    assert (len(removed), len(added)) == (int(0.3 * count), int(0.55 * count))
    assert is_undirected(new)
    assert (new[0] != new[1]).all()
    assert len(pair_set(new)) == new.shape[1]
    score = z @ z.t()
    kept = pair_set(before) - removed
    never = {(i, j) for i in range(36) for j in range(i + 1, 36)} - pair_set(before) - added
    assert min(score[pair] for pair in kept) >= max(score[pair] for pair in removed)
    assert min(score[pair] for pair in added) >= max(score[pair] for pair in never)


@pytest.mark.parametrize("entries", [36, 300, 2**20])
def test_the_edit_removes_the_least_and_adds_the_most_likely(entries, monkeypatch):
    check_edit(edited, entries, monkeypatch)


@pytest.mark.parametrize(
    "bug",
    [
        lambda z, edges, weight, remove, add: edited(-z.abs(), edges, weight, remove, add),
        lambda z, edges, weight, remove, add: edited(z, edges, weight, add, remove),
        lambda z, edges, weight, remove, add: edited(z, edges, weight, remove / 2, add),
    ],
)
def test_a_wrong_edit_is_found(bug, monkeypatch):
    with pytest.raises(AssertionError):
        check_edit(bug, 2**20, monkeypatch)


def test_planted_edges_are_the_ones_that_go():
    data = blocks()
    y = functional.one_hot(data.y, 3).float()
    inside = data.edge_index[:, data.y[data.edge_index[0]] == data.y[data.edge_index[1]]]
    planted = torch.tensor([[0, 3, 6, 1], [1, 5, 8, 2]])
    noisy = torch.cat([inside, planted, planted.flip(0)], dim=1)
    share = (planted.shape[1] + 0.5) / (noisy.shape[1] / 2)
    new, _ = edited(y, noisy, None, share, 0)
    assert pair_set(new) == pair_set(inside)


def test_what_is_kept_keeps_its_weight_and_what_is_added_weighs_one():
    data = blocks(weighted=True)
    loop = torch.tensor([[4], [4]])
    edges, weight = torch.cat([data.edge_index, loop], 1), torch.cat([data.edge_weight, torch.tensor([0.5])])
    new, new_weight = edited(torch.randn(36, 3), edges, weight, 0.5, 0.25)
    count = data.num_edges // 2
    added = int(0.25 * count)
    assert (new_weight[-2 * added :] == 1).all()
    old = {tuple(pair): one for pair, one in zip(edges.t().tolist(), weight.tolist(), strict=True)}
    kept = zip(new.t().tolist()[: -2 * added], new_weight.tolist(), strict=False)
    assert all(old[tuple(pair)] == one for pair, one in kept)
    assert (4, 4) in pair_set(new)


def test_more_than_all_pairs_cannot_be_added():
    data = blocks(each=3)
    new, _ = edited(torch.randn(9, 3), data.edge_index, None, 0.0, 100.0)
    assert new.shape[1] == 9 * 8


def test_without_an_edit_gaug_m_is_its_backbone():
    data = blocks(lonely=1)
    alone = lggd.LGGDClassifier(features=None, backbone=GCN(), optimization=SHORT, seed=3).fit(data)
    assert torch.equal(GAugM(optimization=SHORT, seed=3).fit(data).probabilities_, alone.predict_proba())


def test_gaug_m_learns_on_the_edited_graph_and_trains_its_predictor_once(monkeypatch):
    gaug_m._VECTORS.forget()
    data, trained = blocks(), []
    honest = VariationalEncoder.train
    monkeypatch.setattr(VariationalEncoder, "train", lambda *a, **k: trained.append(1) or honest(*a, **k))
    model = GAugM(remove=0.2, add=0.4, predictor_epochs=10, optimization=SHORT)
    made = model.transform(data)
    alone = lggd.LGGDClassifier(features=None, backbone=GCN(), optimization=SHORT).fit(made)
    assert torch.equal(model.fit(data).probabilities_, alone.predict_proba())
    GAugM(remove=0.1, add=0.1, predictor_epochs=10).transform(data.clone())
    assert len(trained) == 1
    other = GAugM(remove=0.2, add=0.4, predictor_epochs=10, predictor_seed=8).transform(data)
    assert not torch.equal(other.edge_index, made.edge_index)


# -- GAug-O ------------------------------------------------------------------------------------------------------------


def drawn_from(alpha=0.6, problems=2, temperature=0.7, seed=0, dtype=torch.float32):
    data = blocks(lonely=1)
    generators = [torch.Generator().manual_seed(seed + q) for q in range(problems)]
    pairs = joined_pairs(data.edge_index, 36)
    z = torch.rand(problems, 36, 4, generator=torch.Generator().manual_seed(9))
    z = gaug_o._at_most_unit(z)
    graphs = DrawnGraphs(pairs, 36, generators, alpha, temperature)
    if dtype == F64:
        z, graphs.entries = z.double(), graphs.entries.double()
        graphs.slopes = [slope.double() for slope in graphs.slopes]
    chance = alpha * z @ z.transpose(1, 2) + (1 - alpha) * dense(data.edge_index, None, 36)
    return graphs, z, chance


@pytest.mark.parametrize("entries", [300, 2**20])
def test_drawn_graphs_are_graphs_of_the_right_probability(entries, monkeypatch):
    small_blocks(monkeypatch, entries)
    graphs, z, chance = drawn_from()
    total = torch.zeros(2, 36, 36)
    for _ in range(600):
        graphs.draw(z)
        total += graphs.entries
    last, eye = graphs.entries, torch.eye(36, dtype=torch.bool)
    assert torch.equal(last, last.transpose(1, 2))
    assert torch.equal(last, last.square())
    assert (last[:, eye] == 1).all()
    deviation = (chance * (1 - chance) / 600).clamp(min=0).sqrt()
    off = (total / 600 - chance)[:, ~eye].abs()
    assert (off <= 5 * deviation[:, ~eye] + 1e-3).all()


def test_the_largest_product_is_that_of_a_vector_with_itself():
    z = torch.rand(3, 10, 4)
    expected = torch.stack([one @ one.t() / (one @ one.t()).max() for one in z])
    unit = gaug_o._at_most_unit(z)
    torch.testing.assert_close(unit @ unit.transpose(1, 2), expected)
    assert (gaug_o._at_most_unit(torch.zeros(1, 4, 2)) == 0).all()


def by_autograd(z, chance_of, uniform, temperature, values):
    """D'^-½ A' D'^-½ applied twice, all dense and by torch's own gradients."""
    results = []
    for q in range(len(z)):
        chance = chance_of(z[q], q).clamp(drawn_graphs.LEAST_CHANCE, 1 - drawn_graphs.LEAST_CHANCE)
        soft = torch.sigmoid((chance.logit() + uniform[q].logit()) / temperature)
        straight = (soft > 0.5).to(z.dtype) - soft.detach() + soft
        upper = straight.triu(1)
        entries = upper + upper.t() + torch.eye(len(soft), dtype=z.dtype)
        scale = entries.sum(1).rsqrt()
        spread = scale[:, None] * entries * scale[None, :]
        results.append(spread @ torch.tanh(spread @ values[q]))
    return torch.stack(results)


def check_gradient(make, monkeypatch, entries=300):
    """What the drawn graphs tell of z is what autograd tells through dense matrices, for the same random numbers."""
    small_blocks(monkeypatch, entries)
    graphs, z, _ = make(dtype=F64)
    states = [generator.get_state() for generator in graphs.generators]
    values = torch.randn(2, 36, 3, dtype=F64, generator=torch.Generator().manual_seed(4), requires_grad=True)
    graphs.draw(z)
    mine = graphs(torch.tanh(graphs(values)))
    weights = torch.randn(mine.shape, dtype=F64, generator=torch.Generator().manual_seed(5))
    (mine * weights).sum().backward()
    by_values, values.grad = values.grad, None
    uniform = torch.full((2, 36, 36), 0.5, dtype=F64)
    for q, (generator, state) in enumerate(zip(graphs.generators, states, strict=True)):
        generator.set_state(state)
        for start, end in graphs.blocks:
            uniform[q, start:end, start:].uniform_(generator=generator)
    given = dense(blocks(lonely=1).edge_index, None, 36).double()
    free = z.clone().requires_grad_()
    theirs = by_autograd(free, lambda one, q: 0.6 * one @ one.t() + 0.4 * given, uniform, 0.7, values)
    (theirs * weights).sum().backward()
    torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(by_values, values.grad)
    torch.testing.assert_close(graphs.gradient(), free.grad)


@pytest.mark.parametrize("entries", [36, 300, 2**20])
def test_gradients_through_drawn_graphs_are_those_of_dense_matrices(entries, monkeypatch):
    check_gradient(drawn_from, monkeypatch, entries)


def forget_the_degrees(graphs):
    honest = graphs.draw

    def draw(z):
        honest(z)
        graphs.scale = (graphs.degree.detach() + 0 * graphs.degree).rsqrt()

    graphs.draw = draw


def forget_the_temperature(graphs):
    graphs.temperature = 1.0


@pytest.mark.parametrize("bug", [forget_the_degrees, forget_the_temperature])
def test_a_wrong_gradient_is_found(bug, monkeypatch):
    def planted(**given):
        graphs, z, chance = drawn_from(**given)
        bug(graphs)
        return graphs, z, chance

    with pytest.raises(AssertionError):
        check_gradient(planted, monkeypatch)


def networks_of(data, **settings):
    model = GAugO(**{"pretrain_predictor": 3, "pretrain_classifier": 3, **settings})
    subject = BaselineData(data.x, data.edge_index, data.edge_weight, 3)
    target = torch.where(data.train_mask, data.y, -1)
    problems = [BaselineProblem(target, target, seed, "") for seed in (0, 1)]
    return model._networks(subject, problems, None), Targets(torch.stack([target] * 2), "target")


def test_without_learned_probabilities_it_draws_the_given_graph():
    data = blocks(lonely=1)
    networks, asked = networks_of(data, alpha=0.0, beta=0.0, backbone=GCN(dropout=0))
    networks.training_step(asked, [True, True])
    assert torch.equal(networks.drawn.entries[0], dense(data.edge_index, None, 36) + torch.eye(36))
    drawn = networks.modules[0].logits(networks.parameters, data.x, networks.drawn, lambda values: values)
    torch.testing.assert_close(drawn.detach(), networks.answers())
    assert all((one.grad == 0).all() for one in networks._predictor)


def test_the_predictor_learns_from_the_classifier_alone():
    networks, asked = networks_of(blocks(), alpha=0.7, beta=0.0)
    networks.training_step(asked, [True, True])
    assert all(one.grad.flatten(1).abs().amax(1).min() > 0 for one in networks.parameters.values())


def test_pretraining_comes_first_and_answers_come_from_the_given_graph():
    data = blocks(lonely=1)
    heard = []
    GAugO(pretrain_predictor=4, pretrain_classifier=2, optimization=SHORT).fit(
        data, callback=lambda progress: heard.append(progress.stage)
    )
    assert (
        heard == ["pretraining of the edge predictor"] * 4 + ["pretraining of the classifier"] * 2 + ["training"] * 12
    )
    networks, _ = networks_of(data)
    own = networks.answers()
    networks.drawn.draw(gaug_o._at_most_unit(networks._vectors().detach()))
    assert torch.equal(own, networks.answers())
    module = networks.export()[1]
    torch.testing.assert_close(own[1], module(data.x, data.edge_index).detach())


def test_only_the_classifier_decays():
    networks, _ = networks_of(blocks())
    groups = networks.adam(Optimization(weight_decay=0.5)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.5, 0.0]
    assert {id(one) for one in groups[1]["params"]} == {id(one) for one in networks._predictor}
    assert sum(len(group["params"]) for group in groups) == len(networks.parameters)


def test_nothing_of_a_drawn_graph_outlives_its_model(monkeypatch):
    made = []
    honest = DrawnGraphs.__init__
    monkeypatch.setattr(
        DrawnGraphs, "__init__", lambda self, *given: made.append(weakref.ref(self)) or honest(self, *given)
    )
    like(MODELS[-1]).fit(blocks())
    gc.collect()
    assert [one() for one in made] == [None]


def test_as_many_problems_at_once_as_memory_allows(monkeypatch):
    subject = BaselineData(torch.zeros(1000, 2), torch.zeros(2, 0, dtype=torch.int64), None, 2)
    for free, expected in ((None, 1), (0, 1), (2**33, 200)):
        monkeypatch.setattr(gaug_o, "free_memory", lambda device, free=free: free)
        found = GAugO()._problems_at_once(subject)
        assert found == expected if expected == 1 else found > expected


# -- On a GPU ----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestOnAGPU:
    @pytest.mark.parametrize("kernel", KERNELS, ids=str)
    def test_diffusion_is_that_of_the_cpu(self, kernel):
        data = blocks(weighted=True, lonely=2)
        matrix = transition(data.edge_index.cuda(), data.edge_weight.cuda(), 36)
        where, what = strongest(matrix, kernel.chebyshev(), 36)
        found = torch.zeros(36, 36, dtype=F64).scatter_(1, where.cpu(), what.cpu())
        torch.testing.assert_close(found, whole(kernel, data), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("model", MODELS, ids=named)
    def test_alone_and_in_a_batch_are_the_same(self, model):
        data = blocks(lonely=2).cuda()
        splits = [data, changed(data, train_mask=data.val_mask, val_mask=data.train_mask)]
        together = fit_together([like(model, seed=seed) for seed in (0, 1)], splits)
        for seed, (split, one) in enumerate(zip(splits, together, strict=True)):
            alone = like(model, seed=seed).fit(split)
            torch.testing.assert_close(one.probabilities_, alone.probabilities_, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize("model", MODELS, ids=named)
    def test_a_recorded_epoch_is_one_that_is_not(self, model, monkeypatch):
        data = blocks(lonely=2).cuda()
        recorded = like(model).fit(data).probabilities_
        monkeypatch.setattr("lggd.training.cuda_graph.WARM_UP", 10**9)
        torch.testing.assert_close(like(model).fit(data).probabilities_, recorded, rtol=1e-3, atol=1e-4)

    def test_twenty_thousand_nodes_fit(self):
        size = 20_000
        ends = torch.randint(size, (2, 44_000), generator=torch.Generator().manual_seed(0))
        y = torch.arange(size) % 3
        x = functional.one_hot(y, 3).float() + 0.1
        given = Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], 1), y=y, train_mask=y.cumsum(0) < 500)
        given = changed(given, val_mask=~given.train_mask).cuda()
        for model in MODELS:
            torch.cuda.reset_peak_memory_stats()
            assert like(model).fit(given).probabilities_.isfinite().all()
            assert torch.cuda.max_memory_allocated() < 12 * 2**30
            gdc._KEPT.forget(), gaug_m._VECTORS.forget(), gaug_m._EDITED.forget()
