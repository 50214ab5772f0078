"""The raw files of the paper's datasets: finding, downloading and reading them."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lggd.data.table import reading
from lggd.errors import InputFileError

# Environment variable with the folder of datasets.
FOLDER_VARIABLE = "LGGD_DATA"
PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


@dataclass(frozen=True)
class RawDataset:
    """A dataset by the names of its class and folder in PyG."""

    family: str
    title: str

    @property
    def files(self) -> list[str]:
        if self.family == "Planetoid":
            return [f"ind.{self.title.lower()}.{part}" for part in PLANETOID_PARTS]
        return [f"amazon_electronics_{self.title.lower()}.npz"]

    def missing(self, folder: Path) -> list[str]:
        return [name for name in self.files if not (folder / name).is_file()]

    def read(self, root: str | Path | None) -> Any:
        """Reads x, edge_index and y with PyG from `root`, $LGGD_DATA, or a cache folder, downloading files if needed.

        `root` and $LGGD_DATA are only read, never downloaded to. The files of Planetoid are pickles, which can execute
        code: use only folders that you trust.
        """
        folder = self._find(root)
        from torch_geometric.io import read_npz, read_planetoid_data

        rule, remedy = f"contain {self.title} as it was published", "Download the files again."
        with reading(folder, rule, Exception, remedy=remedy), _silence():  # a truncated pickle may raise anything
            if self.family == "Planetoid":
                return read_planetoid_data(str(folder), self.title)
            return read_npz(str(folder / self.files[0]))

    def _find(self, root: str | Path | None) -> Path:
        named = root or os.environ.get(FOLDER_VARIABLE)
        if not named:
            return self._cached()
        base = Path(named).expanduser()
        folders = [base / self.family / self.title / "raw", base / self.title / "raw"]
        complete = [folder for folder in folders if not self.missing(folder)]
        if complete:
            return complete[0]
        folder = next((folder for folder in folders if folder.is_dir()), folders[0])
        remedy = f"Put into {folder}: {', '.join(self.missing(folder))}."
        rule = f"be a folder that contains {self.title}"
        raise InputFileError("root" if root else FOLDER_VARIABLE, rule, base, remedy)

    def _cached(self) -> Path:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lggd"
        folder = cache / self.family / self.title / "raw"
        if self.missing(folder):
            try:
                self._download(folder)
            except Exception as error:  # PyG's downloads fail in many ways
                raise ConnectionError(
                    f"Downloading `{self.title}` failed: {error or type(error).__name__}. "
                    f"Connect to a network, or put into {folder}: {', '.join(self.files)}. "
                    f"They may also be in DIR/{self.family}/{self.title}/raw; then set {FOLDER_VARIABLE}=DIR."
                ) from error
        return folder

    def _download(self, folder: Path) -> None:
        """Downloads to a temporary folder first, so that a partial download is never read as a dataset."""
        import torch_geometric.datasets

        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as temporary, _silence():
            getattr(torch_geometric.datasets, self.family)(temporary, self.title)
            for name in self.files:
                (Path(temporary) / self.title / "raw" / name).replace(folder / name)


@contextmanager
def _silence() -> Iterator[None]:
    """Hides PyG's output, and warnings that users cannot act on."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
