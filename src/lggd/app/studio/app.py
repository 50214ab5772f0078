"""The service: HTTP around a `Session`."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import Future
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Literal
from urllib.parse import parse_qs

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from lggd.app.studio import responses
from lggd.app.studio.responses import error_responses
from lggd.app.studio.security import COOKIE, LOGIN, Access, Guard, RefusedError, error_response
from lggd.app.studio.session import Event, Outcome, Session
from lggd.app.studio.snapshot import Snapshot, Suggestion, SuspiciousLabel
from lggd.app.studio.store import LabelEdit, LabelStore, StaleEditError
from lggd.errors import DiskFullError, InputError

MAX_COUNT, MAX_STREAMS = 50, 200
# Seconds between two looks for events, and after which a comment keeps a connection open and shows one that is closed.
PAUSE, HEARTBEAT = 0.05, 15.0
# For each content that can be exported: its writer, media type and ending.
EXPORTS: dict[str, tuple[Callable[[Snapshot], str | bytes], str, str]] = {
    "labels": (responses.labels_table, "text/csv", "csv"),
    "predictions": (responses.predictions_table, "text/csv", "csv"),
    "model": (responses.model_archive, "application/zip", "zip"),
}
__version__ = version("lggd")
ABOUT = (
    "Live labelling: add a label, and the predictions of the whole graph change. Nodes and classes are named as in the "
    "graph. Changes are durable before they are answered; an error changes nothing."
)
Author = Annotated[
    str,
    Query(
        max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$", description="Who labels; undo is by author.", examples=["Ada"]
    ),
]
Count = Annotated[int, Query(ge=1, le=MAX_COUNT, description="How many at most.", examples=[10])]
NodePath = Annotated[str, Path(min_length=1, max_length=500, description="The id of a node.", examples=["17"])]


def build_app(session: Session, access: Access) -> FastAPI:
    """The service for a session, for any ASGI server. Its end closes neither the session nor the store."""
    app = FastAPI(
        title="lggd studio", description=ABOUT, version=__version__,
        openapi_url="/api/openapi.json", docs_url=None, redoc_url=None,  # these would load scripts from elsewhere
        redirect_slashes=False, responses=error_responses(400, 401, 403, 422, 429, 507),
    )  # fmt: skip
    app.state.streams = streams = EventStreams(session)
    _add_errors(app, session)
    _add_pages(app, access)
    _add_reading(app, session, streams)
    _add_writing(app, session)
    app.add_middleware(Guard, access=access)
    return app


class EventStreams:
    """The open streams of server-sent events. Each tells the newest event of each kind, at first the present state."""

    def __init__(self, session: Session) -> None:
        self._session, self._open, self.ended = session, 0, False

    def open(self) -> AsyncGenerator[str, None]:
        if self._open >= MAX_STREAMS:
            raise RefusedError(429, "Too many pages are open.")
        return self._events()

    async def _events(self) -> AsyncGenerator[str, None]:
        self._open += 1  # not in `open`: a page that has gone before its first event must not count
        try:
            yield "retry: 1000\n\n"
            events, quiet = self._session.events, 0.0
            told: dict[str, Event] = {**events, "labels": {}}
            while not self.ended:
                for kind, values in list(events.items()):
                    if values is not told[kind]:
                        told[kind], quiet = values, 0.0
                        yield f"event: {kind}\nid: {values['revision']}\ndata: {json.dumps(values)}\n\n"
                if quiet > HEARTBEAT:
                    quiet = 0.0
                    yield ": still here\n\n"
                await asyncio.sleep(PAUSE)
                quiet += PAUSE
        finally:
            self._open -= 1


# -- errors -------------------------------------------------------------------------------------------------------


def _add_errors(app: FastAPI, session: Session) -> None:
    @app.exception_handler(InputError)
    async def invalid(_: Request, error: InputError) -> JSONResponse:
        named = error.replace(nodes=[session.graph.ids[int(str(node))] for node in error.nodes])
        return error_response(422, str(named))

    @app.exception_handler(DiskFullError)
    async def full(_: Request, error: DiskFullError) -> JSONResponse:
        return error_response(507, str(error))

    @app.exception_handler(StaleEditError)
    async def stale(_: Request, error: StaleEditError) -> JSONResponse:
        labels = [state.model_dump() for state in responses.label_states(session.snapshot, error.nodes)]
        return error_response(409, str(error), labels=labels)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        if first["type"] == "json_invalid":
            example = '{"labels": [{"node": "17", "label": "3"}]}'
            return error_response(400, f"The body must be JSON. Send an object such as {example}.")
        return error_response(422, f"`{place[:200]}` is not valid: {first['msg']}.")

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        texts = {
            400: "The body could not be read. Send JSON that is not too large.",
            404: "There is nothing at this address.",
            405: "This address does not take that method.",
        }
        message = error.detail if isinstance(error, RefusedError) else texts.get(error.status_code, error.detail)
        return error_response(error.status_code, message, error.headers)


# -- pages --------------------------------------------------------------------------------------------------------


def _add_pages(app: FastAPI, access: Access) -> None:
    page, form = ((files("lggd.app.studio") / "static" / name).read_text() for name in ("studio.html", "login.html"))
    # The page's own files, and the map of the report.
    app.mount("/static", StaticFiles(packages=[("lggd.app.studio", "static"), ("lggd.app.report", "page")]))

    @app.get("/", include_in_schema=False)
    async def index(token: str | None = None) -> Response:
        if token is None:
            return HTMLResponse(page)
        return logged_in() if access.accepts(token) else RedirectResponse("/", 303)

    def logged_in() -> Response:
        """Redirects to the page, so that the token leaves the address bar, and sets the cookie."""
        response = RedirectResponse("/", 303)
        if access.token is not None:
            response.set_cookie(COOKIE, access.cookie(), httponly=True, samesite="strict")
        return response

    @app.get(LOGIN, include_in_schema=False)
    async def login_form() -> Response:
        return HTMLResponse(form)

    @app.post(LOGIN, include_in_schema=False)
    async def login(request: Request) -> Response:
        given = parse_qs((await request.body()).decode("utf-8", "replace")).get("token", [""])[0]
        if not access.accepts(given):
            return HTMLResponse(form.replace("<!-- wrong -->", "<p role=alert>Wrong token.</p>"), 401)
        return logged_in()


# -- reading ------------------------------------------------------------------------------------------------------
# FastAPI runs functions that are not `async` in threads: computing a response does not stop the event loop.


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _add_reading(app: FastAPI, session: Session, streams: EventStreams) -> None:
    instance = secrets.token_hex(8)

    @lru_cache(maxsize=1)
    def graph(classes: tuple[str, ...]) -> bytes:
        """The largest response, made once for the same classes: nothing else in it changes."""
        return responses.graph_response(session, classes, instance).model_dump_json().encode()

    @app.get("/api/health")
    async def health() -> responses.Health:
        """Whether the service runs."""
        return responses.Health(status="ok", version=__version__, instance=instance)

    @app.get("/api/graph", response_model=responses.GraphResponse)
    def the_graph() -> Response:
        """The graph, its places on the map, and the classes."""
        return _json(graph(session.snapshot.classes))

    @app.get("/api/predictions", response_model=responses.PredictionsResponse)
    def predictions() -> Response:
        """Labels and predictions of all nodes, as numbers in the order of the graph."""
        return _json(responses.predictions_response(session.snapshot))

    @app.get("/api/nodes")
    def nodes(
        query: Annotated[str, Query(min_length=1, max_length=200, examples=["17"])], count: Count = 20
    ) -> list[str]:
        """Nodes whose id contains a text, or whose attribute compares, as in "age > 30"."""
        return [session.graph.ids[k] for k in responses.find_nodes(session, query, count)]

    @app.get("/api/nodes/{node:path}", responses=error_responses(404))
    def one_node(node: NodePath) -> responses.NodeResponse:
        """One node: label, prediction, picture or attributes, neighbours and history."""
        return responses.node_response(session, _known(session, node))

    @app.get("/api/suggestions")
    def suggestions(count: Count = 10) -> list[Suggestion]:
        """Nodes worth labelling next, the best first, each with a reason."""
        return session.suggestions(count)

    @app.get("/api/suspicious")
    def suspicious(count: Count = 10) -> list[SuspiciousLabel]:
        """Labels that all others contradict, the most suspicious first."""
        return session.suspicious(count)

    @app.get("/api/labels")
    def labels() -> list[responses.LabelState]:
        """All labels."""
        snapshot = session.snapshot
        return responses.label_states(snapshot, (snapshot.labels >= 0).nonzero()[0].tolist())

    @app.get("/api/history")
    def history(count: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[responses.HistoryResponse]:
        """The last changes, the newest first."""
        snapshot = session.snapshot
        return responses.history_response(snapshot, snapshot.history[-count:][::-1])

    @app.get("/api/progress")
    def progress() -> responses.ProgressResponse:
        """Curves of accuracy and certainty, the confusion, and how many nodes each class has."""
        return responses.progress_response(session)

    @app.get("/api/distances")
    def distances(label: Annotated[str, Query(max_length=100, examples=["3"])]) -> responses.DistancesResponse:
        """The distance of every node to the labels of a class."""
        return responses.distances_response(session.snapshot, session.class_number(label))

    @app.get(
        "/api/export",
        response_class=Response,
        responses={200: {"content": {"text/csv": {}, "application/zip": {}}}},
    )
    def export(content: Annotated[Literal["labels", "predictions", "model"], Query()] = "labels") -> Response:
        """Labels or predictions as CSV, or the model as ZIP."""
        write, kind, ending = EXPORTS[content]
        headers = {"content-disposition": f'attachment; filename="{content}.{ending}"'}
        return Response(write(session.snapshot), media_type=kind, headers=headers)

    @app.get("/api/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
    async def events() -> Response:
        """Server-sent events: `labels` after a change, `curve` when it is measured, `queue` for new suggestions."""
        return StreamingResponse(streams.open(), media_type="text/event-stream")


def _known(session: Session, node: str) -> int:
    if node not in session.graph.numbers:
        raise RefusedError(404, f"There is no node {node[:100]!r}.")
    return session.graph.numbers[node]


# -- writing ------------------------------------------------------------------------------------------------------


async def _changed(future: Future[Outcome], nodes: Iterable[int] | None = None) -> responses.ChangeResponse:
    outcome = await asyncio.wrap_future(future)
    if nodes is None:
        nodes = [entry.node for entry in outcome.change.entries] if outcome.change is not None else []
    return responses.change_response(outcome.snapshot, nodes)


def _add_writing(app: FastAPI, session: Session) -> None:
    @app.post("/api/labels", responses=error_responses(409, 413))
    async def set_labels(body: responses.LabelsRequest, author: Author = "") -> responses.ChangeResponse:
        """Set and remove labels, all or none."""
        edits = [LabelEdit(session.node_number(each.node), each.label, each.version) for each in body.labels]
        future = session.submit(LabelStore.set_labels, edits, author, new_classes=body.new_classes)
        return await _changed(future, [edit.node for edit in edits])

    @app.delete("/api/labels/{node:path}", responses=error_responses(404, 409))
    async def remove_label(
        node: NodePath, version: Annotated[int | None, Query(ge=0, le=2**53)] = None, author: Author = ""
    ) -> responses.ChangeResponse:
        """Remove the label of a node; without one nothing changes."""
        edit = LabelEdit(_known(session, node), None, version)
        return await _changed(session.submit(LabelStore.set_labels, [edit], author), [edit.node])

    @app.post(
        "/api/upload",
        responses=error_responses(413, 415),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"text/csv": {"schema": {"type": "string"}, "example": "id,label\n17,3\n"}},
            }
        },
    )
    async def upload(request: Request, new_classes: bool = False, author: Author = "") -> responses.UploadResponse:
        """Set the labels of a table in CSV with the columns id and label, all or none."""
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "text/csv":
            raise RefusedError(415, "The body must be a table: send it as text/csv.")
        edits = await run_in_threadpool(responses.read_labels, await request.body(), session)
        changed = await _changed(session.submit(LabelStore.set_labels, edits, author, new_classes=new_classes))
        return responses.UploadResponse(**vars(changed), rows=len(edits))

    @app.post("/api/undo", responses=error_responses(409))
    async def undo(author: Author = "") -> responses.ChangeResponse:
        """Take back the author's last change; where there is none, nothing changes."""
        return await _changed(session.submit(LabelStore.undo, author))

    @app.post("/api/redo", responses=error_responses(409))
    async def redo(author: Author = "") -> responses.ChangeResponse:
        """Make the author's last undone change again; where there is none, nothing changes."""
        return await _changed(session.submit(LabelStore.redo, author))

    @app.post("/api/keep", responses=error_responses(413))
    async def keep(body: responses.KeepRequest, author: Author = "") -> responses.ChangeResponse:
        """Confirm a suspicious label."""
        return await _changed(session.submit(LabelStore.keep, session.node_number(body.node), author))

    @app.post("/api/classes", responses=error_responses(413))
    async def add_class(body: responses.ClassRequest) -> responses.ChangeResponse:
        """Add a class; one that is known changes nothing."""
        return await _changed(session.submit(LabelStore.add_class, body.name))
