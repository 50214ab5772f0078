"""A real browser for tests of pages. Tests that need one are skipped where it is missing.

Use it as `with browser.page(path) as page:`. Leaving the block fails if the page logged or threw an error, or requested
anything but itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
OPTIONS = [
    "--no-sandbox",
    "--headless=new",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# Without WebGL maps are drawn by the other painter, in half the time; tests/app/report/test_graph_map.py compares both.
WEBGL, NO_WEBGL = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader"), ("--disable-gpu",)
WIDE = {"width": 1280, "height": 900}


def executable() -> str | None:
    """Returns the path of the browser; None without one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """An open browser. Each page has a profile of its own."""

    def __init__(self, start: Callable[[bool], Any]) -> None:
        # One without WebGL and one with it, each started by its first page.
        self._launched = cache(start)

    @contextmanager
    def page(
        self,
        where: str | Path,
        *,
        viewport: dict[str, int] | None = None,
        allowed: tuple[str, ...] = (),
        before: str | None = None,
        webgl: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """Loads a file, or an address; `allowed` are prefixes of further addresses that it may request.

        `before` is a script that runs before those of the page. With `webgl`, the processor computes WebGL, and all
        else that the page shows is drawn in twice the time.
        `options` are passed to Playwright's `new_context`, such as color_scheme="dark".
        """
        address = where.resolve().as_uri() if isinstance(where, Path) else where
        context = self._launched(webgl).new_context(viewport=viewport or WIDE, **options)
        try:
            if before is not None:
                context.add_init_script(before)
            page = context.new_page()
            violations = watch(page, (address, *allowed))
            page.goto(address, wait_until="load")
            yield page
            if violations:
                raise AssertionError("; ".join(violations))
        finally:
            context.close()


def watch(page: Any, allowed: tuple[str, ...]) -> list[str]:
    """Returns a list that collects errors, warnings and forbidden requests of a page."""
    violations: list[str] = []

    def on_console(message: Any) -> None:
        if message.type in ("error", "warning"):
            violations.append(f"console {message.type}: {message.text}")

    def on_request(request: Any) -> None:
        if not request.url.startswith((*allowed, "data:", "blob:")):
            violations.append(f"request: {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: violations.append(f"error: {error}"))
    page.on("request", on_request)
    return violations


# The colours of a canvas: how many there are, and a number that changes with any of them.
LOOK_AT = """canvas => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
    copy.drawImage(canvas, 0, 0);
    const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
    const whole = new Uint32Array(pixels.buffer), seen = new Set();
    let sum = 0;
    for (const pixel of whole) { seen.add(pixel); sum = (Math.imul(sum, 31) + pixel) | 0; }
    return { colours: seen.size, sum };
}"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def settle(page: Any) -> None:
    """Waits for what is drawn with the next picture."""
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))"
    )


def picture(page: Any, selector: str = ".map-picture") -> int:
    """Returns a number for what a canvas shows, by default the large map."""
    settle(page)
    return int(page.locator(selector).first.evaluate(LOOK_AT)["sum"])


@contextmanager
def launch() -> Iterator[Browser]:
    """Opens a browser; skips the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    path = executable()
    if path is None:
        pytest.skip(f"no browser is installed: looked for {', '.join(NAMES)}")
    with playwright.sync_playwright() as session, ExitStack() as opened:

        def start(webgl: bool) -> Any:
            options = [*OPTIONS, *(WEBGL if webgl else NO_WEBGL)]
            launched = session.chromium.launch(executable_path=path, args=options, headless=True)
            opened.callback(launched.close)
            return launched

        yield Browser(start)
