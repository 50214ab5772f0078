"""The raw files of datasets: finding, downloading and reading them."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from lggd.errors import InputError, InputFileError

if TYPE_CHECKING:
    from torch_geometric.data import Data

# Environment variable with the folder of datasets.
FOLDER_VARIABLE = "LGGD_DATA"
PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
# A family of datasets with one file each, published by Platonov et al. (2023).
HETEROPHILOUS, HETEROPHILOUS_URL = (
    "Heterophilous",
    "https://github.com/yandex-research/heterophilous-graphs/raw/main/data",
)


@dataclass(frozen=True)
class RawDataset:
    """A dataset by the names of its class and folder in PyG, or by its file in the family `HETEROPHILOUS`."""

    family: str
    title: str

    @property
    def files(self) -> list[str]:
        if self.family == "Planetoid":
            return [f"ind.{self.title.lower()}.{part}" for part in PLANETOID_PARTS]
        if self.family == HETEROPHILOUS:
            return [f"{self.title}.npz"]
        return [f"amazon_electronics_{self.title.lower()}.npz"]

    @property
    def folder(self) -> Path:
        """Where its files are in a folder of datasets."""
        return Path(HETEROPHILOUS) if self.family == HETEROPHILOUS else Path(self.family, self.title, "raw")

    def missing(self, folder: Path) -> list[str]:
        return [name for name in self.files if not (folder / name).is_file()]

    def read(self, root: str | Path | None) -> Data:
        """Reads x, edge_index and y with PyG from `root`, $LGGD_DATA, or a cache folder, downloading files if needed.

        `root` and $LGGD_DATA are only read, never downloaded to. The files of Planetoid are pickles, which can execute
        code: use only folders that you trust.
        """
        folder = self._find(root)
        from torch_geometric.io import read_npz, read_planetoid_data

        try:
            with _silence():
                if self.family == "Planetoid":
                    return read_planetoid_data(str(folder), self.title)
                path = folder / self.files[0]
                return _read_heterophilous(path) if self.family == HETEROPHILOUS else read_npz(str(path))
        except Exception as error:  # a truncated pickle may raise anything
            rule, remedy = f"contain {self.title} as it was published", "Download the files again."
            raise InputError(folder, rule, but=f"reading it failed: {error}", remedy=remedy) from error

    def _find(self, root: str | Path | None) -> Path:
        named = root or os.environ.get(FOLDER_VARIABLE)
        if not named:
            return self._cached()
        base = Path(named).expanduser()
        folders = [base / self.folder, base.joinpath(*self.folder.parts[1:])]
        for folder in folders:
            if not self.missing(folder):
                return folder
        folder = next((folder for folder in folders if folder.is_dir() and folder != base), folders[0])
        argument = "root" if root else FOLDER_VARIABLE
        remedy = f"Put into {folder}: {', '.join(self.missing(folder))}."
        raise InputFileError(argument, f"be a folder that contains {self.title}", base, remedy)

    def _cached(self) -> Path:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lggd"
        folder = cache / self.folder
        if self.missing(folder):
            try:
                self._download(folder)
            except Exception as error:  # PyG's downloads fail in many ways
                raise ConnectionError(
                    f"Downloading `{self.title}` failed: {error or type(error).__name__}. "
                    f"Connect to a network, or put into {folder}: {', '.join(self.files)}. "
                    f"They may also be in DIR/{self.folder.as_posix()}; then set {FOLDER_VARIABLE}=DIR."
                ) from error
        return folder

    def _download(self, folder: Path) -> None:
        """Downloads to a temporary folder first, so that a partial download is never read as a dataset."""
        import torch_geometric.datasets

        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as temporary, _silence():
            downloaded = Path(temporary)
            if self.family == HETEROPHILOUS:
                torch_geometric.data.download_url(f"{HETEROPHILOUS_URL}/{self.files[0]}", temporary)
            else:
                getattr(torch_geometric.datasets, self.family)(temporary, self.title)
                downloaded /= f"{self.title}/raw"
            for name in self.files:
                (downloaded / name).replace(folder / name)


def _read_heterophilous(path: Path) -> Data:
    from torch_geometric.data import Data
    from torch_geometric.utils import remove_self_loops

    with np.load(path) as arrays:
        x, y, edges = (torch.from_numpy(arrays[name]) for name in ("node_features", "node_labels", "edges"))
    return Data(x=x.float(), edge_index=remove_self_loops(edges.t().long())[0], y=y.long())


@contextmanager
def _silence() -> Iterator[None]:
    """Hides PyG's output, and warnings that users cannot act on."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
