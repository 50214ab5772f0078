"""Datasets by name, and random splits of nodes, stratified by class, with their fingerprint.

Three datasets need no files; the others are the five of the paper and five heterophilous graphs.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lggd._system.files import reading
from lggd.datasets.pyg_data import load_stored
from lggd.errors import InputError, InputFileError
from lggd.graph import Graph
from lggd.graph.stored_graph import is_stored_graph
from lggd.validation import check_int, check_name, read_seed

if TYPE_CHECKING:
    from torch_geometric.data import Data

# Environment variable with the folder of datasets.
FOLDER_VARIABLE = "LGGD_DATA"
PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
# A family of datasets with one file each, published by Platonov et al. (2023).
HETEROPHILOUS = "Heterophilous"
HETEROPHILOUS_URL = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
LABELS_PER_CLASS = 5
NEIGHBOURS = 10
TRAIN_AND_VALIDATION = (0.025, 0.025)
NEW_LABELS = (0.1, 0.1, 0.1)
Root = str | Path | None
MOONS, MOON_NOISE, MOON_SEED = 500, 0.1, 0
# The masks that define a split.
MASKS = ("train_mask", "val_mask", "new_mask", "test_mask")
FINGERPRINT_LENGTH = 12


@dataclass(frozen=True)
class RawDataset:
    """A dataset by the names of its class and folder in PyG, or by its file in the family `HETEROPHILOUS`."""

    family: str
    title: str

    @property
    def files(self) -> list[str]:
        if self.family == "Planetoid":
            return [f"ind.{self.title.lower()}.{part}" for part in PLANETOID_PARTS]
        if self.family == HETEROPHILOUS:
            return [f"{self.title}.npz"]
        return [f"amazon_electronics_{self.title.lower()}.npz"]

    @property
    def folder(self) -> Path:
        """Where its files are in a folder of datasets."""
        return Path(HETEROPHILOUS) if self.family == HETEROPHILOUS else Path(self.family, self.title, "raw")

    def missing(self, folder: Path) -> list[str]:
        return [name for name in self.files if not (folder / name).is_file()]

    def read(self, root: Root) -> Data:
        """Reads x, edge_index and y with PyG from `root`, $LGGD_DATA, or a cache folder, downloading files if needed.

        `root` and $LGGD_DATA are only read, never downloaded to. The files of Planetoid are pickles, which can execute
        code: use only folders that you trust.
        """
        folder = self._find(root)
        from torch_geometric.io import read_npz, read_planetoid_data

        rule, remedy = f"contain {self.title} as it was published", "Download the files again."
        with reading(folder, rule, Exception, remedy=remedy), silence():  # a truncated pickle may raise anything
            if self.family == "Planetoid":
                return read_planetoid_data(str(folder), self.title)
            path = folder / self.files[0]
            return _read_heterophilous(path) if self.family == HETEROPHILOUS else read_npz(str(path))

    def _find(self, root: Root) -> Path:
        named = root or os.environ.get(FOLDER_VARIABLE)
        if not named:
            return self._cached()
        base = Path(named).expanduser()
        folders = [base / self.folder, base.joinpath(*self.folder.parts[1:])]
        complete = [folder for folder in folders if not self.missing(folder)]
        if complete:
            return complete[0]
        folder = next((folder for folder in folders if folder.is_dir() and folder != base), folders[0])
        remedy = f"Put into {folder}: {', '.join(self.missing(folder))}."
        rule = f"be a folder that contains {self.title}"
        raise InputFileError("root" if root else FOLDER_VARIABLE, rule, base, remedy)

    def _cached(self) -> Path:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lggd"
        folder = cache / self.folder
        if self.missing(folder):
            try:
                self._download(folder)
            except Exception as error:  # PyG's downloads fail in many ways
                raise ConnectionError(
                    f"Downloading `{self.title}` failed: {error or type(error).__name__}. "
                    f"Connect to a network, or put into {folder}: {', '.join(self.files)}. "
                    f"They may also be in DIR/{self.folder.as_posix()}; then set {FOLDER_VARIABLE}=DIR."
                ) from error
        return folder

    def _download(self, folder: Path) -> None:
        """Downloads to a temporary folder first, so that a partial download is never read as a dataset."""
        import torch_geometric.datasets

        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as temporary, silence():
            downloaded = Path(temporary)
            if self.family == HETEROPHILOUS:
                torch_geometric.data.download_url(f"{HETEROPHILOUS_URL}/{self.files[0]}", temporary)
            else:
                getattr(torch_geometric.datasets, self.family)(temporary, self.title)
                downloaded /= f"{self.title}/raw"
            for name in self.files:
                (downloaded / name).replace(folder / name)


def _read_heterophilous(path: Path) -> Data:
    from torch_geometric.data import Data
    from torch_geometric.utils import remove_self_loops

    with np.load(path) as arrays:
        x, y, edges = (torch.from_numpy(arrays[name]) for name in ("node_features", "node_labels", "edges"))
    return Data(x=x.float(), edge_index=remove_self_loops(edges.t().long())[0], y=y.long())


@contextmanager
def silence() -> Iterator[None]:
    """Hides PyG's output, and warnings that users cannot act on."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


