"""Odd tables, read row by row in memory and by DuckDB for the disk: the same graph, or the same error."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lggd
from lggd.app.tables.building import build_graph
from lggd.app.tables.graph_files import read_graph_files
from lggd.errors import InputError
from support.stored_edges import edges_by_id, node_ids

TABLES = 200
IDS = (
    [str(k) for k in range(12)], [f"n{k}" for k in range(12)], ["New York", "São Paulo", "Rio", "x  y", "Zürich"],
    ["007", "7", "1.0", "-3", "+3", "1e5", "٣"], ["it's", 'say "hi"', '"quoted"', "a,b", "c;d", "NA", "-1"],
    [str(10**12 * k) for k in range(5)],
)  # fmt: skip
CELLS = {
    "number": ["1", "2.5", "-3e2", ".5", "5.", "0", "+1"], "truth": ["true", "False", "TRUE", "0"],
    "category": ["red", "blue", "very dark", "a;b"], "odd number": ["1_000", "0x1F", "+-1", "nan", "inf", "٣"],
    "date": ["2024-01-02", "2024-03-04"], "gaps": ["1", "", "NA", "2"], "comma": ["0,5", "12,25", "1,5"],
}  # fmt: skip
WEIGHTS = ["1", "0.5", "0.25", " 1e-3 ", ".125"]


def write(rng: random.Random, path: Path, header: list[str] | None, rows: list[list[str]]) -> Path:
    """Writes a table in a random dialect."""
    delimiter = rng.choice([",", ",", ";", "\t", "|"])
    quote = rng.choice([False, False, True])
    space = rng.choice(["", "", " "])

    def cell(text: str) -> str:
        special = quote or '"' in text or delimiter in text
        return space + ('"' + text.replace('"', '""') + '"' if special else text)

    lines = [delimiter.join(map(cell, row)) for row in ([header] if header else []) + rows]
    if rng.random() < 0.1:
        lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(["", delimiter, "a"]))
    if rng.random() < 0.08 and header:
        lines.append(lines[0])
    if rng.random() < 0.1:
        lines.insert(0, f"sep={delimiter}")
    path = path.with_suffix(".csv")
    end = rng.choice(["\n", "\n", "\r\n"])
    path.write_bytes((rng.choice(["", "", "\ufeff"]) + end.join(lines) + rng.choice(["", end])).encode())
    return path


def write_blanks(rng: random.Random, path: Path, rows: list[list[str]]) -> Path:
    """Writes lines separated by blanks, after comments."""
    path = path.with_suffix(".txt")
    blank = rng.choice([" ", "\t", "  ", " \t"])
    lines = rng.choice([[], ["# a comment", ""]]) + [blank.join(row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_tables(rng: random.Random, folder: Path) -> tuple[Path, Path]:
    ids = rng.choice(IDS)
    edges = [[rng.choice(ids), rng.choice(ids), rng.choice(WEIGHTS)] for _ in range(rng.randint(1, 12))]
    kinds = rng.choices([*CELLS], weights=[8, 2, 2, 0.5, 0.5, 1, 0.7], k=rng.randint(0, 2))
    if rng.random() < 0.08:
        edges[-1][2] = rng.choice(["", "0", "-1", "heavy", "0,5", "1_0", "nan", "1e-60", "1,000"])
    if rng.random() < 0.05:
        edges[-1][1] = rng.choice(["", "nobody"])
    if rng.random() < 0.1:
        for edge in edges:
            edge[2] = edge[2].strip().replace(".", ",")
    names = [f"f{k}" for k in range(len(kinds))]
    nodes = [
        [id, *(rng.choice(CELLS[kind]) for kind in kinds), rng.choice(["red", "blue", "", "NA"])]
        for id in rng.sample(ids, len(ids))
    ]
    nodes[0][-1], nodes[1][-1] = "red", "blue"
    if rng.random() < 0.05:
        nodes[-1][0] = rng.choice(["", nodes[0][0]])
    width = rng.choice([2, 3, 3])
    edges = [row[:width] for row in edges]
    header = ["source", "target", "weight"][:width]
    if rng.random() < 0.2:
        frames = pd.DataFrame(edges, columns=header), pd.DataFrame(nodes, columns=["id", *names, "kind"])
        if width == 3:
            frames[0]["weight"] = pd.to_numeric(frames[0]["weight"], errors="coerce")
        ends = [cell for row in [*edges, *([row[0], row[0]] for row in nodes)] for cell in row[:2]]
        if rng.random() < 0.5 and all(id.isdecimal() and id.isascii() for id in ends):
            kind = rng.choice(["int64", "float64"])
            frames = tuple(f.astype({k: kind for k in f.columns if k in ("source", "target", "id")}) for f in frames)
        elif rng.random() < 0.5:
            frames = tuple(frame.astype({frame.columns[0]: "category"}) for frame in frames)
        paths = folder / "edges.parquet", folder / "nodes.parquet"
        for frame, path in zip(frames, paths, strict=True):
            frame.to_parquet(path, index=False)
        return paths
    blanks = rng.random() < 0.15 and not any(" " in id or '"' in id for id in ids)
    plain = write_blanks(rng, folder / "edges", edges) if blanks else None
    has_header = rng.random() < 0.8
    return (
        plain or write(rng, folder / "edges", header if has_header else None, edges),
        write(rng, folder / "nodes", ["id", *names, "kind"], nodes),
    )


def by_memory(edges: Path, nodes: Path) -> dict[str, object]:
    graph = read_graph_files(edges, nodes, label="kind")
    data, ids = graph.data, graph.ids
    weight = getattr(data, "edge_weight", None)
    weights = [1.0] * data.num_edges if weight is None else weight.tolist()
    return {
        "ids": ids, "classes": graph.classes, "names": graph.feature_names, "y": data.y.tolist(),
        "x": None if data.x is None else data.x.tolist(),
        "edges": {(ids[i], ids[j]): w for (i, j), w in zip(data.edge_index.T.tolist(), weights, strict=True)},
    }  # fmt: skip


def by_disk(edges: Path, nodes: Path) -> dict[str, object]:
    out = edges.parent / "graph"
    built = build_graph(edges, out, nodes=nodes, label="kind", unbounded=True)
    stored, ids = lggd.Graph.open(out).stored, [str(id) for id in node_ids(out)]
    return {
        "ids": ids, "classes": built.metadata["classes"], "names": built.metadata["feature_names"],
        "y": stored.y.tolist(), "x": None if stored.x is None else stored.x.tolist(),
        "edges": {(str(i), str(j)): weight for (i, j), weight in edges_by_id(out).items()},
    }  # fmt: skip


def answer(read, *arguments) -> dict[str, object] | str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(*arguments)
    except InputError as error:
        return str(error)


def compare(seed: int, folder: Path) -> str:
    """Raises unless both ways agree; returns whether they read the table."""
    rng = random.Random(seed)
    edges, nodes = write_tables(rng, folder)
    memory, disk = (answer(read, edges, nodes) for read in (by_memory, by_disk))
    both_read = isinstance(memory, dict) and isinstance(disk, dict)
    texts = edges.read_bytes() + b"\n" + nodes.read_bytes()
    if both_read and np.shape(memory["x"]) == np.shape(disk["x"]):
        memory["x"] = disk["x"] if np.array_equal(memory["x"], disk["x"]) else memory["x"]
    assert memory == disk, f"seed {seed}: {texts!r}\n{memory}\n{disk}"
    for path in folder.glob("*.*"):
        path.unlink()
    return "read" if both_read else "refused"


@pytest.mark.parametrize("part", range(4))
def test_odd_tables_are_read_alike_in_memory_and_on_disk(part, tmp_path):
    outcomes = [compare(seed, tmp_path) for seed in range(part, TABLES, 4)]
    assert outcomes.count("read") > TABLES / 16
    assert "refused" in outcomes
