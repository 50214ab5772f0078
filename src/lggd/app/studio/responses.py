"""The requests and responses of the service, as its OpenAPI document describes them.

Responses are computed from snapshots: the same for all requests at one revision.
"""

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
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints

from lggd.app.report.map_data import drawn_edges, encode_positions
from lggd.app.studio.session import CurvePoint, Session
from lggd.app.studio.snapshot import Snapshot, computed_once, distances
from lggd.app.studio.store import LabelChange, LabelEdit
from lggd.app.tables.graph_files import read_label_file
from lggd.app.tables.output_files import write_predictions
from lggd.closed_form import KernelRidge
from lggd.errors import InputError

MAX_NEIGHBOURS, MAX_HISTORY_ENTRIES = 60, 50
MAX_VALUE = 200  # characters of a wrong cell in an error: it may be as long as the upload
MAX_EDITS = 10_000
# Arrays of a snapshot, as lists in JSON.
Integers = Annotated[list[int], BeforeValidator(np.ndarray.tolist)]
Fractions = Annotated[list[float], BeforeValidator(lambda array: np.round(array.astype(float), 3).tolist())]
Milliseconds = Annotated[float, BeforeValidator(lambda value: round(value, 3))]
NodeId = Annotated[str, StringConstraints(min_length=1, max_length=500)]
ClassName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Version = Annotated[int, Field(ge=0, le=2**53, strict=True, description="The version of the label that you have seen.")]


def _example(**values: JsonValue) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [values]})


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LabelRequest(_Request):
    """A label for one node; null removes it. With a version, only if nobody has changed it since."""

    node: NodeId
    label: ClassName | None
    version: Version | None = None


class LabelsRequest(_Request):
    """Labels to set, all or none."""

    model_config = _example(labels=[{"node": "17", "label": "3"}, {"node": "42", "label": None}])
    labels: Annotated[list[LabelRequest], Field(min_length=1, max_length=MAX_EDITS)]
    new_classes: Annotated[bool, Field(strict=True, description="Add classes that are not known yet.")] = False


class ClassRequest(_Request):
    """A class to add."""

    model_config = _example(name="blue")
    name: ClassName


class KeepRequest(_Request):
    """A label that is right, although others contradict it."""

    model_config = _example(node="17")
    node: NodeId


class LabelState(BaseModel):
    """The present label of a node; null where it has none. Every change increases its version."""

    node: str
    label: str | None
    version: int


class ErrorResponse(BaseModel):
    """An error as a sentence. Nothing has changed."""

    model_config = _example(error="`node` must be one of the 1,797 nodes, got 'x'. Check its spelling.")
    error: str


class ConflictResponse(ErrorResponse):
    """Somebody else was first: the present labels of the nodes in question. Nothing has changed."""

    model_config = _example(
        error="Somebody else has changed this label since you saw it.",
        labels=[{"node": "17", "label": "3", "version": 2}],
    )
    labels: list[LabelState]


class Health(BaseModel):
    """Whether the service runs; `instance` differs after every start."""

    status: Literal["ok"]
    version: str
    instance: str


class ChangeResponse(BaseModel):
    """The result of a change. `labels` are durable; `changed` counts predictions that differ from before."""

    model_config = _example(
        revision=7, changed=12, milliseconds=2.1, num_labels=51, choosing=False,
        labels=[{"node": "17", "label": "3", "version": 1}],
    )  # fmt: skip
    revision: int
    changed: int
    milliseconds: Milliseconds
    num_labels: int
    choosing: bool
    labels: list[LabelState]


class GraphResponse(BaseModel):
    """The graph: ids, classes, places on the map from 0 to 10000, edges to draw as pairs of numbers, known classes."""

    name: str
    instance: str
    num_nodes: int
    num_edges: int
    ids: list[str]
    classes: list[str]
    x: list[int]
    y: list[int]
    edges: list[int]
    truth: list[int]
    picture: list[int] | None
    attributes: list[str]


class PredictionsResponse(BaseModel):
    """One entry for each node, as numbers of classes, -1 for none; certainty is the probability of the prediction."""

    model_config = ConfigDict(from_attributes=True)  # those of a `Snapshot`
    revision: int
    classes: list[str]
    predicted: Integers
    certainty: Fractions
    labels: Integers
    versions: Integers
    changed: Integers
    milliseconds: Milliseconds
    choosing: bool


class ClassProbability(BaseModel):
    label: str
    probability: float


class HistoryEntry(BaseModel):
    node: str
    before: str | None
    after: str | None


class HistoryResponse(BaseModel):
    """One change: its kind is given, label, undo, redo or keep."""

    number: int
    kind: str
    author: str
    at: str
    entries: list[HistoryEntry]
    num_entries: int


class NodeResponse(BaseModel):
    """A node: label, prediction, picture (rows of grey values) or attributes, neighbours, and its own history."""

    node: str
    number: int
    label: str | None
    version: int
    truth: str | None
    predicted: str | None
    probabilities: list[ClassProbability]
    picture: list[list[int]] | None
    attributes: dict[str, float]
    neighbours: list[str]
    num_neighbours: int
    history: list[HistoryResponse]


