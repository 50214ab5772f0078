"""lggd features: writes distances to the labelled nodes as a table of node features."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

from lggd.cli import options
from lggd.cli.options import file, option
from lggd.cli.terminal import Terminal, flags, summary
from lggd.errors import InputError

METHOD = "lggd solves for distances, lggd-trained trains networks on node features, ggd uses the graph alone."


@options.command(options.GRAPH_FLAGS | flags("method", "preset"))
def features_command(
    terminal: Terminal,
    graph: options.GraphOptions,
    method: Literal["lggd", "lggd-trained", "ggd"] = option("lggd", METHOD),
    preset: options.Preset = "default",
    seed: options.Seed = 0,
    device: options.Device = "auto",
    out: Path = file(Path("features.parquet"), "Output file: .parquet, .csv or .tsv."),
) -> None:
    """Write the distances from every node to the labelled nodes of each class, as features for your own models.

    The file has the column node, one column per class and time, such as
    "class red, t=1", and a column reachable: whether any label is reachable.
    All labels are used except those of test nodes.

    Example, which needs no files:

        lggd features digits --out digits.parquet

    Example with your own tables:

        lggd features --edges edges.csv --nodes nodes.csv --label kind --out features.csv
    """
    start = time.perf_counter()
    graph.check()
    with terminal.working("Loading lggd"):
        from lggd.data.output_files import check_table_writable, write_features
        from lggd.runs.methods import METHODS, build_model
        from lggd.runs.run import feature_names
    check_table_writable(out)
    chosen = options.chosen_device(device)
    with terminal.working(f"Reading {graph}"):
        run_input = graph.read(test_share=0, on_disk=True)
    terminal.node_names = run_input.ids
    if method == "lggd-trained" and not run_input.has_features:
        raise InputError("--method", "be lggd or ggd for nodes without features", method)
    features: Any = build_model(method, preset=preset, seed=seed).get_params()["features"]
    data = run_input.data.to(chosen)
    with terminal.training({"": METHODS[method].title}) as callback:
        features.fit(data, callback=lambda progress: callback("", progress))
    names = feature_names(features, run_input.classes)
    write_features(out, run_input.ids, names, features.features(data).cpu())
    facts: dict[str, Any] = {
        "dataset": run_input.name, "method": method, "seed": seed, "nodes": len(run_input.ids),
        "preset": preset if method == "lggd-trained" else None, "classes": run_input.classes,
        "labelled": int((features.labels_ >= 0).sum()), "features": names, "notes": list(run_input.notes),
        "seconds": time.perf_counter() - start, "out": str(out),
    }  # fmt: skip
    about = summary(
        graph=f"{run_input.name}: {len(run_input.ids):,} nodes, {len(run_input.classes)} classes",
        labels=f"{facts['labelled']:,}",
        features=f"{len(names):,}, such as {names[0]!r}",
        seconds=f"{facts['seconds']:.3g}",
    )
    terminal.answer(facts, [about, *run_input.notes, f"Wrote {out}"])
