"""DropEdge, MixUp, GPR-GNN and GraphMix: what they compute, against plain dense formulas, and how they learn."""

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn import APPNP
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from lggd import GAT, GCN, ChebNet, JKNet, LGGDClassifier, Optimization, fit_together
from lggd.backbones import layers
from lggd.baselines import dropedge, gprgnn, graphmix, mixup
from lggd.baselines.baseline import BaselineProblem, BaselineData
from lggd.baselines.dropedge import AdjacencyEntries, DropEdge, LaplacianEntries
from lggd.baselines.gprgnn import GPRGNN, pagerank
from lggd.baselines.graphmix import GraphMix
from lggd.baselines.mixup import MixUp
from lggd.estimator.labels import Labels
from lggd.training.targets import Targets
from small_data import CLASSES, blocks, changed, garbled, permuted, random

FEW = Optimization(lr=0.02, epochs=8, patience=None)
EXACT = {"rtol": 1e-4, "atol": 1e-5}
METHODS = {
    "DropEdge": lambda **more: DropEdge(p=0.4, **more),
    "DropEdge of JKNet": lambda **more: DropEdge(p=0.4, backbone=JKNet(hidden=4), **more),
    "DropEdge of ChebNet": lambda **more: DropEdge(p=0.4, backbone=ChebNet(hidden=4), **more),
    "MixUp": lambda **more: MixUp(alpha=2.0, **more),
    "GPRGNN": lambda **more: GPRGNN(hops=4, hidden=8, **more),
    "GraphMix": lambda **more: GraphMix(hidden=8, predictions=2, ramp=(2, 6), **more),
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])


def graph(weighted=True, **settings):
    """A small graph with nodes that have no edges."""
    return blocks(**{"weighted": weighted, "lonely": 2, "seed": 3, **settings})


def splits(data, count=3):
    """The same graph with other masks, of other sizes, each time."""
    found = []
    for k in range(count):
        order = torch.randperm(data.num_nodes, generator=random(k))
        parts = order[: 9 + 2 * k], order[9 + 2 * k : 20], order[20:]
        masks = [torch.zeros(data.num_nodes, dtype=torch.bool).index_fill_(0, part, True) for part in parts]
        masks[0][:CLASSES], masks[1][:CLASSES], masks[2][:CLASSES] = True, False, False
        found.append(changed(data, train_mask=masks[0], val_mask=masks[1], test_mask=masks[2]))
    return found


def networks(model, data, seeds=(0,)):
    """The networks of a method before their first epoch, and the questions of their training."""
    labels = Labels.read(data)
    subject = BaselineData(data.x, data.edge_index, data.get("edge_weight"), labels.num_classes)
    problems = [BaselineProblem(labels.train, labels.validation, seed, f"of {seed}") for seed in seeds]
    model._check()
    return model._networks(subject, problems, None), Targets(torch.stack([labels.train] * len(seeds)), "target")


def undropped(values):
    return values


def dense(data):
    """Â `[N, N]`, by PyG."""
    index, entry = gcn_norm(data.edge_index, data.get("edge_weight"), data.num_nodes)
    return matrix(index[0], index[1], entry, data.num_nodes)


def matrix(source, target, entry, nodes):
    return torch.zeros(nodes, nodes).index_put_((target, source), entry, accumulate=True)


# -- All four ----------------------------------------------------------------------------------------------------------


def check_alone(method):
    """Models that share a pass learn what each learns by itself."""
    data = splits(graph())
    together = [method(seed=10 + k, optimization=FEW) for k in range(3)]
    fit_together(together, data)
    for k, one in enumerate(together):
        alone = method(seed=10 + k, optimization=FEW).fit(data[k])
        torch.testing.assert_close(one.probabilities_, alone.probabilities_, **EXACT)
        assert one.history_["training"]["train_loss"] == pytest.approx(alone.history_["training"]["train_loss"], 1e-4)


@every_method
def test_together_as_alone(method):
    check_alone(method)


class OfTheFirst:
    """Planted: all problems draw what the first draws."""

    def __init__(self, draw):
        self.draw = draw

    def __call__(self, networks):
        drawn = self.draw(networks)
        return drawn[:1].expand(drawn.shape).contiguous()


