"""A synthetic graph of the size of ogbn-products, in files: 2.4M nodes, 62M undirected edges, 100 features, 47 classes.

    python -m benchmarks.products FOLDER [--nodes N] [--seed S]

Classes consist of communities. A node's edges go to its community (28 %), its class (18 %) or anywhere, so that about
half of them join nodes of one class; degrees are skewed. Features are noisy: those of a class differ little, and those
of a community a little more. Ids are shuffled, so that neighbours do not lie close to each other in the files.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

NODES, FEATURES, CLASSES = 2_449_029, 100, 47
STUBS = 25.8  # edges that a node starts, on average; a few are merged because they repeat others
COMMUNITY, IN_COMMUNITY, IN_CLASS = 1000, 0.28, 0.18
CLASS_SIGNAL, COMMUNITY_SIGNAL = 0.15, 0.1
EDGES_AT_ONCE, NODES_AT_ONCE = 4_000_000, 100_000


@dataclass(frozen=True)
class ProductsLike:
    """The files: `edges` (source, target), `nodes` (id, x0 …, label or null) and `truth` (id, label of every node)."""

    edges: Path
    nodes: Path
    truth: Path


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Nodes in an order in which classes, and communities within them, are contiguous.

    `community` `[N]` is the community of each node; `starts` and `sizes` are of the communities, `class_of` the class
    of each, `class_starts` and `class_sizes` of the classes.
    """

    community: NDArray[np.int32]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    class_of: NDArray[np.int64]
    class_starts: NDArray[np.int64]
    class_sizes: NDArray[np.int64]


def write_products_like(
    folder: str | Path, nodes: int = NODES, seed: int = 0, *, features: int = FEATURES, classes: int = CLASSES,
    labelled: float = 0.08,
) -> ProductsLike:  # fmt: skip
    """Writes `edges.parquet`, `nodes.parquet` and `truth.parquet`, the same for the same arguments.

    `labelled` is the share of nodes whose label is in `nodes.parquet`; the others are null there.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = ProductsLike(folder / "edges.parquet", folder / "nodes.parquet", folder / "truth.parquet")
    random = np.random.default_rng(seed)
    blocks = _blocks(nodes, classes, random)
    ids = random.permutation(nodes).astype(np.int32)
    _write_edges(files.edges, blocks, ids, random)
    _write_nodes(files, blocks, ids, features, labelled, random)
    return files


def _blocks(nodes: int, classes: int, random: np.random.Generator) -> _Blocks:
    share = 1 / (1 + np.arange(classes)) ** 0.7  # a few large classes, many small ones
    class_sizes = np.maximum(1, np.floor(share / share.sum() * nodes).astype(np.int64))
    class_sizes[0] += nodes - class_sizes.sum()
    per_class = np.maximum(1, class_sizes // min(COMMUNITY, max(20, nodes // (4 * classes))))
    class_of = np.repeat(np.arange(classes), per_class)
    first = np.repeat(np.cumsum(class_sizes) - class_sizes, per_class)
    within = np.arange(len(class_of)) - np.repeat(np.cumsum(per_class) - per_class, per_class)
    starts = first + within * class_sizes[class_of] // per_class[class_of]
    sizes = np.diff(np.r_[starts, nodes])
    community = np.repeat(np.arange(len(starts), dtype=np.int32), sizes)
    return _Blocks(community, starts, sizes, class_of, np.cumsum(class_sizes) - class_sizes, class_sizes)


def _edges(blocks: _Blocks, random: np.random.Generator) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Sources and targets, in blocks of about `EDGES_AT_ONCE`."""
    nodes = len(blocks.community)
    stubs = np.minimum(random.lognormal(np.log(STUBS) - 0.5, 1.0, nodes), nodes / 4)
    count = np.floor(stubs + random.random(nodes)).astype(np.int64)
    ends = np.cumsum(count)
    cuts = np.searchsorted(ends, np.arange(EDGES_AT_ONCE, ends[-1] + EDGES_AT_ONCE, EDGES_AT_ONCE))
    for low, high in zip(np.r_[0, cuts[:-1]], np.minimum(cuts, nodes), strict=True):
        source = np.repeat(np.arange(low, high), count[low:high])
        kind, position = random.random(len(source), np.float32), random.random(len(source)) ** 1.5
        community = blocks.community[source]
        klass = blocks.class_of[community]
        inside, same = kind < IN_COMMUNITY, kind < IN_COMMUNITY + IN_CLASS
        start = np.where(inside, blocks.starts[community], np.where(same, blocks.class_starts[klass], 0))
        size = np.where(inside, blocks.sizes[community], np.where(same, blocks.class_sizes[klass], nodes))
        # Uniform over all nodes, but skewed within communities and classes: their first nodes are hubs.
        position = np.where(same, position, position ** (1 / 1.5))
        yield source, start + (position * size).astype(np.int64)


def _write_edges(path: Path, blocks: _Blocks, ids: NDArray[np.int32], random: np.random.Generator) -> None:
    schema = pa.schema({"source": pa.int32(), "target": pa.int32()})
    with parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for source, target in _edges(blocks, random):
            keep = source != target
            order = random.permutation(int(keep.sum()))
            columns = [ids[end[keep]][order] for end in (source, target)]
            writer.write_table(pa.table(columns, schema=schema))


def _write_nodes(
    files: ProductsLike, blocks: _Blocks, ids: NDArray[np.int32], features: int, labelled: float,
    random: np.random.Generator,
) -> None:  # fmt: skip
    node_of = np.argsort(ids)
    of_class = random.normal(0, CLASS_SIGNAL, (len(blocks.class_sizes), features)).astype(np.float32)
    of_community = random.normal(0, COMMUNITY_SIGNAL, (len(blocks.starts), features)).astype(np.float32)
    of_community += of_class[blocks.class_of]
    names = [f"x{k}" for k in range(features)]
    columns = {"id": pa.int32(), **dict.fromkeys(names, pa.float32()), "label": pa.int32()}
    known = pa.schema({"id": pa.int32(), "label": pa.int32()})
    with (
        parquet.ParquetWriter(files.nodes, pa.schema(columns), use_dictionary=False) as writer,
        parquet.ParquetWriter(files.truth, known) as truth,
    ):
        for low in range(0, len(ids), NODES_AT_ONCE):
            id = np.arange(low, min(low + NODES_AT_ONCE, len(ids)), dtype=np.int32)
            community = blocks.community[node_of[id]]
            x = of_community[community] + random.standard_normal((len(id), features), np.float32)
            y = blocks.class_of[community].astype(np.int32)
            label = pa.array(y, mask=random.random(len(id)) >= labelled)
            writer.write_table(pa.table([id, *np.ascontiguousarray(x.T), label], schema=pa.schema(columns)))
            truth.write_table(pa.table([id, y], schema=known))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(write_products_like(given.folder, given.nodes, given.seed))


if __name__ == "__main__":
    main()
