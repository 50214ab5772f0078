"""What the package offers: its names, their documentation, and an import that loads and compiles nothing needless."""

import doctest
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import lggd

NAMES = [
    "ChebNet",
    "Checkpoint",
    "DegreePotential",
    "Depth",
    "Dijkstra",
    "Euler",
    "Evolution",
    "FastIterative",
    "FastMarching",
    "GAT",
    "GCN",
    "GGD",
    "Graph",
    "JKNet",
    "LGGD",
    "LGGDClassifier",
    "LGGDPlus",
    "LearnedEdgeWeights",
    "LearnedPotential",
    "LearnedTimeScale",
    "MLP",
    "MaxScale",
    "Memory",
    "Optimization",
    "Progress",
    "PropagatedMLP",
    "RK4",
    "SSPRK3",
    "SoftmaxScale",
    "Solution",
    "Standardize",
    "Statistics",
    "Status",
    "Symmetrize",
    "TorchDiffEq",
    "Unscaled",
    "depth",
    "distance",
    "estimate_memory",
    "evolve",
    "evolve_to_steady_state",
    "fit_together",
    "load",
    "shortest_path",
]
CONSTRUCTORS = ["from_edges", "from_grid", "from_networkx", "from_points", "from_pyg", "from_scipy"]
SHOWN = [
    "ChebNet", "DegreePotential", "Evolution", "GAT", "GCN", "GGD", "Graph", "JKNet", "LGGD", "LGGDClassifier",
    "depth", "distance", "estimate_memory", "evolve", "fit_together", "load", "shortest_path",
]  # fmt: skip
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(lggd.__path__, "lggd.") if not module.name.startswith("lggd.cli")
)
NEEDLESS = ["matplotlib", "networkx", "pandas", "pyarrow", "rich", "sklearn", "torch_geometric", "torchdiffeq", "typer"]


def members(owner):
    """The public functions and properties that a class defines itself."""
    for name, value in vars(owner).items():
        if not name.startswith("_") and (callable(value) or isinstance(value, (classmethod, property))):
            yield name, value


def test_the_names_are_these():
    assert sorted(lggd.__all__) == NAMES
    assert all(hasattr(lggd, name) for name in NAMES)
    assert isinstance(lggd.__version__, str)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_documented(name):
    doc = getattr(lggd, name).__doc__
    assert doc
    assert not doc.startswith(f"{name}("), "a dataclass's own signature is no documentation"


@pytest.mark.parametrize("name", ["Graph", "Evolution"])
def test_the_methods_people_call_are_documented(name):
    told_by_their_name = {"num_nodes", "is_directed", "is_weighted", "device"}
    silent = {member for member, value in members(getattr(lggd, name)) if not inspect.getdoc(value)}
    assert silent <= told_by_their_name


@pytest.mark.parametrize("name", SHOWN)
def test_what_people_call_shows_an_example(name):
    assert ">>> " in getattr(lggd, name).__doc__


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_each_constructor_shows_an_example(name):
    assert ">>> " in getattr(lggd.Graph, name).__doc__


def test_the_constructors_are_these():
    assert sorted(name for name, _ in members(lggd.Graph) if name.startswith("from_")) == CONSTRUCTORS


@pytest.mark.parametrize("name", MODULES)
def test_each_module_says_what_it_is(name):
    module = importlib.import_module(name)
    assert module.__doc__ or Path(module.__file__).stat().st_size == 0


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_the_documentation_are_true(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


LOOK = """
import gc, json, sys
import lggd
loaded = list(sys.modules)
from numba.core.registry import CPUDispatcher
mine = [x for x in gc.get_objects() if type(x) is CPUDispatcher and x.py_func.__module__.startswith("lggd")]
print(json.dumps({"loaded": loaded, "functions": len(mine), "compiled": [str(x) for x in mine if x.signatures]}))
"""


@pytest.fixture(scope="module")
def after_import():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_importing_compiles_nothing(after_import):
    assert after_import["functions"] > 0
    assert after_import["compiled"] == []


@pytest.mark.parametrize("package", NEEDLESS)
def test_importing_loads_no_optional_package(after_import, package):
    assert package not in after_import["loaded"]


@pytest.mark.parametrize(
    ("before", "given", "expected"),
    [("", None, "10000"), ("", "5", "5"), ("torch, ", None, "None")],
    ids=["by itself", "as the user said", "not after torch"],
)
def test_threads_spin_briefly_where_nobody_said_otherwise(before, given, expected):
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    environment |= {} if given is None else {"GOMP_SPINCOUNT": given}
    code = f"import {before}lggd, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == expected