@pytest.mark.parametrize(
    ("method", "where", "name"),
    [
        ("DropEdge", dropedge._OnSomeEdges, "_kept"),
        ("MixUp", mixup._Mixing, "_shares"),
        ("GraphMix", graphmix._InTurn, "_uniform"),
    ],
)
def test_shared_draws_would_be_caught(method, where, name, monkeypatch):
    monkeypatch.setattr(where, name, lambda self, wrong=OfTheFirst(getattr(where, name)): wrong(self))
    with pytest.raises(AssertionError):
        check_alone(METHODS[method])


@every_method
def test_the_same_again(method):
    data, model = graph(), method(optimization=FEW, seed=4)
    first = model.fit(data).probabilities_
    assert torch.equal(first, model.fit(data).probabilities_)
    assert not torch.equal(first, method(optimization=FEW, seed=5).fit(data).probabilities_)


@every_method
def test_hidden_labels_are_not_seen(method):
    data = graph()
    fits = [method(optimization=FEW).fit(one) for one in (data, garbled(data))]
    assert torch.equal(fits[0].probabilities_, fits[1].probabilities_)


@every_method
def test_answers_are_made_without_chance(method):
    made, asked = networks(method(), graph(), (0, 1))
    assert torch.equal(made.answers(), made.answers())
    assert torch.equal(made.evaluate(asked, [True] * 2)[0], asked.losses(made.answers()))


def check_all_learn(method):
    """Every parameter of every problem changes; for GraphMix, whichever side the coin shows."""
    made, asked = networks(method(), graph(), (0, 1, 2, 3))
    before = {owned.name: owned.value.detach().clone() for owned in made.owned()}
    adam = made.adam(FEW)
    for _ in range(3):
        adam.zero_grad()
        made.training_step(asked, [True] * 4)
        adam.step()
    for owned in made.owned():
        moved = (owned.value != before[owned.name]).flatten(1) if owned.value.dim() > 1 else owned.value[:, None] > 0
        assert bool(moved.any(1).all()), owned.name


@every_method
def test_the_gradient_reaches_every_parameter(method):
    check_all_learn(method)


def test_a_parameter_that_stays_would_be_caught(monkeypatch):
    polynomial = gprgnn._polynomial
    monkeypatch.setattr(gprgnn, "_polynomial", lambda scores, gamma, spread: polynomial(scores, gamma.detach(), spread))
    with pytest.raises(AssertionError, match="gamma"):
        check_all_learn(METHODS["GPRGNN"])


@every_method
def test_other_names_of_nodes_change_no_answer(method):
    data = graph(weighted=False)
    to = torch.randperm(data.num_nodes, generator=random(2))
    one, other = (networks(method(), each)[0].answers()[0] for each in (data, permuted(data, to)))
    torch.testing.assert_close(other[to], one, **EXACT)


@every_method
def test_graphs_without_edges_and_all_labelled(method):
    data = graph(weighted=False)
    alone = changed(data, edge_index=data.edge_index[:, :0])
    everything = changed(data, train_mask=torch.ones(data.num_nodes, dtype=torch.bool), val_mask=None)
    for one in (alone, everything):
        assert bool(method(optimization=FEW).fit(one).probabilities_.isfinite().all())


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (DropEdge(p=1.5), "`p` must lie"),
        (DropEdge(p=True), "`p` must lie"),
        (DropEdge(backbone=GAT()), "`backbone` must be GCN"),
        (MixUp(alpha=0), "`alpha` must be positive"),
        (MixUp(backbone=JKNet()), "`backbone` must be GCN"),
        (GPRGNN(alpha=-0.1), "`alpha` must lie"),
        (GPRGNN(hops=0), "`hops` must be"),
        (GPRGNN(propagation_dropout=1), "`propagation_dropout` must lie"),
        (GraphMix(temperature=0), "`temperature` must be positive"),
        (GraphMix(unlabelled_weight=-1), "`unlabelled_weight` must be"),
        (GraphMix(ramp=(5, 5)), "`ramp` must be"),
        (GraphMix(predictions=0), "`predictions` must be"),
    ],
    ids=lambda one: repr(one)[:40],
)
def test_wrong_settings_are_refused(model, wrong):
    with pytest.raises((ValueError, TypeError), match=wrong):
        model.fit(graph())


# -- DropEdge ----------------------------------------------------------------------------------------------------------


