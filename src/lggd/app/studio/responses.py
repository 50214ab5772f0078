"""The responses of the service, computed from snapshots; the same for all requests at one revision."""

from __future__ import annotations

import copy
import csv
import io
import math
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from lggd.app.report.map_data import drawn_edges, encode_positions
from lggd.app.studio import schemas
from lggd.app.studio.session import Session
from lggd.app.studio.snapshot import Snapshot, computed_once, distances
from lggd.app.studio.store import LabelChange, LabelEdit
from lggd.app.tables.graph_files import read_label_file
from lggd.app.tables.output_files import write_predictions
from lggd.closed_form import KernelRidge
from lggd.errors import InputError

MAX_NEIGHBOURS, MAX_HISTORY_ENTRIES = 60, 50
MAX_VALUE = 200  # characters of a wrong cell in an error: it may be as long as the upload


def graph_response(session: Session, classes: Sequence[str], instance: str) -> schemas.GraphResponse:
    graph = session.graph
    x, y = encode_positions(session.positions).astype(int)
    edges, total = drawn_edges(graph.data.edge_index.numpy(), graph.num_nodes)
    return schemas.GraphResponse(
        name=graph.name, instance=instance, num_nodes=graph.num_nodes, num_edges=total, ids=graph.ids,
        classes=list(classes), x=x.tolist(), y=y.tolist(), edges=edges.T.ravel().tolist(), truth=graph.truth.tolist(),
        attributes=graph.attribute_names,
        picture=None if graph.pictures is None else list(graph.pictures.shape[1:]),
    )  # fmt: skip


@computed_once
def predictions_response(snapshot: Snapshot) -> bytes:
    """As JSON, which all readers of a revision share."""
    return schemas.PredictionsResponse.model_validate(snapshot).model_dump_json().encode()


def label_states(snapshot: Snapshot, nodes: Iterable[int]) -> list[schemas.LabelState]:
    ids, labels, versions = snapshot.graph.ids, snapshot.labels, snapshot.versions
    return [schemas.LabelState(node=ids[k], label=snapshot.name_of(labels[k]), version=int(versions[k])) for k in nodes]


def change_response(snapshot: Snapshot, nodes: Iterable[int]) -> schemas.ChangeResponse:
    return schemas.ChangeResponse(
        revision=snapshot.revision, changed=len(snapshot.changed), num_labels=snapshot.num_labels,
        milliseconds=snapshot.milliseconds, choosing=snapshot.choosing, labels=label_states(snapshot, nodes),
    )  # fmt: skip


def history_response(snapshot: Snapshot, changes: Sequence[LabelChange]) -> list[schemas.HistoryResponse]:
    ids, name_of = snapshot.graph.ids, snapshot.name_of
    return [
        schemas.HistoryResponse(
            number=change.number, kind=change.kind, author=change.author, at=change.at, num_entries=len(change.entries),
            entries=[
                schemas.HistoryEntry(node=ids[e.node], before=name_of(e.before), after=name_of(e.after))
                for e in change.entries[:MAX_HISTORY_ENTRIES]
            ],
        )
        for change in changes
    ]  # fmt: skip


def node_response(session: Session, node: int) -> schemas.NodeResponse:
    snapshot, graph = session.snapshot, session.graph
    neighbours = graph.neighbours(node)
    own = [change for change in snapshot.history if any(entry.node == node for entry in change.entries)]
    return schemas.NodeResponse(
        node=graph.ids[node], number=node, label=snapshot.name_of(snapshot.labels[node]),
        version=int(snapshot.versions[node]), truth=snapshot.name_of(graph.truth[node]),
        predicted=snapshot.name_of(snapshot.predicted[node]),
        probabilities=[schemas.ClassProbability(label=name, probability=p) for name, p in snapshot.top_classes(node)],
        picture=None if graph.pictures is None else graph.pictures[node].tolist(),
        attributes=graph.attributes(node),
        neighbours=[graph.ids[k] for k in neighbours[:MAX_NEIGHBOURS]], num_neighbours=len(neighbours),
        history=history_response(snapshot, own[-20:][::-1]),
    )  # fmt: skip


