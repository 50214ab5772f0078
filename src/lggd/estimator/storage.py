"""Saved models: settings as JSON, tensors as safetensors. Loading never executes code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lggd._system.files import check_checksums, check_size, describe_file, recover_folder, save_tensors
from lggd.errors import InputError, InputFileError
from lggd.estimator.settings import MissingModuleError, from_plain, to_plain
from lggd.graph import Graph
from lggd.graph.stored_graph import StoredGraph, fingerprint, is_stored_graph
from lggd.inputs.node_data import NodeData

if TYPE_CHECKING:
    from lggd.estimator.member import Member

FORMAT, VERSION = "lggd model", 2
REPLACED = "Use a copy of the model, or fit and save it again."
# How often files are read again that another process replaced meanwhile.
ATTEMPTS = 10
SETTINGS_FILE, WEIGHTS_FILE, GRAPH_FILE = "model.json", "weights.safetensors", "graph.safetensors"
SAMPLES_FILE = "samples.safetensors"


def write_model(model: Member, folder: Path) -> None:
    """Writes the files of a fitted model into an empty folder."""
    files = model.data_.files
    settings = {
        "model": to_plain(model, "model"),
        "num_classes": model.num_classes_,
        "history": to_plain(model.history_, "history"),
        "additions": model.additions_,
        "metadata": model.metadata_,
        **({} if files is None else {"graph": graph_reference(files)}),
    }
    tensors = {WEIGHTS_FILE: {"labels": model.labels_, **model._state()}, GRAPH_FILE: model.data_.pack()}
    write_files(folder, settings, tensors)


def write_files(folder: Path, settings: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Writes the tensors of a model by file, and its settings with the sizes and checksums of these files."""
    for file, content in tensors.items():
        save_tensors(folder / file, content)
    files = {file: describe_file(folder / file) for file in tensors}
    write_json(folder / SETTINGS_FILE, {"format": FORMAT, "version": VERSION, **settings, "files": files})


def load_model(folder: str | Path, **modules: Any) -> Any:
    """Load a saved model of any kind, ready to predict.

    Parameters
    ----------
    folder : str or Path
        The folder that `save` wrote.
    **modules : torch.nn.Module or callable
        Custom modules and functions that the model was fitted with, by the name of their setting: `backbone=…`,
        `initial=…`, `metric=…`. Only the parameters of modules are saved.

    Returns
    -------
    The model: a `KernelRidge`, `LGGDClassifier`, `LGGDPlus`, `GGD`, a baseline or a `KNNGraphClassifier`.

    Raises
    ------
    InputError
        If files are missing, damaged or do not fit together.

    Examples
    --------
    >>> import lggd, tempfile
    >>> model = lggd.GGD(times=(1, 2)).fit(lggd.load("karate"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model")
    ...     lggd.load_model(f"{folder}/model")
    GGD(times=(1, 2))
    """
    folder = Path(folder)
    settings, tensors = _read_files(folder)
    path = folder / SETTINGS_FILE
    if is_of_samples(settings):
        return import_module("lggd.sklearn").restored(folder, settings, tensors[SAMPLES_FILE], modules)
    graph, weights = tensors[GRAPH_FILE], tensors[WEIGHTS_FILE]
    try:
        model = from_plain(settings["model"], "model", modules)
        model.check_settings()
        classes = int(settings["num_classes"])
        history = {
            stage: {name: [from_plain(value, name, {}) for value in values] for name, values in curves.items()}
            for stage, curves in settings["history"].items()
        }
        additions, metadata = list(settings["additions"]), dict(settings["metadata"])
    except KeyError as error:
        raise InputError(str(path), "be complete", but=f"it lacks {error}") from error
    except MissingModuleError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(str(path), "be the settings of a saved model", but=str(error).rstrip(".")) from error
    stored = open_graph(path, settings["graph"]) if "graph" in settings else None
    with consistent_files(folder):
        model._start(NodeData.unpack(graph, stored), classes)
        model.history_, model.additions_, model.metadata_ = history, additions, metadata
        model.labels_ = labels = weights.pop("labels")
        nodes = model.data_.num_nodes
        rule = f"contain one class from 0 to {classes - 1}, or -1, for each of {nodes} nodes"
        if labels.shape != (nodes,) or labels.dtype != torch.int64:
            raise InputError("labels", rule, f"{labels.dtype} {list(labels.shape)}")
        if int(labels.min()) < -1 or int(labels.max()) >= classes:
            raise InputError("labels", rule, f"{int(labels.min())} to {int(labels.max())}")
        model._restore(model.data_, weights)
        if not bool(model.predict_proba().isfinite().all()):
            raise InputError("predictions", "be finite", "nan", REPLACED)
    return model


