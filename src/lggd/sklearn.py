"""A scikit-learn estimator for samples `X` and labels `y`, few of which are known, instead of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.neighbors import VALID_METRICS, NearestNeighbors
from sklearn.utils.validation import check_is_fitted, check_random_state, column_or_1d, validate_data

from lggd._system.files import replacing_folder
from lggd.closed_form import KernelRidge
from lggd.errors import InputError, InputTypeError
from lggd.estimator import Member, storage
from lggd.estimator.settings import from_plain, to_plain
from lggd.inputs.labels import LabelConflictError, LastLabelError
from lggd.progress import Callback
from lggd.samples import (
    SAMPLES,
    Array,
    class_numbers,
    graph_data,
    is_unlabelled,
    read_labels,
    row_keys,
    unpack_samples,
)
from lggd.validation import check_instance, check_int, suggestion

# Not with precomputed distances: features are learned from the samples.
METRICS = sorted({*VALID_METRICS["brute"], *VALID_METRICS["ball_tree"]} - {"precomputed", "pyfunc"})
# The folder of the model of the graph, next to the settings and the samples.
MODEL_FOLDER = "model"


class KNNGraphClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify samples of which few are labelled, and use new labels at once, without training.

    Every sample is joined to its `n_neighbors` nearest ones, and a model of nodes is fitted to that graph. Scale the
    columns of X first, as for any nearest-neighbour method. X may be sparse. `y = -1` marks unlabelled samples, as in
    `sklearn.semi_supervised`; among strings, `"-1"` does. Classes called -1 must be renamed first.

    Parameters
    ----------
    model : Member or None
        Any model of nodes, such as `lggd.LGGDClassifier()`; None is `lggd.KernelRidge()`. A copy of it is fitted. Of a
        model that is passed, scikit-learn reads and sets nested parameters, as in `model__max_kernels`.
    n_neighbors : int
        Neighbours of each sample in the graph, and of new samples; at most the number of samples minus 1.
    metric : str or callable
        The distance between samples: a name that `NearestNeighbors` knows, or a function of two samples.
    random_state : int, RandomState or None
        Random seed, which takes the place of every seed in `model`; None uses NumPy's global state.

    Attributes
    ----------
    classes_ : ndarray of shape [K]
    label_distributions_ : ndarray of shape [N, K]
        The class probabilities of the samples of `fit`, labelled ones included.
    transduction_ : ndarray of shape [N]
        The predicted classes of the samples of `fit`.
    model_ : Member
        The fitted copy of `model`.

    Examples
    --------
    >>> import numpy as np
    >>> from lggd import GGD
    >>> X, y = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]), np.array([0, -1, -1, 1, -1, -1])
    >>> model = KNNGraphClassifier(GGD(times=(1, 2)), n_neighbors=2).fit(X, y)
    >>> model.transduction_
    array([0, 0, 0, 1, 1, 1])
    >>> model.predict([[0.3], [0.9]])
    array([0, 1])
    """

    def __init__(
        self,
        model: Member | None = None,
        *,
        n_neighbors: int = 10,
        metric: str | Callable[[Array, Array], float] = "euclidean",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.model, self.n_neighbors, self.metric, self.random_state = model, n_neighbors, metric, random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, *, callback: Callback | None = None) -> Self:
        """Fit the model to samples.

        Parameters
        ----------
        X : array of shape [N, F]
            The samples, labelled and unlabelled.
        y : array of shape [N]
            Their classes, -1 where unknown.
        callback : callable, optional
            Called with a `Progress` after every epoch.

        Returns
        -------
        The model itself.
        """
        self.__dict__.pop("transduction_", None)  # a fit that fails leaves the model unfitted
        self._check_neighbours()
        model = self._new_model(int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)))
        samples, labels = validate_data(self, X, y, ensure_min_samples=2, **SAMPLES)
        self.classes_, codes = read_labels(labels)
        self._index(samples, min(self.n_neighbors, samples.shape[0] - 1), self.metric)
        data = graph_data(samples, codes, self._nearest)
        self.model_ = model.fit(data, callback=callback)
        self.model_.metadata_["classes"] = [str(name) for name in self.classes_.tolist()]
        self._update_transduction()
        return self

    def set_params(self, **params: Any) -> Self:
        """Set settings by name; those of a model that is passed begin with `model__`."""
        nested = next((name for name in params if name.startswith("model__")), None)
        if nested and params.get("model", self.model) is None:
            raise InputError("model", f"be passed where {nested} is set", "None", "Pass lggd.KernelRidge().")
        super().set_params(**params)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transduction_")

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of each sample, `[M]`."""
        best = self.predict_proba(X).argmax(1)  # first, as it checks that the model is fitted
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each class, `[M, K]`, in the order of `classes_`.

        A sample of `fit` has its row of `label_distributions_`; any other the mean of the rows of its `n_neighbors`
        nearest samples of `fit`, as in `LabelSpreading`.
        """
        check_is_fitted(self)
        samples = validate_data(self, X, reset=False, **SAMPLES)
        fitted = np.array([self._number_of.get(key, -1) for key in row_keys(samples.astype(self._samples.dtype))])
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
        labelled = ~is_unlabelled(labels)
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
        return self._use("add_labels", indices, labels, "Correct it with change_labels, or leave it out.")

    def change_labels(self, indices: ArrayLike, labels: ArrayLike) -> Self:
        """Correct labels of samples of `fit` without training; a class keeps at least one label.

        Parameters
        ----------
        indices : sequence of int, or bool mask
            Labelled rows of X.
        labels : sequence
            Their correct classes, one per row, each in `classes_`.

        Returns
        -------
        The model itself.

        Examples
        --------
        >>> from lggd import GGD
        >>> X, y = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]), np.array([0, -1, 1, 1, -1, -1])
        >>> model = KNNGraphClassifier(GGD(times=(1, 2)), n_neighbors=2).fit(X, y)
        >>> model.change_labels([2], [0]).transduction_
        array([0, 0, 0, 1, 1, 1])
        """
        return self._use("change_labels", indices, labels, "Pass one of them.")

    def remove_labels(self, indices: ArrayLike) -> Self:
        """Take labels of samples of `fit` back without training; a class keeps at least one label.

        Parameters
        ----------
        indices : sequence of int, or bool mask
            Labelled rows of X, which are unlabelled from now on.

        Returns
        -------
        The model itself.

        Examples
        --------
        >>> from lggd import GGD
        >>> X, y = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]), np.array([0, -1, 1, 1, -1, -1])
        >>> model = KNNGraphClassifier(GGD(times=(1, 2)), n_neighbors=2).fit(X, y)
        >>> model.remove_labels([2]).transduction_
        array([0, 0, 0, 1, 1, 1])
        """
        return self._use("remove_labels", indices)

    def _use(self, change: str, indices: ArrayLike, labels: ArrayLike | None = None, remedy: str = "") -> Self:
        """Calls a method of the model with rows and class numbers; errors are about rows of X and names of classes."""
        check_is_fitted(self)
        codes = () if labels is None else (class_numbers(labels, self.classes_),)
        try:
            getattr(self.model_, change)(indices, *codes)
        except LabelConflictError as error:
            new, known = self.classes_[[error.label, error.known]].tolist()
            clause = f"sample {error.node} would be both {new!r} and {known!r}"
            raise error.replace(but=clause, remedy=remedy) from error
        except LastLabelError as error:
            value = f"none of class {self.classes_[error.label].item()!r}"
            raise error.replace(argument="indices", value=value) from error
        except InputError as error:
            raise error.replace(argument="indices" if error.argument == "nodes" else error.argument) from error
        self._update_transduction()
        return self

    def save(self, folder: str | Path) -> None:
        """Save everything that predictions need, the samples included, into a folder; replaces a model there.

        `lggd.load_model` loads it. Functions and modules of your own are not saved: pass them to `load_model` by the
        name of their setting, as in `metric=…`. A RandomState is saved as the seed that was drawn from it.
        """
        check_is_fitted(self)
        classes, dtype = self.classes_.tolist(), self.classes_.dtype
        if dtype.kind not in "biufUO" or not all(isinstance(name, (int, float, str)) for name in classes):
            raise InputTypeError("classes_", "be numbers or strings to be saved", classes)
        params = {name: self._plain(name, value) for name, value in self.get_params(deep=False).items()}
        # Settings may have changed since the fit: what finds neighbours is saved by itself.
        neighbours = {name: self._plain(name, getattr(self._nearest, name)) for name in ("n_neighbors", "metric")}
        settings = {
            "model": {"kind": "KNNGraphClassifier", **params}, "neighbours": neighbours, "classes": classes,
            "classes_dtype": dtype.str, "columns": getattr(self, "feature_names_in_", np.empty(0)).tolist(),
        }  # fmt: skip
        X = self._samples
        names = ("data", "indices", "indptr", "shape") if sp.issparse(X) else ()
        parts = {name: torch.as_tensor(getattr(X, name)) for name in names} or {"samples": torch.from_numpy(X)}
        with replacing_folder(folder, marker=storage.SETTINGS_FILE) as temporary:
            self.model_.save(temporary / MODEL_FOLDER)
            storage.write_files(temporary, settings, {storage.SAMPLES_FILE: parts})

    def _check_neighbours(self) -> None:
        check_int("n_neighbors", self.n_neighbors, minimum=1)
        if not callable(self.metric) and self.metric not in METRICS:
            rule = "be a function of two samples or a name that scikit-learn's NearestNeighbors knows"
            raise InputError("metric", rule, repr(self.metric), suggestion(str(self.metric), METRICS))

    def _index(self, samples: Any, n_neighbors: int, metric: Any) -> None:
        self._samples = samples
        self._nearest = NearestNeighbors(n_neighbors=n_neighbors, metric=metric).fit(samples)
        # Equal samples are one point, identified by the index of the first of them.
        self._number_of: dict[bytes, int] = {}
        self._points = np.array([self._number_of.setdefault(key, i) for i, key in enumerate(row_keys(samples))])

    def _new_model(self, seed: int) -> Member:
        """An unfitted copy of the model with this seed, also in its parts."""
        model: Member = KernelRidge() if self.model is None else self.model
        check_instance("model", model, Member, "a model of nodes such as KernelRidge(), or None")
        model = clone(model, safe=False)
        seeds = [name for name in model.get_params() if name.rpartition("__")[2] == "seed"]
        return model.set_params(**dict.fromkeys(seeds, seed))

    def _plain(self, name: str, value: Any) -> Any:
        if isinstance(value, np.random.RandomState):
            return self.model_.seed
        if name == "metric" and callable(value):
            return {"kind": "module", "class": getattr(value, "__qualname__", type(value).__qualname__)}
        return to_plain(value.item() if isinstance(value, np.generic) else value, name)

    def _update_transduction(self) -> None:
        probabilities = self.model_.predict_proba().cpu().numpy().astype(np.float64)
        # `predict` identifies rows by their entries: equal samples share the mean of their predictions.
        total = np.zeros_like(probabilities)
        np.add.at(total, self._points, probabilities)
        self.label_distributions_ = total[self._points] / total[self._points].sum(1, keepdims=True)
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]


