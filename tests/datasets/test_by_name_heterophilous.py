"""The files of heterophilous graphs: where they are looked for, and what is read from them."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from lggd.datasets.by_name import HETEROPHILOUS_URL, LOW_HOMOPHILY, load, split_fingerprint
from lggd.errors import InputError, InputFileError
from support.real_data import REAL_DATA, needs_real_data

NODES = 120
FILES = {
    "actor": "actor.npz",
    "chameleon": "chameleon_filtered.npz",
    "squirrel": "squirrel_filtered.npz",
    "tolokers": "tolokers.npz",
    "minesweeper": "minesweeper.npz",
}
# Nodes, undirected edges, features, and labels of the training set.
FACTS = {
    "actor": (7600, 26659, 932, [21, 33, 40, 45, 49]),
    "chameleon": (890, 8854, 2325, [6, 3, 5, 4, 3]),
    "squirrel": (2223, 46998, 2089, [18, 12, 9, 8, 5]),
    "tolokers": (11758, 519000, 10, [229, 64]),
    "minesweeper": (10000, 39402, 7, [200, 50]),
}


@pytest.fixture(autouse=True)
def _nobody_named_a_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("LGGD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def arrays(**changes):
    """A ring whose edges point one way, one of them twice and a self-loop; two classes in turn."""
    ring = np.arange(NODES)
    edges = np.stack([ring, (ring + 1) % NODES], axis=1)
    edges = np.concatenate([edges, edges[:1], [[3, 3]]])
    return {"node_features": np.eye(NODES, 4), "node_labels": ring % 2, "edges": edges, **changes}


def write(folder, file, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / file, **arrays(**changes))


@pytest.mark.parametrize("layout", ["Heterophilous", "."])
@pytest.mark.parametrize("name", FILES)
def test_every_graph_is_read_from_its_file(name, layout, tmp_path, monkeypatch, capfd):
    write(tmp_path / layout, FILES[name])
    monkeypatch.setenv("LGGD_DATA", str(tmp_path))
    for data in (load(name), load(name.upper(), root=tmp_path)):
        assert (data.name, data.num_nodes, data.num_classes, data.num_features) == (name, NODES, 2, 4)
        assert (data.x.dtype, data.y.dtype, data.edge_index.dtype) == (torch.float32, torch.int64, torch.int64)
        assert data.num_edges == 2 * NODES
        assert data.is_undirected()
        assert not data.has_self_loops()
        assert torch.equal(data.y, torch.arange(NODES) % 2)
        masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
        assert masks.sum(0).tolist() == [1] * NODES
        assert masks.sum(1).tolist() == [2, 2, NODES - 4]
    assert load(name, dynamic=True).new_mask.shape == (NODES, 3)
    assert split_fingerprint(load(name)) == split_fingerprint(load(name)) != split_fingerprint(load(name, split=1))
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "cache").exists()


def test_the_names_are_those_of_the_documentation():
    assert list(LOW_HOMOPHILY) == list(FILES)
    assert all(f'"{name}"' in (load.__doc__ or "") for name in FILES)


def test_a_missing_file_is_named(tmp_path):
    folder = tmp_path / "Heterophilous"
    message = f"`root` must be a folder that contains actor, got {tmp_path}. Put into {folder}: actor.npz."
    with pytest.raises(InputFileError, match=re.escape(message)):
        load("actor", root=tmp_path)
    message = f"contains chameleon_filtered, got {tmp_path}. Put into {folder}: chameleon_filtered.npz."
    with pytest.raises(InputFileError, match=re.escape(message)):
        load("chameleon", root=tmp_path)


def test_options_that_do_not_apply():
    with pytest.raises(InputError, match="`labels_per_class` must be omitted for actor, got 5: datasets from files"):
        load("actor", labels_per_class=5)


@pytest.mark.parametrize("damage", ["torn", "key", "pickle"])
def test_damaged_files_are_reported(damage, tmp_path):
    path = tmp_path / "Heterophilous" / "actor.npz"
    path.parent.mkdir()
    if damage == "torn":
        path.write_bytes(b"torn")
    elif damage == "key":
        np.savez(path, node_features=np.eye(4))
    else:  # objects could execute code when they are read
        np.savez(path, **arrays(node_labels=np.array([print] * NODES, dtype=object)))
    message = f"`{path.parent}` must contain actor as it was published, but reading it failed:"
    with pytest.raises(InputError, match=re.escape(message)):
        load("actor", root=tmp_path)


def test_files_are_downloaded_once(tmp_path, monkeypatch):
    addresses = []

    def download(url, folder):
        addresses.append(url)
        write(Path(folder), url.rpartition("/")[2])

    monkeypatch.setattr("torch_geometric.data.download_url", download)
    assert load("squirrel").num_nodes == load("squirrel").num_nodes == NODES
    assert addresses == [f"{HETEROPHILOUS_URL}/squirrel_filtered.npz"]
    kept = tmp_path / "cache" / "lggd" / "Heterophilous"
    assert [path.name for path in kept.iterdir()] == ["squirrel_filtered.npz"]


def test_a_failed_download_names_the_remedy(tmp_path, monkeypatch):
    def fail(url, folder):
        raise OSError("no network")

    monkeypatch.setattr("torch_geometric.data.download_url", fail)
    folder = tmp_path / "cache" / "lggd" / "Heterophilous"
    message = (
        f"Downloading `actor` failed: no network. Connect to a network, or put into {folder}: actor.npz. "
        "They may also be in DIR/Heterophilous; then set LGGD_DATA=DIR."
    )
    with pytest.raises(ConnectionError, match=re.escape(message)):
        load("actor")


@needs_real_data
@pytest.mark.parametrize("name", FACTS)
def test_the_published_graphs(name):
    if not (REAL_DATA / "Heterophilous" / FILES[name]).is_file():
        pytest.skip(f"{FILES[name]} is not in {REAL_DATA / 'Heterophilous'}")
    nodes, edges, features, train = FACTS[name]
    data = load(name, root=REAL_DATA)
    assert (data.num_nodes, data.num_edges, data.num_features) == (nodes, 2 * edges, features)
    assert data.is_undirected()
    for mask in (data.train_mask, data.val_mask):
        assert torch.bincount(data.y[mask]).tolist() == train
    ends = data.y[data.edge_index]
    if name != "tolokers" and name != "minesweeper":  # where one class has four fifths of the nodes
        assert float((ends[0] == ends[1]).float().mean()) < 0.25
