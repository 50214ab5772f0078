"""How far a reader has to walk: the modules that a run enters, and the calls between `fit` and the mathematics."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import lggd
from support.command_line import environment
from support.processes import start

# What a run may enter.
MOST_MODULES = 50
MOST_HOPS = 5
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


def test_a_run_enters_few_modules(tmp_path: Path) -> None:
    path = f"{environment()['PYTHONPATH']}:{Path(__file__).parent}"
    with start(tmp_path / "digits", code=CODE, PYTHONPATH=path) as process:
        _, errors = process.communicate()
    modules = json.loads(errors.splitlines()[-1])
    assert "lggd.app.cli.run" in modules
    assert len(modules) <= MOST_MODULES, "\n".join(modules)


def test_few_calls_lie_between_fit_and_the_mathematics() -> None:
    hops: dict[str, int] = {}

    def count(frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_qualname
        if event == "call" and name in ("LGGDClassifier._fit_to", "DistanceProblems.of_model"):
            depth, caller = 0, frame
            while caller.f_code.co_qualname != "Member.fit":
                depth, caller = depth + 1, caller.f_back  # type: ignore[assignment]
            hops.setdefault(name, depth)

    few = lggd.Optimization(epochs=1)
    model, data = lggd.LGGDClassifier(lggd.LGGD(optimization=few), lggd.GCN(), few), lggd.load("karate")
    sys.setprofile(count)
    try:
        model.fit(data)
    finally:
        sys.setprofile(None)
    assert hops.keys() == {"LGGDClassifier._fit_to", "DistanceProblems.of_model"}
    assert max(hops.values()) <= MOST_HOPS, hops