@weighted_or_not
@pytest.mark.parametrize("backbone", [GCN(hidden=8), JKNet(hidden=4), ChebNet(hidden=8)], ids=repr)
def test_dropping_nothing_is_the_backbone(backbone, weighted):
    data = graph(weighted)
    found = DropEdge(p=0, backbone=backbone, optimization=FEW, seed=6).fit(data)
    plain = LGGDClassifier(features=None, backbone=backbone, optimization=FEW, seed=6).fit(data)
    assert torch.equal(found.probabilities_, plain.predict_proba())
    assert found.history_["training"] == plain.history_["backbone"]


def entries(read, data, kept):
    return read(data.edge_index, data.get("edge_weight"), data.num_nodes)(kept)


@weighted_or_not
@pytest.mark.parametrize(
    ("read", "reader"), [(AdjacencyEntries, layers.gcn_adjacency), (LaplacianEntries, layers.scaled_laplacian)]
)
def test_what_is_kept_is_normalised_as_pyg_does(read, reader, weighted):
    data = graph(weighted)
    data.edge_index[1, 0] = data.edge_index[0, 0]  # a loop
    weights = data.get("edge_weight")
    made = read(data.edge_index, weights, data.num_nodes)
    kept = torch.rand(3, len(made.weight), generator=random(1)) < torch.tensor([[0.0], [0.5], [2.0]])
    loop = data.edge_index[0] == data.edge_index[1]
    for one, entry in zip(kept, made(kept), strict=True):
        boundary_mask = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.bool)
        boundary_mask[made.edges.source[one], made.edges.target[one]] = True
        stay = loop | boundary_mask[data.edge_index[0], data.edge_index[1]]
        expected = reader(
            data.edge_index[:, stay], None if weights is None else weights[stay], len(boundary_mask), torch.float32
        )
        found = matrix(made.edges.source, made.edges.target, entry, len(boundary_mask))
        torch.testing.assert_close(found, expected.matrix.to_dense())


def test_the_share_that_is_dropped():
    made, _ = networks(DropEdge(p=0.99), graph(each=200, inside=0.1), (0, 1))
    share = 1 - made._kept().float().mean(1)
    assert share.tolist() == pytest.approx([0.99, 0.99], abs=0.003)


def trained_on(model, data):
    """What a model's first epoch computes, with nothing but edges dropped."""
    made, asked = networks(model, data)
    made._dropped = undropped
    return made, made.training_step(asked, [True])


def test_dropping_all_leaves_nodes_alone():
    data = graph()
    loss = trained_on(DropEdge(p=1), data)[1]
    alone = changed(data, edge_index=data.edge_index[:, :0], edge_weight=data.edge_weight[:0])
    torch.testing.assert_close(loss, trained_on(DropEdge(p=0), alone)[1])


def check_evaluation(data):
    """Answers do not depend on p."""
    whole, part = (networks(DropEdge(p=p), data)[0].answers() for p in (0, 0.9))
    assert torch.equal(whole, part)


def test_all_edges_are_there_in_evaluation():
    check_evaluation(graph())


def test_dropping_in_evaluation_would_be_caught(monkeypatch):
    def on_some(self, drop):
        entry = self.entries(self._kept())
        spread = lambda values: dropedge.spread_each(values, entry, self.entries.edges)  # noqa: E731
        return self.modules[0].logits(self.parameters, self.x, spread, drop)

    monkeypatch.setattr(dropedge._OnSomeEdges, "_logits", on_some)
    with pytest.raises(AssertionError):
        check_evaluation(graph())


def check_one_draw(data):
    """All layers of an epoch see the same edges, and the next epoch sees others."""
    made, asked = networks(DropEdge(p=0.5), data)
    drawn = []
    kept = made._kept
    made._kept = lambda: drawn.append(kept()) or drawn[-1]
    for _ in range(2):
        made.training_step(asked, [True])
    assert len(drawn) == 2
    assert not torch.equal(*drawn)


def test_edges_are_drawn_once_an_epoch():
    check_one_draw(graph())


# -- MixUp -------------------------------------------------------------------------------------------------------------


def mixing(data, share, partner, seed=0):
    """The networks, the logits of their mixture without dropout `[N, K]`, and those of the plain GCN."""
    made, asked = networks(MixUp(backbone=GCN(hidden=8)), data, (seed,))
    with torch.no_grad():
        found = made._mixed_logits(torch.tensor([share]), partner.unsqueeze(0), undropped)
    return made, asked, found[0], made.answers()[0]


