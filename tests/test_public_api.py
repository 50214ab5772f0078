"""What the package offers: its names, their documentation, and an import that loads and compiles nothing needless."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import lggd
from lggd import baselines, diffusion, filters, kernels, results, scales, studio
from lggd.sklearn import KNNGraphClassifier
from support.public_names import names_of_type_checkers, public_modules

ROOT, SOURCE = Path(__file__).parents[1], Path(lggd.__file__).parent
LONGEST_TEST_FILE = 400
ROOMS = (baselines, diffusion, filters, kernels, results, scales, studio)
MAX_NAMES = 45
CONSTRUCTORS = ["from_edges", "from_grid", "from_networkx", "from_points", "from_pyg", "from_scipy"]
PUBLIC = {
    **{f"lggd.{name}": getattr(lggd, name) for name in lggd.__all__},
    **{f"lggd.{room.__name__.split('.')[-1]}.{name}": getattr(room, name) for room in ROOMS for name in room.__all__},
    **{f"lggd.Graph.{name}": getattr(lggd.Graph, name) for name in CONSTRUCTORS},
    "lggd.sklearn.KNNGraphClassifier": KNNGraphClassifier,
}
# The methods of all models that people call, each with an example.
MODEL_METHODS = [
    "fit", "predict_proba", "score", "add_labels", "change_labels", "remove_labels", "add_nodes", "add_edges",
    "remove_edges", "set_params", "save",
]  # fmt: skip
# Types that functions return and that people read, but do not construct.
RESULTS = {
    "lggd.Comparison", "lggd.Graph", "lggd.Progress", "lggd.results.Depth", "lggd.results.Solution",
    "lggd.results.Statistics", "lggd.studio.StudioError",
}  # fmt: skip
# What every baseline has, documented at `Baseline`.
SHARED = {"optimization", "seed"}
# Parameters whose strings are free text, or names of the user's or of another package, not one of our choices.
NAMES_NOT_CHOICES = {"attr_name", "metric", "method", "key", "remedy", "but", "context"}
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(lggd.__path__, "lggd.")
    if not module.name.startswith("lggd.app.cli")
)
NEEDLESS = [
    "beartype",
    "jaxtyping",
    "matplotlib",
    "networkx",
    "pandas",
    "pyarrow",
    "rich",
    "sklearn",
    "torch_geometric",
    "torchdiffeq",
    "typer",
]


def members(owner: type) -> list[tuple[str, Any]]:
    """The public functions and properties that a class defines itself."""
    return [
        (name, value)
        for name, value in vars(owner).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, (classmethod, property)))
    ]


def parameters(value: Any) -> list[inspect.Parameter]:
    """The parameters of a function or of a constructor; none of an abstract class or an enum."""
    if inspect.isclass(value) and (issubclass(value, Enum) or inspect.isabstract(value)):
        return []
    return [one for one in inspect.signature(value).parameters.values() if one.name not in ("self", "cls", "_")]


def section(doc: str, name: str) -> str:
    """A section of a docstring in NumPy style; "" without it."""
    found = re.search(rf"^{name}\n-{{{len(name)}}}\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", doc, re.S | re.M)
    return found[1] if found else ""


def documented(doc: str) -> set[str]:
    """The names in the section Parameters; several may share one entry."""
    entries = re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: :|$)", section(doc, "Parameters"), re.M)
    return {name.lstrip("*") for entry in entries for name in entry.split(", ")}


# -- names --------------------------------------------------------------------------------------------------------


def test_names_are_loaded_on_first_use_from_where_type_checkers_find_them() -> None:
    names, modules = names_of_type_checkers(), public_modules()
    assert set(dir(lggd)) - vars(lggd).keys() <= names.keys()
    for name, module in names.items():
        if name in modules:
            assert getattr(lggd, name) is importlib.import_module(modules[name])
        else:
            assert getattr(lggd, name) is getattr(importlib.import_module(module), name)
    assert sorted(lggd.__all__) == sorted(names.keys() - modules.keys())
    assert len(lggd.__all__) <= MAX_NAMES
    assert set(lggd.__all__) < set(dir(lggd))
    assert isinstance(lggd.__version__, str)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="module 'lggd' has no attribute 'nothing'"):
        _ = lggd.nothing
    with pytest.raises(ImportError):
        exec("from lggd import nothing")


def test_the_constructors_are_these() -> None:
    assert sorted(name for name, _ in members(lggd.Graph) if name.startswith("from_")) == CONSTRUCTORS


# -- documentation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_are_in_numpy_style(name: str) -> None:
    value, doc = PUBLIC[name], inspect.getdoc(PUBLIC[name]) or ""
    first = doc.split("\n\n")[0]
    assert first.endswith("."), "a summary in one sentence"
    assert not doc.startswith(f"{name.split('.')[-1]}("), "a dataclass's own signature is no documentation"
    if parameters(value) and name not in RESULTS:
        shared = SHARED if inspect.isclass(value) and issubclass(value, baselines.Baseline) else set()
        assert documented(doc) | shared == {one.name for one in parameters(value)} | shared
    if inspect.isroutine(value):
        assert section(doc, "Returns") or inspect.ismethod(value), "constructors return what they construct"


def has_example(value: Any, inherited: bool = True) -> bool:
    """Whether a docstring has a section Examples with a doctest; a class must not rely on that of its base class."""
    doc = inspect.getdoc(value) if inherited else inspect.cleandoc(vars(value).get("__doc__") or "")
    return ">>> " in section(doc or "", "Examples")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name: str) -> None:
    assert has_example(PUBLIC[name], inherited=not inspect.isclass(PUBLIC[name]))


@pytest.mark.parametrize("name", MODEL_METHODS)
def test_the_methods_of_models_have_examples(name: str) -> None:
    assert ">>> " in (inspect.getdoc(getattr(lggd.Member, name)) or "")


def test_a_missing_example_is_found() -> None:
    class Base:
        """One.

        Examples
        --------
        >>> 1
        1
        """

    class Derived(Base): ...

    assert has_example(Base)
    assert not has_example(Derived, inherited=False)
    assert not has_example(test_a_missing_example_is_found)


@pytest.mark.parametrize("name", ["Graph", "Evolution"])
def test_the_methods_people_call_are_documented(name: str) -> None:
    clear_from_their_names = {"num_nodes", "is_directed", "is_weighted", "device"}
    silent = {member for member, value in members(getattr(lggd, name)) if not inspect.getdoc(value)}
    assert silent <= clear_from_their_names


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_documented_and_their_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__ or Path(str(module.__file__)).stat().st_size == 0
    assert doctest.testmod(module).failed == 0


# -- rules --------------------------------------------------------------------------------------------------------


def test_no_class_name_is_used_twice() -> None:
    trees = (ast.parse(path.read_text()) for path in SOURCE.rglob("*.py"))
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def is_choice(parameter: inspect.Parameter, annotation: Any) -> bool:
    """Whether a parameter is chosen by a string."""
    if isinstance(parameter.default, str) and not isinstance(parameter.default, Enum):
        return parameter.name not in NAMES_NOT_CHOICES
    parts = {annotation, *get_args(annotation)}
    literals = [value for part in parts if get_origin(part) is Literal for value in get_args(part)]
    return any(isinstance(value, str) for value in literals) or bool(re.search(r"Literal\[['\"]", str(annotation)))


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if inspect.isclass(value)])
def test_choices_of_constructors_are_objects(name: str) -> None:
    value = PUBLIC[name]
    try:
        hints = {**get_type_hints(value.__init__), **get_type_hints(value)}
    except NameError:  # of an import for type checkers alone
        hints = {}
    found = [one.name for one in parameters(value) if is_choice(one, hints.get(one.name, one.annotation))]
    assert found == []


def test_a_planted_choice_is_found() -> None:
    def build(mode: Literal["a", "b"], way: str = "fast", attr_name: str = "x", size: int = 3) -> None: ...

    hints = get_type_hints(build)
    assert [one.name for one in parameters(build) if is_choice(one, hints[one.name])] == ["mode", "way"]


def test_no_test_file_is_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in ROOT.glob("tests/**/*.py")}
    assert {name: length for name, length in lengths.items() if length > LONGEST_TEST_FILE} == {}


# -- import -------------------------------------------------------------------------------------------------------

LOOK = """
import gc, json, sys, time
began = time.perf_counter()
import lggd
seconds, cheap = time.perf_counter() - began, list(sys.modules)
public = [getattr(lggd, name) for name in lggd.__all__]
loaded = list(sys.modules)
from numba.core.registry import CPUDispatcher
mine = [x for x in gc.get_objects() if type(x) is CPUDispatcher and x.py_func.__module__.startswith("lggd")]
print(json.dumps({"cheap": cheap, "loaded": loaded, "functions": len(mine), "compiled": [str(x) for x in mine if x.signatures]}))
"""  # noqa: E501


@pytest.fixture(scope="module")
def after_import() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_importing_is_cheap(after_import: dict[str, Any]) -> None:
    assert not {"torch", "numpy", "numba", "scipy"} & set(after_import["cheap"])


def test_loading_all_names_compiles_nothing(after_import: dict[str, Any]) -> None:
    assert after_import["functions"] > 0
    assert after_import["compiled"] == []


@pytest.mark.parametrize("package", NEEDLESS)
def test_loading_all_names_imports_no_optional_package(after_import: dict[str, Any], package: str) -> None:
    assert package not in after_import["loaded"]
