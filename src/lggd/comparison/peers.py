"""Classifiers of other packages with the interface of our models: scikit-learn on the graph, or on node features."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lggd.baselines import MajorityVote, NearestNeighbours, PageRank, ScikitNetwork
from lggd.baselines.baseline import UntrainedBaseline
from lggd.errors import InputError
from lggd.estimator.labels import Labels
from lggd.graph.edge_index import check_node_features
from lggd.validation import check_int, check_real


@dataclass(eq=False, repr=False)
class GraphLabelSpreading(UntrainedBaseline):
    """scikit-learn's `LabelSpreading` with the graph's edge weights as affinity; `alpha` is what neighbours decide."""

    alpha: float = 0.9
    iterations: int = 100

    def check_settings(self) -> None:
        check_real("alpha", self.alpha, 0, 1, closed="neither")
        check_int("iterations", self.iterations, 1)

    def _scores(self, edge_index: Tensor, edge_weight: Tensor | None, labels: Tensor) -> Tensor:
        from scipy.sparse import coo_array
        from sklearn.semi_supervised import LabelSpreading

        count = len(labels)
        rows, columns = edge_index.cpu().numpy()
        weight = np.ones(len(rows)) if edge_weight is None else edge_weight.cpu().double().numpy()
        affinity = coo_array((weight, (rows, columns)), shape=(count, count))
        model = LabelSpreading(kernel=lambda *_: affinity, alpha=self.alpha, max_iter=self.iterations)
        with _without_warnings():
            model.fit(np.arange(count, dtype=float)[:, None], labels.cpu().numpy())
        return torch.from_numpy(np.nan_to_num(model.label_distributions_)).to(labels.device)


class FeatureClassifier:
    """A classifier of scikit-learn on node features alone. Those that learn from unlabelled rows see all of them."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def __repr__(self) -> str:
        return f"FeatureClassifier({self.estimator!r})"

    def get_params(self) -> dict[str, Any]:
        return {f"estimator__{name}": value for name, value in self.estimator.get_params().items()}

    def set_params(self, **params: Any) -> FeatureClassifier:
        self.estimator.set_params(**{name.removeprefix("estimator__"): value for name, value in params.items()})
        return self

    def fit(self, data: Any) -> FeatureClassifier:
        from sklearn.base import clone

        labels = Labels.read(data)
        self.x_, y = check_node_features(data).to_dense().cpu().numpy(), labels.train.cpu().numpy()
        self.num_classes_, known = labels.num_classes, y >= 0
        if type(self.estimator).__module__.startswith("sklearn.semi_supervised"):
            known = np.ones_like(known)  # -1 marks unlabelled rows there as here
        with _without_warnings():
            self.estimator_ = clone(self.estimator).fit(self.x_[known], y[known])
        return self

    def predict_proba(self) -> Tensor:
        if not hasattr(self.estimator_, "predict_proba"):
            rule = "return probabilities: have predict_proba"
            raise InputError(type(self.estimator_).__name__, rule, remedy="Use CalibratedClassifierCV around it.")
        found = np.zeros((len(self.x_), self.num_classes_))
        with _without_warnings():
            found[:, self.estimator_.classes_.astype(int)] = self.estimator_.predict_proba(self.x_)
        return torch.from_numpy(np.nan_to_num(found))


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Hides that iterations ended early, and that rows of nodes without neighbours are 0 / 0; these become 0."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, RuntimeWarning):
            warnings.simplefilter("ignore", kind)
        yield


def label_spreading_on_features() -> FeatureClassifier:
    from sklearn.semi_supervised import LabelSpreading

    return FeatureClassifier(LabelSpreading(kernel="knn", n_neighbors=10, max_iter=100))


def label_propagation_on_features() -> FeatureClassifier:
    from sklearn.semi_supervised import LabelPropagation

    return FeatureClassifier(LabelPropagation(kernel="knn", n_neighbors=10, max_iter=1000))


def logistic_regression() -> FeatureClassifier:
    from sklearn.linear_model import LogisticRegression

    return FeatureClassifier(LogisticRegression(max_iter=1000))


SCIKIT_NETWORK = "sknetwork"


def pagerank() -> ScikitNetwork:
    return ScikitNetwork(PageRank())


def majority_vote() -> ScikitNetwork:
    return ScikitNetwork(MajorityVote())


def nearest_neighbours() -> ScikitNetwork:
    return ScikitNetwork(NearestNeighbours())
