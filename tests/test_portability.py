"""The library without fcntl, /proc, /dev/shm and the packages of the application, and in spawned processes."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path

import lggd
from support.command_line import environment

# Modules of the standard library that some systems lack, and files that only Linux has.
MISSING = ("ctypes", "fcntl", "grp", "msvcrt", "posix", "pwd", "resource", "termios", "winreg")
WITHOUT = """
import builtins, pkgutil, sys
from importlib import import_module
ordinary = builtins.__import__

def importing(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__") or ""
    if level == 0 and importer.split(".")[0] == "lggd" and name.split(".")[0] in missing:
        raise ImportError(f"{importer} imports {name}")
    return ordinary(name, globals, locals, fromlist, level)

def audit(event, arguments):
    place = str(arguments[0]) if event == "open" else ""
    if place.startswith(("/proc/", "/dev/shm")) and not place.startswith(sys.argv[1]):  # tests' own files may lie there
        raise FileNotFoundError(2, "No such file or directory", arguments[0])

builtins.__import__ = importing
sys.addaudithook(audit)
"""
IMPORT_ALL = """
import lggd
for module in pkgutil.walk_packages(lggd.__path__, "lggd."):
    if module.name != "lggd.__main__":
        import_module(module.name)
"""
USE_ALL = """
import lggd, torch
from lggd._system.files import locked_folder
from lggd._system.memory import free_memory
folder = sys.argv[1]
data = lggd.load("karate")
for model in (lggd.KernelRidge(), lggd.LGGDClassifier(lggd.GGD(), None)):
    model.fit(data).save(f"{folder}/model")
    assert torch.equal(lggd.load_model(f"{folder}/model").predict_proba(), model.predict_proba())
graph = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
for _ in range(2):
    graph.save(f"{folder}/graph")
with lggd.Graph.open(f"{folder}/graph").csr.bounded():
    assert lggd.distance(lggd.Graph.open(f"{folder}/graph"), [0]).value[2] == 2
assert (free_memory(torch.device("cpu")) or 1) > 0
from lggd.app.cli import app
app(["run", "karate", "--reference", "none", "--out", f"{folder}/run"], standalone_mode=False)
app(["add-labels", f"{folder}/run", "1=0"], standalone_mode=False)
"""
APPLICATION = (
    "duckdb", "fastapi", "matplotlib", "networkx", "optuna", "pandas", "pyarrow", "ray", "rich",
    "torchdiffeq", "typer", "uvicorn",
)  # fmt: skip
FIT = """
import lggd
data = lggd.load("moons")
for model in (lggd.KernelRidge(), lggd.LGGDClassifier(None, lggd.GCN(), lggd.Optimization(epochs=2))):
    model.fit(data).save(sys.argv[1] + "/model")
    lggd.load_model(sys.argv[1] + "/model").predict()
"""


def run_without(missing: tuple[str, ...], code: str, folder: Path) -> None:
    program = [sys.executable, "-c", f"missing = {missing}\n{WITHOUT}{code}", str(folder)]
    result = subprocess.run(program, env=environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_modules_models_graphs_and_commands_work_without_what_other_systems_lack(tmp_path: Path) -> None:
    run_without(MISSING, IMPORT_ALL + USE_ALL, tmp_path)


def test_models_need_no_package_of_the_application(tmp_path: Path) -> None:
    run_without(APPLICATION, FIT, tmp_path)


def _fit(model: bytes) -> bytes:
    return pickle.dumps(pickle.loads(model).fit(lggd.load("karate")))


def test_models_are_fitted_in_spawned_processes() -> None:
    model = lggd.KernelRidge()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        fitted = pickle.loads(pool.apply(_fit, (pickle.dumps(model),)))
    expected = model.fit(lggd.load("karate"))
    assert bool((fitted.predict_proba() == expected.predict_proba()).all())
