"""Access to the service: tokens, the headers Host and Origin, the size of requests, and the headers of responses."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lggd.errors import InputError

COOKIE = "lggd_studio"
MIN_TOKEN_LENGTH = 8
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
MAX_BODY = 4_000_000  # bytes of a request
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Access:
    """Where the service listens and who may talk to it; an error where anybody could connect without a token.

    Parameters
    ----------
    host, port : str, int
        The address that it listens on.
    token : str, optional
        Required from everybody; must be given unless the address is that of this machine only.
    hosts : tuple of str
        Further names of this machine that browsers may use.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.token is not None and (len(self.token) < MIN_TOKEN_LENGTH or not self.token.isprintable()):
            rule = f"be at least {MIN_TOKEN_LENGTH} printable characters"
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
        """The value of the cookie: a digest of the token."""
        return hmac.new((self.token or "").encode(), b"lggd studio", hashlib.sha256).hexdigest()

    def accepts(self, token: str) -> bool:
        return self.token is None or hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())


def _own_addresses() -> Iterable[str]:
    try:
        return socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        return ()


class RefusedError(HTTPException):
    """A request that is refused, with a status and a sentence."""


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None, **more: object) -> JSONResponse:
    return JSONResponse({"error": message, **more}, status, headers)


class Guard:
    """ASGI middleware that lets in what `Access` allows."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access, self._names = app, access, access.names()
        policy = POLICY.format(notebooks=NOTEBOOKS if access.is_local else "")
        self._headers = {**HEADERS, "content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, send = Request(scope), self._with_headers(send)
        try:
            self._check_headers(request)
            self._check_token(request)
        except RefusedError as refused:
            response = error_response(refused.status_code, refused.detail, refused.headers)
            to_login = refused.status_code == 401 and _opens_page(request)  # people get a form instead
            await (RedirectResponse(LOGIN, 303) if to_login else response)(scope, receive, send)
            return
        await self._app(scope, self._limited(receive), send)

    def _check_headers(self, request: Request) -> None:
        """Only the page of this service may send requests.

        A page of another site that resolves to this address (DNS rebinding) names another host. Any port will do:
        browsers at the other end of a tunnel see another one.
        """
        headers = request.headers
        if _host_name(headers.get("host", "")) not in self._names:
            raise RefusedError(403, "The Host header does not name this service. Use the address that it printed.")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        same = origin is None or _host_of(origin) == headers.get("host")
        if not same or (request.method not in SAFE_METHODS and site not in ("none", "same-origin")):
            raise RefusedError(403, "The request comes from another page. Use the page of this service.")

    def _check_token(self, request: Request) -> None:
        access, path = self._access, request.scope["path"]
        if access.token is None or path == LOGIN or path.startswith("/static/login"):
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and access.accepts(token.strip()):
            return
        if _opens_page(request) and access.accepts(request.query_params.get("token", "")):
            return
        if not hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), access.cookie().encode()):
            text = "The token is missing or wrong. Use the address that the studio printed."
            raise RefusedError(401, text, {"www-authenticate": "Bearer"})

    def _limited(self, receive: Receive) -> Receive:
        """Receives at most `MAX_BODY` bytes, whatever the headers say."""
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY:
                raise RefusedError(413, f"A request may have at most {MAX_BODY:,} bytes.")
            return message

        return limited

    def _with_headers(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        return sending


def _opens_page(request: Request) -> bool:
    return request.method == "GET" and request.scope["path"] == "/"


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
