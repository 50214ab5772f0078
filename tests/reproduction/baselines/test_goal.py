"""GOAL's convolution against its formula, and the whole method."""

import pytest
import torch
from torch.nn import functional

from lggd import Optimization
from lggd.graph.sparse import normalized_adjacency
from reproduction.baselines import GOAL, Complement
from reproduction.baselines.goal import (
    AttentionNetwork,
    ConvolutionNetwork,
    GOALGraph,
    normalized_complements,
    normalized_rows,
)
from support.baseline_cases import CASES, EXACT, FEW, check_together
from support.small_data import CLASSES, blocks, changed, garbled, random

F64 = torch.float64
NODES, FEATURES, HIDDEN, PROBLEMS = 36, 2 * CLASSES, 10, 2
make = CASES["GOAL"].make


def close(a, b, **tolerance):
    torch.testing.assert_close(a, b, **(tolerance or EXACT))


# -- Convolution -------------------------------------------------------------------------------------------------------


def test_complements_are_normalized_with_multiplicity_and_without_self_loops():
    graphs = [torch.tensor([[0, 0, 1, 3], [1, 1, 2, 3]]), torch.tensor([[2], [0]])]
    expected = torch.zeros(10, 10)
    for q, edges in enumerate(graphs):
        dense = torch.zeros(5, 5)
        for i, j in edges.t().tolist():
            dense[i, j] += 1
            dense[j, i] += 1
        root = dense.sum(1).clamp(min=1).rsqrt()
        expected[5 * q : 5 * q + 5, 5 * q : 5 * q + 5] = root[:, None] * dense * root
    close(normalized_complements(graphs, num_nodes=5).csr.to_dense(), expected)
    assert expected[4].sum() == 0


class Convolutions:
    """The GOAL convolutions of two problems on a small graph."""

    def __init__(self, *weights, x=None, graphs=None):
        data = blocks(lonely=1)
        self.weights, self.x = weights, data.x if x is None else x
        if graphs is None:
            graphs = [torch.randint(NODES, (2, 50), generator=random(q)) for q in range(PROBLEMS)]
        near, far = normalized_adjacency(data.edge_index, None, NODES), normalized_complements(graphs, NODES)
        self.near, self.far = near.csr.to_dense(), far.csr.to_dense()
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            modules = [ConvolutionNetwork(GOAL(hidden=HIDDEN), FEATURES, CLASSES) for _ in range(PROBLEMS)]
        self.parameters = {
            name: torch.stack([getattr(module, name).detach() for module in modules]).requires_grad_()
            for name in ("first", "second")
        }
        graph = GOALGraph(weights, self.x, near, far)
        self.logits = modules[0].logits(self.parameters, self.x, graph, None)

    def dense_parts(self, q):
        """S_h, S_q, W₁ and W₂ of a problem."""
        block = slice(q * NODES, (q + 1) * NODES)
        return self.near, self.far[block, block], self.parameters["first"][q].t(), self.parameters["second"][q].t()

    def as_published(self, q):
        """With the inner rn, which changes nothing."""
        (near, far, first, second), (alpha, beta, gamma, delta) = self.dense_parts(q), self.weights
        rn = functional.normalize
        h = rn(self.x)
        for weight in (first, second):
            p = near @ h @ weight
            h = alpha * h @ weight + beta * p - gamma * rn(rn(far @ h) @ weight) - delta * rn(far @ p)
        return h


@pytest.mark.parametrize("weights", [(1, 0.5, 1.5, 0.5), (2, 4, 0, 1), (2.5, 2.5, 0.5, 0), (0, 0, 1, 2)])
def test_convolution_is_as_published(weights):
    made = Convolutions(*weights)
    for q, logits in enumerate(made.logits):
        close(logits, made.as_published(q))


def test_beta_alone_is_a_simplified_graph_convolution():
    made = Convolutions(0, 1, 0, 0)
    for q, logits in enumerate(made.logits):
        near, _, first, second = made.dense_parts(q)
        close(logits, near @ near @ functional.normalize(made.x) @ first @ second)


def test_alpha_alone_is_a_linear_model():
    made = Convolutions(1, 0, 0, 0)
    for q, logits in enumerate(made.logits):
        _, _, first, second = made.dense_parts(q)
        close(logits, functional.normalize(made.x) @ first @ second)


def test_gamma_alone_gives_rows_of_that_norm():
    ring = torch.stack([torch.arange(NODES), (torch.arange(NODES) + 5) % NODES])
    made = Convolutions(0, 0, 1.5, 0, graphs=[ring, ring.flip(1)])
    close(made.logits.norm(dim=2), torch.full((PROBLEMS, NODES), 1.5))


def test_empty_complement_has_no_effect():
    empty = [torch.empty(2, 0, dtype=torch.int64)] * PROBLEMS
    close(Convolutions(1, 2, 3, 4, graphs=empty).logits, Convolutions(1, 2, 0, 0).logits)