@contextmanager
def consistent_files(folder: Path) -> Iterator[None]:
    """Turns errors about the content of saved files into one about the folder."""
    try:
        yield
    except (KeyError, RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        clause = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise InputError(str(folder), "be a saved model whose files fit together", but=clause) from error


def _read_files(folder: Path) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """The settings, and the tensors by file: all of one model, even if another process replaces it meanwhile."""
    for attempt in range(ATTEMPTS):
        if not folder.exists():
            recover_folder(folder)
        before = _identity(folder)
        try:
            settings = read_settings(folder)
            tensors = {file: read_tensors(folder, settings, file) for file in _tensor_files(settings)}
        except InputError:
            if attempt + 1 == ATTEMPTS or _identity(folder) == before:
                raise
            continue
        if _identity(folder) == before:
            break
    return settings, tensors


def _tensor_files(settings: Mapping[str, Any]) -> tuple[str, ...]:
    return (SAMPLES_FILE,) if is_of_samples(settings) else (GRAPH_FILE, WEIGHTS_FILE)


def is_of_samples(settings: Mapping[str, Any]) -> bool:
    """Whether the settings are those of a `KNNGraphClassifier`, of a room above this one."""
    return isinstance(settings.get("model"), dict) and settings["model"].get("kind") == "KNNGraphClassifier"


def _identity(folder: Path) -> tuple[int, int] | None:
    """Numbers that change when another process replaces a model, even by one of the same settings."""
    try:
        status = (folder / SETTINGS_FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def graph_reference(stored: StoredGraph) -> dict[str, Any]:
    """Where a graph on disk is, and a digest of its checksums."""
    return {"folder": str(stored.folder.resolve()), "fingerprint": stored.fingerprint}


def open_graph(path: Path, reference: Any) -> Graph:
    """Opens the graph on disk that a saved model refers to."""
    if not isinstance(reference, dict) or not isinstance(reference.get("folder"), str):
        raise InputError(str(path), "say where its graph is", reference, "Save the model again.")
    folder, remedy = Path(reference["folder"]), f"Move it back, or change `folder` of `graph` in {path}."
    if not is_stored_graph(folder):
        raise InputFileError(str(folder), "be the graph of the saved model", but="there is none", remedy=remedy)
    if fingerprint(folder) != reference.get("fingerprint"):
        remedy = "Fit the model again, or restore the graph."
        raise InputFileError(str(folder), "be the graph of the saved model", but="it has changed", remedy=remedy)
    return Graph.open(folder, verify=False)


def check_shape(name: str, value: Tensor, like: Tensor) -> Tensor:
    """Returns a saved tensor if it has the shape of the tensor that it replaces."""
    if value.shape != like.shape:
        raise InputError(name, f"have shape {list(like.shape)}", list(value.shape))
    return value


def with_prefix(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of a part, with the prefix added to its names."""
    return {f"{prefix}{name}": value for name, value in state.items()}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_settings(folder: Path) -> dict[str, Any]:
    """Returns the settings of a saved model of the current format version."""
    path = folder / SETTINGS_FILE
    if not path.is_file():
        raise InputFileError(str(folder), "be a folder with a saved model", but=f"it has no {SETTINGS_FILE}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(str(path), "be the settings of a saved model", but=f"it is damaged: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        remedy = "Save the model again."
        raise InputError(str(path), "be the settings of a saved model", "something else", remedy)
    if content.get("version") != VERSION:
        remedy = "Load it with the version of lggd that saved it."
        raise InputError(str(path), f"be of format version {VERSION}", content.get("version"), remedy)
    return content


def read_tensors(folder: Path, settings: Mapping[str, Any], file: str) -> dict[str, Tensor]:
    """Returns the tensors of a file, which must have the size and the checksums that the settings say."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / file
    try:
        described = settings["files"][file]
        check_size(path, described, REPLACED)
        check_checksums(path, described, REPLACED)
    except (KeyError, TypeError) as error:
        rule = f"describe {file} by its size and checksums"
        raise InputError(folder / SETTINGS_FILE, rule, but="it does not", remedy=REPLACED) from error
    try:
        # Rounding in matrix products depends on memory alignment: copies are aligned as the saved tensors were.
        return {name: value.clone() for name, value in load_file(path).items()}
    except SafetensorError as error:
        raise InputError(path, "be tensors of a saved model", but=f"it is damaged: {error}", remedy=REPLACED) from error
