"""Who gets in: tokens, Host and Origin; how much; and what browsers are told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from lggd.app.studio.app import EventStreams
from lggd.app.studio.security import Access, RefusedError
from lggd.errors import InputError
from support.studio_cases import small_studio

TOKEN = "a secret of some length"
ADDRESSES = (
    ("GET", "/api/health"), ("GET", "/api/graph"), ("GET", "/api/predictions"), ("GET", "/api/nodes/n1"),
    ("GET", "/api/labels"), ("GET", "/api/export?content=model"), ("GET", "/api/openapi.json"), ("GET", "/api/events"),
    ("POST", "/api/labels"), ("DELETE", "/api/labels/n1"), ("POST", "/api/undo"), ("POST", "/api/upload"),
    ("GET", "/static/studio.js"), ("PUT", "/nothing"), ("OPTIONS", "/api/labels"), ("HEAD", "/api/labels"),
)  # fmt: skip


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory):
    with small_studio(tmp_path_factory.mktemp("studio"), access=Access(port=0, token=TOKEN), settled=False) as server:
        yield server


@pytest.fixture(scope="module")
def open_one(tmp_path_factory: pytest.TempPathFactory):
    with small_studio(tmp_path_factory.mktemp("studio"), settled=False) as server:
        yield server


WRONG = {
    "nothing": {},
    "another token": {"authorization": "Bearer another secret of length"},
    "a part of it": {"authorization": f"Bearer {TOKEN[:-1]}"},
    "more than it": {"authorization": f"Bearer {TOKEN}x"},
    "another scheme": {"authorization": f"Basic {TOKEN}"},
    "no scheme": {"authorization": TOKEN},
    "the token as a cookie": {"cookie": f"lggd_studio={TOKEN}"},
    "a broken cookie": {"cookie": 'lggd_studio="\\'},
    "an empty cookie": {"cookie": "lggd_studio="},
}


@pytest.mark.parametrize("how", WRONG)
def test_nobody_gets_in_without_the_token(guarded, how: str) -> None:
    before = guarded.session.snapshot.labels.copy()
    with httpx.Client(base_url=guarded.url, headers=WRONG[how]) as http:
        assert {http.request(method, path).status_code for method, path in ADDRESSES} == {401}
        assert http.get("/").headers["location"] == "/login"
    assert (guarded.session.snapshot.labels == before).all()


def test_the_token_as_a_bearer(guarded) -> None:
    assert httpx.get(f"{guarded.url}api/health", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("way", ["address", "form"])
def test_the_token_becomes_a_cookie(guarded, way: str) -> None:
    with httpx.Client(base_url=guarded.url) as http:
        answer = (
            http.get("/", params={"token": TOKEN}) if way == "address" else http.post("/login", data={"token": TOKEN})
        )
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert http.get("/").status_code == 200
        assert http.get("/api/health").status_code == 200


@pytest.mark.parametrize("token", ["wrong", "", TOKEN[:-1]])
def test_a_wrong_token_opens_nothing(guarded, token: str) -> None:
    with httpx.Client(base_url=guarded.url) as http:
        assert http.post("/login", data={"token": token}).status_code == 401
        assert http.get("/", params={"token": token}).headers["location"] == "/login"
        assert http.get("/api/health").status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "localhost:x", "[::1"]
)
def test_another_host_is_refused(open_one, host: str) -> None:
    answer = httpx.get(f"{open_one.url}api/health", headers={"host": host})
    assert answer.status_code in (400, 403)


def test_own_names_are_hosts(open_one) -> None:
    port = open_one.access.port
    # Through a tunnel browsers see another port.
    for host in (
        "localhost",
        "localhost:9000",
        f"localhost:{port}",
        f"127.0.0.1:{port}",
        f"[::1]:{port}",
        f"LOCALHOST:{port}",
    ):
        assert httpx.get(f"{open_one.url}api/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://", "http://[", "x"])
def test_another_origin_is_refused(open_one, origin: str) -> None:
    for send, path in ((httpx.get, "health"), (httpx.post, "undo")):
        assert send(f"{open_one.url}api/{path}", headers={"origin": origin}).status_code == 403


def test_pages_of_other_sites_cannot_write(open_one) -> None:
    post = lambda site: httpx.post(f"{open_one.url}api/undo", headers={"sec-fetch-site": site}).status_code  # noqa: E731
    assert [post(site) for site in ("cross-site", "same-site", "same-origin", "none")] == [403, 403, 200, 200]


def test_the_own_origin_is_accepted(open_one) -> None:
    origin = open_one.url.rstrip("/")
    assert httpx.post(f"{open_one.url}api/undo", headers={"origin": origin}).status_code == 200


def test_browsers_run_only_files_of_the_service(open_one) -> None:
    for path in ("", "api/health", "static/studio.js", "nothing"):
        policy = httpx.get(f"{open_one.url}{path}").headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy


def test_large_requests_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lggd.app.studio.security.MAX_BODY", 1000)
    with small_studio(tmp_path, settled=False) as server:
        answer = httpx.post(f"{server.url}api/upload", content=b"x" * 1001, headers={"content-type": "text/csv"})
        assert answer.status_code == 413

        def chunks():
            for _ in range(100):
                yield b"x" * 100

        answer = httpx.post(f"{server.url}api/upload", content=chunks(), headers={"content-type": "text/csv"})
        assert answer.status_code == 413
        answer = httpx.post(f"{server.url}api/labels", content=chunks(), headers={"content-type": "application/json"})
        assert answer.status_code in (400, 413)


def test_streams_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lggd.app.studio.app.MAX_STREAMS", 1)
    with small_studio(tmp_path, settled=False) as server:
        address = f"{server.url}api/events"
        with httpx.stream("GET", address) as first:
            assert first.status_code == 200
            assert httpx.get(address).status_code == 429


def test_pages_that_never_listened_do_not_count(open_one, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lggd.app.studio.app.MAX_STREAMS", 1)

    async def visits() -> None:
        streams = EventStreams(open_one.session)
        for _ in range(3):
            streams.open()  # it left before its first event
        page = streams.open()
        await anext(page)
        with pytest.raises(RefusedError, match="Too many pages"):
            streams.open()
        await page.aclose()
        streams.open()

    asyncio.run(visits())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org"])
def test_other_machines_need_a_token(host: str) -> None:
    with pytest.raises(InputError, match="--token"):
        Access(host)
    Access(host, token=TOKEN)


def test_short_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="at least 8"):
        Access(token="short")
