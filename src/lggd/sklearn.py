"""The scikit-learn face: plain samples `X` and labels `y`, of which few need to be known, instead of a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.neighbors import VALID_METRICS, NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import nn

from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.errors import InputError, InputTypeError
from lggd.features import GGD, LGGD
from lggd.graph import Graph
from lggd.graph.sparse import without_sparse_warnings
from lggd.models import classifier
from lggd.training.optimization import Optimization
from lggd.validation import suggestion

if TYPE_CHECKING:
    from torch_geometric.data import Data

Features = GGD | LGGD | type[GGD] | type[LGGD]
Backbone = GCN | GAT | ChebNet | JKNet | nn.Module | type[GCN] | type[GAT] | type[ChebNet] | type[JKNet]
Array = NDArray[Any]

UNLABELLED = -1
FLOATS = (np.float64, np.float32)
# Distances in place of samples leave nothing to learn from.
METRICS = sorted({*VALID_METRICS["brute"], *VALID_METRICS["ball_tree"]} - {"precomputed", "pyfunc"})
SEEDS = np.iinfo(np.int32).max


class LGGDClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifies samples of which few have labels, and takes in new labels at once, without retraining.

    Each sample is joined to its `n_neighbors` nearest ones, and `lggd.LGGDClassifier` is fitted to that graph. Scale
    the columns of X first, as for any method of nearest neighbours. X may be sparse.

    `y = -1` marks samples without a label, as in `sklearn.semi_supervised`; among strings, `"-1"` does. So classes
    called -1 and 1 must be renamed first.

    Args:
        n_neighbors: for the graph and for new samples; at most one less than there are samples.
        metric: how far apart samples are: a name that `NearestNeighbors` knows, or a function of two samples.
        features: `LGGD()`, `GGD()` or None, as for `lggd.LGGDClassifier`. A class stands for its defaults.
        backbone: `GCN()`, another backbone, a torch module, or None for the nearest class by distance.
        optimization: how the backbone is trained.
        random_state: a number, a RandomState, or None for numpy's own. It takes the place of the seed of `features`.

    After `fit`: `classes_` `[K]`; `label_distributions_` `[N, K]` and `transduction_` `[N]`, the answers for the
    samples of `fit`, those with labels too; `model_`, the fitted `lggd.LGGDClassifier`; `n_features_in_` and, where X
    had names, `feature_names_in_`.

    >>> import numpy as np
    >>> X, y = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]), np.array([0, -1, -1, 1, -1, -1])
    >>> model = LGGDClassifier(n_neighbors=2, features=GGD(times=(1, 2)), backbone=None).fit(X, y)
    >>> model.transduction_
    array([0, 0, 0, 1, 1, 1])
    >>> model.predict([[0.3], [0.9]])
    array([0, 1])
    """

    def __init__(
        self,
        n_neighbors: int = 10,
        *,
        metric: str | Callable[[Array, Array], float] = "euclidean",
        features: Features | None = LGGD,
        backbone: Backbone | None = GCN,
        optimization: Optimization | type[Optimization] = Optimization,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.features = features
        self.backbone = backbone
        self.optimization = optimization
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learns from the samples `X [N, F]` and the labels `y [N]`, -1 where unknown. A refit forgets all labels."""
        n_neighbors, metric = self._check_neighbours()
        model = self._new_model()
        samples, labels = _validated(self, X, y, ensure_min_samples=2)
        self.classes_, codes = _read_labels(labels)
        self._nearest = NearestNeighbors(n_neighbors=min(n_neighbors, samples.shape[0] - 1), metric=metric)
        self._nearest.fit(samples)
        self._dtype = samples.dtype
        # Equal samples are one point, which has the number of the first of them.
        self._number_of: dict[bytes, int] = {}
        self._points = np.array([self._number_of.setdefault(key, i) for i, key in enumerate(_row_keys(samples))])
        self.model_ = model.fit(_graph_data(samples, codes, self._nearest))
        self._read_answers()
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The most probable class of each sample, `[M]`."""
        distributions = self.predict_proba(X)  # first, as it asks whether there was a fit
        return np.asarray(self.classes_[distributions.argmax(1)])

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each class, `[M, K]`, in the order of `classes_`.

        A sample of `fit` has its row of `label_distributions_`. Any other has the mean of the rows of its `n_neighbors`
        nearest samples of `fit`, as in `LabelSpreading`.
        """
        check_is_fitted(self)
        samples = _validated(self, X, reset=False)
        fitted = np.array([self._number_of.get(key, -1) for key in _row_keys(samples.astype(self._dtype))])
        known, new = fitted >= 0, np.flatnonzero(fitted < 0)
        answers = np.empty((len(fitted), len(self.classes_)))
        answers[known] = self.label_distributions_[fitted[known]]
        if len(new):
            near = self._nearest.kneighbors(samples[new], return_distance=False)
            answers[new] = self.label_distributions_[near].mean(1)
        return answers

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of right answers among the samples with a label; those of `y = -1` do not count.

        So a search over few labels, such as `GridSearchCV`, compares what is known.
        """
        predicted, labels = self.predict(X), column_or_1d(y)
        labelled = ~_is_unlabelled(labels)
        if not labelled.any():
            raise InputError("y", "label at least one sample to score", "-1 for all")
        weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(accuracy_score(labels[labelled], predicted[labelled], sample_weight=weight))

    def add_labels(self, indices: ArrayLike, labels: ArrayLike) -> Self:
        """Takes in labels of more samples of `fit`, by their row numbers or a mask; nothing is learned anew.

        `labels` has an entry a sample, or a single one for all, each in `classes_`. Afterwards `transduction_`,
        `label_distributions_` and all predictions are as the new labels have them.
        """
        check_is_fitted(self)
        samples = _read_indices(indices, len(self.transduction_))
        codes = _codes_of(np.atleast_1d(np.asarray(labels)).ravel(), self.classes_)
        if len(codes) == 1:
            codes = codes.repeat(len(samples))
        if len(codes) != len(samples):
            raise InputError("labels", f"hold a label for each of the {len(samples)} samples", len(codes))
        self._check_agreement(samples, codes)
        self.model_.add_labels(samples, codes)
        self._read_answers()
        return self

    # -- parts of the above -------------------------------------------------------------------------------------

    def _check_neighbours(self) -> tuple[int, Any]:
        count, metric = self.n_neighbors, self.metric
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise InputError("n_neighbors", "be a whole number from 1", repr(count))
        if not callable(metric) and metric not in METRICS:
            close = suggestion(str(metric), METRICS)
            raise ValueError(
                "`metric` must be a function of two samples or a name that scikit-learn's NearestNeighbors knows, "
                f"got {metric!r}. {close}".rstrip()
            )
        return int(count), metric

    def _new_model(self) -> classifier.LGGDClassifier:
        """The model to fit. What was passed to the constructor stays as it is."""
        seed = int(check_random_state(self.random_state).randint(SEEDS))
        features: Any = _with_defaults(self.features)
        if features is not None and not isinstance(features, GGD | LGGD):
            raise InputTypeError("features", "be LGGD(), GGD() or None", repr(features))
        optimization: Any = _with_defaults(self.optimization)
        if not isinstance(optimization, Optimization):
            raise InputTypeError("optimization", "be one such as Optimization(epochs=100)", repr(optimization))
        features = None if features is None else replace(features, seed=seed)
        return classifier.LGGDClassifier(features, _with_defaults(self.backbone), optimization, seed)

    def _read_answers(self) -> None:
        """Sets the answers for the samples of fit, as the model has them now."""
        answers = self.model_.predict_proba().cpu().numpy().astype(np.float64)
        # A row that is found again by its numbers must have one answer: equal samples share the mean of theirs.
        total = np.zeros_like(answers)
        np.add.at(total, self._points, answers)
        answers = total[self._points]
        self.label_distributions_ = answers / answers.sum(1, keepdims=True)
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]

    def _check_agreement(self, samples: Array, codes: Array) -> None:
        """Tells of contradictions by the names of the classes, which the model does not know."""
        known = self.model_.labels_.cpu().numpy().copy()
        for sample, code in zip(samples, codes, strict=True):
            if known[sample] not in (UNLABELLED, code):
                one, other = self.classes_[[code, known[sample]]].tolist()
                raise InputError(
                    "labels",
                    "agree with what is known",
                    but=f"sample {sample} would be both {one!r} and {other!r}",
                    remedy="Leave it out, or fit anew.",
                )
            known[sample] = code