def progress_response(session: Session) -> schemas.ProgressResponse:
    snapshot = session.snapshot
    measured, count = session.quality(), len(snapshot.classes)
    labelled, predicted = (
        np.bincount(values[values >= 0], minlength=count).tolist() for values in (snapshot.labels, snapshot.predicted)
    )
    return schemas.ProgressResponse(
        revision=snapshot.revision, curve=session.curve, accuracy=measured.accuracy, held_out=measured.held_out,
        compared=measured.compared, certainty=measured.certainty, classes=list(snapshot.classes), labelled=labelled,
        predicted=predicted,
        confusion=np.pad(measured.confusion, (0, count - len(measured.confusion))).tolist(),  # classes may be newer
    )  # fmt: skip


def distances_response(snapshot: Snapshot, label: int) -> schemas.DistancesResponse:
    values = distances(snapshot, label).tolist()
    shown = [round(value, 4) if math.isfinite(value) else None for value in values]
    return schemas.DistancesResponse(revision=snapshot.revision, label=snapshot.classes[label], distances=shown)


# -- files --------------------------------------------------------------------------------------------------------


def labels_table(snapshot: Snapshot) -> str:
    """All labels as CSV, which can be uploaded again."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "label"])
    labelled = np.flatnonzero(snapshot.labels >= 0)
    writer.writerows((snapshot.graph.ids[k], snapshot.classes[snapshot.labels[k]]) for k in labelled)
    return text.getvalue()


def predictions_table(snapshot: Snapshot) -> bytes:
    """The file that `lggd predict` would write, as CSV."""
    ids, classes = snapshot.graph.ids, snapshot.active_names()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.csv"
        write_predictions(path, ids, classes, _model(snapshot).predict_proba(), snapshot.compact())
        return path.read_bytes()


def model_archive(snapshot: Snapshot) -> bytes:
    """The model as a ZIP file; unpacked, `lggd predict` and `lggd.load_model` read it."""
    model = copy.copy(_model(snapshot))
    metadata = {"ids": snapshot.graph.ids, "classes": snapshot.active_names(), "dataset": snapshot.graph.name}
    model.metadata_ = {**model.metadata_, **metadata}
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return Path(shutil.make_archive(f"{folder}/model", "zip", folder, "model")).read_bytes()


def _model(snapshot: Snapshot) -> KernelRidge:
    if snapshot.model is None:
        raise InputError("model", "have labels of two classes", "fewer", "Label two classes first.")
    return snapshot.model


def read_labels(table: bytes, session: Session) -> list[LabelEdit]:
    """The labels of a table that `lggd add-labels` would read from a file; the classes may be new."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        path.write_bytes(table)
        try:
            labels = read_label_file(path, session.graph.ids)
        except InputError as error:
            named = error.replace(argument=error.argument.replace(str(path), path.name))
            raise named.replace(value=error.value[:MAX_VALUE]) if isinstance(error.value, str) else named from error
    return [LabelEdit(node, label) for node, label in labels.items()]


def find_nodes(session: Session, query: str, count: int) -> list[int]:
    """Nodes whose id contains a text, in any case, or whose attribute compares: "age > 30", "kind = 2"."""
    graph = session.graph
    for sign, compare in ((">", np.greater), ("<", np.less), ("=", np.isclose)):
        name, separator, value = (part.strip() for part in query.partition(sign))
        if separator and name in graph.attribute_names:
            try:
                matching: list[int] = np.flatnonzero(compare(graph.attribute(name), float(value)))[:count].tolist()
                return matching
            except ValueError:
                return []
    wanted = query.strip()
    exact = [graph.numbers[wanted]] if wanted in graph.numbers else []
    others = (k for k, name in enumerate(graph.ids) if wanted.lower() in name.lower() and k not in exact)
    return list(islice(chain(exact, others), count))
