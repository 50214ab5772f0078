"""The walk of `lggd run digits` through the package is short enough to follow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import environment

MOST_MODULES = 50
# Two epochs of each training enter every module that more epochs would, and tracing them is slow.
CODE = """
import json, sys
from lggd.training import engine
from walk import walk
engine.Engine.finished = property(lambda self: self.epochs >= 2)
modules = walk(["run", "digits", "--json", "--out", sys.argv[1]])
print(json.dumps(modules), file=sys.stderr)
"""


@pytest.mark.xfail(reason="until all branches are merged", strict=False)
def test_a_run_enters_few_modules(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "digits")],
        env=environment(PYTHONPATH=f"{environment()['PYTHONPATH']}:{Path(__file__).parent}"),
        capture_output=True,
        text=True,
        check=True,
    )
    modules = json.loads(done.stderr.splitlines()[-1])
    assert "lggd.cli.run" in modules
    assert len(modules) <= MOST_MODULES, "\n".join(modules)
