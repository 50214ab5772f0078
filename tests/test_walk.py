"""How far a reader has to walk: the modules that a run and a fit enter. `pytest -s` prints their numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lggd
from support.command_line import environment
from support.processes import start
from support.walk import Walk

# Two epochs of each training and the first digits enter every module that all would, and tracing them is slow.
CODE = """
import json, sys
import sklearn.datasets
from support import few_digits
from lggd.training import engine
from support.walk import walk
sklearn.datasets.load_digits = few_digits.load_digits
started = engine.Engine.__init__
def start(self, *arguments, **settings):
    started(self, *arguments, **settings)
    self.epochs = 2
engine.Engine.__init__ = start
modules = walk(["run", "digits", "--json", "--out", sys.argv[1]])
print(json.dumps(modules), file=sys.stderr)
"""


def test_a_run_enters_the_command_and_the_mathematics(tmp_path: Path) -> None:
    path = f"{environment()['PYTHONPATH']}:{Path(__file__).parent}"
    with start(tmp_path / "digits", code=CODE, PYTHONPATH=path) as process:
        _, errors = process.communicate()
    modules = json.loads(errors.splitlines()[-1])
    sys.stdout.write(f"lggd run digits enters {len(modules)} modules\n")
    assert {"lggd.app.cli.run", "lggd.closed_form.kernel_ridge", "lggd.app.report.page"} <= set(modules)


def test_a_fit_enters_no_application() -> None:
    data = lggd.load("karate")
    with Walk(Path(lggd.__file__).parent) as taken:
        lggd.KernelRidge().fit(data)
    sys.stdout.write(f"KernelRidge().fit enters {len(taken.modules)} modules\n")
    assert "lggd.closed_form.ridge" in taken.modules
    assert not [name for name in taken.modules if name.startswith("lggd.app")]
