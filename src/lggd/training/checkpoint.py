"""Checkpoints of unfinished training, from which it can be resumed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from lggd.errors import InputError
from lggd.system.files import replacing, save_tensors, write_errors


class Checkpoint:
    """The state of unfinished training in a folder: one file per stage, each written atomically.

    Parameters
    ----------
    folder : str or Path
        Where the files are written.
    key : str
        Identifies everything that the result depends on. Checkpoints with another key are refused.
    every : float
        Seconds between two saves; 0 saves after every epoch.

    Examples
    --------
    >>> import tempfile
    >>> import lggd
    >>> model = lggd.LGGDClassifier(None, lggd.GCN(), lggd.Optimization(epochs=5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.fit(lggd.load("karate"), checkpoint=Checkpoint(folder, key="karate, GCN", every=0)).predict().shape
    torch.Size([34])
    """

    def __init__(self, folder: str | Path, key: str, every: float = 5.0) -> None:
        self.folder, self.key, self.every = Path(folder), key, every
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether it is time for the next save."""
        return time.monotonic() - self._last >= self.every

    def load(self, stage: str) -> dict[str, Tensor] | None:
        """Returns the last saved state of a stage, or None."""
        from safetensors import SafetensorError, safe_open

        path = self._path(stage)
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                key = (file.metadata() or {}).get("key")
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        except SafetensorError as error:
            raise InputError(path, "be a checkpoint", but=f"it is damaged: {error}", remedy="Delete it.") from error
        if key != self.key:
            remedy = "Use the settings of the interrupted run, or start over."
            rule = "be a checkpoint of the same data and settings"
            raise InputError(path, rule, but="it belongs to others", remedy=remedy)
        return state

    def save(self, stage: str, state: Mapping[str, Tensor]) -> None:
        """Replaces the saved state of a stage."""
        with write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self._path(stage)) as temporary:
            save_tensors(temporary, state, {"key": self.key})
        self._last = time.monotonic()

    def _path(self, stage: str) -> Path:
        return self.folder / f"{stage.replace('/', ' of ')}.safetensors"  # "backbone 1/2" is no path
