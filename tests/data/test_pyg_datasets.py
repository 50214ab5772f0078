"""Datasets of PyG by name, from files that are there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lggd.data.pyg_datasets import read_pyg_dataset
from lggd.errors import InputError
from lggd.runs.run_input import RunInput
from real_data import REAL_DATA, needs_real_data


def webkb(folder: Path) -> None:
    """Writes the raw files of a tiny WebKB graph with ten splits."""
    raw = folder / "cornell" / "raw"
    raw.mkdir(parents=True)
    rows = "".join(f"{k}\t{k % 2},1,0\t{k % 2}\n" for k in range(6))
    (raw / "out1_node_feature_label.txt").write_text(f"node_id\tfeature\tlabel\n{rows}")
    (raw / "out1_graph_edges.txt").write_text("a\tb\n" + "".join(f"{k}\t{k + 1}\n" for k in range(5)))
    for k in range(10):
        masks = {f"{part}_mask": np.arange(6) % 3 == (j + k) % 3 for j, part in enumerate(("train", "val", "test"))}
        np.savez(raw / f"cornell_split_0.6_0.2_{k}.npz", **masks)


@pytest.mark.parametrize("parent", ["", "WebKB"])
def test_files_are_only_read(tmp_path: Path, parent: str) -> None:
    webkb(tmp_path / parent)
    before = sorted(tmp_path.rglob("*"))
    found = RunInput.from_pyg("WebKB/cornell", split=1, root=tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert (found.name, len(found.ids), found.data.edge_index.shape[1]) == ("webkb-cornell", 6, 10)
    assert found.data.train_mask.tolist() == [False, True, False, False, True, False]
    assert "The masks of the data of split 1 are used: 2 train_mask, 2 val_mask, 2 test_mask." in found.notes


def test_nothing_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match=r"`root` must be a folder that contains WebKB/cornell .*Nothing is downloaded"):
        read_pyg_dataset("WebKB/cornell", tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.delenv("LGGD_DATA", raising=False)
    with pytest.raises(OSError, match="set LGGD_DATA"):
        read_pyg_dataset("WebKB/cornell")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("WebKb/cornell", "Did you mean 'WebKB'?"),
        ("WebKB", "must name one of the datasets of WebKB, got 'WebKB'. Write WebKB/NAME."),
        ("KarateClub/x", "must be KarateClub, which is one dataset"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(InputError, match="`pyg` must") as error:
        read_pyg_dataset(name, "/nowhere")
    assert message in str(error.value)


def test_damaged_files_are_reported(tmp_path: Path) -> None:
    webkb(tmp_path)
    (tmp_path / "cornell/raw/out1_graph_edges.txt").write_text("a\tb\nx\ty\n")
    with pytest.raises(
        InputError, match="`pyg` must be a dataset that PyG can read, WebKB/cornell, but PyG failed with"
    ):
        read_pyg_dataset("WebKB/cornell", tmp_path)


@needs_real_data
def test_cora() -> None:
    data = read_pyg_dataset("Planetoid/Cora", REAL_DATA)
    assert (data.num_nodes, data.num_edges, int(data.train_mask.sum())) == (2708, 10556, 140)
