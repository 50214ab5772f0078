"""The classifiers of scikit-network, an optional package, with the interface of all models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lggd.baselines.baseline import UntrainedBaseline
from lggd.errors import optional_package
from lggd.inputs import Labels, NodeData
from lggd.progress import Callback
from lggd.validation import check_fraction, check_instance, check_int, check_positive

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    Scores = NDArray[np.float64]  # [N, K]
    Classes = NDArray[np.int64]  # [N], -1 for unlabelled nodes


@dataclass(frozen=True)
class Diffusion:
    """scikit-network's `DiffusionClassifier`: heat diffuses from labelled nodes, whose temperatures stay fixed.

    Parameters
    ----------
    iterations : int
        Number of steps of the diffusion.
    scale : float
        Factor of the temperatures before the softmax.

    Examples
    --------
    >>> Diffusion(iterations=50)
    Diffusion(iterations=50, scale=5.0)
    """

    iterations: int = 10
    scale: float = 5.0

    def __post_init__(self) -> None:
        check_int("iterations", self.iterations, 1)
        check_positive("scale", self.scale)

    def scores(self, adjacency: csr_matrix, labels: Classes) -> Scores:
        """Returns the probability of each class, `[N, K]`; rows of unreachable nodes are 0."""
        from sknetwork.classification import DiffusionClassifier

        model = DiffusionClassifier(n_iter=self.iterations, scale=self.scale)
        scores: Scores = model.fit(adjacency, labels).predict_proba()
        return scores


@dataclass(frozen=True)
class PageRank:
    """scikit-network's `PageRankClassifier`: one personalized PageRank per class, restarted at its labelled nodes.

    Parameters
    ----------
    damping : float
        Probability to continue the random walk, in [0, 1).
    iterations : int
        Number of power iterations.

    Examples
    --------
    >>> PageRank(damping=0.9)
    PageRank(damping=0.9, iterations=10)
    """

    damping: float = 0.85
    iterations: int = 10

    def __post_init__(self) -> None:
        check_fraction("damping", self.damping)
        check_int("iterations", self.iterations, 1)

    def scores(self, adjacency: csr_matrix, labels: Classes) -> Scores:
        """Returns the PageRank of each class, `[N, K]`."""
        # Not PageRankClassifier, which starts a pool of processes for the same computation.
        from sknetwork.ranking import PageRank as Ranking

        ranking = Ranking(self.damping, n_iter=self.iterations)
        classes = range(int(labels.max()) + 1)
        return np.stack([ranking.fit_predict(adjacency, (labels == k).astype(int)) for k in classes], axis=1)


@dataclass(frozen=True)
class MajorityVote:
    """scikit-network's `Propagation`: each node in turn takes the most frequent class of its neighbours.

    Parameters
    ----------
    iterations : int
        Maximum number of rounds.

    Examples
    --------
    >>> MajorityVote()
    MajorityVote(iterations=100)
    """

    iterations: int = 100

    def __post_init__(self) -> None:
        check_int("iterations", self.iterations, 1)

    def scores(self, adjacency: csr_matrix, labels: Classes) -> Scores:
        """Returns the share of each class among the neighbours, `[N, K]`; rows of unreachable nodes are 0."""
        from sknetwork.classification import Propagation

        scores: Scores = Propagation(n_iter=self.iterations).fit(adjacency, labels).predict_proba()
        return scores


@dataclass(frozen=True)
class NearestNeighbours:
    """scikit-network's `NNClassifier`: the nearest labelled nodes in a spectral embedding of the graph.

    Parameters
    ----------
    neighbours : int
        Number of labelled nodes that vote.
    dimension : int
        Dimension of the embedding.

    Examples
    --------
    >>> NearestNeighbours(neighbours=1)
    NearestNeighbours(neighbours=1, dimension=20)
    """

    neighbours: int = 3
    dimension: int = 20

    def __post_init__(self) -> None:
        check_int("neighbours", self.neighbours, 1)
        check_int("dimension", self.dimension, 1)

    def scores(self, adjacency: csr_matrix, labels: Classes) -> Scores:
        """Returns the share of each class among the nearest labelled nodes, `[N, K]`."""
        from sknetwork.classification import NNClassifier

        count = max(1, min(self.neighbours, int((labels >= 0).sum()) - 1))
        model = NNClassifier(count, embedding_method=_SpectralEmbedding(self.dimension))
        scores: Scores = model.fit(adjacency, labels).predict_proba()
        return scores


@dataclass(frozen=True)
class _SpectralEmbedding:
    """scikit-network's `Spectral` with a fixed start of the eigensolver: theirs gives other numbers in every run."""

    dimension: int

    def fit_transform(self, adjacency: csr_matrix) -> Scores:
        from scipy.sparse.linalg import eigsh
        from sknetwork.linalg import Laplacian

        size = adjacency.shape[0]
        laplacian = Laplacian(adjacency, regularization=1.0, normalized_laplacian=True)
        start = np.random.default_rng(0).standard_normal(size)
        values, vectors = eigsh(laplacian.astype(float), min(self.dimension, size - 2) + 1, which="SM", v0=start)
        embedding: Scores = laplacian.norm_diag.dot(vectors[:, values.argsort()[1:]])
        return embedding


Algorithm = Diffusion | PageRank | MajorityVote | NearestNeighbours


@dataclass(eq=False, repr=False)
class ScikitNetwork(UntrainedBaseline):
    """A classifier of scikit-network, which uses the graph and the labels alone. It runs on the CPU.

    Parameters
    ----------
    algorithm : Diffusion, PageRank, MajorityVote or NearestNeighbours
        The classifier.
    seed : int or torch.Generator
        Not used.

    Raises
    ------
    MissingPackageError
        By `fit`, if the package scikit-network is not installed.

    Examples
    --------
    >>> ScikitNetwork(PageRank(damping=0.9))
    ScikitNetwork(algorithm=PageRank(damping=0.9))
    """

    algorithm: Algorithm = Diffusion()

    def check_settings(self) -> None:
        kinds = "Diffusion(), PageRank(), MajorityVote() or NearestNeighbours()"
        check_instance("algorithm", self.algorithm, Algorithm, kinds)

    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int, callback: Callback | None) -> None:
        with optional_package("ScikitNetwork", "scikit-network"):
            import sknetwork  # noqa: F401
        super()._fit_to(nodes, labels, seed, callback)

    def _scores(self, edge_index: Tensor, edge_weight: Tensor | None, labels: Tensor) -> Tensor:
        from scipy.sparse import csr_matrix

        size = len(labels)
        if edge_index.shape[1] == 0 or size == 1:  # which scikit-network refuses
            return torch.zeros(size, self.num_classes_, dtype=torch.float64, device=labels.device)
        weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight.detach().cpu()
        ends: Any = edge_index.flip(0).cpu().numpy()
        adjacency = csr_matrix((weight.double().numpy(), ends), shape=(size, size))
        scores = self.algorithm.scores(adjacency, labels.cpu().numpy())
        return torch.from_numpy(np.ascontiguousarray(scores)).to(labels.device)
