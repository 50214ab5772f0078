"""Saved models: settings as JSON, numbers as safetensors. Nothing that is read is ever executed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.diffusion import PPR, Heat
from lggd.equation.potential import DegreePotential
from lggd.errors import InputError, InputTypeError
from lggd.features import GGD, LGGD
from lggd.features.scaling import MaxScale, SoftmaxScale, Standardize, Unscaled
from lggd.features.settings import Settings
from lggd.files import umask
from lggd.learning.networks import MLP, FromModule, PropagatedMLP
from lggd.learning.parameters import LearnedEdgeWeights, LearnedPotential, LearnedTimeScale
from lggd.solvers.scheme import RK4, SSPRK3, Euler
from lggd.training.optimization import Optimization

FORMAT, VERSION = "lggd model", 1
SETTINGS_FILE, WEIGHTS_FILE, GRAPH_FILE = "model.json", "weights.safetensors", "graph.safetensors"

# All that a settings file may name.
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        GGD, LGGD, MLP, PropagatedMLP, LearnedPotential, LearnedTimeScale, LearnedEdgeWeights, DegreePotential,
        MaxScale, SoftmaxScale, Standardize, Unscaled, RK4, SSPRK3, Euler, Optimization, GCN, GAT, ChebNet, JKNet,
        PPR, Heat,
    )
}  # fmt: skip


def to_plain(value: Any, name: str) -> Any:
    """Settings as JSON can hold them; `name` is what errors call them."""
    if isinstance(value, LGGD):
        # A saved model keeps what the preset meant when it was fitted.
        plain = {field.name: to_plain(getattr(value.settings, field.name), field.name) for field in fields(Settings)}
        return {"kind": "LGGD", **plain, "attr_name": value.attr_name, "seed": _seed(value.seed)}
    if isinstance(value, (FromModule, nn.Module)):
        module = value.module if isinstance(value, FromModule) else value
        return {"kind": "module", "class": type(module).__qualname__}
    if is_dataclass(value) and not isinstance(value, type):
        if type(value).__name__ not in KINDS:
            raise InputTypeError(name, "be one of the library's own to be saved", repr(value))
        # Times may come as a range, an array or a tensor.
        read = {"times": value.settings.times} if isinstance(value, GGD) else {}
        plain = {f.name: to_plain(read.get(f.name, getattr(value, f.name)), f.name) for f in fields(value)}
        return {"kind": type(value).__name__, **plain}
    if isinstance(value, float) and not math.isfinite(value):
        return {"kind": "number", "value": str(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(entry, name) for key, entry in value.items()}
    if isinstance(value, torch.Generator):
        return _seed(value)
    if isinstance(value, (tuple, list, range)):
        return [to_plain(entry, name) for entry in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputTypeError(
        name,
        "be a setting that a file can hold to be saved",
        type(value).__name__,
        "Use one of the library's own, such as DegreePotential(-1).",
    )


def from_plain(plain: Any, name: str, modules: Mapping[str, nn.Module]) -> Any:
    """The settings that `to_plain` wrote. `modules` are the user's own, by the name of the argument they are."""
    if isinstance(plain, list):
        return tuple(from_plain(entry, name, modules) for entry in plain)
    if not isinstance(plain, dict):
        return plain
    kind = plain.get("kind")
    if kind == "number":
        return float(plain["value"])
    if kind == "module":
        if name not in modules:
            raise InputError(
                name,
                (
                    f"be passed to load: this model was fitted with a module of your own, {plain.get('class')}, of "
                    "which only the parameters are saved"
                ),
            )
        return modules[name]
    if kind not in KINDS:
        raise InputError(name, f"be one of {', '.join(KINDS)}", repr(kind), "Was it saved by a newer version?")
    known = {field.name for field in fields(KINDS[kind])}
    given = {key: value for key, value in plain.items() if key != "kind"}
    strange = sorted(given.keys() - known)
    if strange:
        raise InputError(name, f"have the settings {sorted(known)}", f"also {strange[0]!r}")
    return KINDS[kind](**{key: from_plain(value, key, modules) for key, value in given.items()})


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_settings(folder: Path, format: str = FORMAT) -> dict[str, Any]:
    """The settings of a saved model, if this is one of that format and of a version that we know."""
    path = folder / SETTINGS_FILE
    if not path.is_file():
        raise FileNotFoundError(f"`{folder}` must be a folder with a saved model, but it has no {SETTINGS_FILE}.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as wrong:
        raise InputError(path, "be the settings of a saved model", but=f"it is damaged: {wrong}") from wrong
    if not isinstance(content, dict) or content.get("format") != format:
        raise InputError(path, f"be the settings of a saved {format}", "something else", "Save the model anew.")
    if content.get("version") != VERSION:
        raise InputError(
            path,
            f"be of format version {VERSION}",
            content.get("version"),
            "Load it with the version of lggd that saved it.",
        )
    return content


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    from safetensors.torch import save_file

    save_file({name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}, path)
    path.chmod(0o666 & ~umask())  # safetensors keeps files to their owner; a model should be as open as any other file


def read_tensors(path: Path, needed: Sequence[str] = ()) -> dict[str, Tensor]:
    """All tensors of a file; the needed ones must be among them."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise FileNotFoundError(f"`{path.parent}` must be a complete saved model, but {path.name} is missing.")
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except SafetensorError as wrong:
        raise InputError(path, "be the numbers of a saved model", but=f"it is damaged: {wrong}") from wrong
    missing = [name for name in needed if name not in tensors]
    if missing:
        raise InputError(path, f"hold the tensor {missing[0]!r}", but="it does not", remedy="Save the model anew.")
    # Matrix products round by how their input lies in memory: copies lie as they did where they were saved.
    return {name: value.clone() for name, value in tensors.items()}


def _seed(seed: int | torch.Generator) -> int:
    return seed.initial_seed() if isinstance(seed, torch.Generator) else seed


def pack_graph(data: Any) -> dict[str, Tensor]:
    """The graph and contents of PyG data as tensors; sparse contents as places and values."""
    packed = {"edge_index": data.edge_index, "num_nodes": torch.tensor(data.num_nodes)}
    for name in ("edge_weight", "edge_attr"):
        value = getattr(data, name, None)
        if isinstance(value, Tensor):
            packed[name] = value
    x = getattr(data, "x", None)
    if isinstance(x, Tensor) and x.layout == torch.strided:
        packed["x"] = x
    elif isinstance(x, Tensor):
        coo = x.to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
        packed |= {"x.places": coo.indices(), "x.values": coo.values(), "x.shape": torch.tensor(x.shape)}
    return packed


def unpack_graph(packed: Mapping[str, Tensor]) -> Any:
    """The PyG data that `pack_graph` took apart."""
    from torch_geometric.data import Data

    data = Data(edge_index=packed["edge_index"], num_nodes=int(packed["num_nodes"]))
    for name in ("edge_weight", "edge_attr", "x"):
        if name in packed:
            data[name] = packed[name]
    if "x.places" in packed:
        shape = tuple(packed["x.shape"].tolist())
        x = torch.sparse_coo_tensor(packed["x.places"], packed["x.values"], shape, check_invariants=True)
        data.x = x.coalesce()
    return data