PAPER = {
    "cora": RawDataset("Planetoid", "Cora"),
    "citeseer": RawDataset("Planetoid", "CiteSeer"),
    "pubmed": RawDataset("Planetoid", "PubMed"),
    "computers": RawDataset("Amazon", "Computers"),
    "photo": RawDataset("Amazon", "Photo"),
}
# Most edges join nodes of different classes. Chameleon and squirrel are without their duplicate nodes.
LOW_HOMOPHILY = {
    "actor": RawDataset(HETEROPHILOUS, "actor"),
    "chameleon": RawDataset(HETEROPHILOUS, "chameleon_filtered"),
    "squirrel": RawDataset(HETEROPHILOUS, "squirrel_filtered"),
    "tolokers": RawDataset(HETEROPHILOUS, "tolokers"),
    "minesweeper": RawDataset(HETEROPHILOUS, "minesweeper"),
}
FROM_FILES = PAPER | LOW_HOMOPHILY


def load(
    name: str | Path, *, split: int = 0, labels_per_class: int | None = None, dynamic: bool = False, root: Root = None
) -> Data:
    """Load a dataset by name, or a graph from a folder.

    Parameters
    ----------
    name : str or Path
        The folder of a graph on disk, written by `lggd graph build` or `Graph.save`. Or the name of a dataset:
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
        `pos`. Karate's `x` is the identity matrix. Data of a graph on disk have the opened `graph` instead of
        `edge_index`, and `x` and `y` as stored, read where they are used; all labels of `y` are for training. Models
        in closed form, `GGD` and label propagation take them as they are, others need
        `data.edge_index = data.graph.edge_index`.

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
    if isinstance(name, str | Path) and Path(name).is_dir() and is_stored_graph(name):
        more = {"split": split or None, "labels_per_class": labels_per_class, "dynamic": dynamic or None, "root": root}
        for option, value in more.items():
            if value is not None:
                raise InputError(option, "be omitted for a graph on disk", value, "It applies to datasets by name.")
        return load_stored(name)
    key = name.lower() if isinstance(name, str) and name.lower() in DATASETS else name
    check_name("name", key, DATASETS)
    key = str(key)
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
        given = LABELS_PER_CLASS if labels_per_class is None else labels_per_class
        count = check_int("labels_per_class", given, minimum=1)
        smallest = int(data.y.bincount().min())
        if count >= smallest:
            rule = f"be below {smallest}, the size of the smallest class of {key}"
            raise InputError("labels_per_class", rule, count, "Leave some nodes to test on.")
        data.train_mask, data.test_mask = split_by_count(data.y, count, seed)
    data.name = key
    data.num_classes = int(data.y.max()) + 1
    return data


def _load_files(raw: RawDataset, root: Root, seed: int, dynamic: bool) -> Data:
    from torch_geometric.data import Data

    read = raw.read(root)
    graph = Graph.from_edges(read.edge_index, num_nodes=len(read.y), symmetrize="max")
    data = Data(x=read.x, edge_index=graph.edge_index, y=read.y)
    fractions = TRAIN_AND_VALIDATION + NEW_LABELS * dynamic
    data.train_mask, data.val_mask, *new, data.test_mask = split_by_fraction(data.y, fractions, seed)
    if dynamic:
        data.new_mask = torch.stack(new, dim=1)
    return data


def _digits() -> Data:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return _points(digits.data, digits.target, class_names=[str(digit) for digit in range(10)])


def _moons() -> Data:
    from sklearn.datasets import make_moons

    points, labels = make_moons(MOONS, noise=MOON_NOISE, random_state=MOON_SEED)
    return _points(points, labels, pos=torch.from_numpy(points.astype(np.float32)))


def _points(points: np.ndarray, labels: np.ndarray, **more: Any) -> Data:
    """The neighbour graph of points with standardized features."""
    from torch_geometric.data import Data

    pos = torch.from_numpy(points.astype(np.float32))
    graph = Graph.from_points(pos, k=NEIGHBOURS)
    deviation = pos.std(0, unbiased=False)
    x = (pos - pos.mean(0)) / torch.where(deviation > 0, deviation, 1.0)
    return Data(x=x, edge_index=graph.edge_index, y=torch.from_numpy(labels.astype(np.int64)), **more)


def _karate() -> Data:
    import networkx as nx
    from torch_geometric.data import Data

    club = nx.karate_club_graph()
    class_names = ["Mr. Hi", "Officer"]
    y = torch.tensor([class_names.index(side) for _, side in club.nodes(data="club")])
    graph = Graph.from_networkx(club, weight=None)
    return Data(x=torch.eye(len(y)), edge_index=graph.edge_index, y=y, class_names=class_names)


EMBEDDED: dict[str, Callable[[], Data]] = {"digits": _digits, "moons": _moons, "karate": _karate}
DATASETS = (*EMBEDDED, *FROM_FILES)


def split_by_fraction(y: Tensor, fractions: Sequence[float], seed: int) -> list[Tensor]:
    """Splits every class by `fractions`; returns one mask bool `[N]` per fraction, and one for the remaining nodes.

    The n nodes of a class are shuffled; the first ⌊fraction · n⌋ (at least one) are the first part, and so on. Further
    fractions therefore do not change the parts before them. Nodes with a negative `y` are in no part.

    >>> train, validation, test = split_by_fraction(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]), (0.25, 0.25), seed=0)
    >>> train.sum().item(), validation.sum().item(), test.sum().item()
    (2, 2, 4)
    """
    exact = [Fraction(str(fraction)) for fraction in fractions]  # 0.29 of 100 is 29, but 0.29 * 100 < 29
    if not all(0 < fraction < 1 for fraction in exact) or sum(exact) >= 1:
        raise InputError("fractions", "be positive and sum to less than 1", tuple(fractions), "Omit the remainder.")
    masks = _empty_masks(y, len(fractions) + 1)
    for label, members in _shuffled_classes(y, seed):
        sizes = [max(1, math.floor(fraction * len(members))) for fraction in exact]
        if sum(sizes) > len(members):
            value = f"{len(members)} of class {label} for {len(sizes)} fractions"
            rule, remedy = "have a node of every class for every fraction", "Use fewer fractions, or remove the class."
            raise InputError("y", rule, value, remedy)
        parts = torch.split(members, [*sizes, len(members) - sum(sizes)])
        for mask, part in zip(masks, parts, strict=True):
            mask[part] = True
    return [mask.to(y.device) for mask in masks]


def split_by_count(y: Tensor, per_class: int, seed: int) -> list[Tensor]:
    """Draws `per_class` nodes of every class; returns their mask and that of the remaining nodes, bool `[N]`.

    Nodes with a negative `y` are unlabelled and in neither.

    >>> train, test = split_by_count(torch.tensor([0, 0, 0, 1, 1, 1]), 1, seed=0)
    >>> train.sum().item(), test.sum().item()
    (2, 4)
    """
    per_class = check_int("per_class", per_class, minimum=1)
    masks = _empty_masks(y, 2)
    for label, members in _shuffled_classes(y, seed):
        if len(members) < per_class:
            raise InputError("per_class", f"be at most {len(members)}, the size of class {label}", per_class)
        masks[0][members[:per_class]] = True
        masks[1][members[per_class:]] = True
    return [mask.to(y.device) for mask in masks]


def split_fingerprint(data: Data) -> str:
    """Returns a hash of the masks of a PyG Data, twelve hexadecimal digits, to record the split of a result."""
    masks = {name: mask for name in MASKS if (mask := getattr(data, name, None)) is not None}
    if not masks:
        raise InputError("data", f"have one of {', '.join(MASKS)}", "none", "Split it first.")
    digest = hashlib.sha256()
    for name, mask in masks.items():
        digest.update(f"{name}{tuple(mask.shape)}".encode())
        digest.update(np.packbits(mask.detach().cpu().numpy().astype(bool)).tobytes())
    return digest.hexdigest()[:FINGERPRINT_LENGTH]


def _empty_masks(y: Tensor, count: int) -> list[Tensor]:
    if y.dim() != 1 or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise InputError("y", "be the class of each node, integers [N]", f"{y.dtype} {list(y.shape)}")
    return [torch.zeros(len(y), dtype=torch.bool) for _ in range(count)]


def _shuffled_classes(y: Tensor, seed: int) -> Iterator[tuple[int, Tensor]]:
    """Yields each class with its nodes in random order."""
    generator = torch.Generator().manual_seed(read_seed(check_int("seed", seed, minimum=0)))
    labels = y.detach().cpu()
    for label in sorted(set(labels[labels >= 0].tolist())):
        members = (labels == label).nonzero().flatten()
        yield label, members[torch.randperm(len(members), generator=generator)]
