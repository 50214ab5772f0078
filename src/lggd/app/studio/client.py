"""Talks to a studio from Python, with the standard library alone; and shows its page in a notebook."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from lggd.errors import InputError

if TYPE_CHECKING:
    from IPython.display import IFrame

TIMEOUT = 60.0


class StudioError(InputError):
    """A request that the studio refused; `status` is that of HTTP, `labels` the present state after a conflict.

    Examples
    --------
    >>> StudioError.read(409, b'{"error": "Node 3 has another label."}').status
    409
    """

    status: int = 0
    labels: tuple[dict[str, Any], ...] = ()

    @classmethod
    def read(cls, status: int, body: bytes) -> StudioError:
        try:
            answer = json.loads(body)
            text, labels = str(answer["error"]), tuple(answer.get("labels", ()))
        except (ValueError, KeyError, TypeError):
            text, labels = body[:200].decode("utf-8", "replace"), ()
        error = cls("studio", "accept the request", but=f"it answered {status}: {text}")
        error.status, error.labels = status, labels
        return error


class Client:
    """A client of a running studio.

    Parameters
    ----------
    url : str
        The address that the studio printed; a token in it is used.
    token : str, optional
        The token of the studio, if it has one.
    author : str, optional
        Your name, for the history and for undo.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000/", author="Ada")
    >>> client.url
    'http://127.0.0.1:8000'
    >>> client.label({"17": "3", "42": "8"})  # doctest: +SKIP
    {'revision': 1, 'changed': 12, ...}
    """

    def __init__(self, url: str, token: str | None = None, author: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InputError("url", "be the address of a studio", repr(url), "Use one such as http://127.0.0.1:8000/.")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.token, self.author = token or parse_qs(parts.query).get("token", [None])[0], author or ""

    # -- reading --------------------------------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """Whether it runs, and its version."""
        return dict(self._get("health"))

    def graph(self) -> dict[str, Any]:
        """Ids, classes, places on the map, edges and known classes."""
        return dict(self._get("graph"))

    def predictions(self) -> dict[str, Any]:
        """Labels and predictions of all nodes, as numbers of classes."""
        return dict(self._get("predictions"))

    def predicted(self) -> dict[str, str | None]:
        """The predicted class of every node, by name; None without predictions."""
        predictions, ids = self.predictions(), self.graph()["ids"]
        names = [*predictions["classes"], None]
        return {node: names[label] for node, label in zip(ids, predictions["predicted"], strict=True)}

    def node(self, node: object) -> dict[str, Any]:
        """Everything about one node."""
        return dict(self._get(f"nodes/{quote(str(node), safe='')}"))

    def labels(self) -> dict[str, str]:
        """All labels, by node."""
        return {each["node"]: each["label"] for each in self._get("labels")}

    def suggestions(self, count: int = 10) -> list[dict[str, Any]]:
        """Nodes worth labelling next, with reasons."""
        return list(self._get("suggestions", count=count))

    def suspicious(self, count: int = 10) -> list[dict[str, Any]]:
        """Labels that all others contradict."""
        return list(self._get("suspicious", count=count))

    def history(self, count: int = 100) -> list[dict[str, Any]]:
        """The last changes, the newest first."""
        return list(self._get("history", count=count))

    def progress(self) -> dict[str, Any]:
        """Curves, confusion and class counts."""
        return dict(self._get("progress"))

    def distances(self, label: object) -> dict[str, Any]:
        """The distance of every node to the labels of a class."""
        return dict(self._get("distances", label=label))

    def export(self, content: str = "labels") -> bytes:
        """The labels or predictions as CSV, or the model as ZIP."""
        return self._send("GET", "export", content=content)

    # -- writing --------------------------------------------------------------------------------------------------

    def label(
        self,
        labels: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        *,
        new_classes: bool = False,
        versions: Mapping[Any, int] | None = None,
    ) -> dict[str, Any]:
        """Set labels by node, None to remove one; all or none.

        With `versions`, labels that somebody else has changed since are refused: a `StudioError` of status 409.
        """
        pairs = labels.items() if isinstance(labels, Mapping) else labels
        edits: list[dict[str, Any]] = []
        for node, label in pairs:
            edits.append({"node": str(node), "label": None if label is None else str(label)})
            if versions is not None and node in versions:
                edits[-1]["version"] = versions[node]
        return self._change("POST", "labels", {"labels": edits, "new_classes": new_classes})

    def remove(self, node: object) -> dict[str, Any]:
        """Remove the label of a node."""
        return self._change("DELETE", f"labels/{quote(str(node), safe='')}")

    def keep(self, node: object) -> dict[str, Any]:
        """Confirm a suspicious label."""
        return self._change("POST", "keep", {"node": str(node)})

    def undo(self) -> dict[str, Any]:
        """Take back the author's last change."""
        return self._change("POST", "undo")

    def redo(self) -> dict[str, Any]:
        """Make the author's last undone change again."""
        return self._change("POST", "redo")

    def add_class(self, name: object) -> dict[str, Any]:
        """Add a class."""
        return self._change("POST", "classes", {"name": str(name)})

    def upload(self, table: str, *, new_classes: bool = False) -> dict[str, Any]:
        """Set the labels of a table in CSV with the columns id and label."""
        query = {"author": self.author, "new_classes": str(new_classes).lower()}
        body = self._send("POST", "upload", body=table.encode(), content_type="text/csv", **query)
        return dict(json.loads(body))

    # -- HTTP -----------------------------------------------------------------------------------------------------

    def _get(self, path: str, **query: Any) -> Any:
        return json.loads(self._send("GET", path, **query))

    def _change(self, method: str, path: str, value: Any = None) -> dict[str, Any]:
        body = None if value is None else json.dumps(value).encode()
        answer = self._send(method, path, body=body, content_type="application/json", author=self.author)
        return dict(json.loads(answer))

    def _send(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = "", **query: Any
    ) -> bytes:
        address = f"{self.url}/api/{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Content-Type": content_type} if body is not None else {}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            with urlopen(Request(address, body, headers, method=method), timeout=TIMEOUT) as answer:
                return bytes(answer.read())
        except HTTPError as error:
            raise StudioError.read(error.code, error.read()) from error
        except URLError as error:
            rule, remedy = "be the address of a running studio", "Start one with: lggd studio"
            raise InputError("url", rule, f"{self.url} ({error.reason})", remedy) from error

    # -- notebooks ------------------------------------------------------------------------------------------------

    def show(self, height: int = 800) -> IFrame:
        """The page, in a cell of a notebook. Works where the browser can reach the address."""
        from IPython.display import IFrame

        return IFrame(f"{self.url}/" + (f"?{urlencode({'token': self.token})}" if self.token else ""), "100%", height)
