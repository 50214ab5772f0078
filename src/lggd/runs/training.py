"""Checkpoints of an unfinished run, saved next to its output folder, so that it can be resumed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lggd.errors import InputError
from lggd.files import check_folder_writable, replacing
from lggd.training.checkpoint import Checkpoint

MARKER = "training.json"
PARTS = ("reference", "model")
# Seconds between two checkpoints: an interruption loses about as much training.
EVERY = 2.0


class UnfinishedTraining:
    """The folder `OUT.training`, with the settings of a run and a checkpoint for each of its parts.

    A run can be resumed only with equal `settings`, everything that the result depends on, serializable as JSON.
    """

    def __init__(self, out: str | Path, settings: Mapping[str, Any], every: float = EVERY) -> None:
        out = Path(out).resolve()
        self.folder = check_folder_writable(out.with_name(f"{out.name}.training"), MARKER)
        self.settings, self.every = json.loads(json.dumps(settings)), every

    def open(self, *, resume: bool) -> bool:
        """Creates the folder, or reuses it if `resume`; returns whether there is training to resume."""
        if resume and self.is_saved:
            self._check_settings()
            return True
        self.remove()
        self.folder.mkdir()
        with replacing(self.folder / MARKER) as temporary:
            temporary.write_text(json.dumps(self.settings, indent=2) + "\n", encoding="utf-8")
        return False

    def checkpoint(self, part: str) -> Checkpoint:
        """Returns the checkpoint of a part of the run, one of `PARTS`."""
        return Checkpoint(self.folder / part, key=json.dumps(self.settings, sort_keys=True), every=self.every)

    def remove(self) -> None:
        """Deletes the folder; the marker is deleted last, so that an interrupted deletion can be repeated."""
        for part in PARTS:
            shutil.rmtree(self.folder / part, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_saved(self) -> bool:
        """Whether there is training to resume."""
        # A name with a leading dot is an incomplete file.
        return any(not path.name.startswith(".") for path in self.folder.glob("*/*.safetensors"))

    def _check_settings(self) -> None:
        path = self.folder / MARKER
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(before, dict):
                raise TypeError("it is not an object")
        except (ValueError, TypeError) as error:
            raise InputError(path, "contain the settings of a run", but=f"it is damaged: {error}") from error
        for name in dict.fromkeys([*self.settings, *before]):  # options of the user come first
            was, now = before.get(name), self.settings.get(name)
            if was != now:
                rule, but = "continue with the data and settings of the interrupted run", f"{name} was {was} there"
                remedy, hints = "Use the same settings, or start again without {resume}.", {"resume": "`resume`"}
                raise InputError("resume", rule, but=f"{but} and is {now} now", remedy=remedy, hints=hints)
