"""Who may talk to the service: token, Host and Origin; how much; and which headers answers have."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import socket
import time
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lggd.errors import InputError

COOKIE = "lggd_studio"
FEWEST_TOKEN_CHARACTERS = 8
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
LOGIN = "/login"
# Only files of the service itself; no script, style or handler inside a page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'{notebooks}"
)
NOTEBOOKS = " http://localhost:* http://127.0.0.1:*"
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Limits:
    """Limits of the service: bytes of a request, requests a second from one address, and open event streams."""

    body: int = 4_000_000
    reads: float = 2000.0
    writes: float = 500.0
    streams: int = 200


@dataclass(frozen=True)
class Access:
    """Where the service listens and who may talk to it.

    Parameters
    ----------
    host, port : str, int
        The address that it listens on.
    token : str, optional
        Required from everybody; must be given unless the address is that of this machine only.
    hosts : tuple of str
        Further names of this machine that browsers may use.
    limits : Limits
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Raises an error where anybody could connect without a token."""
        if self.token is not None and (len(self.token) < FEWEST_TOKEN_CHARACTERS or not self.token.isprintable()):
            rule = f"be at least {FEWEST_TOKEN_CHARACTERS} printable characters"
            raise InputError("token", rule, f"{len(self.token)}", "Choose a longer one.")
        if self.token is None and not self.is_local:
            rule = f"be given to listen on {self.host}: other machines could change labels"
            raise InputError("token", rule, remedy="Add --token SECRET, or listen on 127.0.0.1.")

    @property
    def is_local(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def names(self) -> frozenset[str]:
        """The hosts that requests may name."""
        names = {*LOCAL_NAMES, *self.hosts, f"[{self.host}]" if ":" in self.host else self.host}
        if not self.is_local:
            names |= {socket.gethostname(), socket.getfqdn(), *_own_addresses()}
        return frozenset(name.lower() for name in names)

    def cookie(self) -> str:
        """What the cookie holds instead of the token itself."""
        return hmac.new((self.token or "").encode(), b"lggd studio", hashlib.sha256).hexdigest()

    def accepts(self, token: str) -> bool:
        return self.token is None or hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())


def _own_addresses() -> Iterable[str]:
    try:
        return socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        return ()


class RefusedError(Exception):
    """A request that is not let in."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Guard:
    """ASGI middleware that lets in what `Access` allows."""

    def __init__(self, app: Any, access: Access) -> None:
        self._app, self._access, self._names = app, access, access.names()
        self._buckets: dict[tuple[str, bool], tuple[float, float]] = {}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            headers = _headers(scope)
            self._check_host(headers)
            self._check_origin(scope, headers)
            self._check_rate(scope)
            self._check_token(scope, headers)
            self._check_length(headers)
        except RefusedError as refused:
            await self._refuse(scope, send, refused)
            return
        await self._app(scope, self._limited(receive), self._with_headers(send))

    def _check_host(self, headers: dict[str, str]) -> None:
        """A page of another site that resolves to this address (DNS rebinding) names another host.

        Any port will do: browsers at the other end of a tunnel see another one.
        """
        if _host_name(headers.get("host", "")) not in self._names:
            raise RefusedError(403, "The Host header does not name this service. Use the address that it printed.")

    def _check_origin(self, scope: MutableMapping[str, Any], headers: dict[str, str]) -> None:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        same = origin is None or _host_of(origin) == headers.get("host")
        if not same or (scope["method"] not in SAFE_METHODS and site not in ("none", "same-origin")):
            raise RefusedError(403, "The request comes from another page. Use the page of this service.")

    def _check_rate(self, scope: MutableMapping[str, Any]) -> None:
        """A token bucket for each address, one for reading and one for writing."""
        writes = scope["method"] not in SAFE_METHODS
        rate = self._access.limits.writes if writes else self._access.limits.reads
        key, now = ((scope.get("client") or ("",))[0], writes), time.monotonic()
        left, then = self._buckets.get(key, (rate, now))
        left = min(rate, left + rate * (now - then)) - 1
        if len(self._buckets) > 10_000:
            self._buckets.clear()
        self._buckets[key] = max(left, 0.0), now
        if left < 0:
            raise RefusedError(429, "Too many requests. Wait a second.")

    def _check_token(self, scope: MutableMapping[str, Any], headers: dict[str, str]) -> None:
        if self._access.token is None or scope["path"] == LOGIN or scope["path"].startswith("/static/login"):
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._access.accepts(token.strip()):
            return
        if scope["path"] == "/" and scope["method"] == "GET":  # the address that the studio prints
            given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
            if self._access.accepts(given):
                return
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except Exception:  # whatever somebody has sent
            cookies.clear()
        if COOKIE in cookies and hmac.compare_digest(cookies[COOKIE].value.encode(), self._access.cookie().encode()):
            return
        raise RefusedError(401, "The token is missing or wrong. Use the address that the studio printed.")

    def _check_length(self, headers: dict[str, str]) -> None:
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._access.limits.body:
            raise self._too_large()

    def _too_large(self) -> RefusedError:
        return RefusedError(413, f"A request may have at most {self._access.limits.body:,} bytes.")

    def _limited(self, receive: Any) -> Any:
        """Receives at most as many bytes as a body may have, whatever its headers say."""
        received = 0

        async def limited() -> Any:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._access.limits.body:
                raise self._too_large()
            return message

        return limited

    def _with_headers(self, send: Any) -> Any:
        policy = POLICY.format(notebooks=NOTEBOOKS if self._access.is_local else "")
        extra = [(k.encode(), v.encode()) for k, v in {**HEADERS, "content-security-policy": policy}.items()]

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message = {**message, "headers": [*message["headers"], *(pair for pair in extra if pair[0] not in own)]}
            await send(message)

        return sending

    async def _refuse(self, scope: MutableMapping[str, Any], send: Any, refused: RefusedError) -> None:
        status, body = refused.status, json.dumps({"error": refused.message}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if status == 401 and scope["method"] == "GET" and scope["path"] == "/":  # people get a form instead
            status, body, headers = 303, b"", [(b"location", LOGIN.encode())]
        send = self._with_headers(send)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _headers(scope: MutableMapping[str, Any]) -> dict[str, str]:
    """The headers by name; two of a name are refused where they would decide who gets in."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in found and key in ("host", "origin", "authorization", "content-length"):
            raise RefusedError(400, f"The request has two {key} headers.")
        found[key] = f"{found[key]}; {value.decode('latin-1')}" if key in found else value.decode("latin-1")
    return found


def _host_name(host: str) -> str | None:
    """The name in a Host header; None where its port is no number."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return host.lower()
    return name.lower() if port.isdecimal() and len(port) < 6 else None


def _host_of(origin: str) -> str:
    """The host and port of an origin; "" for one that is no web page, such as null."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc if parts.scheme in ("http", "https") else ""
