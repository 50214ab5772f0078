"""The page in a real browser: label by click, key and lasso; undo; two browsers in step; files; small screens.

Each test leaves pictures of its pages in out/screenshots/studio, as they are at its end.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lggd.app.studio.server import StudioServer
from lggd.app.studio.store import LabelEdit, LabelStore
from support import browser
from support.studio_cases import CLASSES, XSS, settle, small_graph, small_studio, wait_for

SCREENSHOTS = Path(__file__).parents[3] / "out" / "screenshots" / "studio"
IDS = [*(f"n{k}" for k in range(34)), "a/b", XSS]


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.launch() as launched:
        yield launched


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StudioServer]:
    with small_studio(tmp_path, small_graph(ids=IDS, classes=(*CLASSES[:2], XSS))) as running:
        yield running


@pytest.fixture
def visit(chromium: browser.Browser, server: StudioServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Opens the page, any number of times; each is a browser of its own."""
    with ExitStack() as stack:
        pages = list[Any]()

        def opened(**options: Any) -> Any:
            page = stack.enter_context(chromium.page(server.url, allowed=(server.url,), **options))
            page.wait_for_selector("#queue li")
            page.wait_for_function("document.documentElement.dataset.revision !== undefined")
            pages.append(page)
            return page

        yield opened
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        test = re.sub(r"\W+", "-", request.node.name).strip("-")
        for k, page in enumerate(pages):
            page.screenshot(path=SCREENSHOTS / f"{test}{f'-{k + 1}' if k else ''}.png", full_page=True)


def label_of(server: StudioServer, node: int) -> int:
    return int(server.session.snapshot.labels[node])


def place_of(page: Any, node: int) -> tuple[float, float]:
    """Where a node is on the screen, by searching for it and reading the middle of the map."""
    page.fill("#map-search", IDS[node])
    page.press("#map-search", "Enter")
    page.wait_for_timeout(200)
    box = page.locator("#map").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def pick(page: Any, node: int) -> None:
    page.mouse.click(*place_of(page, node))
    page.wait_for_function("id => document.querySelector('#node strong')?.textContent === `node ${id}`", arg=IDS[node])


def count_of(page: Any, k: int) -> int:
    return int(page.locator("#counts tr").nth(k + 1).locator("td").first.inner_text())


def test_the_map_is_not_blank(visit: Any) -> None:
    page = visit()
    colours = page.evaluate(
        """() => { const c = document.querySelector('.map-picture');
        const g = new OffscreenCanvas(c.width, c.height).getContext('2d');
        g.drawImage(c, 0, 0);
        const d = g.getImageData(0, 0, c.width, c.height).data, seen = new Set();
        for (let k = 0; k < d.length; k += 4) seen.add(d[k] + ',' + d[k+1] + ',' + d[k+2]);
        return seen.size; }"""
    )
    assert colours > 10
    assert "36 nodes" in page.inner_text("#facts")


def test_label_by_click_and_button(visit: Any, server: StudioServer) -> None:
    page = visit()
    before = count_of(page, 1)
    pick(page, 13)
    page.click("#classes button[data-class='1']")
    wait_for(lambda: label_of(server, 13) == 1)
    shown = "n => document.querySelectorAll('#counts tr')[2].cells[1].textContent == n"
    page.wait_for_function(shown, arg=str(before + 1))
    assert " changed in " in page.inner_text("#status")
    page.wait_for_function("() => /n13: – → green/.test(document.querySelector('#history').textContent)")


def test_label_by_key_undo_redo_and_remove(visit: Any, server: StudioServer) -> None:
    page = visit()
    pick(page, 13)
    page.keyboard.press("2")
    wait_for(lambda: label_of(server, 13) == 1)
    page.keyboard.press("Control+z")
    wait_for(lambda: label_of(server, 13) == -1)
    page.keyboard.press("Control+Shift+Z")
    wait_for(lambda: label_of(server, 13) == 1)
    pick(page, 13)
    page.keyboard.press("Delete")
    wait_for(lambda: label_of(server, 13) == -1)


def test_the_queue_needs_one_key_a_label(visit: Any, server: StudioServer) -> None:
    page = visit()
    before = server.session.snapshot.num_labels
    page.keyboard.press("n")
    page.wait_for_selector("#queue li[aria-current='true']")
    for k in range(3):
        assert page.inner_text("#why").startswith("Why: ")
        assert page.locator(".map-stage .tip").is_hidden()  # the card says it; the map shows what changes
        node = page.inner_text("#node strong")
        page.keyboard.press("1")
        wait_for(lambda k=k: server.session.snapshot.num_labels == before + k + 1)
        page.wait_for_function("before => document.querySelector('#node strong')?.textContent !== before", arg=node)


