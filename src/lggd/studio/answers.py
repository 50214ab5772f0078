"""What the service answers, computed from snapshots; the same for all requests at one revision."""

from __future__ import annotations

import copy
import csv
import io
import json
import math
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lggd.data.graph_files import LABEL_NAMES
from lggd.data.nodes import ID_NAMES
from lggd.data.table import find_pair
from lggd.errors import InputError
from lggd.report.map_data import drawn_edges, encode_positions
from lggd.studio.session import Session
from lggd.studio.snapshot import Snapshot, Suggestion, SuspiciousLabel, distances
from lggd.studio.store import LabelChange, LabelEdit
from lggd.validation import suggestion

MAX_NEIGHBOURS, MAX_HISTORY_ENTRIES = 60, 50


def as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def graph_answer(session: Session, instance: str) -> dict[str, Any]:
    graph, snapshot = session.graph, session.snapshot
    x, y = encode_positions(session.positions).astype(int)
    edges, total = drawn_edges(graph.data.edge_index.numpy(), graph.num_nodes)
    return {
        "name": graph.name, "instance": instance, "num_nodes": graph.num_nodes, "num_edges": total, "ids": graph.ids,
        "classes": list(snapshot.classes), "x": x.tolist(), "y": y.tolist(), "edges": edges.T.ravel().tolist(),
        "truth": graph.truth.tolist(), "attributes": graph.attribute_names,
        "picture": None if graph.pictures is None else list(graph.pictures.shape[1:]),
    }  # fmt: skip


def predictions_answer(snapshot: Snapshot) -> bytes:
    return snapshot.cached("predictions answer", lambda: as_json(_predictions(snapshot)))


def _predictions(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "revision": snapshot.revision, "classes": list(snapshot.classes), "predicted": snapshot.predicted.tolist(),
        "certainty": np.round(snapshot.certainty.astype(float), 3).tolist(), "labels": snapshot.labels.tolist(),
        "versions": snapshot.versions.tolist(), "changed": snapshot.changed.tolist(),
        "milliseconds": round(snapshot.milliseconds, 3), "choosing": snapshot.choosing,
    }  # fmt: skip


def label_states(snapshot: Snapshot, nodes: Iterable[int]) -> list[dict[str, Any]]:
    ids, labels, versions = snapshot.graph.ids, snapshot.labels, snapshot.versions
    return [{"node": ids[k], "label": snapshot.name_of(labels[k]), "version": int(versions[k])} for k in nodes]


def change_answer(snapshot: Snapshot, nodes: Iterable[int]) -> dict[str, Any]:
    return {
        "revision": snapshot.revision, "changed": len(snapshot.changed), "num_labels": snapshot.num_labels,
        "milliseconds": round(snapshot.milliseconds, 3), "choosing": snapshot.choosing,
        "labels": label_states(snapshot, nodes),
    }  # fmt: skip


def history_answer(session: Session, snapshot: Snapshot, changes: Sequence[LabelChange]) -> list[dict[str, Any]]:
    ids = session.graph.ids
    return [
        {
            "number": change.number, "kind": change.kind, "author": change.author, "at": change.at,
            "num_entries": len(change.entries),
            "entries": [
                {"node": ids[e.node], "before": snapshot.name_of(e.before), "after": snapshot.name_of(e.after)}
                for e in change.entries[:MAX_HISTORY_ENTRIES]
            ],
        }
        for change in changes
    ]  # fmt: skip


def node_answer(session: Session, node: int) -> dict[str, Any]:
    snapshot, graph = session.snapshot, session.graph
    neighbours = graph.neighbours(node)
    own = [change for change in session.history if any(entry.node == node for entry in change.entries)]
    top = [{"label": name, "probability": p} for name, p in snapshot.top_classes(node)]
    return {
        "node": graph.ids[node], "number": node, "label": snapshot.name_of(snapshot.labels[node]),
        "version": int(snapshot.versions[node]), "truth": snapshot.name_of(graph.truth[node]),
        "predicted": snapshot.name_of(snapshot.predicted[node]), "probabilities": top,
        "picture": None if graph.pictures is None else graph.pictures[node].tolist(),
        "attributes": graph.attributes(node),
        "neighbours": [graph.ids[k] for k in neighbours[:MAX_NEIGHBOURS]], "num_neighbours": len(neighbours),
        "history": history_answer(session, snapshot, own[-20:][::-1]),
    }  # fmt: skip


def found_nodes(snapshot: Snapshot, found: Iterable[Suggestion | SuspiciousLabel]) -> list[dict[str, Any]]:
    """What was found about some nodes, with their ids and the versions of their labels."""
    ids, versions = snapshot.graph.ids, snapshot.versions
    return [
        {**vars(each), "node": ids[each.node], "number": each.node, "version": int(versions[each.node])}
        for each in found
    ]


