"""Learning on a graph on disk of the size of ogbn-products: learn, predict, add labels; time, memory and accuracy.

    python -m benchmarks.disk_learning GRAPH TRUTH [--build-seconds S] [--out FOLDER]

GRAPH is a folder that `lggd graph build` wrote in S seconds, TRUTH a table (id, label) with the class of every node.
Writes results/disk-learning.{json,md}. Label propagation on the same graph, with the same labels and few or many
iterations, is what to compare with.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import lggd
from benchmarks.disk import resident
from benchmarks.record import RESULTS, Run, machine
from lggd.app.tables.output_files import write_predictions
from lggd.baselines import LabelPropagation
from lggd.datasets.pyg_data import names_of

NEW_LABELS = 10_000
# Iterations of label propagation; the better of both accuracies counts.
ITERATIONS = (3, 20)
# Targets: minutes in all, GiB resident, seconds for new labels.
MINUTES, GIBIBYTES, SECONDS = 15, 10, 10


class Stages:
    """Times each stage, by the clock and of the processor, and watches its largest resident set."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def run(self, name: str, stage: Callable[[], Any]) -> Any:
        peak, finished = [resident("VmRSS")], threading.Event()

        def watch() -> None:
            while not finished.wait(0.05):
                peak[0] = max(peak[0], resident("VmRSS"))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        began, processor = time.perf_counter(), time.process_time()
        result = stage()
        row = {
            "stage": name, "seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - processor,
            "peak_gib": peak[0] / 1024,
        }  # fmt: skip
        finished.set()
        watcher.join()
        row["peak_gib"] = peak[0] / 1024
        self.rows.append(row)
        print(row, flush=True)
        return result


def classes_of(graph: Path, truth: Path) -> torch.Tensor:
    """The class of every node, in the order of the graph."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet

    table = parquet.read_table(truth)
    ids = lggd.Graph.open(graph, verify=False).stored.ids()  # type: ignore[union-attr]
    keys = table["id"].combine_chunks()
    place = pc.index_in(pa.array(range(len(keys)), keys.type) if ids is None else ids.cast(keys.type), keys)
    return torch.from_numpy(table["label"].combine_chunks().take(place).to_numpy().astype("int64"))


def measure(graph: Path, truth: Path) -> dict[str, Any]:
    y, stages = classes_of(graph, truth), Stages()
    data = stages.run("open, with checksums", lambda: lggd.load(graph))
    labels = data.y.clone()
    hidden = (labels < 0).nonzero().squeeze(1)
    names = [str(name) for name in (data.get("class_names") or range(data.num_classes))]
    number = torch.tensor([names.index(str(k)) for k in range(int(y.max()) + 1)])
    y = number[y]
    if not torch.equal(labels[labels >= 0], y[labels >= 0]):
        raise RuntimeError("the labels of the graph differ from the true classes, so accuracy cannot be measured")

    def share_right(predicted: torch.Tensor, nodes: torch.Tensor) -> float:
        return 100 * float((predicted[nodes] == y[nodes]).float().mean())

    def accuracy(model: Any, nodes: torch.Tensor) -> float:
        return share_right(model.predict(), nodes)

    model = stages.run("learn", lambda: lggd.KernelRidge.large().fit(data))
    found = {"accuracy": accuracy(model, hidden), "kernels": [str(kernel) for kernel in model.kernels_]}
    found |= {"ridge": model.ridge_, "loss": model.loss_}
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/predictions.parquet"
        known = names_of(data), names
        stages.run("predict and write", lambda: write_predictions(out, *known, model.predict_proba(), model.labels_))
        stages.run("save", lambda: model.save(f"{folder}/model"))
    order = hidden[torch.randperm(len(hidden), generator=torch.Generator().manual_seed(0))]
    new, rest = order[:NEW_LABELS], order[NEW_LABELS:]
    found["accuracy_before"] = accuracy(model, rest)
    stages.run(f"add {NEW_LABELS:,} labels and predict", lambda: model.add_labels(new, y[new]).predict())
    found["accuracy_after"] = accuracy(model, rest)
    model = None
    data.y = labels
    spread = []
    for iterations in ITERATIONS:
        rival = LabelPropagation(iterations=iterations).fit(data)
        predicted = stages.run(f"label propagation, {iterations} iterations", rival.predict)
        spread.append(share_right(predicted, hidden))
    found["label_propagation"] = spread
    nodes, edges = data.num_nodes, data.graph.num_edges
    return {"nodes": nodes, "edges": edges, "labels": int((labels >= 0).sum()), **found, "stages": stages.rows}


def page(record: dict[str, Any]) -> str:
    about, own = record["machine"], record["stages"][: -len(ITERATIONS)]
    lines = [
        "# Learning on a graph on disk", "",
        f"{record['nodes']:,} nodes, {record['edges']:,} directed edges, {record['labels']:,} labels; synthetic, as",
        f"`benchmarks/products.py` writes it. Measured {record['date']} by `python -m benchmarks.disk_learning` on",
        f"{about['cores']} cores ({about['cpu']}); load average {record['load']:.1f} when it began.", "",
        "| stage | seconds | of the processor | peak resident |", "|---|---|---|---|",
    ]  # fmt: skip
    if record["build_seconds"]:
        lines.append(f"| `lggd graph build` | {record['build_seconds']:.1f} | | |")
    lines += [
        f"| {row['stage']} | {row['seconds']:.1f} | {row['processor_seconds']:.1f} | {row['peak_gib']:.1f} GiB |"
        for row in record["stages"]
    ]
    total = (record["build_seconds"] + sum(row["seconds"] for row in own)) / 60
    peak, spread = max(row["peak_gib"] for row in own), record["label_propagation"]
    added = next(row for row in own if row["stage"].startswith("add"))["seconds"]
    lines += [
        "", "| what | measured | target |", "|---|---|---|",
        f"| minutes, {'import included' if record['build_seconds'] else 'without the import'} | {total:.1f} "
        f"| {MINUTES} |",
        f"| peak resident memory | {peak:.1f} GiB | {GIBIBYTES} GiB |",
        f"| new labels, predictions included | {added:.1f} s | {SECONDS} s |",
        f"| accuracy on {record['nodes'] - record['labels']:,} unlabelled nodes | {record['accuracy']:.2f} % "
        f"| above label propagation, {max(spread):.2f} % |",
        f"| with {NEW_LABELS:,} more labels, on the others | {record['accuracy_before']:.2f} % → "
        f"{record['accuracy_after']:.2f} % | |",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--build-seconds", type=float, default=0.0, help="what `lggd graph build` took")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    about = machine(Run(quick=False, device=torch.device("cpu")))
    found = measure(given.graph, given.truth)
    about_run = {"date": datetime.date.today().isoformat(), "machine": about, "load": load}
    record = {**about_run, "build_seconds": given.build_seconds, **found}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "disk-learning.json").write_text(json.dumps(record, indent=1) + "\n")
    (given.out / "disk-learning.md").write_text(page(record))


if __name__ == "__main__":
    main()
