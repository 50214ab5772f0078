"""A scikit-learn estimator for samples `X` and labels `y`, few of which are known, instead of a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass, replace
from hashlib import blake2b
from itertools import pairwise
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
from lggd.estimator.labels import LabelConflictError
from lggd.estimator.parameters import changed_params, get_params
from lggd.features import GGD, LGGD
from lggd.graph import Graph
from lggd.graph.sparse import without_sparse_warnings
from lggd.models.classifier import LGGDClassifier
from lggd.training.checkpoint import Checkpoint
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback
from lggd.validation import check_instance, check_int, suggestion

if TYPE_CHECKING:
    from torch_geometric.data import Data

Features = GGD | LGGD | type[GGD] | type[LGGD]
Backbone = GCN | GAT | ChebNet | JKNet | nn.Module | type[GCN] | type[GAT] | type[ChebNet] | type[JKNet]
Array = NDArray[Any]

UNLABELLED = -1
FLOATS = (np.float64, np.float32)
# Not with precomputed distances: features are learned from the samples.
METRICS = sorted({*VALID_METRICS["brute"], *VALID_METRICS["ball_tree"]} - {"precomputed", "pyfunc"})
MAX_SEED = np.iinfo(np.int32).max


class KNNGraphClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify samples of which few are labelled, and use new labels at once, without training.

    Every sample is joined to its `n_neighbors` nearest ones, and `lggd.LGGDClassifier` is fitted to that graph. Scale
    the columns of X first, as for any nearest-neighbour method. X may be sparse. `y = -1` marks unlabelled samples, as
    in `sklearn.semi_supervised`; among strings, `"-1"` does. Classes called -1 must be renamed first.

    Parameters
    ----------
    n_neighbors : int
        Neighbours of each sample in the graph, and of new samples; at most the number of samples minus 1.
    metric : str or callable
        The distance between samples: a name that `NearestNeighbors` knows, or a function of two samples.
    features : LGGD, GGD or None
        As for `lggd.LGGDClassifier`. A class is called without arguments.
    backbone : GCN, GAT, ChebNet, JKNet, torch.nn.Module or None
        As for `lggd.LGGDClassifier`.
    optimization : Optimization
        How the backbone is trained.
    random_state : int, RandomState or None
        Random seed, also of `features`; None uses NumPy's global state.

    Attributes
    ----------
    classes_ : ndarray of shape [K]
    label_distributions_ : ndarray of shape [N, K]
        The class probabilities of the samples of `fit`, labelled ones included.
    transduction_ : ndarray of shape [N]
        The predicted classes of the samples of `fit`.
    model_ : lggd.LGGDClassifier
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]), np.array([0, -1, -1, 1, -1, -1])
    >>> model = KNNGraphClassifier(n_neighbors=2, features=GGD(times=(1, 2)), backbone=None).fit(X, y)
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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; with `deep` also those of nested settings, as "features__times"."""
        params: dict[str, Any] = super().get_params(deep=False)
        nested = {name: _with_defaults(value) for name, value in params.items()} if deep else {}
        for name, choice in nested.items():
            if is_dataclass(choice):
                params |= {f"{name}__{inner}": value for inner, value in get_params(choice).items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; "features__times" changes a nested setting."""
        direct = {name: value for name, value in params.items() if "__" not in name}
        super().set_params(**direct)
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if inner:
                choice = _with_defaults(super().get_params(deep=False).get(outer))
                if not is_dataclass(choice) or isinstance(choice, type):
                    raise InputError("params", f"name settings of {type(self).__name__} or of its choices", repr(name))
                setattr(self, outer, replace(choice, **changed_params(choice, {inner: value})))
        return self

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """Fit the model to samples.

        Parameters
        ----------
        X : array of shape [N, F]
            The samples, labelled and unlabelled.
        y : array of shape [N]
            Their classes, -1 where unknown.
        callback : callable, optional
            Called with a `Progress` after every epoch.
        checkpoint : Checkpoint, optional
            Where unfinished training is saved, and resumed from.

        Returns
        -------
        The model itself.
        """
        self.__dict__.pop("transduction_", None)  # a fit that fails leaves the model unfitted
        n_neighbors, metric = self._check_neighbours()
        model = self._new_model()
        samples, labels = _validated(self, X, y, ensure_min_samples=2)
        self.classes_, codes = _read_labels(labels)
        self._nearest = NearestNeighbors(n_neighbors=min(n_neighbors, samples.shape[0] - 1), metric=metric)
        self._nearest.fit(samples)
        self._dtype = samples.dtype
        # Equal samples are one point, identified by the index of the first of them.
        self._number_of: dict[bytes, int] = {}
        self._points = np.array([self._number_of.setdefault(key, i) for i, key in enumerate(_row_keys(samples))])
        data = _graph_data(samples, codes, self._nearest)
        self.model_ = model.fit(data, callback=callback, checkpoint=checkpoint)
        self._update_transduction()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transduction_")

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of each sample, `[M]`."""
        distributions = self.predict_proba(X)  # first, as it checks that the model is fitted
        return np.asarray(self.classes_[distributions.argmax(1)])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each class, `[M, K]`, in the order of `classes_`.

        A sample of `fit` has its row of `label_distributions_`; any other the mean of the rows of its `n_neighbors`
        nearest samples of `fit`, as in `LabelSpreading`.
        """
        check_is_fitted(self)
        samples = _validated(self, X, reset=False)
        fitted = np.array([self._number_of.get(key, -1) for key in _row_keys(samples.astype(self._dtype))])
        known, new = fitted >= 0, np.flatnonzero(fitted < 0)
        probabilities = np.empty((len(fitted), len(self.classes_)))
        probabilities[known] = self.label_distributions_[fitted[known]]
        if len(new):
            near = self._nearest.kneighbors(samples[new], return_distance=False)
            probabilities[new] = self.label_distributions_[near].mean(1)
        return probabilities

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on the labelled samples: those with `y = -1` are ignored, so that grid searches work."""
        predicted, labels = self.predict(X), column_or_1d(y)
        labelled = ~_is_unlabelled(labels)
        if not labelled.any():
            raise InputError("y", "label at least one sample to score", "-1 for all")
        weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(accuracy_score(labels[labelled], predicted[labelled], sample_weight=weight))

    def add_labels(self, indices: ArrayLike, labels: ArrayLike) -> Self:
        """Add labels of samples of `fit` without training.

        Parameters
        ----------
        indices : sequence of int, or bool mask
            The rows of X that are now labelled.
        labels : sequence
            Their classes, one per row, each in `classes_`.

        Returns
        -------
        The model itself.
        """
        check_is_fitted(self)
        samples = _read_indices(indices, len(self.transduction_))
        codes = _codes_of(np.atleast_1d(np.asarray(labels)).ravel(), self.classes_)
        if len(codes) != len(samples):
            raise InputError("labels", f"contain one class for each of the {len(samples)} samples", len(codes))
        try:
            self.model_.add_labels(samples, codes)
        except LabelConflictError as error:
            new, known = self.classes_[[error.label, error.known]].tolist()
            clause = f"sample {error.node} would be both {new!r} and {known!r}"
            raise error.replace(but=clause) from error
        self._update_transduction()
        return self

    # -- internals ------------------------------------------------------------------------------------------------

    def _check_neighbours(self) -> tuple[int, Any]:
        count = check_int("n_neighbors", self.n_neighbors, minimum=1)
        if not callable(self.metric) and self.metric not in METRICS:
            rule = "be a function of two samples or a name that scikit-learn's NearestNeighbors knows"
            raise InputError("metric", rule, repr(self.metric), suggestion(str(self.metric), METRICS))
        return count, self.metric

    def _new_model(self) -> LGGDClassifier:
        """Returns the model to fit. Constructor arguments are not modified."""
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        features: Any = _with_defaults(self.features)
        if features is not None:
            check_instance("features", features, GGD | LGGD, "LGGD(), GGD() or None")
            features = replace(features, seed=seed)
        return LGGDClassifier(features, _with_defaults(self.backbone), _with_defaults(self.optimization), seed)

    def _update_transduction(self) -> None:
        """Sets the predictions for the samples of fit."""
        probabilities = self.model_.predict_proba().cpu().numpy().astype(np.float64)
        # `predict` identifies rows by their entries: equal samples share the mean of their predictions.
        total = np.zeros_like(probabilities)
        np.add.at(total, self._points, probabilities)
        probabilities = total[self._points]
        self.label_distributions_ = probabilities / probabilities.sum(1, keepdims=True)
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]


