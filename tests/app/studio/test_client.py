"""The client from Python, against a service of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lggd
from lggd.app.studio import Client, StudioError
from lggd.app.studio.security import Access
from lggd.app.studio.server import open_studio, studios_beside
from lggd.errors import InputError
from support.command_line import environment
from support.studio_cases import XSS, settle, small_graph, small_studio, wait_for

TOKEN = "a secret & of=some length"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    graph = small_graph(ids=[*(f"n{k}" for k in range(34)), "a/b", XSS])
    with small_studio(tmp_path_factory.mktemp("studio"), graph, Access(port=0, token=TOKEN)) as running:
        yield running


@pytest.fixture
def client(server) -> Client:
    return Client(server.url, TOKEN, author="Ada & Ørsted")


def test_labels_by_name(client, server) -> None:
    assert client.health()["status"] == "ok"
    answer = client.label({"n13": "green", "a/b": "blue", XSS: "red"})
    assert {each["node"] for each in answer["labels"]} == {"n13", "a/b", XSS}
    assert client.labels()["a/b"] == "blue"
    assert client.node("a/b")["label"] == "blue"
    assert client.history(1)[0]["author"] == "Ada & Ørsted"
    client.remove("a/b")
    client.undo()
    assert client.labels()["a/b"] == "blue"
    client.undo()
    assert "n13" not in client.labels()
    client.redo()
    assert client.labels()["n13"] == "green"
    client.label([("n13", None), ("a/b", None), (XSS, None)])
    settle(server.session)


def test_reading(client) -> None:
    predicted = client.predicted()
    assert list(predicted) == client.graph()["ids"]
    assert predicted["n0"] == "red"
    assert client.suggestions(3)[0]["reason"]
    assert isinstance(client.suspicious(), list)
    assert client.progress()["held_out"]
    assert client.distances("red")["distances"][0] == 0
    assert client.export("labels").startswith(b"id,label\n")


def test_uploads_classes_and_keeping(client) -> None:
    client.upload("n20,violet\n", new_classes=True)
    client.add_class("white")
    assert {"violet", "white"} <= set(client.graph()["classes"])
    client.keep("n0")
    client.undo()


def test_refusals_carry_status_and_state(client) -> None:
    with pytest.raises(StudioError, match="Did you mean 'green'") as caught:
        client.label({"n14": "gren"})
    assert caught.value.status == 422
    client.label({"n15": "red"})
    with pytest.raises(StudioError) as caught:
        client.label({"n15": "blue"}, versions={"n15": 0})
    assert caught.value.status == 409
    assert caught.value.labels[0]["label"] == "red"
    client.undo()
    with pytest.raises(StudioError, match="token") as caught:
        Client(client.url).health()
    assert caught.value.status == 401


def test_a_token_in_the_address_is_used(server) -> None:
    from urllib.parse import quote

    assert Client(f"{server.url}?token={quote(TOKEN)}").health()["status"] == "ok"


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://here"])
def test_bad_addresses_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="`url`"):
        Client(url)


def test_nobody_there() -> None:
    with pytest.raises(InputError, match="lggd studio"):
        Client("http://127.0.0.1:9").health()


def test_the_page_in_a_cell(client) -> None:
    html = client.show(height=500)._repr_html_()
    assert f'src="{client.url}/?token=' in html
    assert 'height="500"' in html
    assert TOKEN not in html  # quoted


def test_a_studio_from_python(tmp_path: Path) -> None:
    data = lggd.load("karate")
    client = open_studio(data, tmp_path / "karate.sqlite")
    try:
        assert client.graph()["name"] == "karate"
        assert len(client.labels()) == 10
        wait_for(lambda: client.progress()["accuracy"] is not None)
        assert client.predicted()["33"] == "Officer"
    finally:
        studios_beside.pop().close()


def test_a_studio_from_nothing(tmp_path: Path) -> None:
    data = lggd.load("karate")
    del data.y
    client = open_studio(data, tmp_path / "karate.sqlite", ids=[f"p{k}" for k in range(34)], name="people")
    try:
        client.label({"p0": "hi", "p33": "officer"}, new_classes=True)
        wait_for(lambda: client.predicted()["p1"] is not None)
        assert client.predicted()["p32"] == "officer"
    finally:
        studios_beside.pop().close()


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_without_the_extra_there_is_a_remedy(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import lggd.app.studio.server"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False)
    assert "Run: pip install 'lggd[studio]'" in done.stderr.splitlines()[-1]


def test_the_client_needs_no_extra() -> None:
    code = (
        "import sys; sys.modules['fastapi'] = sys.modules['torch'] = None; import lggd; lggd.studio.Client('http://a')"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)


def test_labels_are_numbers_of_classes(client, server) -> None:
    predictions = client.predictions()
    assert np.array_equal(predictions["labels"], server.session.snapshot.labels)