def some_partner(data, seed=0):
    trained = data.train_mask.nonzero().squeeze(1)
    partner = torch.arange(data.num_nodes)
    partner[trained] = trained[torch.randperm(len(trained), generator=random(seed))]
    return partner


def by_hand(data, made, share, partner):
    """The two passes and the two branches as the paper tells them, with dense matrices."""
    weight, bias = (
        [made.parameters[f"{of}.{what}"][0] for of in ("first", "second")] for what in ("lin.weight", "bias")
    )
    whole = dense(data)
    off, own = whole - whole.diag().diag(), whole.diag().unsqueeze(1)
    clean, mixed = data.x, share * data.x + (1 - share) * data.x[partner]
    for layer, activation in ((0, torch.relu), (1, undropped)):
        heard, centre = off @ clean @ weight[layer].t(), mixed @ weight[layer].t()
        one = activation(heard + own * centre + bias[layer])
        other = activation(heard[partner] + own[partner] * centre + bias[layer])
        clean, mixed = activation(whole @ clean @ weight[layer].t() + bias[layer]), share * one + (1 - share) * other
    return mixed


@weighted_or_not
def test_mixtures_are_the_papers(weighted):
    data = graph(weighted)
    partner = some_partner(data)
    made, asked, found, _ = mixing(data, 0.3, partner)
    expected = by_hand(data, made, 0.3, partner)
    torch.testing.assert_close(found, expected, **EXACT)
    check_mixed_loss(made, asked, data, expected, partner)


def check_mixed_loss(made, asked, data, logits, partner):
    """It is cross-entropy with soft labels."""
    hard = functional.one_hot(data.y, CLASSES).float()
    soft = 0.3 * hard + 0.7 * hard[partner]
    expected = functional.cross_entropy(logits[data.train_mask], soft[data.train_mask])
    found = made._losses(asked, logits.unsqueeze(0), torch.tensor([0.3]), partner.unsqueeze(0))
    torch.testing.assert_close(found.detach()[0], expected.detach(), **EXACT)


@weighted_or_not
def test_mixing_nothing_is_the_gcn(weighted):
    data = graph(weighted)
    partner, unmoved = some_partner(data), torch.arange(data.num_nodes)
    for share, of in ((1.0, partner), (0.3, unmoved), (0.0, partner)):
        _, _, found, plain = mixing(data, share, of)
        expected = plain[of] if share == 0 else plain
        torch.testing.assert_close(found, expected, **EXACT)


def test_nodes_without_a_partner_are_the_gcns():
    data = graph()
    _, _, found, plain = mixing(data, 0.4, some_partner(data))
    torch.testing.assert_close(found[~data.train_mask], plain[~data.train_mask], **EXACT)
    assert not torch.allclose(found[data.train_mask], plain[data.train_mask], atol=1e-2)


def test_both_of_a_pair_mix_alike():
    data = graph()
    trained = data.train_mask.nonzero().squeeze(1)
    pairs = torch.arange(data.num_nodes)
    pairs[trained] = trained.flip(0)
    one, other = (mixing(data, share, pairs)[2] for share in (0.3, 0.7))
    torch.testing.assert_close(one, other[pairs], **EXACT)


def check_draws(made, data):
    """λ is Beta(α, α), one number a problem; π moves training nodes among themselves, and no others."""
    shares = torch.stack([made._shares() for _ in range(2000)])
    assert shares.shape == (2000, 2)
    assert shares.mean(0).tolist() == pytest.approx([0.5, 0.5], abs=0.02)
    assert shares.var(0).tolist() == pytest.approx([1 / 36] * 2, abs=0.003)  # 1 / (4 (2 α + 1)) for α = 4
    assert not torch.equal(shares[:, 0], shares[:, 1])
    partner = made._partners()
    unmoved = torch.arange(data.num_nodes).repeat(2, 1)
    assert torch.equal(partner.sort(1).values, unmoved)
    assert torch.equal((partner != unmoved).any(0) | data.train_mask, data.train_mask)
    assert not torch.equal(partner[0], partner[1])
    assert not torch.equal(partner, made._partners())


def test_what_mixup_draws():
    data = graph()
    check_draws(networks(MixUp(alpha=4), data, (0, 1))[0], data)