def restored(
    folder: Path, settings: Mapping[str, Any], packed: Mapping[str, torch.Tensor], modules: Mapping[str, Any]
) -> KNNGraphClassifier:
    """Returns the classifier of these settings and samples, for `lggd.load_model`."""
    model = storage.load_model(folder / MODEL_FOLDER, **modules)
    with storage.consistent_files(folder):
        params, neighbours = (
            {name: from_plain(value, name, modules) for name, value in settings[part].items() if name != "kind"}
            for part in ("model", "neighbours")
        )
        loaded = KNNGraphClassifier(**params)
        loaded._check_neighbours()
        loaded._new_model(seed=0).check_settings()
        loaded.model_ = check_instance("model", model, Member, "a model of nodes")
        loaded.classes_ = np.array(settings["classes"], settings["classes_dtype"])
        samples, columns = unpack_samples(packed), settings["columns"]
        loaded.n_features_in_ = samples.shape[1]
        if columns:
            loaded.feature_names_in_ = np.array(columns, object)
        sizes = [len(model.labels_), len(columns) or samples.shape[1], model.num_classes_]
        if (actual := [*samples.shape, len(loaded.classes_)]) != sizes:
            raise InputError("samples", f"have {sizes} rows, columns and classes", actual)
        loaded._index(samples, **neighbours)
        loaded._nearest.kneighbors(samples[:1])  # raises where there are too few samples
        loaded._update_transduction()
    return loaded
