"""The folder in which a graph is built, stage by stage, so that a build that was interrupted can be resumed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lggd._system.files import write_text
from lggd.errors import InputError

STATE = "build.json"
# Changes when files of a stage mean something else.
VERSION = 2


class WorkFolder:
    """`.NAME-build` next to the graph NAME: one folder per stage, and `build.json` with the stages that are complete.

    Parameters
    ----------
    graph : Path
        The graph that is built.
    settings : mapping
        What the result depends on beside the files.
    files : sequence of Path
        The tables that are read.
    resume : bool
        Continues after the last complete stage; raises if settings or files have changed. Otherwise starts again.
    """

    def __init__(self, graph: Path, settings: Mapping[str, Any], files: Sequence[Path], *, resume: bool) -> None:
        self.path = graph.with_name(f".{graph.name}-build")
        stats = {str(path.resolve()): [path.stat().st_size, path.stat().st_mtime_ns] for path in files}
        self.inputs = json.loads(json.dumps({"version": VERSION, "settings": settings, "files": stats}))
        self.stages: dict[str, dict[str, Any]] = {}
        if resume:
            self._restore()
        else:
            self.remove()
        self.path.mkdir(exist_ok=True)

    def _restore(self) -> None:
        try:
            state = json.loads((self.path / STATE).read_text())
        except (FileNotFoundError, ValueError):
            self.remove()  # nothing is complete
            return
        hints = {"resume": "`resume`"}
        for name, what in (("files", "the tables"), ("settings", "the options"), ("version", "the version of lggd")):
            if state[name] != self.inputs[name]:
                but = f"{what} changed since"
                remedy = "Start again without {resume}."
                raise InputError(
                    "resume", "continue the build that was interrupted", but=but, remedy=remedy, hints=hints
                )
        self.stages = state["stages"]

    def stage(self, name: str, run: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """The result of `run` for the folder of this stage, now or in the build that is resumed."""
        if name not in self.stages:
            folder = self.path / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            self.stages[name] = run(folder)
            write_text(self.path / STATE, json.dumps({**self.inputs, "stages": self.stages}))
        return self.stages[name]

    def drop(self, name: str) -> None:
        """Deletes the files of a stage, which no later one needs."""
        shutil.rmtree(self.path / name, ignore_errors=True)

    def drop_incomplete(self) -> None:
        """Deletes the files of the stage that failed."""
        for folder in self.path.iterdir():
            if folder.is_dir() and folder.name not in self.stages:
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