def test_labels_mixed_otherwise_would_be_caught(monkeypatch):
    losses = mixup._Mixing._losses
    monkeypatch.setattr(
        mixup._Mixing, "_losses", lambda self, asked, logits, share, partner: losses(
            self, asked, logits, share, partner.gather(1, partner)
        ),
    )  # fmt: skip
    with pytest.raises(AssertionError):
        test_mixtures_are_the_papers(True)


def test_mixed_neighbours_would_be_caught(monkeypatch):
    # Planted: the neighbours of a node are heard twice by its own branch, and those of its partner never.
    monkeypatch.setattr(mixup, "_rows", lambda values, chosen: values)
    with pytest.raises(AssertionError):
        test_mixtures_are_the_papers(True)


def test_mixing_all_nodes_would_be_caught():
    data = graph()
    made = networks(MixUp(alpha=4), data, (0, 1))[0]
    made.trained = [torch.arange(data.num_nodes)] * 2
    with pytest.raises(AssertionError):
        check_draws(made, data)


# -- GPR-GNN -----------------------------------------------------------------------------------------------------------


def polynomial_of(gamma, data):
    """The answers of GPR-GNN with this γ, and the scores that it spreads."""
    made, _ = networks(GPRGNN(hops=len(gamma) - 1, hidden=8), data)
    with torch.no_grad():
        made.parameters["gamma"].copy_(gamma.unsqueeze(0))
        scores = gprgnn._scores(made.parameters, data.x, undropped)[0]
    own = {name: value.detach()[0] for name, value in made.parameters.items()}
    hidden = torch.relu(functional.linear(data.x, own["first.weight"], own["first.bias"]))
    torch.testing.assert_close(scores, functional.linear(hidden, own["second.weight"], own["second.bias"]), **EXACT)
    return made.answers()[0], scores


def check_pagerank(data):
    """With the first γ it is APPNP."""
    found, scores = polynomial_of(pagerank(0.2, 5), data)
    weights = data.get("edge_weight")
    torch.testing.assert_close(found, APPNP(5, 0.2)(scores, data.edge_index, weights), **EXACT)


@weighted_or_not
def test_the_first_polynomial_is_appnp(weighted):
    check_pagerank(graph(weighted))


def test_a_wrong_last_coefficient_would_be_caught(monkeypatch):
    monkeypatch.setitem(globals(), "pagerank", lambda alpha, hops: alpha * (1 - alpha) ** torch.arange(hops + 1))
    with pytest.raises(AssertionError):
        check_pagerank(graph())


def test_coefficients_start_as_pagerank():
    gamma = networks(GPRGNN(alpha=0.3, hops=7), graph())[0].parameters["gamma"]
    assert gamma.shape == (1, 8)
    assert gamma.dtype == torch.float32
    assert float(gamma.detach().sum()) == pytest.approx(1)
    assert gamma[0, :2].tolist() == pytest.approx([0.3, 0.21])


@weighted_or_not
def test_single_powers(weighted):
    data = graph(weighted)
    for power in (0, 3):
        found, scores = polynomial_of(functional.one_hot(torch.tensor(power), 4).float(), data)
        torch.testing.assert_close(found, torch.linalg.matrix_power(dense(data), power) @ scores, **EXACT)


def check_decay(data):
    """Without a gradient the layers shrink and γ stays."""
    made, _ = networks(GPRGNN(), data)
    adam = made.adam(Optimization(weight_decay=0.1))
    before = {name: value.detach().clone() for name, value in made.parameters.items()}
    for value in made.parameters.values():
        value.grad = torch.zeros_like(value)
    adam.step()
    same = [name for name, value in made.parameters.items() if torch.equal(value, before[name])]
    assert same == ["gamma"]


def test_the_coefficients_do_not_decay():
    check_decay(graph())


def test_a_decay_of_the_coefficients_would_be_caught(monkeypatch):
    monkeypatch.setattr(gprgnn._Polynomials, "adam", gprgnn.Stack.adam)
    with pytest.raises(AssertionError):
        check_decay(graph())


