"""Many readers and some writers at once. LGGD_LOAD_SECONDS sets for how long; three seconds in an ordinary run."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path

import httpx
import numpy as np

import lggd
from lggd.estimator.fit_task import without_labels
from lggd.studio.security import Access
from lggd.studio.studio_graph import StudioGraph
from studio_cases import small_graph, small_studio

SECONDS = float(os.environ.get("LGGD_LOAD_SECONDS", "3"))
READERS, WRITERS = 50, 5
PAUSE = 0.1  # a person does not read more often
READS = ("predictions", "progress", "suspicious", "labels", "history", "nodes/{node}", "suggestions", "health")


def load_graph() -> StudioGraph:
    """Digits for a long run, because small graphs are no load; a small one otherwise."""
    if SECONDS < 30:
        return small_graph()
    data = lggd.load("digits")
    truth = data.y.numpy()
    labels = np.where(data.train_mask.numpy(), truth, -1)
    names = [str(k) for k in range(data.num_nodes)]
    return StudioGraph(
        "digits", without_labels(data), names, tuple(data.class_names), labels, truth, data.test_mask.numpy()
    )


def test_readers_and_writers_at_once(tmp_path: Path) -> None:
    graph = load_graph()
    acknowledged: list[dict[str, str]] = [{} for _ in range(WRITERS)]
    times: list[float] = []
    errors: list[str] = []
    with small_studio(tmp_path, graph, Access(port=0)) as server:
        end = time.monotonic() + SECONDS

        def read(seed: int) -> None:
            draws = random.Random(seed)
            with httpx.Client(base_url=server.url, timeout=30) as http:
                while time.monotonic() < end:
                    path = draws.choice(READS).format(node=draws.choice(graph.ids))
                    began = time.perf_counter()
                    answer = http.get(f"/api/{path}")
                    times.append(time.perf_counter() - began)
                    if answer.status_code != 200:
                        errors.append(f"{path}: {answer.status_code} {answer.text[:100]}")
                    time.sleep(draws.uniform(0, 2 * PAUSE))

        def write(number: int) -> None:
            draws = random.Random(number)
            with httpx.Client(base_url=server.url, timeout=30) as http:
                while time.monotonic() < end:
                    batch = {draws.choice(graph.ids[number::WRITERS]): draws.choice(graph.classes)}
                    body = {"labels": [{"node": node, "label": label} for node, label in batch.items()]}
                    answer = http.post("/api/labels", params={"author": str(number)}, json=body)
                    if answer.status_code == 200:
                        acknowledged[number].update(batch)
                    else:
                        errors.append(f"labels: {answer.status_code} {answer.text[:100]}")
                    time.sleep(draws.uniform(0, 2 * PAUSE))

        threads = [threading.Thread(target=read, args=(k,)) for k in range(READERS)]
        threads += [threading.Thread(target=write, args=(k,)) for k in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        present = {each["node"]: each["label"] for each in httpx.get(f"{server.url}api/labels", timeout=30).json()}
    assert errors == []
    wanted = {node: label for own in acknowledged for node, label in own.items()}
    assert wanted
    assert {node: present.get(node) for node in wanted} == wanted, "an acknowledged label is lost"
    p50, p99 = (round(1e3 * float(np.quantile(times, q)), 1) for q in (0.5, 0.99))
    found = {"seconds": SECONDS, "reads": len(times), "labels": len(wanted), "p50 ms": p50, "p99 ms": p99}
    print(json.dumps(found))  # noqa: T201
