"""The adapter of scikit-network against its own classifiers."""

import sys

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch_geometric.data import Data

from lggd.baselines.baseline import to_probabilities
from lggd.errors import InputError
from reproduction.baselines import Diffusion, MajorityVote, NearestNeighbours, PageRank, ScikitNetwork
from support.baseline_cases import graph, weighted_or_not
from support.small_data import blocks, changed, splits

ALGORITHMS = {
    "diffusion": Diffusion(iterations=20, scale=4.0),
    "PageRank": PageRank(damping=0.7, iterations=15),
    "votes": MajorityVote(),
    "neighbours": NearestNeighbours(neighbours=2, dimension=5),
}
every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


def adjacency_of(data):
    weight = torch.ones(data.num_edges) if data.get("edge_weight") is None else data.edge_weight
    return csr_matrix((weight.double().numpy(), data.edge_index.numpy()), shape=(data.num_nodes, data.num_nodes))


def theirs(name):
    classification = pytest.importorskip("sknetwork.classification", reason="scikit-network is not installed")
    from sknetwork.embedding import Spectral

    return {
        "diffusion": lambda: classification.DiffusionClassifier(n_iter=20, scale=4),
        "PageRank": lambda: classification.PageRankClassifier(damping_factor=0.7, n_iter=15),
        "votes": lambda: classification.Propagation(n_iter=100),
        "neighbours": lambda: classification.NNClassifier(2, Spectral(5, regularization=1)),
    }[name]()


def check(name, data, algorithm):
    pytest.importorskip("sknetwork", reason="scikit-network is not installed")
    model = ScikitNetwork(algorithm).fit(data)
    labels = model.labels_.numpy()
    scores = theirs(name).fit(adjacency_of(data), labels).predict_proba()
    torch.testing.assert_close(model.predict_proba(), to_probabilities(torch.from_numpy(scores), model.labels_))


@weighted_or_not
@every_algorithm
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_predictions_are_those_of_scikit_network(name, weighted):
    check(name, graph(weighted), ALGORITHMS[name])


def test_check_finds_another_setting():
    with pytest.raises(AssertionError):
        check("diffusion", graph(), Diffusion(iterations=5))


@every_algorithm
def test_predictions_are_deterministic_and_leave_random_numbers_alone(name):
    pytest.importorskip("sknetwork", reason="scikit-network is not installed")
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two = (ScikitNetwork(ALGORITHMS[name]).fit(graph()).predict_proba() for _ in range(2))
    assert torch.equal(one, two)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@every_algorithm
def test_unusual_graphs_and_labels(name):
    """No edges, one label per class, all nodes labelled, a single node with a loop, added labels."""
    pytest.importorskip("sknetwork", reason="scikit-network is not installed")
    data = blocks()
    everything = torch.ones(data.num_nodes, dtype=torch.bool)
    none = torch.zeros_like(everything)
    cases = (
        changed(data, edge_index=data.edge_index[:, :0]),
        blocks(labelled=1),
        changed(data, train_mask=everything, val_mask=none),
        Data(x=torch.ones(1, 1), edge_index=torch.tensor([[0], [0]]), y=torch.tensor([0])),
        *splits(2),
    )
    for one in cases:
        found = ScikitNetwork(ALGORITHMS[name]).fit(one).predict_proba()
        torch.testing.assert_close(found.sum(1), torch.ones(one.num_nodes))
    model = ScikitNetwork(ALGORITHMS[name]).fit(data).add_labels(data.val_mask, data.y[data.val_mask])
    known = changed(data, train_mask=data.train_mask | data.val_mask, val_mask=none)
    assert torch.equal(model.predict_proba(), ScikitNetwork(ALGORITHMS[name]).fit(known).predict_proba())


@every_algorithm
def test_labels_spread(name):
    pytest.importorskip("sknetwork", reason="scikit-network is not installed")
    data = blocks(each=20)
    assert ScikitNetwork(ALGORITHMS[name]).fit(data).score(data) > 0.6


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sknetwork", None)
    model = ScikitNetwork()
    model.check_settings()
    message = "`ScikitNetwork` must import sknetwork, but it is not installed. Run: pip install scikit-network"
    with pytest.raises(InputError, match=message):
        model.fit(blocks())


@pytest.mark.parametrize(
    ("build", "argument"),
    [
        (lambda: Diffusion(iterations=0), "iterations"),
        (lambda: Diffusion(scale=0.0), "scale"),
        (lambda: PageRank(damping=1.0), "damping"),
        (lambda: PageRank(iterations=0), "iterations"),
        (lambda: MajorityVote(0), "iterations"),
        (lambda: NearestNeighbours(neighbours=0), "neighbours"),
        (lambda: NearestNeighbours(dimension=0), "dimension"),
        (lambda: ScikitNetwork("diffusion").fit(blocks()), "algorithm"),
    ],
)
def test_invalid_settings_raise(build, argument):
    with pytest.raises((ValueError, TypeError), match=f"`{argument}` must"):
        build()