def test_scores_are_dropped_at_a_rate_of_their_own():
    made, _ = networks(GPRGNN(dropout=0.5, propagation_dropout=0.25), graph(each=100), (0, 1))
    dropped = made._dropped_scores(torch.ones(2, 300, 3))
    assert dropped.mean((1, 2)).tolist() == pytest.approx([1, 1], abs=0.06)
    assert (dropped == 0).float().mean((1, 2)).tolist() == pytest.approx([0.25, 0.25], abs=0.04)
    assert torch.equal(networks(GPRGNN(propagation_dropout=0), graph())[0]._dropped_scores(dropped), dropped)


# -- GraphMix ----------------------------------------------------------------------------------------------------------


def test_without_edges_both_networks_are_one():
    data = graph(weighted=False)
    made, _ = networks(GraphMix(), changed(data, edge_index=data.edge_index[:, :0]))
    values = layers.batched_linear(made.x, made.parameters["first.lin.weight"])
    plain = graphmix._plain(values, made.parameters)
    torch.testing.assert_close(made.answers(), plain.detach(), **EXACT)


@weighted_or_not
def test_the_network_of_graphmix(weighted):
    data = graph(weighted)
    made, _ = networks(GraphMix(), data)
    first, second = (made.parameters[f"{of}.lin.weight"].detach()[0] for of in ("first", "second"))
    expected = dense(data) @ torch.relu(dense(data) @ data.x @ first.t()) @ second.t()
    torch.testing.assert_close(made.answers()[0], expected, **EXACT)


def graphmix_step(data, heads, monkeypatch, share=1.0, dropout=0, **settings):
    """The gradients and the loss of an epoch with this side of the coin and this λ."""
    made, asked = networks(GraphMix(dropout=dropout, predictions=1, **settings), data)
    monkeypatch.setattr(made, "_heads", lambda: torch.tensor([heads]))
    monkeypatch.setattr(made, "_uniform", lambda: torch.tensor([share]))
    loss = made.training_step(asked, [True])
    return made, loss, {name: value.grad[0] for name, value in made.parameters.items()}


def check_sides(data, monkeypatch):
    """Heads is a GCN's step by cross-entropy; tails, unmixed and without unlabelled nodes, an MLP's by binary one."""
    truth = functional.one_hot(data.y, CLASSES).float()
    for heads in (True, False):
        made, loss, gradients = graphmix_step(data, heads, monkeypatch, unlabelled_weight=0)
        own = {name: value.detach()[0].clone().requires_grad_() for name, value in made.parameters.items()}
        whole = dense(data) if heads else torch.eye(data.num_nodes)
        logits = whole @ torch.relu(whole @ data.x @ own["first.lin.weight"].t()) @ own["second.lin.weight"].t()
        if heads:
            expected = functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        else:
            share = torch.softmax(logits, 1)[data.train_mask]
            expected = functional.binary_cross_entropy(share, truth[data.train_mask])
        expected.backward()
        torch.testing.assert_close(loss[0], expected.detach(), **EXACT)
        for name, value in own.items():
            torch.testing.assert_close(gradients[name], value.grad, **EXACT)


def test_both_sides_of_the_coin(monkeypatch):
    check_sides(graph(), monkeypatch)


def test_a_plain_network_without_relu_would_be_caught(monkeypatch):
    monkeypatch.setattr(
        graphmix, "_plain", lambda values, parameters: layers.batched_linear(values, parameters["second.lin.weight"])
    )
    with pytest.raises(AssertionError):
        check_sides(graph(), monkeypatch)


def test_unlabelled_nodes_learn_from_guesses(monkeypatch):
    data = graph()
    drawn = (~data.train_mask).nonzero().squeeze(1)[: int(data.train_mask.sum())].flip(0)
    monkeypatch.setattr(graphmix._InTurn, "_draw_unlabelled", lambda self: drawn)
    settings = {"ramp": (0, 1), "temperature": 1.0}
    alone = graphmix_step(data, False, monkeypatch, unlabelled_weight=0, **settings)[1]
    made, both, _ = graphmix_step(data, False, monkeypatch, unlabelled_weight=3.0, **settings)
    values = layers.batched_linear(made.x, made.parameters["first.lin.weight"]).detach()
    found, wanted = torch.softmax(graphmix._plain(values, made.parameters)[0], 1), torch.softmax(made.answers()[0], 1)
    expected = functional.binary_cross_entropy(found.detach()[drawn], wanted[drawn])
    torch.testing.assert_close(both[0], alone[0] + 3 * torch.exp(torch.tensor(-5.0)) * expected, **EXACT)


