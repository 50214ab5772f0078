"""The service: what it answers, and that errors are sentences that change nothing."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import zipfile
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

import lggd
from lggd.app.studio.store import LabelStore
from support.studio_cases import CLASSES, XSS, settle, small_graph, small_studio

IDS = ["", *(f"n{k}" for k in range(1, 33)), "a/b", XSS, "=1+1"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    with small_studio(tmp_path_factory.mktemp("studio"), small_graph(ids=["zero", *IDS[1:]])) as running:
        yield running


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url) as client:
        yield client
        # Every test ends with the labels that it began with.
        present = {each["node"]: each["label"] for each in client.get("/api/labels").json()}
        given = {server.session.graph.ids[k]: CLASSES[k % 3] for k in range(12)}
        changes = [{"node": node, "label": given.get(node)} for node in {*present, *given}]
        assert client.post("/api/labels?author=cleanup", json={"labels": changes}).status_code == 200
        settle(server.session)


def put(http: httpx.Client, author: str = "ada", **labels: str | None) -> httpx.Response:
    body = {"labels": [{"node": node, "label": label} for node, label in labels.items()]}
    return http.post("/api/labels", params={"author": author}, json=body)


def test_health_and_graph(http) -> None:
    assert http.get("/api/health").json()["status"] == "ok"
    graph = http.get("/api/graph").json()
    assert graph["num_nodes"] == 36 == len(graph["ids"]) == len(graph["x"])
    assert graph["classes"] == list(CLASSES)
    assert len(graph["edges"]) == 2 * graph["num_edges"]


def test_a_full_disk_is_an_error_in_words(http, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_, **__):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    before = http.get("/api/labels").json()
    monkeypatch.setattr(LabelStore, "set_labels", fail)
    answer = put(http, n13="green")
    assert (answer.status_code, "no space is left" in answer.json()["error"]) == (507, True)
    assert http.get("/api/labels").json() == before
    monkeypatch.undo()
    assert put(http, n13="green").status_code == 200


def test_labels_change_predictions(http, server) -> None:
    before = http.get("/api/predictions").json()
    answer = put(http, n13="green").json()
    after = http.get("/api/predictions").json()
    assert answer["labels"] == [{"node": "n13", "label": "green", "version": after["versions"][13]}]
    assert after["revision"] == answer["revision"] > before["revision"]
    assert after["labels"][13] == 1
    assert after["predicted"] == server.session.snapshot.predicted.tolist()
    assert len(after["changed"]) == answer["changed"]


def test_labels_are_removed_undone_and_made_again(http) -> None:
    labels = lambda: {each["node"]: each["label"] for each in http.get("/api/labels").json()}  # noqa: E731
    put(http, n13="green")
    assert http.delete("/api/labels/n13", params={"author": "ada"}).status_code == 200
    assert "n13" not in labels()
    http.post("/api/undo", params={"author": "ada"})
    assert labels()["n13"] == "green"
    http.post("/api/undo", params={"author": "ada"})
    assert "n13" not in labels()
    http.post("/api/redo", params={"author": "ada"})
    assert labels()["n13"] == "green"
    kinds = [change["kind"] for change in http.get("/api/history?count=3").json()]
    assert kinds == ["redo", "undo", "undo"]


def test_a_stale_edit_gets_the_present_state(http) -> None:
    version = http.get("/api/nodes/n13").json()["version"]
    put(http, "eve", n13="green")
    body = {"labels": [{"node": "n14", "label": "red"}, {"node": "n13", "label": "blue", "version": version}]}
    answer = http.post("/api/labels", json=body)
    assert answer.status_code == 409
    assert answer.json()["labels"] == [{"node": "n13", "label": "green", "version": version + 1}]
    assert http.get("/api/nodes/n14").json()["label"] is None
    assert http.delete("/api/labels/n13", params={"version": version}).status_code == 409


@pytest.mark.parametrize("node", ["a/b", XSS, "=1+1", "zero"])
def test_odd_names_are_names(http, node: str) -> None:
    details = http.get(f"/api/nodes/{quote(node, safe='')}").json()
    assert details["node"] == node
    assert put(http, **{node: "red"}).status_code == 200
    assert http.delete(f"/api/labels/{quote(node, safe='')}").status_code == 200


def test_a_node_has_neighbours_probabilities_and_history(http, server) -> None:
    put(http, n13="green")
    node = http.get("/api/nodes/n13").json()
    assert node["predicted"] == "green"
    assert node["probabilities"][0]["label"] == "green"
    assert sum(each["probability"] for each in node["probabilities"]) == pytest.approx(1, abs=1e-5)
    assert node["num_neighbours"] == len(server.session.graph.neighbours(13)) == len(node["neighbours"])
    assert node["history"][0]["entries"] == [{"node": "n13", "before": None, "after": "green"}]


def test_suggestions_suspicious_labels_and_keeping(http, server) -> None:
    suggestions = http.get("/api/suggestions?count=4").json()
    assert len(suggestions) == 4
    assert all(each["reason"] for each in suggestions)
    put(http, n3="blue")
    settle(server.session)
    first = http.get("/api/suspicious").json()[0]
    assert (first["node"], first["label"], first["suggested"]) == ("n3", "blue", "red")
    http.post("/api/keep", json={"node": "n3"})
    assert "n3" not in [each["node"] for each in http.get("/api/suspicious").json()]


def test_progress_and_distances(http) -> None:
    progress = http.get("/api/progress").json()
    assert sum(progress["labelled"]) == 12
    assert sum(progress["predicted"]) == 36
    assert sum(map(sum, progress["confusion"])) == progress["compared"] == 24
    distances = http.get("/api/distances", params={"label": "red"}).json()["distances"]
    assert distances[3] == 0
    assert len(distances) == 36


def test_search(http) -> None:
    assert http.get("/api/nodes", params={"query": "N1"}).json()[0] == "n1"
    assert http.get("/api/nodes", params={"query": "zero"}).json() == ["zero"]
    assert http.get("/api/nodes", params={"query": "nothing"}).json() == []


def test_downloads_can_be_uploaded_again(http) -> None:
    put(http, **{XSS: "red", "a/b": "blue"})
    table = http.get("/api/export?content=labels").text
    rows = list(csv.DictReader(io.StringIO(table)))
    assert {"id": XSS, "label": "red"} in rows
    http.post("/api/undo", params={"author": "ada"})
    answer = http.post("/api/upload", content=table, headers={"content-type": "text/csv"})
    assert answer.json()["rows"] == len(rows)
    assert len(answer.json()["labels"]) == 2
    assert http.get("/api/export?content=labels").text == table


def test_predictions_as_a_table(http, server) -> None:
    rows = list(csv.DictReader(io.StringIO(http.get("/api/export?content=predictions").text)))
    assert [row["node"] for row in rows] == server.session.graph.ids
    assert [row["predicted"] for row in rows] == [CLASSES[k] for k in server.session.snapshot.predicted]
    assert float(rows[0]["p(red)"]) == pytest.approx(float(server.session.snapshot.probabilities()[0, 0]), abs=1e-5)


def test_the_model_can_be_loaded(http, server, tmp_path: Path) -> None:
    archive = zipfile.ZipFile(io.BytesIO(http.get("/api/export?content=model").content))
    archive.extractall(tmp_path)
    model = lggd.load_model(tmp_path / "model")
    assert (model.predict().numpy() == server.session.snapshot.predicted).all()
    assert model.metadata_["ids"] == server.session.graph.ids


def test_classes_are_added_once(http, server) -> None:
    for _ in range(2):
        assert http.post("/api/classes", json={"name": "grey"}).status_code == 200
    assert http.get("/api/graph").json()["classes"].count("grey") == 1


def one(node: object = "n13", label: object = "red", **more: object) -> dict[str, object]:
    return {"node": node, "label": label, **more}


BAD = {
    "an unknown node": ("POST", "labels", {"labels": [{"node": "nobody", "label": "red"}]}, 422),
    "an unknown class": ("POST", "labels", {"labels": [{"node": "n13", "label": "redd"}]}, 422),
    "one good and one bad": ("POST", "labels", {"labels": [one(), one("x")]}, 422),
    "a node twice": ("POST", "labels", {"labels": [one(), one(label="blue")]}, 422),
    "no labels": ("POST", "labels", {"labels": []}, 422),
    "too many labels": ("POST", "labels", {"labels": [{"node": "n13", "label": "red"}] * 10_001}, 422),
    "a number for a name": ("POST", "labels", {"labels": [{"node": 13, "label": "red"}]}, 422),
    "another field": ("POST", "labels", {"labels": [{"node": "n13", "label": "red", "colour": 1}]}, 422),
    "a list": ("POST", "labels", [1, 2], 422),
    "text": ("POST", "labels", "{", 400),
    "bytes": ("POST", "labels", b"\xff\xfe\x00", 400),
    "deep nesting": ("POST", "labels", "[" * 100_000, 400),
    "a huge number": ("POST", "labels", '{"labels": [{"node": "n13", "label": "red", "version": 1e999}]}', 422),
    "half a character": ("POST", "labels", '{"labels": [{"node": "\\ud800", "label": "red"}]}', 422),
    "half a character as a class": ("POST", "classes", '{"name": "\\ud800"}', 422),
    "a zero byte in a class": ("POST", "classes", {"name": "a\0b"}, 422),
    "a blank class": ("POST", "classes", {"name": "  "}, 422),
    "keeping nothing": ("POST", "keep", {"node": "n13"}, 422),
    "removing from nobody": ("DELETE", "labels/nobody", None, 404),
    "a path": ("GET", "nodes/..%2F..%2Fetc%2Fpasswd", None, 404),
    "a class without a name": ("GET", "distances?label=", None, 422),
    "an unknown export": ("GET", "export?content=/etc/passwd", None, 422),
    "a negative count": ("GET", "suggestions?count=-1", None, 422),
    "an author with a line break": ("POST", "undo?author=a%0Ab", None, 422),
    "an unknown address": ("GET", "nothing", None, 404),
    "another method": ("PUT", "labels", {}, 405),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_get_a_sentence_and_change_nothing(http, server, name: str) -> None:
    method, path, body, status = BAD[name]
    before = server.session.snapshot
    content = body if isinstance(body, (str, bytes)) or body is None else json.dumps(body)
    answer = http.request(method, f"/api/{path}", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"].endswith((".", "?"))
    assert "Traceback" not in answer.text
    assert server.session.snapshot is before


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("id,label\nn13,red\nnobody,red\n", "`labels.csv, line 3, column 'id'` must be one of the 36 nodes"),
        ("n13,red,blue\n", "`labels.csv` must have 2 columns"),
        ("n13,red\nn13,blue\n", "one label, got 'blue' after 'red' in line 1"),
        ("n13,\n", "empty cell"),
        ("", "at least one label"),
        ("id,label\n", "at least one label"),
        ("n13,purple\n", "known class"),
        ('"n13', "a row of cells"),
        (f"{'n' * 9999},red\n", f"{'n' * 99}. Name the columns"),
    ],
)
def test_bad_tables_are_refused(http, server, table: str, words: str) -> None:
    before = server.session.snapshot
    answer = http.post("/api/upload", content=table, headers={"content-type": "text/csv"})
    assert answer.status_code == 422
    assert words in answer.json()["error"]
    assert server.session.snapshot is before


def test_uploads_are_text(http) -> None:
    assert http.post("/api/upload", content=b"n13,red").status_code == 415
    answer = http.post("/api/upload", content=b"n13,\xff\xfe", headers={"content-type": "text/csv"})
    assert (answer.status_code, "`labels.csv` must be UTF-8 text" in answer.json()["error"]) == (422, True)


def test_uploads_are_read_as_files_of_labels(http) -> None:
    answer = http.post("/api/upload", content="\ufeffclass;node\ngreen;n13\n", headers={"content-type": "text/csv"})
    assert [(each["node"], each["label"]) for each in answer.json()["labels"]] == [("n13", "green")]


def test_upload_with_new_classes(http) -> None:
    send = lambda new: http.post(  # noqa: E731
        f"/api/upload?new_classes={new}", content="n13,violet\n", headers={"content-type": "text/csv"}
    )
    assert send("false").status_code == 422
    assert send("true").json()["labels"][0]["label"] == "violet"


def test_events_tell_of_changes(http) -> None:
    with http.stream("GET", "/api/events") as stream:
        lines = stream.iter_lines()
        data = lambda: next(json.loads(line[6:]) for line in lines if line.startswith("data: "))  # noqa: E731
        first = data()
        answer = put(http, n13="green").json()
        event = data()
        assert first["revision"] < event["revision"] == answer["revision"]
        assert event["changed"] == answer["changed"]


def test_the_page_and_its_files(http) -> None:
    page = http.get("/")
    assert page.status_code == 200
    assert "<script>" not in page.text
    assert "onclick" not in page.text
    for name in ("studio.js", "studio.css", "graph_map.js", "colours.css", "icon.svg"):
        assert http.get(f"/static/{name}").status_code == 200
    for name in ("..%2Fapp.py", "%2Fetc%2Fpasswd", "studio.py", "../app.py"):
        assert http.get(f"/static/{name}").status_code == 404
