"""Draws docs/studio-light.png, studio-dark.png and studio.gif: the real page of `lggd studio` on digits, in a browser.

Needs the extra studio, Playwright, Chromium and Pillow.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from lggd.app.runs.run_input import RunInput
from lggd.app.studio.security import Access
from lggd.app.studio.server import StudioServer
from lggd.app.studio.session import Session
from lggd.app.studio.store import LabelEdit, LabelStore
from lggd.app.studio.studio_graph import StudioGraph

DOCS = Path(__file__).parent
OPTIONS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
WIDE, TALL, SMALL = ({"width": w, "height": h} for w, h in ((1280, 860), (1280, 1060), (1060, 660)))
# The animation shows the page when there are this many labels.
COUNTS = (0, 2, 4, 6, 8, 10, 13, 16, 20, 30, 50)
FRAME, LAST_FRAME = 900, 3500  # milliseconds
MISTAKES = 3


@contextmanager
def studio(folder: Path, unlabelled: bool) -> Iterator[StudioServer]:
    graph = StudioGraph.from_run_input(RunInput.from_dataset("digits"), unlabelled=unlabelled)
    session = Session(graph, graph.open_store(folder / f"{unlabelled}.sqlite"))
    with StudioServer(session, Access(port=0)) as server:
        yield server


@contextmanager
def opened(browser: Any, server: StudioServer, **options: Any) -> Iterator[Any]:
    settle(server.session)
    page = browser.new_page(reduced_motion="reduce", **options)
    page.goto(server.url)
    page.wait_for_selector("#queue li")
    page.fill("#author", "Ada")
    page.locator("#author").blur()  # keys are labels again
    yield page
    page.close()


def settle(session: Session) -> None:
    """Waits until settings are chosen, the curves measured and nodes suggested."""
    while True:
        snapshot = session.snapshot
        is_measured = session.curve and session.curve[-1].revision == snapshot.revision
        if is_measured and not snapshot.choosing and "suggestions" in snapshot._cache:
            return
        time.sleep(0.05)


def label_next(page: Any, server: StudioServer) -> None:
    """Gives the node that the queue has led to its true class, by its key; the page goes on to the next one."""
    session = server.session
    node, before = page.inner_text("#node strong"), session.snapshot.num_labels
    number = session.node_number(node.removeprefix("node "))
    page.keyboard.press(session.snapshot.classes[session.graph.truth[number]])
    page.wait_for_function("before => document.querySelector('#node strong').textContent !== before", arg=node)
    if session.snapshot.num_labels != before + 1:
        raise RuntimeError(f"{node} has no label")
    settle(session)


def in_step(page: Any, server: StudioServer) -> None:
    """Waits until the page shows everything that the studio knows, and shows the whole graph."""
    page.wait_for_function("r => document.documentElement.dataset.revision >= r", arg=server.session.snapshot.revision)
    page.click(".zoom-fit")
    page.locator(".zoom-fit").blur()
    page.mouse.move(5, 5)
    page.wait_for_timeout(1600)  # cards are loaded, rings of changed nodes are gone


def draw_map(browser: Any, server: StudioServer) -> None:
    with opened(browser, server, viewport=WIDE) as page:
        page.keyboard.press("n")
        for _ in range(2):
            label_next(page, server)
        in_step(page, server)
        page.screenshot(path=DOCS / "studio-light.png")


def draw_wrong(browser: Any, server: StudioServer) -> None:
    """Some labels are wrong; the page finds them."""
    session = server.session
    nodes = [node for node in range(session.graph.num_nodes) if session.snapshot.labels[node] >= 0][::17][:MISTAKES]
    wrong = [LabelEdit(node, str((session.graph.truth[node] + 3) % 10)) for node in nodes]
    session.submit(LabelStore.set_labels, wrong, "Eve").result()
    with opened(browser, server, viewport=TALL, color_scheme="dark") as page:
        page.wait_for_selector("#suspicious .keep")
        page.keyboard.press("w")
        page.wait_for_selector("#suspicious li[aria-current='true']")
        in_step(page, server)
        page.screenshot(path=DOCS / "studio-dark.png")


def draw_animation(browser: Any, server: StudioServer) -> None:
    frames = list[Image.Image]()
    with opened(browser, server, viewport=SMALL) as page:
        page.keyboard.press("n")
        page.wait_for_selector("#node strong")
        for count in range(COUNTS[-1] + 1):
            if count:
                label_next(page, server)
            if count in COUNTS:
                in_step(page, server)
                frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    # One palette, that of the last frame: it has all colours, and what stays the same costs nothing.
    palette = frames[-1].quantize(255, method=Image.Quantize.MEDIANCUT)
    first, *others = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    durations = [FRAME] * len(others) + [LAST_FRAME]
    first.save(DOCS / "studio.gif", save_all=True, append_images=others, duration=durations, loop=0, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=OPTIONS)
        with studio(Path(folder), unlabelled=False) as labelled:
            draw_map(chromium, labelled)
            draw_wrong(chromium, labelled)
        with studio(Path(folder), unlabelled=True) as empty:
            draw_animation(chromium, empty)
        chromium.close()