class ProgressResponse(BaseModel):
    """Curves, and for each class its labels and predictions; rows of the confusion are true classes."""

    revision: int
    curve: list[CurvePoint]
    accuracy: float | None
    held_out: bool
    compared: int
    certainty: float
    classes: list[str]
    labelled: list[int]
    predicted: list[int]
    confusion: list[list[int]]


class DistancesResponse(BaseModel):
    """The distance of every node to the labels of a class; null where there is no path."""

    revision: int
    label: str
    distances: list[float | None]


class UploadResponse(ChangeResponse):
    """The result of an upload: the rows that were read, and how many of them changed a label."""

    rows: int


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documentation of errors."""
    texts = {
        400: "The request is not well formed", 401: "The token is missing or wrong",
        403: "The request comes from another page or host", 404: "There is no such thing",
        409: "Somebody else was first", 413: "The request is too large", 415: "The body is of another type",
        422: "A value breaks a rule", 429: "Too many requests", 507: "The disk is full",
    }  # fmt: skip
    return {
        status: {"model": ConflictResponse if status == 409 else ErrorResponse, "description": texts[status]}
        for status in statuses
    }


# -- responses -------------------------------------------------------------------------------------------------------


def graph_response(session: Session, classes: Sequence[str], instance: str) -> GraphResponse:
    graph = session.graph
    x, y = encode_positions(session.positions).astype(int)
    edges, total = drawn_edges(graph.data.edge_index.numpy(), graph.num_nodes)
    return GraphResponse(
        name=graph.name, instance=instance, num_nodes=graph.num_nodes, num_edges=total, ids=graph.ids,
        classes=list(classes), x=x.tolist(), y=y.tolist(), edges=edges.T.ravel().tolist(), truth=graph.truth.tolist(),
        attributes=graph.attribute_names,
        picture=None if graph.pictures is None else list(graph.pictures.shape[1:]),
    )  # fmt: skip


@computed_once
def predictions_response(snapshot: Snapshot) -> bytes:
    """As JSON, which all readers of a revision share."""
    return PredictionsResponse.model_validate(snapshot).model_dump_json().encode()


def label_states(snapshot: Snapshot, nodes: Iterable[int]) -> list[LabelState]:
    ids, labels, versions = snapshot.graph.ids, snapshot.labels, snapshot.versions
    return [LabelState(node=ids[k], label=snapshot.name_of(labels[k]), version=int(versions[k])) for k in nodes]


def change_response(snapshot: Snapshot, nodes: Iterable[int]) -> ChangeResponse:
    return ChangeResponse(
        revision=snapshot.revision, changed=len(snapshot.changed), num_labels=snapshot.num_labels,
        milliseconds=snapshot.milliseconds, choosing=snapshot.choosing, labels=label_states(snapshot, nodes),
    )  # fmt: skip


def history_response(snapshot: Snapshot, changes: Sequence[LabelChange]) -> list[HistoryResponse]:
    ids, name_of = snapshot.graph.ids, snapshot.name_of
    return [
        HistoryResponse(
            number=change.number, kind=change.kind, author=change.author, at=change.at, num_entries=len(change.entries),
            entries=[
                HistoryEntry(node=ids[e.node], before=name_of(e.before), after=name_of(e.after))
                for e in change.entries[:MAX_HISTORY_ENTRIES]
            ],
        )
        for change in changes
    ]  # fmt: skip


def node_response(session: Session, node: int) -> NodeResponse:
    snapshot, graph = session.snapshot, session.graph
    neighbours = graph.neighbours(node)
    own = [change for change in snapshot.history if any(entry.node == node for entry in change.entries)]
    return NodeResponse(
        node=graph.ids[node], number=node, label=snapshot.name_of(snapshot.labels[node]),
        version=int(snapshot.versions[node]), truth=snapshot.name_of(graph.truth[node]),
        predicted=snapshot.name_of(snapshot.predicted[node]),
        probabilities=[ClassProbability(label=name, probability=p) for name, p in snapshot.top_classes(node)],
        picture=None if graph.pictures is None else graph.pictures[node].tolist(),
        attributes=graph.attributes(node),
        neighbours=[graph.ids[k] for k in neighbours[:MAX_NEIGHBOURS]], num_neighbours=len(neighbours),
        history=history_response(snapshot, own[-20:][::-1]),
    )  # fmt: skip


def progress_response(session: Session) -> ProgressResponse:
    snapshot = session.snapshot
    measured, count = session.quality(), len(snapshot.classes)
    labelled, predicted = (
        np.bincount(values[values >= 0], minlength=count).tolist() for values in (snapshot.labels, snapshot.predicted)
    )
    return ProgressResponse(
        revision=snapshot.revision, curve=session.curve, accuracy=measured.accuracy, held_out=measured.held_out,
        compared=measured.compared, certainty=measured.certainty, classes=list(snapshot.classes), labelled=labelled,
        predicted=predicted,
        confusion=np.pad(measured.confusion, (0, count - len(measured.confusion))).tolist(),  # classes may be newer
    )  # fmt: skip


def distances_response(snapshot: Snapshot, label: int) -> DistancesResponse:
    values = distances(snapshot, label).tolist()
    shown = [round(value, 4) if math.isfinite(value) else None for value in values]
    return DistancesResponse(revision=snapshot.revision, label=snapshot.classes[label], distances=shown)


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