def _validated(estimator: KNNGraphClassifier, *arrays: Any, **rules: Any) -> Any:
    return validate_data(estimator, *arrays, accept_sparse="csr", dtype=FLOATS, **rules)


def _with_defaults(choice: Any) -> Any:
    return choice() if isinstance(choice, type) else choice


def _is_unlabelled(y: Array) -> Array:
    """Where y is -1, bool `[N]`. NumPy turns a -1 among strings into "-1"."""
    if y.dtype.kind in "OUS":
        return np.array([str(label) == str(UNLABELLED) for label in y.tolist()], dtype=bool)
    return np.asarray(y == UNLABELLED)


def _read_labels(y: Array) -> tuple[Array, Array]:
    """The classes `[K]`, and the class index of each sample, int64 `[N]`, -1 without a label."""
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
    rows = np.atleast_1d(np.asarray(indices))
    if rows.size == 0:
        return np.empty(0, np.int64)
    if rows.dtype.kind == "b":
        if rows.shape != (count,):
            raise InputError("indices", f"have shape [{count}] as a mask", list(rows.shape))
        return np.flatnonzero(rows)
    if rows.dtype.kind not in "ui" or rows.ndim != 1:
        raise InputTypeError("indices", "be row numbers [M] or a mask", f"{rows.dtype} of shape {list(rows.shape)}")
    outside = rows[(rows < 0) | (rows >= count)]
    if len(outside):
        raise InputError("indices", f"name samples 0..{count - 1} of fit", outside[0], "Others need a new fit.")
    return rows.astype(np.int64)