def check_mixture(data, monkeypatch):
    """Hidden values and targets of training nodes are mixed by the same λ and the same permutation."""
    made, _ = networks(GraphMix(), data)
    partner = made._partners()
    monkeypatch.setattr(made, "_partners", lambda: partner)
    monkeypatch.setattr(made, "_uniform", lambda: torch.tensor([0.3]))
    first, second = (made.parameters[f"{of}.lin.weight"].detach()[0] for of in ("first", "second"))
    hidden = torch.relu(data.x @ first.t())[data.train_mask]
    target = functional.one_hot(data.y, CLASSES).float()[data.train_mask]
    mixed, wanted = (0.3 * each + 0.7 * each[partner] for each in (hidden, target))
    expected = functional.binary_cross_entropy(torch.softmax(mixed @ second.t(), 1), wanted)
    logits = graphmix._plain(layers.batched_linear(made.x, first.unsqueeze(0)), made.parameters)
    found = made._mixed_losses(logits, made.labelled, made.label)
    torch.testing.assert_close(found.detach()[0], expected, **EXACT)


def test_hidden_values_and_targets_are_mixed_alike(monkeypatch):
    check_mixture(graph(), monkeypatch)


def test_targets_mixed_otherwise_would_be_caught(monkeypatch):
    losses = graphmix._InTurn._mixed_losses
    monkeypatch.setattr(
        graphmix._InTurn, "_mixed_losses", lambda self, logits, nodes, target: losses(
            self, logits, nodes, target.roll(1, 0)
        ),
    )  # fmt: skip
    with pytest.raises(AssertionError):
        check_mixture(graph(), monkeypatch)


def test_the_unchosen_side_cannot_spoil_the_chosen(monkeypatch):
    data = graph()
    huge = changed(data, x=data.x * 1e15)
    for heads in (True, False):
        gradients = graphmix_step(huge, heads, monkeypatch, share=0.5)[2]
        assert all(bool(gradient.isfinite().all()) for gradient in gradients.values())


def test_guesses_are_averaged_and_sharpened():
    data = graph()
    made, _ = networks(GraphMix(dropout=0, temperature=0.5, predictions=3), data)
    share = torch.softmax(made.answers(), 2).square()
    torch.testing.assert_close(made._guessed(), share / share.sum(2, keepdim=True), **EXACT)
    with_dropout = networks(GraphMix(dropout=0.5, predictions=3), data)[0]
    assert not torch.equal(with_dropout._guessed(), with_dropout._guessed())
    assert not with_dropout._guessed().requires_grad


def test_what_graphmix_draws():
    data = graph()
    made, _ = networks(GraphMix(), data, (0, 1))
    drawn = made._draw_unlabelled()
    count = int(data.train_mask.sum())
    assert len(drawn) == 2 * count
    assert (drawn[:count] < data.num_nodes).all()
    assert (drawn[count:] >= data.num_nodes).all()
    assert not bool(data.train_mask.repeat(2)[drawn].any())
    partner = made._partners()
    assert torch.equal(partner[:count].sort().values, torch.arange(count))
    assert torch.equal(partner.sort().values, torch.arange(2 * count))
    coins = torch.stack([made._heads() for _ in range(1000)]).float()
    assert coins.mean(0).tolist() == pytest.approx([0.5, 0.5], abs=0.05)


def test_the_weight_of_unlabelled_nodes_rises():
    made, _ = networks(GraphMix(unlabelled_weight=10, ramp=(500, 1000)), graph())
    for epoch, expected in ((0, 0.0673795), (500, 0.0673795), (750, 2.865048), (1000, 10), (3000, 10)):
        made.epoch.fill_(epoch)
        assert float(made._weight()) == pytest.approx(expected, rel=1e-4)
    everything = changed(graph(), train_mask=torch.ones(36, dtype=torch.bool), val_mask=None)
    assert float(networks(GraphMix(), everything)[0]._weight()) == 0


def test_epochs_are_counted_from_the_start_of_each_fit():
    made, asked = networks(GraphMix(predictions=1), graph(), (0, 1))
    for _ in range(3):
        made.training_step(asked, [True] * 2)
    assert made.epoch.tolist() == [3, 3]
    assert networks(GraphMix(), graph())[0].epoch.tolist() == [0]
