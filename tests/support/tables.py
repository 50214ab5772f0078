"""Tables of nodes and edges for tests of runs and commands."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import torch

from lggd.app.runs.run_input import RunInput

RING_IDS = [f"Zoë, {k}" if k % 5 == 0 else f"n{k}" for k in range(40)]
PATH_IDS = ["Åse", "Bo, jr.", "cy", "dee", "eva", "fay", "gil", "hal"]


def write_rows(path: Path, rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def two_rings(folder: Path) -> list[object]:
    """Writes two rings of twenty nodes, joined by one edge, half of the nodes labelled; returns the options."""
    half = len(RING_IDS) // 2
    generator = torch.Generator().manual_seed(0)
    edges: list[list[object]] = [["source", "target", "weight"]]
    for ring in (range(half), range(half, 2 * half)):
        for step in (1, 2, 3):
            others = {k: ring[(k - ring[0] + step) % half] for k in ring}
            edges += [[RING_IDS[k], RING_IDS[other], 4 if step == 1 else 2] for k, other in others.items()]
    write_rows(folder / "links.csv", [*edges, [RING_IDS[0], RING_IDS[-1], 1]])
    nodes: list[list[object]] = [["id", "kind", "height", "tall", "remark"]]
    for k, name in enumerate(RING_IDS):
        kind = ("blå" if k < half else "rød") if k % 2 else ""
        height = float(k < half) + torch.randn((), generator=generator).item()
        nodes.append([name, kind, f"{height:.4f}", height > 0, "hello"])
    write_rows(folder / "people.csv", nodes)
    return [
        "--edges", folder / "links.csv", "--nodes", folder / "people.csv", "--label", "kind", "--ignore", "remark",
    ]  # fmt: skip


def labelled_path(folder: Path) -> list[object]:
    """Writes a path of eight nodes without features whose ends are labelled; returns the options."""
    write_rows(folder / "edges.csv", [list(pair) for pair in itertools.pairwise(PATH_IDS)])
    ends = {"Åse": "left", "hal": "right"}
    write_rows(folder / "nodes.csv", [["name", "side"], *([name, ends.get(name, "")] for name in PATH_IDS)])
    return ["--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--label", "side"]


def path_input(
    folder: Path,
    labels: list[str],
    weights: str = "",
    split: list[str] | None = None,
    test_share: float = 0.3,
    number: int = 0,
) -> RunInput:
    """Returns a path of nodes with these labels, and with this text after each of its edges."""
    names = [f"v{k}" for k in range(len(labels))]
    (folder / "e.csv").write_text("".join(f"{a},{b}{weights}\n" for a, b in itertools.pairwise(names)))
    parts = ["" for _ in labels] if split is None else split
    rows = "".join(f"{row}\n" for row in map(",".join, zip(names, labels, parts, strict=True)))
    (folder / "n.csv").write_text("id,kind,part\n" + rows)
    columns = {"ignore": ("part",)} if split is None else {"split_column": "part"}
    return RunInput.from_tables(folder / "e.csv", folder / "n.csv", test_share, number, label="kind", **columns)
