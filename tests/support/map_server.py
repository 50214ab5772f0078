"""A server that sends the modules of the map as they are, with a page that shows a graph drawn at random.

The label studio will use the component in this way: ES modules from a server, and a policy without inline scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Thread
from typing import Any

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"
INDEX = """<!doctype html><html lang="en"><meta charset="utf-8"><title>A map</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="colours.css"><link rel="stylesheet" href="map.css">
<div id="host"></div><p class="filler">below</p><script type="module" src="start.js"></script></html>"""
START = """
import { MapPanel } from "./map_panel.js";

const query = new URLSearchParams(location.search), count = Number(query.get("nodes") ?? 300), classes = 3;
const edges = Number(query.get("edges") ?? count), side = Math.ceil(Math.sqrt(count));
let state = 1;
const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
const filled = (Kind, value) => Kind.from({ length: count }, value);
const predicted = filled(Int16Array, (_, node) => node % classes);
const data = {
  count, classes: ["red", "green", "blue"], names: filled(Array, (_, node) => `n${node}`), numbers: null,
  // A grid out of shape, with edges between nodes that are near.
  x: filled(Uint16Array, (_, node) => 10000 * (node % side + random()) / side),
  y: filled(Uint16Array, (_, node) => 10000 * (Math.floor(node / side) + random()) / side),
  edges: Uint32Array.from({ length: 2 * edges }, (_, k) =>
    ((k >> 1) + (k & 1) * (1 + side * Math.floor(k / 2 / count))) % count),
  predicted, second: predicted.map((k) => (k + 1) % classes), truth: predicted.slice(), tested: new Uint8Array(count),
  label: filled(Int16Array, (_, node) => (node % 50 === 0 ? node % classes : -1)),
  probability: filled(Uint16Array, () => 65535 * random()), margin: filled(Uint8Array, () => 255 * random()),
  times: [], distances: [], scales: [], edgesAreSampled: false,
};
const options = { lasso: true, mode: "predicted", painter: query.get("painter") ?? undefined };
if (query.has("slow")) options.neighbours = async (node) => [(node + 1) % count, (node + 2) % count];
const bare = { count, classes: [], x: data.x, y: data.y, edges: data.edges };
window.panel = new MapPanel(document.getElementById("host"), query.has("bare") ? bare : data, options);
window.events = [];
for (const name of ["hover", "pick", "select", "choice"]) {
  panel.map.addEventListener(name, ({ detail }) => events.push([name, detail]));
}
"""


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        written = {"/": (INDEX, "text/html"), "/start.js": (START, "text/javascript")}
        answer = written.get(self.path.partition("?")[0])
        if answer is None:
            super().do_GET()
            return
        body = answer[0].encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{answer[1]}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serve() -> Iterator[str]:
    """Yields the address of the page; its query sets nodes, edges and painter."""
    folder = str(files("lggd.app.report") / "page")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
