"""The service: HTTP around a `Session`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from lggd.errors import InputError, optional_package

with optional_package("lggd studio", "lggd[studio]"):
    from fastapi import FastAPI, Path, Query, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException

from lggd.html import module_names, page_file
from lggd.studio import answers, schemas
from lggd.studio.events import EventStreams
from lggd.studio.schemas import error_answers
from lggd.studio.security import COOKIE, LOGIN, Access, Guard, RefusedError
from lggd.studio.session import Outcome, Session
from lggd.studio.store import LabelEdit, StaleEditError

MAX_COUNT = 50
__version__ = version("lggd")
CONTENT_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ABOUT = (
    "Labels live: add a label, and the predictions of the whole graph change. Nodes and classes are named as in the "
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
    access.check()
    streams = EventStreams(session, access.limits.streams)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        streams.start()
        yield
        streams.stop()

    app = FastAPI(
        title="lggd studio", description=ABOUT, version=__version__, lifespan=lifespan,
        openapi_url="/api/openapi.json", docs_url=None, redoc_url=None,  # these would load scripts from elsewhere
        redirect_slashes=False,
    )  # fmt: skip
    app.state.streams = streams
    _add_errors(app, session)
    _add_pages(app, access)
    _add_reading(app, session, streams)
    _add_writing(app, session)
    app.add_middleware(Guard, access=access)
    return app


# -- errors -------------------------------------------------------------------------------------------------------


def _error(status: int, message: str, **more: Any) -> JSONResponse:
    return JSONResponse({"error": message, **more}, status)


def _add_errors(app: FastAPI, session: Session) -> None:
    @app.exception_handler(InputError)
    async def invalid(_: Request, error: InputError) -> JSONResponse:
        named = error.replace(nodes=[session.graph.ids[int(str(node))] for node in error.nodes])
        return _error(422, str(named))

    @app.exception_handler(StaleEditError)
    async def stale(_: Request, error: StaleEditError) -> JSONResponse:
        return _error(409, str(error), labels=answers.label_states(session.snapshot, error.nodes))

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> JSONResponse:
        return _error(error.status, error.message)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        if first["type"] == "json_invalid":
            return _error(
                400, 'The body must be JSON. Send an object such as {"labels": [{"node": "17", "label": "3"}]}.'
            )
        return _error(422, f"`{place[:200]}` is not valid: {first['msg']}.")

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        texts = {
            400: "The body could not be read. Send JSON that is not too large.",
            404: "There is nothing at this address.",
            405: "This address does not take that method.",
        }
        answer = _error(error.status_code, texts.get(error.status_code, str(error.detail)))
        answer.headers.update(error.headers or {})
        return answer


# -- pages --------------------------------------------------------------------------------------------------------


def _add_pages(app: FastAPI, access: Access) -> None:
    # Read once: no name from a request ever reaches the file system.
    static = dict(_static_files())

    @app.get("/", include_in_schema=False)
    async def index(token: str | None = None) -> Response:
        if token is None:
            return HTMLResponse(static["studio.html"])
        return entered() if access.accepts(token) else RedirectResponse("/", 303)

    def entered() -> Response:
        """The page for somebody who knows the token, which leaves the address bar."""
        answer = RedirectResponse("/", 303)
        if access.token is not None:
            answer.set_cookie(COOKIE, access.cookie(), httponly=True, samesite="strict")
        return answer

    @app.get("/static/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        if name not in static:
            return _error(404, "There is nothing at this address.")
        kind = CONTENT_TYPES[name[name.rindex(".") :]]
        return Response(static[name], media_type=kind, headers={"cache-control": "no-cache"})

    @app.get(LOGIN, include_in_schema=False)
    async def form() -> Response:
        return HTMLResponse(static["login.html"])

    @app.post(LOGIN, include_in_schema=False)
    async def login(request: Request) -> Response:
        given = parse_qs((await request.body()).decode("utf-8", "replace")).get("token", [""])[0]
        if not access.accepts(given):
            return HTMLResponse(static["login.html"].replace(b"<!-- wrong -->", b"<p role=alert>Wrong token.</p>"), 401)
        return entered()


def _static_files() -> Iterable[tuple[str, bytes]]:
    for path in (files("lggd.studio") / "static").iterdir():
        if any(path.name.endswith(ending) for ending in CONTENT_TYPES):
            yield path.name, path.read_bytes()
    for name in ("colours.css", "map.css", *module_names("map_panel.js")):  # the map of the report
        yield name, page_file(name).encode()


# -- reading ------------------------------------------------------------------------------------------------------


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


async def _computed(compute: Callable[..., Any], *arguments: Any) -> Response:
    """An answer that takes time, computed beside the event loop."""
    return _json(await run_in_threadpool(lambda: answers.as_json(compute(*arguments))))


def _add_reading(app: FastAPI, session: Session, streams: EventStreams) -> None:
    instance = secrets.token_hex(8)
    graph: dict[int, bytes] = {}  # by the number of classes, the only part that changes

    @app.get("/api/health", response_model=schemas.Health, responses=error_answers())
    async def health() -> dict[str, str]:
        """Whether the service runs."""
        return {"status": "ok", "version": __version__, "instance": instance}

    @app.get("/api/graph", response_model=schemas.GraphAnswer, responses=error_answers())
    async def the_graph() -> Response:
        """The graph, its places on the map, and the classes."""
        classes = len(session.snapshot.classes)
        if classes not in graph:
            found = await run_in_threadpool(lambda: answers.as_json(answers.graph_answer(session, instance)))
            graph.clear()
            graph[classes] = found
        return _json(graph[classes])

    @app.get("/api/predictions", response_model=schemas.PredictionsAnswer, responses=error_answers())
    async def predictions() -> Response:
        """Labels and predictions of all nodes, as numbers in the order of the graph."""
        return _json(await run_in_threadpool(answers.predictions_answer, session.snapshot))

    @app.get("/api/nodes", response_model=list[str], responses=error_answers(422))
    async def nodes(
        query: Annotated[str, Query(min_length=1, max_length=200, examples=["17"])], count: Count = 20
    ) -> Response:
        """Nodes whose id contains a text, or whose attribute compares, as in "age > 30"."""
        return await _computed(lambda: [session.graph.ids[k] for k in answers.find_nodes(session, query, count)])

    @app.get("/api/nodes/{node:path}", response_model=schemas.NodeAnswer, responses=error_answers(404, 422))
    async def one_node(node: NodePath) -> Response:
        """One node: label, prediction, picture or attributes, neighbours and history."""
        return await _computed(answers.node_answer, session, _known(session, node))

    @app.get("/api/suggestions", response_model=list[schemas.SuggestionAnswer], responses=error_answers(422))
    async def suggestions(count: Count = 10) -> Response:
        """Nodes worth labelling next, the best first, each with a reason."""
        return await _computed(lambda: answers.found_nodes(session.snapshot, session.suggestions(count)))

    @app.get("/api/suspicious", response_model=list[schemas.SuspiciousAnswer], responses=error_answers(422))
    async def suspicious(count: Count = 10) -> Response:
        """Labels that all others contradict, the most suspicious first."""
        return await _computed(lambda: answers.found_nodes(session.snapshot, session.suspicious(count)))

    @app.get("/api/labels", response_model=list[schemas.LabelState], responses=error_answers())
    async def labels() -> Response:
        """All labels."""
        snapshot = session.snapshot
        return await _computed(lambda: answers.label_states(snapshot, (snapshot.labels >= 0).nonzero()[0].tolist()))

    @app.get("/api/history", response_model=list[schemas.HistoryAnswer], responses=error_answers(422))
    async def history(count: Annotated[int, Query(ge=1, le=1000)] = 100) -> Response:
        """The last changes, the newest first."""
        snapshot = session.snapshot
        return await _computed(lambda: answers.history_answer(session, snapshot, session.history[-count:][::-1]))

    @app.get("/api/progress", response_model=schemas.ProgressAnswer, responses=error_answers())
    async def progress() -> Response:
        """Curves of accuracy and certainty, the confusion, and how many nodes each class has."""
        return await _computed(answers.progress_answer, session)

    @app.get("/api/distances", response_model=schemas.DistancesAnswer, responses=error_answers(422))
    async def distances(label: Annotated[str, Query(max_length=100, examples=["3"])]) -> Response:
        """The distance of every node to the labels of a class."""
        return await _computed(answers.distances_answer, session.snapshot, session.class_number(label))

    @app.get(
        "/api/export",
        response_class=Response,
        responses=error_answers(422) | {200: {"content": {"text/csv": {}, "application/zip": {}}}},
    )
    async def export(content: Annotated[Literal["labels", "predictions", "model"], Query()] = "labels") -> Response:
        """Labels or predictions as CSV, or the model as ZIP."""
        tables = {"labels": answers.labels_table, "predictions": answers.predictions_table}
        make: Any = tables.get(content, answers.model_archive)
        kind, ending = ("text/csv", "csv") if content in tables else ("application/zip", "zip")
        headers = {"content-disposition": f'attachment; filename="{content}.{ending}"'}
        return Response(await run_in_threadpool(make, session.snapshot), media_type=kind, headers=headers)

    @app.get(
        "/api/events",
        response_class=StreamingResponse,
        responses=error_answers() | {200: {"content": {"text/event-stream": {}}}},
    )
    async def events() -> Response:
        """Server-sent events: `labels` after a change, `curve` when it is measured, `queue` for new suggestions."""
        return StreamingResponse(streams.open(), media_type="text/event-stream")


def _known(session: Session, node: str) -> int:
    if node not in session.graph.numbers:
        raise RefusedError(404, f"There is no node {node[:100]!r}.")
    return session.graph.numbers[node]


# -- writing ------------------------------------------------------------------------------------------------------


async def _changed(future: Future[Outcome], nodes: Iterable[int] | None = None) -> dict[str, Any]:
    outcome = await asyncio.wrap_future(future)
    if nodes is None:
        nodes = [entry.node for entry in outcome.change.entries] if outcome.change is not None else []
    return answers.change_answer(outcome.snapshot, nodes)


def _add_writing(app: FastAPI, session: Session) -> None:
    changes: dict[str, Any] = {"response_model": schemas.ChangeAnswer}

    @app.post("/api/labels", **changes, responses=error_answers(409, 413, 422))
    async def set_labels(body: schemas.LabelsRequest, author: Author = "") -> dict[str, Any]:
        """Set and remove labels, all or none."""
        edits = [LabelEdit(session.node_number(each.node), each.label, each.version) for each in body.labels]
        return await _changed(session.label(edits, author, new_classes=body.new_classes), [edit.node for edit in edits])

    @app.delete("/api/labels/{node:path}", **changes, responses=error_answers(404, 409, 422))
    async def remove_label(
        node: NodePath, version: Annotated[int | None, Query(ge=0, le=2**53)] = None, author: Author = ""
    ) -> dict[str, Any]:
        """Remove the label of a node; without one nothing changes."""
        number = _known(session, node)
        return await _changed(session.label([LabelEdit(number, None, version)], author), [number])

    @app.post(
        "/api/upload",
        response_model=schemas.UploadAnswer,
        responses=error_answers(413, 415, 422),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"text/csv": {"schema": {"type": "string"}, "example": "id,label\n17,3\n"}},
            }
        },
    )
    async def upload(request: Request, new_classes: bool = False, author: Author = "") -> dict[str, Any]:
        """Set the labels of a table in CSV with the columns id and label, all or none."""
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "text/csv":
            raise RefusedError(415, "The body must be a table: send it as text/csv.")
        try:
            text = (await request.body()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise RefusedError(422, "The table must be text in UTF-8.") from error
        edits = await run_in_threadpool(answers.read_labels, text, session)
        found = await _changed(session.label(edits, author, new_classes=new_classes))
        return {**found, "rows": len(edits)}

    @app.post("/api/undo", **changes, responses=error_answers(409, 422))
    async def undo(author: Author = "") -> dict[str, Any]:
        """Take back the author's last change; where there is none, nothing changes."""
        return await _changed(session.undo(author))

    @app.post("/api/redo", **changes, responses=error_answers(409, 422))
    async def redo(author: Author = "") -> dict[str, Any]:
        """Make the author's last undone change again; where there is none, nothing changes."""
        return await _changed(session.redo(author))

    @app.post("/api/keep", **changes, responses=error_answers(413, 422))
    async def keep(body: schemas.KeepRequest, author: Author = "") -> dict[str, Any]:
        """Confirm a suspicious label."""
        return await _changed(session.keep(session.node_number(body.node), author))

    @app.post("/api/classes", **changes, responses=error_answers(413, 422))
    async def add_class(body: schemas.ClassRequest) -> dict[str, Any]:
        """Add a class; one that is known changes nothing."""
        return await _changed(session.add_class(body.name))
