"""Graphs in one file of tensors or arrays."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from lggd.app.runs.run_input import RunInput
from lggd.datasets.pyg_data import checked_data, read_data_file
from lggd.errors import InputError


def small(**changes: Any) -> Data:
    parts = {
        "x": torch.arange(8.0).reshape(4, 2), "edge_index": torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 3]]),
        "y": torch.tensor([0, 0, 1, 1]),
    }  # fmt: skip
    return Data(**(parts | changes))


@pytest.mark.parametrize("stored", [lambda d: d, lambda d: d.to_dict(), lambda d: (d.to_dict(), None, Data)])
def test_tensors_are_read_without_their_pickles(tmp_path: Path, stored: Any) -> None:
    torch.save(stored(small()), tmp_path / "g.pt")
    found, notes = checked_data(read_data_file(tmp_path / "g.pt"), "g.pt")
    assert found.x.tolist() == small().x.tolist()
    assert found.edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    assert notes == ("1 edge was added in the opposite direction.",)


class Harmful:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_code_in_files_is_not_executed(tmp_path: Path) -> None:
    harmful = Harmful(tmp_path / "touched")
    torch.save({"edge_index": torch.zeros(2, 1), "y": harmful}, tmp_path / "g.pt")
    with pytest.raises(InputError, match="but it contains other objects, which are not loaded"):
        read_data_file(tmp_path / "g.pt")
    (tmp_path / "h.pt").write_bytes(pickle.dumps(harmful))
    with pytest.raises(InputError, match="must contain a PyG Data or a dictionary of tensors"):
        read_data_file(tmp_path / "h.pt")
    np.savez(tmp_path / "g.npz", y=np.array([harmful], dtype=object), edge_index=np.zeros((2, 1), int))
    with pytest.raises(InputError, match=r"must contain arrays of numbers, but reading it failed: .*allow_pickle"):
        read_data_file(tmp_path / "g.npz")
    assert not harmful.path.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"hello"])
@pytest.mark.parametrize("name", ["g.pt", "g.npz"])
def test_damaged_files(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"`.*{name}` must contain"):
        read_data_file(tmp_path / name)


def test_arrays_under_usual_names(tmp_path: Path) -> None:
    data = small()
    masks = {f"{part}_masks": np.eye(4, dtype=bool)[k : k + 3] for k, part in enumerate(("train", "test"))}
    edges = data.edge_index.T.numpy()
    np.savez(tmp_path / "g.npz", edges=edges, node_features=data.x.numpy(), node_labels=data.y.numpy(), **masks)
    found = read_data_file(tmp_path / "g.npz")
    assert found.edge_index.tolist() == data.edge_index.tolist()
    assert found.train_mask.shape == (4, 3)
    matrix = sp.csr_array((np.ones(5), data.edge_index.numpy()), shape=(4, 4))
    parts = {f"adj_{name}": getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "g.npz", labels=data.y.numpy(), **parts)
    assert checked_data(read_data_file(tmp_path / "g.npz"), "g")[0].edge_index.shape == (2, 6)
    sp.save_npz(tmp_path / "m.npz", matrix)
    with pytest.raises(InputError, match="must contain edge_index and y, got none"):
        read_data_file(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "must have labels y, got none"),
        ({"y": torch.zeros(4, 3)}, r"must have labels y \[N\], got \[4, 3\]. Each node has one class"),
        ({"y": torch.tensor([0.5, 1, 1, 0])}, "of whole numbers, got fractions"),
        ({"y": torch.tensor([0, 0, -1, -1])}, "at least two classes"),
        ({"x": torch.full((4, 2), torch.nan)}, r"finite features x, got NaN or infinity in columns 0 \(4\), 1 \(4\)"),
        ({"x": torch.zeros(3, 2)}, r"features x \[4, F\], got \[3, 2\]"),
        ({"y": torch.tensor([0, 1, 1, 10**15])}, "number the classes from 0, got 1000000000000000"),
        ({"edge_index": torch.zeros(3, 2)}, r"edge_index of integers \[2, E\]"),
        ({"edge_index": None}, r"edge_index of integers \[2, E\]"),
        (
            {"edge_index": torch.tensor([[0, 1], [1, 1]]), "edge_weight": torch.ones(3)},
            r"must have an edge_weight \[2\], one for each edge, got \[3\]",
        ),
        ({"edge_index": torch.tensor([[0], [9]])}, r"must name nodes 0..3, got 9"),
        ({"train_mask": torch.zeros(3)}, r"train_mask` must be a mask \[4\]"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked_data(small(**changes), "g.pt")


def test_what_is_changed_is_said() -> None:
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 2, 0]])
    data, notes = checked_data(
        small(edge_index=edges, edge_attr=torch.rand(4, 3), y=torch.tensor([0.0, 1, torch.nan, 1])), "g"
    )
    assert data.y.tolist() == [0, 1, -1, 1]
    assert notes == (
        "edge_attr [4, 3] was not used: weights have one number per edge.",
        "1 self-loop was dropped; it changes no distance.",
        "3 edges were added in the opposite direction.",
    )
    with pytest.raises(InputError, match="one kind of nodes, got HeteroData"):
        checked_data(HeteroData(), "g")


def test_masks_of_the_file_hold_out_nodes(tmp_path: Path) -> None:
    masks = torch.tensor([[1, 0], [0, 1], [1, 1], [0, 0]]).bool()
    torch.save(small(train_mask=masks, test_mask=~masks).to_dict(), tmp_path / "g.pt")
    found = RunInput.from_file(tmp_path / "g.pt", split=1)
    assert found.data.train_mask.tolist() == [False, True, True, False]
    assert found.held_out.tolist() == [True, False, False, True]
    assert "Labels: 2 0, 2 1; 0 of 4 nodes are unlabelled." in found.notes
    with pytest.raises(InputError, match="`split` must be below 2"):
        RunInput.from_file(tmp_path / "g.pt", split=2)
