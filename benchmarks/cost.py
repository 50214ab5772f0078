"""`python -m benchmarks.cost`: the cost model of docs/scaling.md, evaluated: time, memory, network and machines.

Nothing is measured here. Rates come from results/disk.json and, in a random order, results/cluster.json, halos from
results/halo.json; machines and prices are assumptions that are printed with the table. Writes results/cost.md.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from benchmarks.record import RESULTS

COLUMNS, DEGREE, BYTES = 4, 20, 4
# An evolution with ρ = 1/degree takes one RK4 step a unit of time: 5 steps of 4 evaluations to the default times.
EVALUATIONS = 20
# States of an RK4 step: the state, three starts of stages, and the start by node.
STATES = 5
# Those that results/disk.json was measured on.
CORES = 2


@dataclass(frozen=True)
class Machine:
    """What is assumed of a machine: cores, memory in GiB, network in GB/s, and its price in $ an hour."""

    cores: int = 32
    memory: float = 128
    network: float = 1.25
    price: float = 1.5


def random_halo(blocks: int, degree: float = DEGREE) -> float:
    """Values of a column sent per node, in a random order: a block with E/B edges reads N (1 − exp(−d/B)) nodes."""
    return (blocks - 1) * (1 - math.exp(-degree / blocks))


def evaluation(edges: float, blocks: int, halo: float, rate: float, machine: Machine) -> tuple[float, float]:
    """Seconds of computing and of sending in an evaluation; `rate` is edges/s of a core with K columns."""
    nodes = edges / DEGREE
    computing = edges / (blocks * machine.cores * rate)
    sending = halo * nodes * COLUMNS * BYTES / (blocks * machine.network * 1e9)
    return computing, sending if blocks > 1 else 0.0


def memory(edges: float, blocks: int, halo: float) -> float:
    """GiB of a machine: local neighbours, states with their halos, and while it starts five bytes for each node."""
    nodes = edges / DEGREE
    rows = 4 * edges / blocks + 8 * nodes / blocks
    states = STATES * BYTES * COLUMNS * (1 + halo) * nodes / blocks
    return (rows + max(states, 5 * nodes)) / 2**30


def fewest_machines(edges: float, machine: Machine, halo_of: object) -> int:
    """The smallest power of two of machines whose memory suffices."""
    blocks = 1
    while memory(edges, blocks, halo_of(blocks)) > 0.8 * machine.memory:
        blocks *= 2
    return blocks


def simulated(rows: list[dict[str, object]], graph: str, order: str) -> dict[int, float]:
    return {row["blocks"]: row["halo_per_node"] for row in rows if (row["graph"], row["order"]) == (graph, order)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, help="edges/s of one core; by default from results/disk.json")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    machine = Machine()
    rows = json.loads((RESULTS / "halo.json").read_text())["rows"]
    near = {1: 0.0} | simulated(rows, "communities", "as built")
    rate = chosen.rate or measured_rate()
    random_rate = chosen.rate or measured_random_rate()
    lines = [
        "# What large graphs take\n\nComputed by `python -m benchmarks.cost`, not measured: the model in "
        f"docs/scaling.md with {rate / 1e6:.1f} M edges/s a core at K = {COLUMNS}, p = 1, where neighbours lie close, "
        f"{random_rate / 1e6:.1f} M in a random order, {DEGREE} edges a node, "
        f"and machines with {machine.cores} cores, {machine.memory:g} GiB, {machine.network:g} GB/s of network "
        f"at an assumed ${machine.price:g} an hour. Cores are assumed to scale, which this does not check.\n",
        "| edges | order | machines | GiB each | halo values a node | computing | sending | "
        f"{EVALUATIONS} evaluations | price |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for exponent in (9, 10, 11):
        edges = 10.0**exponent
        for order, halo_of, own_rate in (
            ("random", lambda blocks: random_halo(blocks) if blocks > 1 else 0.0, random_rate),
            ("communities kept together", lambda blocks: near[blocks], rate),
        ):
            blocks = fewest_machines(edges, machine, halo_of)
            computing, sending = evaluation(edges, blocks, halo_of(blocks), own_rate, machine)
            seconds = EVALUATIONS * (computing + sending)
            cost = seconds / 3600 * blocks * machine.price
            cells = [f"10^{exponent}", order, f"{blocks}", f"{memory(edges, blocks, halo_of(blocks)):.0f}"]
            cells += [f"{halo_of(blocks):.2f}", f"{computing:.2f} s", f"{sending:.2f} s"]
            cells += [f"{seconds:.0f} s", f"${cost:.2f}"]
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Halo of a random order, values a node: the formula beside the simulation of results/halo.md.\n"]
    lines += ["| blocks | (B − 1)(1 − exp(−d/B)) | plane | communities | power law |", "|---|---|---|---|---|"]
    found = [simulated(rows, graph, "random") for graph in ("plane", "communities", "power law")]
    for blocks in found[0]:
        cells = [f"{blocks}", f"{random_halo(blocks):.2f}", *(f"{each[blocks]:.2f}" for each in found)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Computing on two cores: the model, with the rate of the largest graph, beside results/disk.md.\n"]
    lines += ["| edges | model | measured | measured / model |", "|---|---|---|---|"]
    for edges, seconds in measured():
        model = edges / (CORES * rate)
        lines.append(f"| {edges:,} | {model:.3f} s | {seconds:.3f} s | {seconds / model:.2f} |")
    (chosen.out / "cost.md").write_text("\n".join(lines) + "\n")


def measured() -> list[tuple[int, float]]:
    """Edges, and median seconds of an evaluation on two cores, from results/disk.json."""
    rows = json.loads((RESULTS / "disk.json").read_text())["rows"]
    return [(row["edges"], statistics.median(row["seconds"])) for row in rows]


def measured_rate() -> float:
    """Edges/s of a core on the largest graph."""
    edges, seconds = measured()[-1]
    return edges / seconds / CORES


def measured_random_rate() -> float:
    """Edges/s of a core on a graph in a random order."""
    found = json.loads((RESULTS / "cluster.json").read_text())["rates"]["random order"]
    return float(found["one_process_edges_per_second"]) / CORES


if __name__ == "__main__":
    main()
