"""Any dataset of PyG by the name of its class, where its files are there: nothing is downloaded."""

from __future__ import annotations

import inspect
import os
import tempfile
from pathlib import Path
from typing import Any

from lggd.data.data_files import read_data_file
from lggd.data.datasets import FOLDER_VARIABLE, Root, silence
from lggd.errors import InputError, InputFileError
from lggd.validation import check_name


class _FilesMissingError(Exception):
    """The raw files of a dataset are not in this folder."""

    def __init__(self, raw: list[str], processed: list[str]) -> None:
        super().__init__(raw, processed)
        self.raw, self.processed = raw, processed


def read_pyg_dataset(name: str, root: Root = None) -> Any:
    """Reads a dataset such as `"Planetoid/Cora"`: the class in `torch_geometric.datasets` and its argument `name`.

    Its files are in `root` or else in the folder of the environment variable LGGD_DATA, in PyG's layout, in that folder
    itself, in `CLASS` or in `CLASS/NAME`. They are only read: PyG's processed files are written to a temporary folder.
    Raw files may be pickles, which can execute code: use only folders that you trust.

    Returns the `Data` of its one graph.
    """
    import torch_geometric.datasets as families

    family, _, title = name.partition("/")
    kind = getattr(families, check_name("pyg", family, families.__all__))
    parameters = inspect.signature(kind.__init__).parameters
    if "name" in parameters and not title and parameters["name"].default is inspect.Parameter.empty:
        raise InputError("pyg", f"name one of the datasets of {family}", repr(name), f"Write {family}/NAME.")
    if title and "name" not in parameters:
        raise InputError("pyg", f"be {family}, which is one dataset", repr(name), "Omit the second part.")
    arguments = {"name": title} if title else {}
    if "root" not in parameters:  # needs no files
        return _only_graph(_build(kind, name, arguments), name)
    base = _base(root)
    missing: list[str] = []
    for folder in dict.fromkeys((base / family, base, base / family / title)):
        try:
            with tempfile.TemporaryDirectory(prefix="lggd-") as temporary:
                return _only_graph(_build(_offline(kind, temporary), name, {"root": str(folder), **arguments}), name)
        except _FilesMissingError as error:
            missing = missing or error.raw
            processed = [path for path in error.processed if Path(path).is_file()]
            if processed:
                return read_data_file(processed[0])
    found = f"{base}, which does not have {', '.join(missing)}"
    raise InputFileError("root", f"be a folder that contains {name} in PyG's layout", found, "Nothing is downloaded.")


def _base(root: Root) -> Path:
    named = root or os.environ.get(FOLDER_VARIABLE)
    if not named:
        remedy = f"Name the folder of its files, or set {FOLDER_VARIABLE}."
        raise InputFileError("root", "be a folder of datasets", "none", remedy)
    return Path(named).expanduser()


def _offline(kind: Any, temporary: str) -> Any:
    """The same class without downloads, which writes its processed files to a temporary folder."""

    def refuse(self: Any) -> None:
        missing = [path for path in self.raw_paths if not Path(path).exists()]
        if missing:
            folder = kind.processed_dir.fget(self)
            names = self.processed_file_names
            names = [names] if isinstance(names, str) else list(names)
            raise _FilesMissingError(missing, [str(Path(folder, each)) for each in names])

    members: dict[str, Any] = {"processed_dir": property(lambda _: temporary)}
    if "download" in {member for base in kind.__mro__[:-3] for member in vars(base)}:
        members["_download"] = refuse
    return type(kind.__name__, (kind,), members)


def _build(kind: Any, name: str, arguments: dict[str, Any]) -> Any:
    try:
        with silence():
            return kind(**arguments)
    except (_FilesMissingError, InputError):
        raise
    except Exception as error:  # damaged files may raise anything
        clause = f"PyG failed with {type(error).__name__}: {error}".rstrip(": ")
        raise InputError("pyg", f"be a dataset that PyG can read, {name}", but=clause) from error


def _only_graph(dataset: Any, name: str) -> Any:
    if len(dataset) != 1:
        value = f"{len(dataset):,} graphs in {name}"
        raise InputError("pyg", "be a dataset of one graph", value, "Nodes of one graph are classified.")
    return dataset[0]