def test_nodes_without_features_or_edges_have_finite_gradients():
    x = blocks(lonely=1).x.clone()
    x[:5] = 0
    x[-3:] = 0
    made = Convolutions(1, 0.5, 1.5, 0.5, x=x, graphs=[torch.tensor([[0, 1, 20], [2, 3, 35]])] * PROBLEMS)
    torch.log_softmax(made.logits, 2)[:, :, 0].sum().backward()
    assert made.logits.isfinite().all()
    assert all(value.grad.isfinite().all() for value in made.parameters.values())


def test_normalized_rows():
    rows = torch.randn(4, 3, generator=random(), dtype=F64, requires_grad=True)
    close(normalized_rows(rows), functional.normalize(rows))
    assert torch.autograd.gradcheck(normalized_rows, (rows,))
    zeros = torch.zeros(2, 3, requires_grad=True)
    normalized_rows(zeros).sum().backward()
    assert normalized_rows(zeros).abs().max() == zeros.grad.abs().max() == 0


# -- Pretraining -------------------------------------------------------------------------------------------------------


def test_attention_network_is_three_pyg_layers_without_activation():
    data = blocks(lonely=1)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        network = AttentionNetwork(2 * CLASSES, CLASSES).eval()
    assert [(layer.heads, layer.out_channels) for layer in network.layers] == [(8, 16), (1, 128), (1, CLASSES)]
    x = data.x
    for layer in network.layers:
        x = layer(x, data.edge_index)
    torch.testing.assert_close(network(data.x, data.edge_index), x, rtol=1e-4, atol=1e-5)
    assert network.dropout == 0.6


# -- The whole method --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"pretrain": False, "gamma": 0.5}, {"gamma": 0.0, "delta": 0.0}])
def test_accuracy(settings):
    data = blocks(each=60, labelled=5, validated=10, inside=0.1, outside=0.02, noise=0.3)
    some = Optimization(weight_decay=5e-4, epochs=60)
    model = make(pretraining=some, complement=Complement(), hidden=32, optimization=some, **settings)
    assert model.fit(data).score(data) > 0.8


def test_stages_are_reported_in_order():
    stages = []
    make().fit(blocks(), callback=lambda progress: stages.append(progress.stage))
    assert list(dict.fromkeys(stages)) == ["pretraining", "complement", "training"]
    assert [stages.count(stage) for stage in ("pretraining", "complement", "training")] == [FEW.epochs, 12, FEW.epochs]
    stages.clear()
    make(pretrain=False).fit(blocks(), callback=lambda progress: stages.append(progress.stage))
    assert "pretraining" not in stages


def test_pretraining_only_changes_the_complement():
    data = blocks(lonely=2)
    found = {
        (gamma, pretrain): make(gamma=gamma, delta=0.0, pretrain=pretrain).fit(data).probabilities_
        for gamma in (0.0, 1.5)
        for pretrain in (False, True)
    }
    assert torch.equal(found[0.0, False], found[0.0, True])
    assert not torch.allclose(found[1.5, False], found[1.5, True])


@pytest.mark.parametrize("lonely", [0, 2])
def test_without_pretraining_models_can_share_a_pass(lonely):
    check_together(lambda **settings: make(pretrain=False, **settings), blocks(lonely=lonely))


def test_without_pretraining_hidden_labels_have_no_effect():
    data = blocks(lonely=2)
    one, other = (make(pretrain=False).fit(each).probabilities_ for each in (data, garbled(data)))
    assert torch.equal(one, other)


def test_edge_weights_count():
    data = blocks(weighted=True)
    one, other = (make(pretrain=False).fit(each) for each in (data, changed(data, edge_weight=None)))
    assert not torch.equal(one.probabilities_, other.probabilities_)


def test_few_edges():
    data = changed(blocks(), edge_index=torch.tensor([[0, 1, 4, 4], [1, 0, 4, 5]]))
    assert make().fit(data).probabilities_.isfinite().all()


def test_one_label_per_class_without_validation():
    assert make().fit(blocks(labelled=1, validated=0)).probabilities_.isfinite().all()


def test_embedding_smaller_than_the_number_of_classes_raises():
    with pytest.raises(ValueError, match=r"`complement\.hidden` must be at least the number of classes, 3, got 2"):
        make(complement=Complement(hidden=2)).fit(blocks())


def test_all_weights_zero_raise():
    with pytest.raises(ValueError, match="`alpha` must be positive if"):
        make(alpha=0, beta=0, gamma=0, delta=0).fit(blocks())


def test_infinite_complement_loss_raises():
    with pytest.raises(FloatingPointError, match=r"Lower `complement\.lr`"):
        make(pretrain=False, complement=Complement(hidden=4, lr=1e30, epochs=5)).fit(blocks())
