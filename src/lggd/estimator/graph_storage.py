"""The graph of a saved model: its tensors, or where it is on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd.errors import InputError, InputFileError
from lggd.estimator.fit_task import INPUTS, stored_graph
from lggd.graph import Graph
from lggd.graph.stored_graph import StoredGraph, fingerprint, is_stored_graph


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


def pack_graph(data: Any) -> dict[str, Tensor]:
    """The graph and the node features of PyG data as tensors; sparse features as indices and values.

    Of a graph on disk nothing that is in its folder.
    """
    named = ((name, getattr(data, name, None)) for name in INPUTS)
    packed = {name: value for name, value in named if isinstance(value, Tensor)}
    graph = stored_graph(data)
    if graph is not None and graph.stored is not None and packed.get("x") is graph.stored.x:
        packed.pop("x", None)
    if "x" in packed and packed["x"].layout != torch.strided:
        x = packed.pop("x").to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
        packed |= {"x.places": x.indices(), "x.values": x.values(), "x.shape": torch.tensor(x.shape)}
    return {**packed, "num_nodes": torch.tensor(data.num_nodes)}


def unpack_graph(packed: Mapping[str, Tensor], graph: Graph | None = None) -> Any:
    """The PyG data of a packed graph, or of one on disk: the inverse of `pack_graph`."""
    from torch_geometric.data import Data

    stored: dict[str, Any] = {name: packed[name] for name in INPUTS if name in packed}
    if graph is not None and graph.stored is not None:
        stored = {"x": graph.stored.x, "graph": graph} | stored
        stored = {name: value for name, value in stored.items() if value is not None}
    data = Data(**stored, num_nodes=int(packed["num_nodes"]))
    if "x.places" in packed:
        shape = tuple(packed["x.shape"].tolist())
        x = torch.sparse_coo_tensor(packed["x.places"], packed["x.values"], shape, check_invariants=True)
        data.x = x.coalesce()
    return data
