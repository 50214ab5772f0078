"""`python -m benchmarks.studio [PART …] [--runs 5] [--out FOLDER]`: the label studio, into results/studio.md.

active: from nothing, 50 labels from the studio's queue beside 50 random ones; the accuracy (%) after every label, on
the nodes that neither way has labelled. latency: from a key press in a real browser until every node has its new
colour, 50 times. load, kill, requests: the service, see studio_service.py. All are kept in results/studio.json; the
page contains what was measured last.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

import lggd
from benchmarks.record import DOCS, RESULTS, Run, machine
from benchmarks.studio_service import measure_kill, measure_load, measure_requests, service_lines
from lggd.app.runs.run_input import RunInput
from lggd.app.studio.session import GROWTH, Session
from lggd.app.studio.snapshot import active_classes, compact_labels, first_nodes
from lggd.app.studio.studio_graph import StudioGraph

PARTS = ("active", "latency", "load", "kill", "requests")
DATASETS, LABELS, CLICKS = ("digits", "cora"), 50, 50
BARS = {"digits": 150.0, "pubmed": 500.0}
GAIN = 2.0
CELLS = [(n, way) for n in (20, 30, LABELS) for way in ("random", "queue")]
# From a key press to the frame after the one in which the map was drawn with the predictions of the new revision.
CLICK = """([key, revision]) => new Promise((done) => {
  const root = document.documentElement, began = performance.now();
  const watch = new MutationObserver(() => {
    if (Number(root.dataset.revision) <= revision) return;
    watch.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
  });
  watch.observe(root, { attributes: true });
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
})"""


# -- labels from the queue beside random ones ---------------------------------------------------------------------


def labelled_by(graph: StudioGraph, queue: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The labels at the end `[N]`, and predictions after each label `[50, N]`, -1 before there are any.

    Settings are those that the studio would have chosen by then.
    """
    draws, truth = np.random.default_rng(seed), graph.truth
    labels, order = np.full(graph.num_nodes, -1), draws.permutation(graph.num_nodes)
    # The queue itself is deterministic: runs differ in the node that somebody happens to label first.
    labels[order[0]] = truth[order[0]]
    model: lggd.KernelRidge | None = None
    chosen_with, chosen_for, found = 0, active_classes(labels), list[np.ndarray]()
    while True:
        active, count = active_classes(labels), int((labels >= 0).sum())
        if len(active) >= 2:
            compact = compact_labels(labels, active)
            if model is None:
                model = fitted(graph, compact, seed)
            elif count >= GROWTH * chosen_with or not np.array_equal(active, chosen_for):
                model = model.reselected(compact)
            else:
                model = model.with_labels(compact)
                count = chosen_with
            chosen_with, chosen_for = count, active
        found.append(np.full(len(labels), -1) if model is None else active[model.predict().numpy()])
        if len(found) == LABELS:
            return labels, np.stack(found)
        node = next_node(graph, model, labels) if queue else next(k for k in order if labels[k] < 0)
        labels[node] = truth[node]


def fitted(graph: StudioGraph, labels: torch.Tensor, seed: int) -> lggd.KernelRidge:
    data = graph.data.clone()
    data.y = labels
    return lggd.KernelRidge(growth=math.inf, seed=seed).fit(data)


def next_node(graph: StudioGraph, model: lggd.KernelRidge | None, labels: np.ndarray) -> int:
    if model is not None:
        return int(model.suggest(1)[0])
    order = first_nodes(graph)
    return int(order[labels[order] < 0][0])


