"""A real browser for tests of pages. Tests that need one are skipped, visibly, where it is missing.

Use it as `with browser.page(path) as page:`. Leaving the block fails if the page logged an error, threw one, or asked
for anything but itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = [
    "--no-sandbox",
    "--headless=new",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WIDE = {"width": 1280, "height": 900}


def executable() -> str | None:
    """Where the browser is; None without one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """An open browser. Each page has a profile of its own."""

    def __init__(self, launched: Any) -> None:
        self._launched = launched

    @contextmanager
    def page(
        self,
        where: str | Path,
        *,
        viewport: dict[str, int] | None = None,
        allowed: tuple[str, ...] = (),
        **options: Any,
    ) -> Iterator[Any]:
        """A loaded page: a file, or an address that is in `allowed`, as are those it may ask for.

        `options` are those of Playwright's `new_context`, such as color_scheme="dark".
        """
        address = where.resolve().as_uri() if isinstance(where, Path) else where
        context = self._launched.new_context(viewport=viewport or WIDE, **options)
        try:
            page = context.new_page()
            complaints = watch(page, (address, *allowed))
            page.goto(address, wait_until="load")
            yield page
            if complaints:
                raise AssertionError("; ".join(complaints))
        finally:
            context.close()


def watch(page: Any, allowed: tuple[str, ...]) -> list[str]:
    """A list that fills with whatever a page should not do."""
    complaints: list[str] = []

    def on_console(message: Any) -> None:
        if message.type in ("error", "warning"):
            complaints.append(f"console {message.type}: {message.text}")

    def on_request(request: Any) -> None:
        if not request.url.startswith((*allowed, "data:", "blob:")):
            complaints.append(f"request: {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("request", on_request)
    return complaints


@contextmanager
def launch() -> Iterator[Browser]:
    """An open browser, for a fixture of the module. Skips the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    path = executable()
    if path is None:
        pytest.skip(f"no browser is installed: looked for {', '.join(NAMES)}")
    with playwright.sync_playwright() as session:
        launched = session.chromium.launch(executable_path=path, args=OPTIONS, headless=True)
        try:
            yield Browser(launched)
        finally:
            launched.close()