def test_what_looks_wrong_is_kept_or_corrected(visit: Any, server: StudioServer) -> None:
    server.session.submit(LabelStore.set_labels, [*_edit(3, "green")], "eve").result()
    settle(server.session)
    page = visit()
    page.wait_for_selector("#suspicious li[data-node='n3']")
    page.keyboard.press("w")
    page.wait_for_selector("#suspicious li[data-node='n3'][aria-current='true']")
    assert "All other labels say red" in " ".join(page.inner_text("#why").split())
    page.keyboard.press("c")
    wait_for(lambda: label_of(server, 3) == 0)
    page.wait_for_function("() => !document.querySelector('#why button')")  # it is settled


def _edit(node: int, label: str) -> list[Any]:
    return [LabelEdit(node, label)]


def test_label_by_lasso(visit: Any, server: StudioServer) -> None:
    page = visit()
    page.click(".lasso")
    box = page.locator("#map").bounding_box()
    x, y, width, height = box["x"], box["y"], box["width"], box["height"]
    corners = ((0.02, 0.02), (0.9, 0.02), (0.9, 0.98), (0.02, 0.98), (0.02, 0.03))
    page.mouse.move(x + corners[0][0] * width, y + corners[0][1] * height)
    page.mouse.down()
    for right, down in corners[1:]:
        page.mouse.move(x + right * width, y + down * height, steps=4)
    page.mouse.up()
    page.wait_for_function("() => /nodes selected/.test(document.querySelector('#node').textContent)")
    count = int(page.inner_text("#node").split()[0])
    assert count > 10
    page.keyboard.press("1")
    wait_for(lambda: int((server.session.snapshot.labels == 0).sum()) >= count)
    assert len(server.session.snapshot.history[-1].entries) <= count


def test_a_second_browser_is_in_step(visit: Any, server: StudioServer) -> None:
    first, second = visit(), visit()
    pick(first, 13)
    first.keyboard.press("2")
    wait_for(lambda: label_of(server, 13) == 1)
    second.wait_for_function("() => /13 labels/.test(document.querySelector('#facts').textContent)")
    second.wait_for_function("() => /n13/.test(document.querySelector('#history').textContent)")
    revision = str(server.session.snapshot.revision)
    for page in (first, second):
        page.wait_for_function("r => document.documentElement.dataset.revision >= r", arg=revision)


def test_a_reload_keeps_labels(visit: Any, server: StudioServer) -> None:
    page = visit()
    pick(page, 13)
    page.keyboard.press("2")
    wait_for(lambda: label_of(server, 13) == 1)
    page.reload()
    page.wait_for_function("() => /13 labels/.test(document.querySelector('#facts').textContent)")


def test_names_are_text(visit: Any, server: StudioServer) -> None:
    page = visit()
    pick(page, 35)
    assert page.inner_text("#node strong") == f"node {XSS}"
    page.click("#classes button[data-class='2']")
    wait_for(lambda: label_of(server, 35) == 2)
    page.fill("#class-name", "<b>new</b>")
    page.press("#class-name", "Enter")
    page.wait_for_selector("#classes button[data-class='3']")
    assert "<b>new</b>" in page.inner_text("#classes")
    assert page.locator("img").count() == 0
    assert page.title() == "small · lggd studio"


def test_upload_and_download(visit: Any, server: StudioServer, tmp_path: Path) -> None:
    page, table = visit(), tmp_path / "mine.csv"
    table.write_text("id,label\nn20,red\nn21,purple\n")
    page.check("#upload-new")
    page.set_input_files("#upload", str(table))
    wait_for(lambda: label_of(server, 21) == 3)
    with page.expect_download() as download:
        page.click("text=Labels (CSV)")
    rows = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    assert {"id": "n21", "label": "purple"} in rows
    assert len(rows) == 14
    with page.expect_download() as download:
        page.click("text=Model (ZIP)")
    assert Path(download.value.path()).stat().st_size > 1000


