"""The candidates of a comparison: methods by name, of other packages, plug-ins, and objects of the caller."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import coo_array
from torch import Tensor, nn

from lggd.app.comparison import ALIASES, DEFAULTS, PEERS
from lggd.app.runs.methods import METHODS, Method
from lggd.baselines import MajorityVote, NearestNeighbours, PageRank, ScikitNetwork
from lggd.baselines.baseline import UntrainedBaseline
from lggd.errors import InputError, InputTypeError
from lggd.inputs import Labels, NodeData
from lggd.models.classifier import LGGDClassifier
from lggd.validation import check_int, check_real, suggestion

if TYPE_CHECKING:
    from torch_geometric.data import Data

GROUP = "lggd.methods"  # the group of entry points of plug-ins
KNN = {"kernel": "knn", "n_neighbors": 10}


@dataclass(eq=False, repr=False)
class GraphLabelSpreading(UntrainedBaseline):
    """scikit-learn's `LabelSpreading` with the graph's edge weights as affinity; `alpha` weighs the neighbours."""

    alpha: float = 0.9
    iterations: int = 100

    def check_settings(self) -> None:
        check_real("alpha", self.alpha, 0, 1, closed="neither")
        check_int("iterations", self.iterations, 1)

    def _scores(self, edge_index: Tensor, edge_weight: Tensor | None, labels: Tensor) -> Tensor:
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

    def fit(self, data: Data) -> FeatureClassifier:
        from sklearn.base import clone

        labels = Labels.read(data)
        self.x_, y = NodeData.read(data).features.to_dense().cpu().numpy(), labels.train.cpu().numpy()
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
        probabilities = np.zeros((len(self.x_), self.num_classes_))
        with _without_warnings():
            probabilities[:, self.estimator_.classes_.astype(int)] = self.estimator_.predict_proba(self.x_)
        return torch.from_numpy(np.nan_to_num(probabilities))


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppresses convergence warnings, and those of rows 0 / 0 of nodes without neighbours; these become 0."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, RuntimeWarning):
            warnings.simplefilter("ignore", kind)
        yield


def _on_features(name: str, kind: str, **settings: Any) -> Method:
    """A classifier of scikit-learn, which is imported only where it takes part."""
    title = name.removesuffix("-x").replace("-", " ").capitalize() + " on x (scikit-learn)"
    return Method(name, title, lambda: FeatureClassifier(resolve_name(f"sklearn.{kind}")(**settings)))


def _by_scikit_network(name: str, algorithm: Any) -> Method:
    return replace(
        METHODS["scikit-network"],
        name=f"scikit-network-{name}",
        title=f"scikit-network, {name}",
        build=lambda: ScikitNetwork(algorithm),
    )


OTHERS = {
    method.name: method
    for method in (
        Method("label-spreading", "Label spreading (scikit-learn)", GraphLabelSpreading, needs_features=False),
        _on_features("label-spreading-x", "semi_supervised:LabelSpreading", **KNN, max_iter=100),
        _on_features("label-propagation-x", "semi_supervised:LabelPropagation", **KNN, max_iter=1000),
        _on_features("logistic-regression", "linear_model:LogisticRegression", max_iter=1000),
        _by_scikit_network("pagerank", PageRank()),
        _by_scikit_network("votes", MajorityVote()),
        _by_scikit_network("neighbours", NearestNeighbours()),
    )
}


def known_candidates() -> dict[str, Method]:
    """Returns all methods by name: those of `lggd run`, those of other packages, and plug-ins."""
    plug_ins = {point.name: _of_object(point.name, point.load) for point in entry_points(group=GROUP)}
    return {**METHODS, **OTHERS, **plug_ins}


def read_candidates(methods: Any = None) -> list[Method]:
    """Returns the candidates of names, of a mapping from names to objects, or of a list of both; None: the default.

    By default those of `lggd.app.comparison.DEFAULTS` take part, other packages' that are installed, and all plug-ins.
    """
    known = known_candidates()
    if methods is None:
        installed = [name for name in PEERS if known[name].reason_to_skip(has_features=True) is None]
        methods = [*DEFAULTS, *installed, *(point.name for point in entry_points(group=GROUP))]
    entries = [methods] if isinstance(methods, (str, Mapping)) else methods
    if not isinstance(entries, Sequence):
        raise InputTypeError("methods", "be names, or a mapping from names to models", type(methods).__name__)
    candidates: dict[str, Method] = {}
    for entry in entries:
        named = entry.items() if isinstance(entry, Mapping) else [(entry, entry)]
        for name, value in named:
            candidate = _by_name(value, known) if isinstance(value, str) else _by_object(name, value)
            if isinstance(entry, Mapping) and isinstance(value, str):
                candidate = replace(candidate, name=name, title=name)
            if candidate.name in candidates:
                raise InputError("methods", "have distinct names", but=f"{candidate.name!r} comes twice")
            candidates[candidate.name] = candidate
    if not candidates:
        raise InputError("methods", "name at least one method", "none", f"Try {', '.join(DEFAULTS[:3])}.")
    return list(candidates.values())


def _by_name(name: str, known: Mapping[str, Method]) -> Method:
    name = ALIASES.get(name, name)
    if name not in known:
        remedy = suggestion(name, list(known), "Others are {models}.")
        hints = {"models": "models in a mapping, {'my method': model}"}
        raise InputError("methods", f"be among {', '.join(known)}", repr(name), remedy, hints=hints)
    return known[name]


def _by_object(name: Any, value: Any) -> Method:
    if not isinstance(name, str) or not name:
        remedy = 'Pass {"my method": model}.'
        raise InputTypeError("methods", "be names, or a mapping from names to models", repr(name), remedy)
    if not _is_factory(value):
        read_model(name, value)  # raises now for what cannot take part
    return _of_object(name, lambda: copy.deepcopy(value))


def _of_object(name: str, make: Callable[[], Any]) -> Method:
    """A method whose models are what `read_model` makes of `make()`."""
    return Method(name, name, lambda: read_model(name, make()), needs_features=False)


def _is_factory(value: Any) -> bool:
    is_module = isinstance(value, nn.Module)
    return isinstance(value, type) or (callable(value) and not is_module and not hasattr(value, "fit"))


def read_model(name: str, value: Any) -> Any:
    """Returns a model with `fit(data)` and `predict_proba()`, from such a model, a torch module or a function of none.

    A torch module is called as `module(x, edge_index)` and returns logits `[N, K]`. A classifier of scikit-learn is
    fitted to node features.
    """
    if isinstance(value, nn.Module):
        return LGGDClassifier(None, value)
    if _is_factory(value):
        return read_model(name, value())
    if hasattr(value, "__sklearn_tags__") and hasattr(value, "predict"):
        return FeatureClassifier(value)
    if not all(callable(getattr(value, method, None)) for method in ("fit", "predict_proba")):
        rule = "be a model with fit and predict_proba, a torch module, or a function that returns one"
        raise InputTypeError(f"methods[{name!r}]", rule, type(value).__name__)
    return value


def describe_model(model: Any) -> str:
    """Returns the settings of a model as text, often without those that have their default."""
    text = repr(model)
    if " at 0x" not in text:
        return text
    named = model if hasattr(model, "__qualname__") else type(model)  # functions have names of their own
    return f"{named.__module__}.{named.__qualname__}"
