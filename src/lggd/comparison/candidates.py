"""The candidates of a comparison: methods by name, plug-ins of other packages, and objects of the caller."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from torch import nn

from lggd.comparison import peers
from lggd.comparison.defaults import ALIASES, METHODS, PEERS
from lggd.errors import InputError, InputTypeError
from lggd.models.classifier import LGGDClassifier
from lggd.runs import methods as own
from lggd.validation import suggestion

GROUP = "lggd.methods"  # the group of entry points of plug-ins
SEEDS = ("seed", "random_state")  # settings that every split has its own value of


@dataclass(frozen=True)
class Candidate:
    """A method that takes part: `make` returns a model, or what `read_model` makes a model of.

    `package` is the module of another package that it needs.
    """

    name: str
    title: str
    make: Callable[[], Any]
    needs_features: bool = False
    package: str | None = None

    def model(self, seed: int) -> Any:
        """Returns a new model with this seed."""
        model = read_model(self.name, self.make())
        settings = model.get_params() if hasattr(model, "get_params") else {}
        seeds = {name: seed for name in settings if name.rpartition("__")[2] in SEEDS}
        return model.set_params(**seeds) if seeds else model

    def reason_to_skip(self, has_features: bool) -> str | None:
        if self.needs_features and not has_features:
            return "needs node features, and there are none"
        if self.package is not None and find_spec(self.package) is None:
            return f"needs the package {self.package}, which is not installed"
        return None


def _by_scikit_network(name: str, make: Callable[[], Any]) -> Candidate:
    return Candidate(f"scikit-network-{name}", f"scikit-network, {name}", make, package=peers.SCIKIT_NETWORK)


OTHERS = {
    candidate.name: candidate
    for candidate in (
        Candidate("label-spreading", "Label spreading (scikit-learn)", peers.GraphLabelSpreading),
        Candidate("label-spreading-x", "Label spreading on x (scikit-learn)", peers.label_spreading_on_features, True),
        Candidate(
            "label-propagation-x", "Label propagation on x (scikit-learn)", peers.label_propagation_on_features, True
        ),
        Candidate("logistic-regression", "Logistic regression on x (scikit-learn)", peers.logistic_regression, True),
        _by_scikit_network("pagerank", peers.pagerank),
        _by_scikit_network("votes", peers.majority_vote),
        _by_scikit_network("neighbours", peers.nearest_neighbours),
    )
}


def known_candidates() -> dict[str, Candidate]:
    """Returns all methods by name: those of `lggd run`, those of other packages, and plug-ins."""
    known = {}
    for name, factory in own.METHODS.items():
        package = peers.SCIKIT_NETWORK if name == "scikit-network" else None
        known[name] = Candidate(name, factory.title, factory.build, factory.needs_features, package)
    plug_ins = {point.name: Candidate(point.name, point.name, point.load) for point in entry_points(group=GROUP)}
    return known | OTHERS | plug_ins


def read_candidates(methods: Any = None) -> list[Candidate]:
    """Returns the candidates of names, of a mapping from names to objects, or of a list of both; None: the default.

    By default the methods of `defaults.METHODS` take part, other packages' that are installed, and all plug-ins.
    """
    known = known_candidates()
    if methods is None:
        plug_ins = [point.name for point in entry_points(group=GROUP)]
        installed = [name for name in PEERS if known[name].reason_to_skip(has_features=True) is None]
        methods = [*METHODS, *installed, *plug_ins]
    entries = [methods] if isinstance(methods, (str, Mapping)) else methods
    if not isinstance(entries, Sequence):
        raise InputTypeError("methods", "be names, or a mapping from names to models", type(methods).__name__)
    found: dict[str, Candidate] = {}
    for entry in entries:
        named = entry.items() if isinstance(entry, Mapping) else [(entry, entry)]
        for name, value in named:
            candidate = _by_name(value, known) if isinstance(value, str) else _by_object(name, value)
            if isinstance(entry, Mapping) and isinstance(value, str):
                candidate = Candidate(name, name, candidate.make, candidate.needs_features, candidate.package)
            if candidate.name in found:
                raise InputError("methods", "have distinct names", but=f"{candidate.name!r} comes twice")
            found[candidate.name] = candidate
    if not found:
        raise InputError("methods", "name at least one method", "none", f"Try {', '.join(METHODS[:3])}.")
    return list(found.values())


def _by_name(name: str, known: Mapping[str, Candidate]) -> Candidate:
    name = ALIASES.get(name, name)
    if name not in known:
        remedy = suggestion(name, list(known), "Or pass a mapping from a name to a model.")
        raise InputError("methods", f"be among {', '.join(known)}", repr(name), remedy)
    return known[name]


def _by_object(name: Any, value: Any) -> Candidate:
    if not isinstance(name, str) or not name:
        remedy = 'Pass {"my method": model}.'
        raise InputTypeError("methods", "be names, or a mapping from names to models", repr(name), remedy)
    if not _is_factory(value):
        read_model(name, value)  # raises now for what cannot take part
    return Candidate(name, name, lambda: copy.deepcopy(value))


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
        return peers.FeatureClassifier(value)
    if not all(callable(getattr(value, method, None)) for method in ("fit", "predict_proba")):
        rule = "be a model with fit and predict_proba, a torch module, or a function that returns one"
        raise InputTypeError(f"methods[{name!r}]", rule, type(value).__name__)
    return value


def describe_model(model: Any) -> str:
    """Returns the settings of a model as text; the same in every process."""
    text = repr(model)
    return f"{type(model).__module__}.{type(model).__qualname__}" if " at 0x" in text else text