def progress_answer(session: Session) -> dict[str, Any]:
    snapshot = session.snapshot
    found, count = session.quality(), len(snapshot.classes)
    labelled, predicted = (
        np.bincount(values[values >= 0], minlength=count).tolist() for values in (snapshot.labels, snapshot.predicted)
    )
    return {
        "revision": snapshot.revision, "curve": [vars(point) for point in session.curve], "accuracy": found.accuracy,
        "held_out": found.held_out, "compared": found.compared, "certainty": found.certainty,
        "classes": list(snapshot.classes), "labelled": labelled, "predicted": predicted,
        "confusion": np.pad(found.confusion, (0, count - len(found.confusion))).tolist(),  # classes may be newer
    }  # fmt: skip


def distances_answer(snapshot: Snapshot, label: int) -> dict[str, Any]:
    values = distances(snapshot, label).tolist()
    shown = [round(value, 4) if math.isfinite(value) else None for value in values]
    return {"revision": snapshot.revision, "label": snapshot.classes[label], "distances": shown}


# -- files --------------------------------------------------------------------------------------------------------


def labels_table(snapshot: Snapshot) -> str:
    """All labels as CSV, which can be uploaded again."""
    rows = ((snapshot.graph.ids[k], snapshot.classes[snapshot.labels[k]]) for k in np.flatnonzero(snapshot.labels >= 0))
    return _csv(["id", "label"], rows)


def predictions_table(snapshot: Snapshot) -> str:
    """One row for each node: prediction, probability, label, and the probability of each class with a label."""
    probabilities = snapshot.probabilities()
    names = [] if snapshot.model is None else [snapshot.classes[k] for k in snapshot.active]
    rows = (
        [node, snapshot.name_of(predicted) or "", f"{certainty:.6g}", snapshot.name_of(label) or "",
         *(f"{p:.6g}" for p in row)]
        for node, predicted, certainty, label, row in zip(
            snapshot.graph.ids, snapshot.predicted, snapshot.certainty, snapshot.labels, probabilities, strict=True
        )
    )  # fmt: skip
    return _csv(["node", "predicted", "probability", "labelled", *(f"p({name})" for name in names)], rows)


def model_archive(snapshot: Snapshot) -> bytes:
    """The model as a ZIP file; unpacked, `lggd predict` and `lggd.load_model` read it."""
    if snapshot.model is None:
        raise InputError("model", "have labels of two classes", "fewer", "Label more nodes.")
    metadata = {"ids": snapshot.graph.ids, "classes": [snapshot.classes[k] for k in snapshot.active]}
    model = copy.copy(snapshot.model)
    model.metadata_ = {**model.metadata_, **metadata, "dataset": snapshot.graph.name}
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        model.save(Path(folder) / "model")
        for path in sorted((Path(folder) / "model").iterdir()):
            archive.write(path, f"model/{path.name}")
    return packed.getvalue()


def _csv(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue()


def read_labels(text: str, session: Session) -> list[LabelEdit]:
    """The labels of a table in CSV with the columns id and label, or of two columns without names."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True) if any(row)]
    except csv.Error as error:
        raise InputError("labels", "be a table in CSV", but=str(error), remedy="Write lines such as 17,3.") from error
    columns = find_pair([cell.strip() for cell in rows[0]] if rows else [], ID_NAMES, LABEL_NAMES)
    if columns is not None:
        rows = rows[1:]
    first, second = columns or (0, 1)
    edits: dict[int, LabelEdit] = {}
    for number, row in enumerate(rows, 2 if columns else 1):
        if len(row) <= max(first, second) or (columns is None and len(row) != 2):
            remedy = "Name the columns in a first line: id,label."
            raise InputError(f"line {number}", "have the columns id and label", f"{len(row)} columns", remedy)
        name, label = row[first].strip(), row[second].strip()
        if not name or not label:
            raise InputError(f"line {number}", "name a node and a class", "an empty cell", "Remove the line.")
        if name not in session.graph.numbers:
            rule, remedy = f"name one of the {session.graph.num_nodes:,} nodes", "Check its spelling."
            remedy = suggestion(name[:100], session.graph.ids, remedy)
            raise InputError(f"line {number}", rule, repr(name[:100]), remedy)
        node = session.graph.numbers[name]
        if node in edits and edits[node].label != label:
            raise InputError(f"line {number}", "give each node one label", f"two for {name[:100]!r}", "Remove one.")
        edits[node] = LabelEdit(node, label)
    if not edits:
        raise InputError("labels", "contain at least one line", "none", "Write lines such as 17,3.")
    return list(edits.values())


def find_nodes(session: Session, query: str, count: int) -> list[int]:
    """Nodes whose id contains a text, in any case, or whose attribute compares: "age > 30", "kind = 2"."""
    graph = session.graph
    for sign, compare in ((">", np.greater), ("<", np.less), ("=", np.isclose)):
        name, found, value = (part.strip() for part in query.partition(sign))
        if found and name in graph.attribute_names:
            try:
                matching: list[int] = np.flatnonzero(compare(graph.attribute(name), float(value)))[:count].tolist()
                return matching
            except ValueError:
                return []
    wanted = query.strip().lower()
    exact = [graph.numbers[query.strip()]] if query.strip() in graph.numbers else []
    others = (k for k, name in enumerate(graph.ids) if wanted in name.lower() and k not in exact)
    return [*exact, *(k for k, _ in zip(others, range(count), strict=False))][:count]