def _validated(estimator: LGGDClassifier, *given: Any, **rules: Any) -> Any:
    return validate_data(estimator, *given, accept_sparse="csr", dtype=FLOATS, **rules)


def _with_defaults(choice: Any) -> Any:
    return choice() if isinstance(choice, type) else choice


def _is_unlabelled(y: Array) -> Array:
    """Where y says that there is no label, bool `[N]`. numpy turns a -1 among strings into "-1"."""
    if y.dtype.kind in "OUS":
        return np.array([str(label) == str(UNLABELLED) for label in y.tolist()], dtype=bool)
    return np.asarray(y == UNLABELLED)


def _read_labels(y: Array) -> tuple[Array, Array]:
    """The classes `[K]`, and the number of the class of each sample, int64 `[N]`, -1 without a label."""
    labelled = ~_is_unlabelled(y)
    if not labelled.any():
        raise InputError("y", "label samples of at least two classes", "-1 for all", "Label one of each class.")
    check_classification_targets(y[labelled])
    classes, inverse = np.unique(y[labelled], return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            "y",
            "label samples of at least two classes",
            f"one class, {classes.tolist()[0]!r}",
            "-1 marks samples without a label: rename a class of that name.",
        )
    codes = np.full(len(y), UNLABELLED, np.int64)
    codes[labelled] = inverse
    return classes, codes


