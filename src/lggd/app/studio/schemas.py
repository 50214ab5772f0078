"""The requests and responses of the service, as its OpenAPI document describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints

from lggd.app.studio.session import CurvePoint

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
