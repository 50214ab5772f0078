"""The input of a run: held-out labels, weights, features."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lggd.app.runs.run_input import RunInput, data_fingerprint
from lggd.errors import InputError
from support.tables import path_input


def test_units_of_features_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\nb,c\nc,d\n")
    tables = {
        "plain": "a,1,5,x\nb,2,5,x\nc,3,5,y\nd,6,5,y\n",
        "grams": "a,1000,5,x\nb,2000,5,x\nc,3000,5,y\nd,6000,5,y\n",
    }
    found = {}
    for name, rows in tables.items():
        (tmp_path / f"{name}.csv").write_text("id,size,same,kind\n" + rows)
        found[name] = RunInput.from_tables(tmp_path / "edges.csv", tmp_path / f"{name}.csv", 0, label="kind")
    x = found["plain"].data.x
    assert torch.allclose(x, found["grams"].data.x, atol=1e-6)
    assert torch.allclose(x.mean(0), torch.zeros(2), atol=1e-6)
    assert x[:, 1].tolist() == [0, 0, 0, 0]
    assert any("deviation 1" in note for note in found["plain"].notes)


def test_sparse_features_are_not_standardized(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\n")
    (tmp_path / "nodes.csv").write_text("id,u,v,w,z,q,r,kind\na,3,0,0,0,0,0,x\nb,0,0,0,0,0,1,y\n")
    found = RunInput.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", 0, label="kind")
    assert found.data.x.tolist() == [[3, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]]


def test_a_share_of_every_class_is_held_out_but_never_its_last_label(tmp_path: Path) -> None:
    labels = ["a"] * 20 + ["b"] * 10 + ["c"] + [""] * 5
    found, again = (path_input(tmp_path, labels) for _ in range(2))
    held_out = found.held_out
    assert torch.equal(held_out, again.held_out)
    counts = [int(held_out[part].sum()) for part in (slice(0, 20), slice(20, 30), slice(30, 31), slice(31, 36))]
    assert counts == [6, 3, 0, 0]
    assert torch.equal(found.data.train_mask, (found.data.y >= 0) & ~held_out)
    assert len({tuple(path_input(tmp_path, labels, number=k).held_out.tolist()) for k in range(5)}) == 5
    most = path_input(tmp_path, labels, test_share=0.99)
    assert [int((most.data.y[most.data.train_mask] == k).sum()) for k in range(3)] == [1, 1, 1]


def test_a_split_column_decides_what_is_held_out(tmp_path: Path) -> None:
    labels, split = ["a", "a", "b", "b", "a", "b"], ["train", "val", "val", "train", "test", "test"]
    found = path_input(tmp_path, labels, split=split)
    assert found.held_out.tolist() == [False] * 4 + [True] * 2
    assert found.restores_labels is False
    assert (found.origin["split_column"], found.origin["test_share"], found.origin["split"]) == ("part", None, None)


@pytest.mark.parametrize(("weights", "largest"), [(",8", 8), (",0.5", 0.5)])
def test_weights_are_divided_by_the_largest(tmp_path: Path, weights: str, largest: float) -> None:
    found = path_input(tmp_path, ["a", "b", "a"], weights)
    assert found.data.edge_weight.tolist() == [1] * 4
    assert any(f"divided by the largest, {largest:g}," in note for note in found.notes)
    assert not any("divided" in note for note in path_input(tmp_path, ["a", "b", "a"], ",1").notes)


def test_fingerprints_differ_with_anything_in_the_data() -> None:
    found, other = RunInput.from_dataset("karate"), RunInput.from_dataset("karate")
    assert data_fingerprint(found.data) == data_fingerprint(other.data)
    prints = {data_fingerprint(found.data), data_fingerprint(RunInput.from_dataset("karate", split=1).data)}
    other.data.x[0, 0] += 1
    prints.add(data_fingerprint(other.data))
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("share", "split", "argument"), [(1.0, 0, "test_share"), (-0.1, 0, "test_share"), (0.3, -1, "split")]
)
def test_bad_shares_and_splits_are_refused(tmp_path: Path, share: float, split: int, argument: str) -> None:
    with pytest.raises(InputError) as error:
        path_input(tmp_path, ["a", "b", "a"], test_share=share, number=split)
    assert error.value.argument == argument
