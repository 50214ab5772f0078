"""The paper's datasets as they were published: where their files lie, how to fetch them, how to read them."""

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

from lggd.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

# The environment variable that names a folder of datasets.
FOLDER_VARIABLE = "LGGD_DATA"
PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


@dataclass(frozen=True)
class RawDataset:
    """What PyG calls a dataset and its family; its folders are called so too."""

    family: str
    title: str

    @property
    def files(self) -> list[str]:
        if self.family == "Planetoid":
            return [f"ind.{self.title.lower()}.{part}" for part in PLANETOID_PARTS]
        return [f"amazon_electronics_{self.title.lower()}.npz"]

    def missing(self, folder: Path) -> list[str]:
        return [name for name in self.files if not (folder / name).is_file()]

    def read(self, root: str | Path | None) -> Data:
        """x, edge_index and y as PyG reads them, from `root`, else $LGGD_DATA, else a cache that is filled first.

        A folder that someone named is taken at its word: only read from, and never replaced by a download. The files
        of Planetoid are pickles, which run code as they are read: name only folders that you trust.
        """
        folder = self._find(root)
        from torch_geometric.io import read_npz, read_planetoid_data

        try:
            with _silence():
                if self.family == "Planetoid":
                    return read_planetoid_data(str(folder), self.title)
                return read_npz(str(folder / self.files[0]))
        except Exception as wrong:  # a torn pickle may raise anything
            raise InputError(
                folder,
                f"hold {self.title} as it was published",
                but=f"it reads: {wrong}",
                remedy="Fetch the files anew.",
            ) from wrong

    def _find(self, root: str | Path | None) -> Path:
        named = root or os.environ.get(FOLDER_VARIABLE)
        if not named:
            return self._cached()
        base = Path(named).expanduser()
        places = [base / self.family / self.title / "raw", base / self.title / "raw"]
        for place in places:
            if not self.missing(place):
                return place
        place = next((place for place in places if place.is_dir()), places[0])
        argument = "root" if root else FOLDER_VARIABLE
        raise FileNotFoundError(
            f"`{argument}` must be a folder that holds {self.title}, got {base}. "
            f"Put into {place}: {', '.join(self.missing(place))}."
        )

    def _cached(self) -> Path:
        folder = _cache() / self.family / self.title / "raw"
        if self.missing(folder):
            try:
                self._download(folder)
            except Exception as wrong:  # PyG's ways to fetch fail in many ways
                raise ConnectionError(
                    f"`{self.title}` must be downloaded first, which failed: {wrong or type(wrong).__name__}. "
                    f"Connect to a network, or put into {folder}: {', '.join(self.files)}. "
                    f"They may also lie in DIR/{self.family}/{self.title}/raw; then set {FOLDER_VARIABLE}=DIR."
                ) from wrong
        return folder

    def _download(self, folder: Path) -> None:
        """Fetches all files before it shows any: half a download never looks like a dataset."""
        import torch_geometric.datasets

        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as temporary, _silence():
            getattr(torch_geometric.datasets, self.family)(temporary, self.title)
            for name in self.files:
                (Path(temporary) / self.title / "raw" / name).replace(folder / name)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lggd"


@contextmanager
def _silence() -> Iterator[None]:
    """PyG prints its progress, and warns of what its users cannot change."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