def _codes_of(labels: Array, classes: Array) -> Array:
    """The class index of each label, int64 `[M]`."""
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
    """A digest of each row, equal for equal numbers, dense or sparse.

    Equality, not distance 0: rounding may separate a sample from itself, and a metric may not separate two samples.
    """
    rows = sp.csr_array(X, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    columns = rows.indices.astype(np.int64)
    bounds = pairwise(rows.indptr.tolist())
    return [blake2b(columns[a:b].tobytes() + rows.data[a:b].tobytes(), digest_size=16).digest() for a, b in bounds]


def _graph_data(X: Any, codes: Array, nearest: NearestNeighbors) -> Data:
    """The neighbour graph as PyG data. Without a query, scikit-learn leaves a sample out of its own neighbours."""
    from torch_geometric.data import Data

    graph = Graph.from_scipy(nearest.kneighbors_graph(), symmetrize="max")
    return Data(x=_node_features(X), edge_index=graph.edge_index, y=torch.from_numpy(codes), num_nodes=X.shape[0])


def _node_features(X: Any) -> torch.Tensor:
    """X as the input of networks, float32, every column with standard deviation 1 and, unless sparse, mean 0.

    Networks use the direction of a row, and far from 0 all rows point the same way. Neighbours are computed from X.
    """
    scaled = StandardScaler(with_mean=not sp.issparse(X)).fit_transform(X)
    if not sp.issparse(scaled):
        return torch.from_numpy(scaled.astype(np.float32))
    coo = scaled.tocoo()
    indices = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
    values = torch.from_numpy(coo.data.astype(np.float32))
    with without_sparse_warnings():
        return torch.sparse_coo_tensor(indices, values, coo.shape).coalesce()
