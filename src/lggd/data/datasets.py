"""Datasets by name: three that need no files, the five datasets of the paper, and five heterophilous graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from lggd.data.raw_files import HETEROPHILOUS as FAMILY
from lggd.data.raw_files import RawDataset
from lggd.data.splits import by_count, by_fraction
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.validation import check_int, check_name

if TYPE_CHECKING:
    from torch_geometric.data import Data

PAPER = {
    "cora": RawDataset("Planetoid", "Cora"),
    "citeseer": RawDataset("Planetoid", "CiteSeer"),
    "pubmed": RawDataset("Planetoid", "PubMed"),
    "computers": RawDataset("Amazon", "Computers"),
    "photo": RawDataset("Amazon", "Photo"),
}
# Most edges join nodes of different classes. Chameleon and squirrel are without their duplicate nodes.
HETEROPHILOUS = {
    "actor": RawDataset(FAMILY, "actor"),
    "chameleon": RawDataset(FAMILY, "chameleon_filtered"),
    "squirrel": RawDataset(FAMILY, "squirrel_filtered"),
    "tolokers": RawDataset(FAMILY, "tolokers"),
    "minesweeper": RawDataset(FAMILY, "minesweeper"),
}
FROM_FILES = PAPER | HETEROPHILOUS
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
    """Load a dataset by name.

    Parameters
    ----------
    name : str
        `"digits"`, `"moons"` or `"karate"`, which need no files; one of the paper's datasets, `"cora"`, `"citeseer"`,
        `"pubmed"`, `"computers"` or `"photo"`; or a heterophilous graph, `"actor"`, `"chameleon"`, `"squirrel"`,
        `"tolokers"` or `"minesweeper"`. Case does not matter.
    split : int, default=0
        Number of the random split. The same number selects the same nodes on every machine.
    labels_per_class : int, optional
        Training nodes per class, 5 by default. Not for datasets from files, which have 2.5 % of every class in
        `train_mask`, 2.5 % in `val_mask` and the rest in `test_mask`.
    dynamic : bool, default=False
        Only for datasets from files: move three times 10 % of every class from the test nodes to the columns of
        `new_mask` `[N, 3]`, for experiments that add labels in three steps.
    root : str or Path, optional
        Folder of datasets in PyG's layout (`Planetoid/Cora/raw/ind.cora.x`,
        `Amazon/Photo/raw/amazon_electronics_photo.npz`), with heterophilous graphs in `Heterophilous` (`actor.npz`,
        `chameleon_filtered.npz`). It is only read. The default is the environment variable LGGD_DATA; if it is not
        set, files are downloaded once to `lggd` in the user's cache folder.
        Planetoid's files are pickles, which can execute code: use only folders that you trust.

    Returns
    -------
    Data
        PyG data with `x` `[N, F]`, an undirected `edge_index` `[2, E]`, `y` `[N]`, masks bool `[N]`, `name`,
        `num_classes` and, where known, `class_names`. Without files there is no `val_mask`. Digits and moons are
        points, each connected to its 10 nearest neighbours; their `x` is standardized, and moons has the points in
        `pos`. Karate's `x` is the identity matrix.

    Raises
    ------
    InputError
        If the name is unknown, an option does not apply to the dataset, or a file is missing or damaged.
    ConnectionError
        If a download fails.

    Examples
    --------
    >>> data = load("digits", labels_per_class=3)
    >>> data.num_nodes, data.num_classes, int(data.train_mask.sum())
    (1797, 10, 30)
    """
    key = name.lower() if isinstance(name, str) and name.lower() in DATASETS else name
    check_name("name", key, DATASETS)
    seed = check_int("split", split, minimum=0)
    if key in FROM_FILES:
        if labels_per_class is not None:
            value = f"{labels_per_class}: datasets from files have 2.5 % of every class"
            remedy = f"It applies to {', '.join(EMBEDDED)}."
            raise InputError("labels_per_class", f"be omitted for {key}", value, remedy)
        data = _load_files(FROM_FILES[key], root, seed, dynamic)
    else:
        if dynamic:
            raise InputError("dynamic", f"be False for {key}", remedy=f"It applies to {', '.join(FROM_FILES)}.")
        data = EMBEDDED[key]()
        count = LABELS_PER_CLASS if labels_per_class is None else labels_per_class
        count = check_int("labels_per_class", count, minimum=1)
        smallest = int(data.y.bincount().min())
        if count >= smallest:
            rule = f"be below {smallest}, the size of the smallest class of {key}"
            raise InputError("labels_per_class", rule, count, "Leave some nodes to test on.")
        data.train_mask, data.test_mask = by_count(data.y, count, seed)
    data.name = key
    data.num_classes = int(data.y.max()) + 1
    return data


def _load_files(raw: RawDataset, root: str | Path | None, seed: int, dynamic: bool) -> Data:
    from torch_geometric.data import Data

    read = raw.read(root)
    graph = Graph.from_edges(read.edge_index, num_nodes=len(read.y), symmetrize="max")
    data = Data(x=read.x, edge_index=graph.edge_index, y=read.y)
    fractions = TRAIN_AND_VALIDATION + NEW_LABELS * dynamic
    data.train_mask, data.val_mask, *new, data.test_mask = by_fraction(data.y, fractions, seed)
    if dynamic:
        data.new_mask = torch.stack(new, dim=1)
    return data


def _digits() -> Data:
    from sklearn.datasets import load_digits

    digits = load_digits()
    data, _ = _points(digits.data, digits.target)
    data.class_names = [str(digit) for digit in range(10)]
    return data


def _moons() -> Data:
    from sklearn.datasets import make_moons

    data, pos = _points(*make_moons(MOONS, noise=MOON_NOISE, random_state=MOON_SEED))
    data.pos = pos
    return data


def _points(points: np.ndarray, labels: np.ndarray) -> tuple[Data, Tensor]:
    """Returns the neighbour graph of points with standardized features, and the points."""
    from torch_geometric.data import Data

    pos = torch.from_numpy(points.astype(np.float32))
    graph = Graph.from_points(pos, k=NEIGHBOURS)
    deviation = pos.std(0, unbiased=False)
    x = (pos - pos.mean(0)) / torch.where(deviation > 0, deviation, 1.0)
    return Data(x=x, edge_index=graph.edge_index, y=torch.from_numpy(labels.astype(np.int64))), pos


def _karate() -> Data:
    import networkx as nx
    from torch_geometric.data import Data

    club = nx.karate_club_graph()
    class_names = ["Mr. Hi", "Officer"]
    y: Tensor = torch.tensor([class_names.index(side) for _, side in club.nodes(data="club")])
    graph = Graph.from_networkx(club, weight="")  # no attribute has this name: edges are unweighted
    data = Data(x=torch.eye(len(y)), edge_index=graph.edge_index, y=y)
    data.class_names = class_names
    return data


EMBEDDED: dict[str, Callable[[], Data]] = {"digits": _digits, "moons": _moons, "karate": _karate}
DATASETS = (*EMBEDDED, *FROM_FILES)
