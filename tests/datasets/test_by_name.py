"""Datasets by name: what they hold, how they are split, where their files are looked for. Nothing is downloaded."""

import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits

from lggd import Graph
from lggd.datasets.by_name import DATASETS, RawDataset, load, split_fingerprint
from lggd.errors import InputFileError
from support.real_data import REAL_DATA, needs_real_data

EMBEDDED = ("digits", "moons", "karate")
CORA_FILES = [f"ind.cora.{part}" for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")]
# Nodes, directed edges, features, classes, labels of the training set, components and isolated nodes.
FACTS = {
    "cora": (2708, 10556, 1433, 7, [8, 5, 10, 20, 10, 7, 4], 78, 0),
    "citeseer": (3327, 9104, 3703, 6, [6, 14, 16, 17, 14, 12], 438, 48),
    "pubmed": (19717, 88648, 500, 3, [102, 193, 196], 1, 0),
    "computers": (13752, 491722, 767, 10, [10, 53, 35, 13, 128, 7, 12, 20, 53, 7], 314, 281),
    "photo": (7650, 238162, 745, 8, [9, 42, 17, 22, 22, 20, 48, 8], 136, 115),
}


@pytest.fixture(autouse=True)
def _nobody_named_a_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("LGGD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def labels(data, mask):
    return torch.bincount(data.y[mask], minlength=data.num_classes).tolist()


def check_undirected(data):
    assert data.edge_index.dtype == torch.int64
    assert data.is_undirected()
    assert data.is_coalesced()
    assert not data.has_self_loops()


def check_parts(data, *masks):
    assert all(mask.dtype == torch.bool and mask.shape == (data.num_nodes,) for mask in masks)
    assert bool((torch.stack(masks).sum(0) == 1).all())


def same(first, second):
    one, two = first.to_dict(), second.to_dict()
    return one.keys() == two.keys() and all(
        torch.equal(one[key], two[key]) if isinstance(one[key], torch.Tensor) else one[key] == two[key] for key in one
    )


# -- embedded -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "nodes", "features", "classes"), [("digits", 1797, 64, 10), ("moons", 500, 2, 2), ("karate", 34, 34, 2)]
)
def test_embedded_datasets(name, nodes, features, classes):
    data = load(name)
    assert data.name == name
    assert (data.num_nodes, data.num_features, data.num_classes) == (nodes, features, classes)
    assert (data.x.dtype, data.y.dtype) == (torch.float32, torch.int64)
    assert labels(data, data.train_mask) == [5] * classes
    check_undirected(data)
    check_parts(data, data.train_mask, data.test_mask)
    assert "val_mask" not in data
    assert same(data, load(name))


def test_digits_are_a_neighbour_graph_of_pixels():
    data = load("digits", labels_per_class=2, split=3)
    assert data.class_names == list("0123456789")
    pixels = torch.from_numpy(load_digits().data)
    assert torch.allclose(data.x.mean(0), torch.zeros(64), atol=1e-5)
    assert torch.allclose(data.x.std(0, unbiased=False), (pixels.std(0) > 0).float(), atol=1e-5)
    assert torch.equal(data.edge_index, Graph.from_points(pixels.float(), k=10).edge_index)
    assert "edge_weight" not in data
    assert labels(data, data.train_mask) == [2] * 10


def test_moons_keep_their_coordinates():
    data = load("moons")
    assert torch.allclose((data.pos - data.pos.mean(0)) / data.pos.std(0, unbiased=False), data.x, atol=1e-5)
    assert "class_names" not in data
    assert torch.equal(load("moons", split=1).x, data.x)


def test_karate_is_the_club_without_weights():
    data = load("Karate", labels_per_class=1)
    assert data.class_names == ["Mr. Hi", "Officer"]
    assert data.y[[0, 33]].tolist() == [0, 1]
    assert torch.equal(data.x, torch.eye(34))
    assert data.num_edges == 156
    assert "edge_weight" not in data
    assert int(data.train_mask.sum()) == 2


@pytest.mark.parametrize("name", EMBEDDED)
def test_split_depends_on_its_number_only(name):
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    prints = [split_fingerprint(load(name, split=split)) for split in range(3)]
    assert len(set(prints)) == 3
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    torch.manual_seed(5)
    assert split_fingerprint(load(name, split=np.int64(2))) == prints[2]


# -- mistakes -------------------------------------------------------------------------------------------------------


def rejected(message, name, kind=ValueError, **options):
    with pytest.raises(kind, match=re.escape(message)):
        load(name, **options)


def test_unknown_names_suggest_known_ones():
    paper, others = "cora, citeseer, pubmed, computers, photo", "actor, chameleon, squirrel, tolokers, minesweeper"
    known = f"`name` must be one of digits, moons, karate, {paper}, {others}, got"
    assert ", ".join(DATASETS) == f"digits, moons, karate, {paper}, {others}"
    rejected(f"{known} 'pubmde'. Did you mean 'pubmed'?", "pubmde")
    rejected(f"{known} 'Digit'. Did you mean 'digits'?", "Digit")
    rejected(f"{known} 'zzz'.", "zzz")
    rejected(f"{known} None.", None)


def test_options_that_do_not_apply():
    rejected("`dynamic` must be False for digits. It applies to cora, citeseer, pubmed", "digits", dynamic=True)
    rejected("`labels_per_class` must be omitted for cora, got 5: datasets from files", "cora", labels_per_class=5)
    rejected(
        "`labels_per_class` must be below 17, the size of the smallest class of karate", "karate", labels_per_class=17
    )
    rejected("`labels_per_class` must be a whole number from 1, got 0.", "moons", labels_per_class=0)
    rejected("`labels_per_class` must be a whole number from 1, got 2.5.", "moons", labels_per_class=2.5)
    for split in (-1, 0.5, True, "0", None):
        rejected(f"`split` must be a whole number from 0, got {split!r}.", "moons", split=split)


# -- files of the paper's datasets ----------------------------------------------------------------------------------


def small_photo(folder, nodes=120):
    """A file of the right form: two rings with a chord, a self-loop, arrows one way only."""
    folder.mkdir(parents=True)
    ring = np.arange(nodes)
    rows, columns = np.append(ring, 3), np.append((ring + 1) % nodes, 3)
    adjacency = sp.csr_matrix((np.ones(nodes + 1), (rows, columns)), shape=(nodes, nodes))
    features = sp.csr_matrix(np.eye(nodes, 4) * 2)
    parts = {}
    for name, matrix in (("adj", adjacency), ("attr", features)):
        parts |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(folder / "amazon_electronics_photo.npz", labels=ring % 2, **parts)
    return folder


@pytest.mark.parametrize("layout", ["Amazon/Photo/raw", "Photo/raw"])
@pytest.mark.parametrize("named_by", ["root", "variable"])
def test_files_are_read_from_a_named_folder(tmp_path, monkeypatch, capfd, layout, named_by):
    small_photo(tmp_path / layout)
    if named_by == "variable":
        monkeypatch.setenv("LGGD_DATA", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        data = load("photo", root=tmp_path if named_by == "root" else None)
    assert (data.name, data.num_nodes, data.num_classes, data.num_edges) == ("photo", 120, 2, 240)
    check_undirected(data)
    check_parts(data, data.train_mask, data.val_mask, data.test_mask)
    assert labels(data, data.train_mask) == labels(data, data.val_mask) == [1, 1]
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "cache").exists()


def test_root_takes_precedence_over_the_variable(tmp_path, monkeypatch):
    small_photo(tmp_path / "a/Photo/raw", nodes=120)
    small_photo(tmp_path / "b/Photo/raw", nodes=160)
    monkeypatch.setenv("LGGD_DATA", str(tmp_path / "a"))
    assert load("photo", root=str(tmp_path / "b")).num_nodes == 160
    monkeypatch.setenv("LGGD_DATA", "")
    small_photo(tmp_path / "cache/lggd/Amazon/Photo/raw", nodes=200)
    assert load("photo").num_nodes == 200


def test_missing_files_are_listed(tmp_path, monkeypatch):
    every = ", ".join(CORA_FILES)
    raw = tmp_path / "Planetoid" / "Cora" / "raw"
    message = f"`root` must be a folder that contains Cora, got {tmp_path}. Put into {raw}: {every}."
    rejected(message, "cora", InputFileError, root=tmp_path)
    monkeypatch.setenv("LGGD_DATA", str(tmp_path))
    rejected(message.replace("root", "LGGD_DATA", 1), "cora", InputFileError)
    halfway = tmp_path / "Cora" / "raw"
    halfway.mkdir(parents=True)
    for name in CORA_FILES[:-2]:
        (halfway / name).touch()
    rejected(f"Put into {halfway}: ind.cora.graph, ind.cora.test.index.", "cora", InputFileError)


@pytest.mark.parametrize("name", ["cora", "photo"])
def test_damaged_files_are_reported(tmp_path, name):
    raw = RawDataset("Planetoid", "Cora") if name == "cora" else RawDataset("Amazon", "Photo")
    folder = tmp_path / raw.title / "raw"
    folder.mkdir(parents=True)
    for file in raw.files:
        (folder / file).write_bytes(b"torn")
    rejected(f"`{folder}` must contain {raw.title} as it was published, but reading it failed:", name, root=tmp_path)


class FakeDownload:
    """PyG's class as far as it matters: it fills a folder, or fails halfway, and talks too much."""

    failure = None

    def __init__(self, root, name):
        print("Downloading")  # noqa: T201
        warnings.warn("something", UserWarning, stacklevel=2)
        small_photo(Path(root) / name / "raw")
        if self.failure is not None:
            raise self.failure


def test_files_are_downloaded_once(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("torch_geometric.datasets.Amazon", FakeDownload)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert load("photo").num_nodes == 120
    kept = tmp_path / "cache" / "lggd" / "Amazon" / "Photo"
    assert [path.name for path in kept.rglob("*")] == ["raw", "amazon_electronics_photo.npz"]
    monkeypatch.setattr("torch_geometric.datasets.Amazon", None)
    assert load("photo").num_nodes == 120
    assert capfd.readouterr() == ("", "")


def test_failed_download_names_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(FakeDownload, "failure", OSError("Name or service not known"))
    monkeypatch.setattr("torch_geometric.datasets.Amazon", FakeDownload)
    folder = tmp_path / "cache" / "lggd" / "Amazon" / "Photo" / "raw"
    rejected(
        "Downloading `Photo` failed: Name or service not known. Connect to a network, or put into "
        f"{folder}: amazon_electronics_photo.npz. They may also be in DIR/Amazon/Photo/raw; then set LGGD_DATA=DIR.",
        "photo",
        ConnectionError,
    )
    assert [path for path in folder.parent.rglob("*") if path.is_file()] == []


def test_default_cache_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    small_photo(tmp_path / ".cache/lggd/Amazon/Photo/raw", nodes=80)
    assert load("photo").num_nodes == 80


# -- the real ones --------------------------------------------------------------------------------------------------


@needs_real_data
@pytest.mark.parametrize("name", FACTS)
def test_the_papers_datasets(name):
    nodes, edges, features, classes, train, components, isolated = FACTS[name]
    data = load(name, root=REAL_DATA)
    assert (data.num_nodes, data.num_edges, data.num_features, data.num_classes) == (nodes, edges, features, classes)
    assert (data.x.dtype, data.y.dtype) == (torch.float32, torch.int64)
    check_undirected(data)
    check_parts(data, data.train_mask, data.val_mask, data.test_mask)
    assert labels(data, data.train_mask) == labels(data, data.val_mask) == train
    graph = Graph.from_pyg(data)
    assert int(graph.components.max()) + 1 == components
    assert int((graph.degree == 0).sum()) == isolated


@needs_real_data
def test_labels_that_arrive_later():
    sizes = torch.tensor([351, 217, 418, 818, 426, 298, 180])
    prints = set()
    for split in range(3):
        plain, dynamic = (load("cora", split=split, dynamic=later, root=REAL_DATA) for later in (False, True))
        assert dynamic.new_mask.shape == (2708, 3)
        check_parts(dynamic, dynamic.train_mask, dynamic.val_mask, *dynamic.new_mask.T, dynamic.test_mask)
        assert torch.equal(plain.train_mask, dynamic.train_mask)
        assert torch.equal(plain.val_mask, dynamic.val_mask)
        for step in range(3):
            assert labels(dynamic, dynamic.new_mask[:, step]) == (sizes // 10).tolist()
        assert "new_mask" not in plain
        prints |= {split_fingerprint(plain), split_fingerprint(dynamic)}
    assert len(prints) == 6


@needs_real_data
def test_cora_has_64_labels_in_every_split():
    for split in range(10):
        data = load("cora", split=split, root=REAL_DATA)
        assert (int(data.train_mask.sum()), int(data.val_mask.sum())) == (64, 64)


@needs_real_data
def test_read_only_folder(tmp_path, capfd):
    source = next(place for place in (REAL_DATA / "Planetoid/Cora/raw", REAL_DATA / "Cora/raw") if place.is_dir())
    raw = tmp_path / "Cora" / "raw"
    shutil.copytree(source, raw)
    folders = (raw, raw.parent, tmp_path)
    for folder in folders:
        folder.chmod(0o555)
    try:
        data = load("cora", root=tmp_path)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert same(data, load("cora", root=REAL_DATA))
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == sorted(
        path.name for path in source.iterdir()
    )
    assert capfd.readouterr() == ("", "")