def _read_indices(indices: ArrayLike, count: int) -> Array:
    """Row numbers of samples, int64 `[M]`."""
    read = np.atleast_1d(np.asarray(indices))
    if read.size == 0:
        return np.empty(0, np.int64)
    if read.dtype.kind == "b":
        if read.shape != (count,):
            raise ValueError(f"`indices` as a mask must have shape [{count}], got {list(read.shape)}.")
        return np.flatnonzero(read)
    if read.dtype.kind not in "ui" or read.ndim != 1:
        raise InputTypeError("indices", "be row numbers [M] or a mask", f"{read.dtype} of shape {list(read.shape)}")
    outside = read[(read < 0) | (read >= count)]
    if len(outside):
        raise InputError("indices", f"name samples 0..{count - 1} of fit", outside[0], "Others need a new fit.")
    return read.astype(np.int64)


def _codes_of(labels: Array, classes: Array) -> Array:
    """The number of the class of each label, int64 `[M]`."""
    number = {label: code for code, label in enumerate(classes.tolist())}
    unknown = [label for label in labels.tolist() if label not in number]
    if unknown:
        raise InputError(
            "labels",
            f"be among the classes {', '.join(map(repr, number))}",
            repr(unknown[0]),
            "A new class needs a new fit.",
        )
    return np.array([number[label] for label in labels.tolist()], np.int64)


def _row_keys(X: Any) -> list[bytes]:
    """A digest of each row, the same for the same numbers, whether stored densely or not.

    Equality, not distance 0: rounding may put a sample at some distance from itself, and a metric two samples at none.
    """
    rows = sp.csr_array(X, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    places = rows.indices.astype(np.int64)
    rows_between = pairwise(rows.indptr.tolist())
    return [blake2b(places[a:b].tobytes() + rows.data[a:b].tobytes(), digest_size=16).digest() for a, b in rows_between]


def _graph_data(X: Any, codes: Array, nearest: NearestNeighbors) -> Data:
    """The neighbour graph as PyG data. Without a query, scikit-learn leaves a sample out of its own neighbours."""
    from torch_geometric.data import Data

    graph = Graph.from_scipy(nearest.kneighbors_graph(), symmetrize="max")
    return Data(x=_contents(X), edge_index=graph.edge_index, y=torch.from_numpy(codes), num_nodes=X.shape[0])


def _contents(X: Any) -> torch.Tensor:
    """X as networks see it, float32, each column with deviation 1 and, unless sparse, mean 0.

    Networks start from the direction of a row, and far from 0 all rows point the same way. Neighbours are those of X.
    """
    scaled = StandardScaler(with_mean=not sp.issparse(X)).fit_transform(X)
    if not sp.issparse(scaled):
        return torch.from_numpy(scaled.astype(np.float32))
    coo = scaled.tocoo()
    places = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
    values = torch.from_numpy(coo.data.astype(np.float32))
    with without_sparse_warnings():
        return torch.sparse_coo_tensor(places, values, coo.shape).coalesce()
