"""Datasets by name: three that come with the libraries we stand on, and the five of the paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from lggd.data.raw_files import RawDataset
from lggd.data.splits import by_count, by_share, check_whole
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.validation import suggestion

if TYPE_CHECKING:
    from torch_geometric.data import Data

PAPER = {
    "cora": RawDataset("Planetoid", "Cora"),
    "citeseer": RawDataset("Planetoid", "CiteSeer"),
    "pubmed": RawDataset("Planetoid", "PubMed"),
    "computers": RawDataset("Amazon", "Computers"),
    "photo": RawDataset("Amazon", "Photo"),
}
LABELS_PER_CLASS = 5
NEIGHBOURS = 10
TRAIN_AND_VALIDATION = (0.025, 0.025)
NEW_LABELS = (0.1, 0.1, 0.1)
MOONS, MOON_NOISE, MOON_SEED = 500, 0.1, 0


def load(
    name: str,
    *,
    split: int = 0,
    labels_per_class: int | None = None,
    dynamic: bool = False,
    root: str | Path | None = None,
) -> Data:
    """A dataset as a PyG `Data`: `x` `[N, F]`, an undirected `edge_index` `[2, E]`, `y` `[N]`, and masks bool `[N]`.

    `split` numbers the random split: the same number gives the same nodes, everywhere.

    `"digits"`, `"moons"` and `"karate"` need no files. `labels_per_class` nodes of every class (5 unless you say
    otherwise) are in `train_mask`, all others in `test_mask`. There is no `val_mask`. Digits and moons are points,
    each joined to its 10 nearest; their `x` has columns of mean 0 and deviation 1, and moons has the points themselves
    in `pos`. Karate's nodes have nothing but their number for `x`.

    `"cora"`, `"citeseer"`, `"pubmed"`, `"computers"` and `"photo"` are the paper's, with its split: of every class
    2.5 % in `train_mask`, 2.5 % in `val_mask`, the rest in `test_mask`. With `dynamic=True` three times 10 % leave the
    test nodes for the columns of `new_mask` `[N, 3]`: labels that arrive later, in three steps.
    Their files are read from the folder `root`, or the one that the environment variable LGGD_DATA names, laid out as
    PyG does (`Planetoid/Cora/raw/ind.cora.x`, `Amazon/Photo/raw/amazon_electronics_photo.npz`). Nothing is written
    there. Without either they are downloaded once, to `lggd` in the user's cache folder. Planetoid's files are
    pickles, which can run code: name only folders that you trust.

    `data.name` and `data.num_classes` say what it is, `data.class_names` what its classes are called, where known.

    >>> data = load("digits", labels_per_class=3)
    >>> data.num_nodes, data.num_classes, int(data.train_mask.sum())
    (1797, 10, 30)
    """
    key = _check_name(name)
    seed = check_whole(split, "split", least=0)
    if key in PAPER:
        if labels_per_class is not None:
            raise InputError(
                "labels_per_class",
                f"be left out for {key}",
                f"{labels_per_class}: the paper's datasets have 2.5 % of every class",
                f"It is for {', '.join(EMBEDDED)}.",
            )
        data = _split_as_the_paper(_read(PAPER[key], root), seed, dynamic)
    else:
        if dynamic:
            raise InputError("dynamic", f"be False for {key}", remedy=f"Labels arrive later in {', '.join(PAPER)}.")
        data = EMBEDDED[key]()
        count = LABELS_PER_CLASS if labels_per_class is None else labels_per_class
        count = check_whole(count, "labels_per_class", least=1)
        smallest = int(data.y.bincount().min())
        if count >= smallest:
            raise InputError(
                "labels_per_class",
                f"be below {smallest}, the size of the smallest class of {key}",
                count,
                "Leave some nodes to test on.",
            )
        data.train_mask, data.test_mask = by_count(data.y, count, seed)
    data.name = key
    data.num_classes = int(data.y.max()) + 1
    return data


def _check_name(name: str) -> str:
    key = name.lower() if isinstance(name, str) else name
    if key not in DATASETS:
        close = suggestion(str(name), DATASETS)
        raise ValueError(f"`name` must be one of {', '.join(DATASETS)}, got {name!r}. {close}".rstrip())
    return key


def _read(raw: RawDataset, root: str | Path | None) -> Data:
    from torch_geometric.data import Data

    read = raw.read(root)
    graph = Graph.from_edges(read.edge_index, num_nodes=len(read.y), symmetrize="max")
    return Data(x=read.x, edge_index=graph.edge_index, y=read.y)


def _split_as_the_paper(data: Data, seed: int, dynamic: bool) -> Data:
    shares = TRAIN_AND_VALIDATION + NEW_LABELS * dynamic
    data.train_mask, data.val_mask, *new, data.test_mask = by_share(data.y, shares, seed)
    if dynamic:
        data.new_mask = torch.stack(new, dim=1)
    return data


# -- embedded -------------------------------------------------------------------------------------------------------


def _digits() -> Data:
    from sklearn.datasets import load_digits

    found = load_digits()
    data, _ = _points(found.data, found.target)
    data.class_names = [str(digit) for digit in range(10)]
    return data


def _moons() -> Data:
    from sklearn.datasets import make_moons

    data, places = _points(*make_moons(MOONS, noise=MOON_NOISE, random_state=MOON_SEED))
    data.pos = places
    return data


def _points(points: np.ndarray, labels: np.ndarray) -> tuple[Data, Tensor]:
    """Neighbouring points joined, and the points; what networks see of them has no unit and no origin."""
    from torch_geometric.data import Data

    places = torch.from_numpy(points.astype(np.float32))
    graph = Graph.from_points(places, k=NEIGHBOURS)
    spread = places.std(0, unbiased=False)
    x = (places - places.mean(0)) / torch.where(spread > 0, spread, 1.0)
    return Data(x=x, edge_index=graph.edge_index, y=torch.from_numpy(labels.astype(np.int64))), places


def _karate() -> Data:
    import networkx as nx
    from torch_geometric.data import Data

    club = nx.karate_club_graph()
    class_names = ["Mr. Hi", "Officer"]
    y: Tensor = torch.tensor([class_names.index(side) for _, side in club.nodes(data="club")])
    graph = Graph.from_networkx(club, weight="")  # no attribute is called that: how often two met is left out
    data = Data(x=torch.eye(len(y)), edge_index=graph.edge_index, y=y)
    data.class_names = class_names
    return data


EMBEDDED: dict[str, Callable[[], Data]] = {"digits": _digits, "moons": _moons, "karate": _karate}
# What `load` knows by name.
DATASETS = (*EMBEDDED, *PAPER)