@pytest.mark.parametrize(
    ("content", "new_classes", "said"),
    [(b"n21,purple\n", False, "known class"), ("id,label\nn20,Größe\n".encode("latin-1"), True, "must be UTF-8 text")],
)
def test_refusals_are_shown(
    chromium: browser.Browser, server: StudioServer, tmp_path: Path, content: bytes, new_classes: bool, said: str
) -> None:
    table, before = tmp_path / "mine.csv", server.session.snapshot
    table.write_bytes(content)

    def refused() -> None:
        with chromium.page(server.url, allowed=(server.url,)) as page:
            page.wait_for_selector("#queue li")
            page.set_checked("#upload-new", new_classes)
            page.set_input_files("#upload", str(table))
            page.wait_for_selector("#status.error")
            assert said in page.inner_text("#status")

    with pytest.raises(AssertionError, match="status of 422"):  # Chromium logs it
        refused()
    assert server.session.snapshot is before


def test_without_predictions_their_links_say_why(chromium: browser.Browser, tmp_path: Path) -> None:
    with (
        small_studio(tmp_path, small_graph(labelled=0, model=None), settled=False) as server,
        chromium.page(server.url, allowed=(server.url,)) as page,
    ):
        page.wait_for_selector("#classes button")
        for name in ("Predictions (CSV)", "Model (ZIP)"):
            page.click(f"text={name}")
            page.wait_for_selector("#status.error")
            assert "Label nodes of two classes" in page.inner_text("#status")


def test_many_classes_leave_room_for_the_queue(visit: Any, server: StudioServer) -> None:
    for k in range(60):
        server.session.submit(LabelStore.add_class, f"a class with a long name {k}").result()
    page = visit(viewport={"width": 1280, "height": 900})
    page.wait_for_selector("#classes button[data-class='62']")
    assert page.locator("#next").bounding_box()["y"] < 900
    page.locator("#classes button[data-class='62']").scroll_into_view_if_needed()


def test_two_people_one_node(chromium: browser.Browser, server: StudioServer) -> None:
    def eve_was_faster(route: Any) -> None:
        server.session.submit(LabelStore.set_labels, _edit(13, "green"), "eve").result()
        route.continue_()

    def late() -> None:
        with chromium.page(server.url, allowed=(server.url,)) as page:
            page.wait_for_selector("#queue li")
            pick(page, 13)
            page.route("**/api/labels?*", eve_was_faster)
            page.keyboard.press("1")
            page.wait_for_selector("#status.error")
            assert "Node n13 now has the label green" in page.inner_text("#status")

    with pytest.raises(AssertionError, match="status of 409"):  # Chromium logs it
        late()
    assert label_of(server, 13) == 1


def test_colours_by_distance_and_label(visit: Any) -> None:
    page = visit()
    for mode in ("certainty", "label", "truth", "distance", "predicted"):
        page.select_option("#map-colour", mode)
        page.wait_for_timeout(100)
    page.select_option("#map-colour", "distance")
    page.wait_for_function("() => /near/.test(document.querySelector('.map-legend').textContent)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_small_screens_do_not_scroll_sideways(visit: Any, scheme: str) -> None:
    page = visit(viewport={"width": 375, "height": 740}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_numbers_are_not_broken(visit: Any) -> None:
    page = visit(viewport={"width": 375, "height": 740})
    page.click("#progress summary")
    page.wait_for_selector("#confusion td")
    height = """all => Math.max(...all.map((cell) => { cell.textContent = "1234567890".repeat(3);
        return cell.clientHeight; }))"""
    assert page.locator("#confusion tr").nth(1).locator("td").evaluate_all(height) < 40  # one line
    assert page.evaluate(browser.OVERFLOW) <= 0


def test_tips_say_everything_on_small_screens(visit: Any) -> None:
    page = visit(viewport={"width": 375, "height": 740})
    pick(page, 13)
    page.wait_for_selector(".map-stage .tip td")
    assert re.match(r"node n13 · no label\s+\w+\s+\d+\s%", page.inner_text(".map-stage .tip"))
    assert page.evaluate(browser.OVERFLOW) <= 0


def test_controls_have_names(visit: Any) -> None:
    page = visit()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, a, canvas[tabindex]')].filter((e) =>
        !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).map((e) => e.outerHTML)"""
    )
    assert nameless == []


def test_without_a_mouse(visit: Any, server: StudioServer) -> None:
    page = visit()
    page.focus("#map")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#node strong")
    node = IDS.index(page.inner_text("#node strong").removeprefix("node "))
    wanted = (label_of(server, node) + 1) % 3
    page.keyboard.press(str(wanted + 1))
    wait_for(lambda: label_of(server, node) == wanted)