def measure_active(runs: int) -> dict[str, Any]:
    """The curves of all runs by dataset and way, computed in as many processes as there are cores."""
    jobs = [(name, run) for name in DATASETS for run in range(runs)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        pairs = list(processes.map(both_curves, jobs))
    found: dict[str, Any] = {name: {"queue": [], "random": []} for name in DATASETS}
    for (name, _), pair in zip(jobs, pairs, strict=True):
        for way, one in pair.items():
            found[name][way].append(one)
    return found


def both_curves(job: tuple[str, int]) -> dict[str, list[float | None]]:
    """The accuracy (%) after each label, on the nodes that neither way has labelled: the queue labels hard ones."""
    torch.set_num_threads(1)
    name, run = job
    graph = StudioGraph.from_run_input(RunInput.from_dataset(name), unlabelled=True)
    ways = {way: labelled_by(graph, way == "queue", run) for way in ("queue", "random")}
    rest = np.logical_and.reduce([labels < 0 for labels, _ in ways.values()])
    right = {way: (predicted == graph.truth)[:, rest] for way, (_, predicted) in ways.items()}
    found = {way: np.where(predicted[:, :1] < 0, np.nan, right[way]) for way, (_, predicted) in ways.items()}
    return {way: [_percent(row) for row in rows] for way, rows in found.items()}


def _percent(right: np.ndarray) -> float | None:
    return None if np.isnan(right).any() else round(100 * float(right.mean()), 3)


# -- from a key press to new colours ------------------------------------------------------------------------------


def measure_latency(name: str) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    from lggd.app.studio.security import Access
    from lggd.app.studio.server import StudioServer

    graph = StudioGraph.from_run_input(RunInput.from_dataset(name))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        session = Session(graph, graph.open_store(Path(folder) / "labels.sqlite"))
        with StudioServer(session, Access(port=0)) as server:
            options = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
            try:
                return clicks(browser.new_page(viewport={"width": 1280, "height": 900}), server, graph)
            finally:
                browser.close()


def clicks(page: Any, server: Any, graph: StudioGraph) -> dict[str, Any]:
    """Labels nodes at random, each with its true class by its key."""
    settled(server.session)
    page.goto(server.url)
    page.wait_for_selector("#queue li", timeout=120_000)
    keys = page.eval_on_selector_all(
        "#classes [data-class]", "all => all.map((b) => b.getAttribute('aria-keyshortcuts'))"
    )
    whole, solves = list[float](), list[float]()
    for wanted in np.random.default_rng(0).permutation(graph.num_nodes).tolist():
        page.fill("#map-search", graph.ids[wanted])
        page.press("#map-search", "Enter")
        page.wait_for_timeout(100)
        page.mouse.click(*middle(page))  # the node itself, or one that lies above it
        page.wait_for_selector("#node strong")
        page.wait_for_timeout(300)  # a person looks at the node; cards of the last change are loaded
        settled(server.session)
        node = graph.numbers[page.inner_text("#node strong").removeprefix("node ")]
        if server.session.snapshot.labels[node] >= 0:
            continue
        whole.append(page.evaluate(CLICK, [keys[graph.truth[node]], server.session.snapshot.revision]))
        solves.append(server.session.snapshot.milliseconds)
        if len(whole) == CLICKS:
            break
    median = statistics.median
    return {
        "clicks": len(whole), "median": round(median(whole), 1), "p90": round(float(np.quantile(whole, 0.9)), 1),
        "solve": round(median(solves), 1),
    }  # fmt: skip


def middle(page: Any) -> tuple[float, float]:
    box = page.locator("#map").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def settled(session: Session) -> None:
    while session.snapshot.choosing:
        time.sleep(0.02)


# -- results ------------------------------------------------------------------------------------------------------


def page_of(found: dict[str, Any]) -> str:
    lines = ["# The label studio", "", "Measured by `python -m benchmarks.studio`.", ""]
    if found.get("active"):
        lines += [
            "## Labels from the queue beside random ones", "",
            "From nothing; accuracy (%) on the nodes that neither way has labelled, mean of runs; each starts with one "
            f"node at random. The aim: at least {GAIN:g} points ahead after {LABELS} labels.", "",
            "| dataset | runs | " + " | ".join(f"{way}, {n} labels" for n, way in CELLS) + " | ahead |",
            "|---" * 9 + "|",
        ]  # fmt: skip
        for name, ways in found["active"].items():
            means = [mean_at(ways[way], n) for n, way in CELLS]
            gain = means[-1] - means[-2]
            verdict = "met" if gain >= GAIN else "missed"
            lines.append(
                f"| {name} | {len(ways['queue'])} | "
                + " | ".join(f"{m:.1f}" for m in means)
                + f" | {gain:+.1f}: {verdict} |"
            )
        lines += ["", "![Accuracy by number of labels](../docs/studio-curves.png)", ""]
    if found.get("latency"):
        lines += [
            "## From a key press to every node's new colour", "",
            "In Chromium without a GPU, the service and the browser on the same machine; median and 90th percentile of "
            "clicks, milliseconds. `solve` is the part that solves for the label.", "",
            "| dataset | clicks | median | p90 | solve | bar | |", "|---" * 7 + "|",
        ]  # fmt: skip
        for name, row in found["latency"].items():
            verdict = "met" if row["median"] <= BARS[name] else "missed"
            cells = name, row["clicks"], row["median"], row["p90"], row["solve"], f"{BARS[name]:g}", verdict
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        lines.append("")
    lines += service_lines(found)
    if found.get("machine"):
        lines += [", ".join(f"{k} {v}" for k, v in found["machine"].items()), ""]
    return "\n".join(lines)


def mean_at(curves: list[list[float | None]], count: int) -> float:
    return statistics.mean(value for value in (one[count - 1] for one in curves) if value is not None)


def draw(active: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(active), figsize=(4.5 * len(active), 3.2), sharey=True, squeeze=False)
    for axis, (name, ways) in zip(axes[0], active.items(), strict=True):
        for way, colour in (("random", "#8a94a0"), ("queue", "#1f5fbf")):
            values = np.array([[np.nan if v is None else v for v in one] for one in ways[way]])
            counts = np.arange(1, LABELS + 1)
            for one in values:
                axis.plot(counts, one, color=colour, alpha=0.25, linewidth=0.8)
            shown = ~np.isnan(values).all(0)
            axis.plot(counts[shown], np.nanmean(values[:, shown], axis=0), color=colour, linewidth=2, label=way)
        axis.set(title=name, xlabel="labels", ylim=(0, 100))
        axis.legend(frameon=False, loc="lower right")
    axes[0][0].set_ylabel("accuracy (%)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studio", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    parts, record = chosen.parts or PARTS, chosen.out / "studio.json"
    chosen.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
    if "active" in parts:
        found["active"] = measure_active(chosen.runs)
        record.write_text(json.dumps(found) + "\n")
        draw(found["active"], (DOCS if chosen.out == RESULTS else chosen.out) / "studio-curves.png")
    if "latency" in parts:
        found["latency"] = {name: measure_latency(name) for name in BARS}
    service = {"load": measure_load, "kill": measure_kill, "requests": measure_requests}
    for part in [part for part in parts if part in service]:
        found[part] = service[part]()
        record.write_text(json.dumps(found) + "\n")
    found["machine"] = machine(Run(False, torch.device("cpu")))
    record.write_text(json.dumps(found) + "\n")
    (chosen.out / "studio.md").write_text(page_of(found))
    print(page_of(found))


if __name__ == "__main__":
    main()
