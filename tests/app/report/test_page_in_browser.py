"""The page in a real browser."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest

from lggd.app.report.page import render
from lggd.app.report.run_report import LabelAddition
from support.browser import LOOK_AT, OVERFLOW, picture, settle
from support.sample_reports import HOSTILE, bare, hostile, random_report, small

# A pixel of a node near the middle, from the corner of the window.
FIND_NODE = """canvas => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
    copy.drawImage(canvas, 0, 0);
    const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
    const ratio = canvas.width / canvas.clientWidth, box = canvas.getBoundingClientRect();
    let best = null, least = Infinity;
    for (let y = 0; y < canvas.height; y++) for (let x = 0; x < canvas.width; x++) {
        const far = Math.hypot(x - canvas.width / 2, y - canvas.height / 2);
        if (pixels[4 * (y * canvas.width + x) + 3] === 255 && far < least) { least = far; best = [x, y]; }
    }
    return [box.left + best[0] / ratio, box.top + best[1] / ratio];
}"""


def find_node(page):
    page.locator("#map").scroll_into_view_if_needed()
    settle(page)
    return page.locator(".map-picture").evaluate(FIND_NODE)


def test_maps_are_drawn(chromium, digits_page):
    with chromium.page(digits_page) as page:
        settle(page)
        canvases = page.locator("canvas:not(.map-surface)").all()
        assert len(canvases) == 11
        looks = [canvas.evaluate(LOOK_AT) for canvas in canvases]
        assert min(look["colours"] for look in looks) > 20
        assert len({look["sum"] for look in looks}) == 11


def test_controls_redraw_the_map(chromium, digits_page):
    with chromium.page(digits_page) as page:
        seen = [picture(page)]
        page.select_option("#map-class", "3")
        seen.append(picture(page))
        page.locator("#map-time").fill("0")
        seen.append(picture(page))
        assert page.locator("#map-time-value").inner_text() == "1"
        for colour in ("predicted", "label", "truth", "correct", "certainty"):
            page.select_option("#map-colour", colour)
            seen.append(picture(page))
            assert page.locator("#map-class").is_hidden()
        page.uncheck("#map-edges")
        seen.append(picture(page))
        assert len(set(seen)) == len(seen)
        assert "coloured by certainty" in page.locator("#map").get_attribute("aria-label")


def test_hovering_shows_a_tooltip(chromium, digits_page):
    with chromium.page(digits_page) as page:
        assert page.locator(".map-stage .tip").is_hidden()
        page.mouse.move(*find_node(page))
        tooltip = page.locator(".map-stage .tip").inner_text()
        assert re.search(r"node \d+", tooltip)
        for word in ("predicted", "true class", "distances at time 8"):
            assert word in tooltip
        page.mouse.move(5, 5)
        assert page.locator(".map-stage .tip").is_hidden()


def test_map_zooms_pans_and_resets(chromium, digits_page):
    with chromium.page(digits_page) as page:
        page.locator("#map").scroll_into_view_if_needed()
        whole = picture(page)
        box = page.locator("#map").bounding_box()
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.click(*middle)
        page.mouse.wheel(0, -400)
        closer = picture(page)
        page.mouse.down()
        page.mouse.move(middle[0] + 90, middle[1] + 40, steps=3)
        page.mouse.up()
        page.mouse.move(5, 5)
        moved = picture(page)
        page.click(".zoom-in")
        by_button = picture(page)
        page.locator("#map").focus()
        page.keyboard.press("ArrowLeft")
        by_key = picture(page)
        assert len({whole, closer, moved, by_button, by_key}) == 5
        page.keyboard.press("Home")
        assert picture(page) == whole


def test_wheel_scrolls_the_page_until_a_click(chromium, digits_page):
    with chromium.page(digits_page) as page:
        page.locator("#map").hover()
        whole, before = picture(page), page.evaluate("scrollY")
        page.mouse.wheel(0, -100)
        # The hint goes away by itself: it is read first.
        assert "click into the map first" in page.locator(".map-hint.shown").inner_text()
        page.wait_for_timeout(300)
        assert page.evaluate("scrollY") < before
        assert picture(page) == whole
        page.locator("#map").click()
        before = page.evaluate("scrollY")
        page.mouse.wheel(0, -100)
        page.wait_for_timeout(300)
        assert page.evaluate("scrollY") == before
        assert picture(page) != whole


def test_small_maps_and_uncertain_nodes_select_the_large_map(chromium, digits_page):
    with chromium.page(digits_page) as page:
        page.locator(".small-map").nth(4).click()
        assert page.locator("#map-class").input_value() == "4"
        assert page.locator(".small-map").nth(4).get_attribute("aria-pressed") == "true"
        button = page.locator(".show").first
        number = button.inner_text()
        button.click()
        settle(page)
        assert f"node {number}" in page.locator(".map-stage .tip").inner_text()


def test_legend_highlights_a_class(chromium, digits_page):
    with chromium.page(digits_page) as page:
        page.select_option("#map-colour", "predicted")
        all_classes = picture(page)
        chip = page.locator(".chip").nth(2)
        chip.click()
        assert chip.get_attribute("aria-pressed") == "true"
        assert picture(page) != all_classes
        chip.click()
        assert picture(page) == all_classes


def test_charts_show_tooltips(chromium, digits_page):
    with chromium.page(digits_page) as page:
        plot = page.locator(".plot").nth(1)
        plot.hover()
        tooltip = plot.locator(".tip").inner_text()
        assert "epoch 3" in tooltip
        assert "validation accuracy" in tooltip
        assert "90" in tooltip


@pytest.mark.parametrize("kind", ["digits", "hostile"])
def test_narrow_pages_do_not_scroll_sideways(chromium, digits, written, kind):
    with chromium.page(written(digits if kind == "digits" else hostile())) as page:
        for width in (768, 375, 320):
            page.set_viewport_size({"width": width, "height": 740})
            settle(page)
            assert page.evaluate(OVERFLOW) <= 0, width


def test_dark_and_light_themes(chromium, digits_page):
    background = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    with chromium.page(digits_page, color_scheme="dark") as page:
        dark = picture(page)
        assert max(page.evaluate(background)) < 60
        page.emulate_media(color_scheme="light")
        assert min(page.evaluate(background)) > 200
        assert picture(page) != dark
        page.emulate_media(color_scheme="dark")
        assert picture(page) == dark


def test_printing_restores_the_theme(chromium, digits_page):
    with chromium.page(digits_page, color_scheme="dark") as page:
        dark = picture(page)
        assert page.pdf().startswith(b"%PDF")
        settle(page)
        assert not page.locator("details").evaluate("details => details.open")
        assert picture(page) == dark


def test_layout_is_stable_while_loading(chromium, digits_page):
    watch = """() => new Promise(done => {
        let moved = 0;
        new PerformanceObserver(list => { for (const one of list.getEntries()) moved += one.value; })
            .observe({ type: "layout-shift", buffered: true });
        setTimeout(() => done(moved), 300);
    })"""
    with chromium.page(digits_page) as page:
        assert page.evaluate(watch) < 0.02


def test_controls_have_accessible_names(chromium, digits_page):
    nameless = """() => [...document.querySelectorAll("button, select, input, canvas, a")].filter(one =>
        !(one.ariaHidden || one.ariaLabel || one.textContent.trim() || (one.labels && one.labels.length))).length"""
    with chromium.page(digits_page) as page:
        assert page.evaluate(nameless) == 0


def test_hostile_names_are_not_executed(chromium, written):
    with chromium.page(written(hostile())) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
        for colour in ("distance", "predicted", "truth", "label"):
            page.select_option("#map-colour", colour)
        page.mouse.move(*find_node(page))
        assert page.locator(".map-stage .tip").is_visible()
        assert page.evaluate("window.hacked") is None
        assert page.locator("h1").inner_text() == HOSTILE[0]


def test_long_names_of_classes_do_not_stretch_the_page(chromium, written):
    names = [f"{k} is a class with a very long name of many words {'x' * 60}" for k in range(3)]
    with chromium.page(written(small(classes=names)), viewport={"width": 360, "height": 740}) as page:
        assert max(row.bounding_box()["height"] for row in page.locator("table.classes tbody tr").all()) < 300
        assert max(one.bounding_box()["height"] for one in page.locator(".small-map .class").all()) < 60
        assert page.evaluate(OVERFLOW) == 0


@pytest.mark.parametrize(
    "make",
    [
        bare,
        lambda: small(ids=None, additions=[], notes=[], curves={}),
        lambda: small(distances=np.full((2, 6, 3), np.inf)),
        lambda: small(positions=np.zeros((6, 2)), edges=np.zeros((2, 0), int)),
        lambda: small(labels=np.full(6, -1), y=np.full(6, -1), test_mask=np.zeros(6, bool)),
        lambda: small(curves={"a": {"train_loss": [math.nan]}, "b": {"validation_accuracy": [0.5]}}),
        lambda: small(additions=[LabelAddition(5, 50.0, 1.0)]),
        lambda: random_report(3_000, 30),
        lambda: random_report(30_000, 4),
        lambda: random_report(200, 4, times=0, distances=None),
    ],
    ids=[
        "bare",
        "little",
        "unreachable",
        "no edges",
        "no labels",
        "odd curves",
        "one addition",
        "30 classes",
        "large",
        "no distances",
    ],
)
def test_unusual_reports_render_without_errors(chromium, written, make):
    with chromium.page(written(make())) as page:
        for colour in page.eval_on_selector_all("#map-colour option", "all => all.map(one => one.value)"):
            page.select_option("#map-colour", colour)
            settle(page)
        page.mouse.move(*find_node(page))
        assert page.locator(".map-stage .tip").is_visible()
        assert page.evaluate(OVERFLOW) <= 0


def test_nothing_is_blank_at_375_pixels(chromium, digits_page):
    """A heading that may break anywhere made a strip as high as its number of letters, most of it out of sight."""
    heights = """() => [...document.querySelectorAll("section thead tr")].map(row => row.clientHeight)"""
    with chromium.page(digits_page, viewport={"width": 375, "height": 740}) as page:
        assert max(page.evaluate(heights)) < 60
        boxes = [one.bounding_box() for one in page.locator("main > section").all()]
        assert all(below["y"] - above["y"] - above["height"] < 60 for above, below in pairwise(boxes))


def test_search_centres_a_node(chromium, digits_page):
    with chromium.page(digits_page) as page:
        whole = picture(page)
        page.fill("#map-search", "1416")
        page.press("#map-search", "Enter")
        settle(page)
        assert "node 1416" in page.locator(".map-stage .tip").inner_text()
        assert "node 1416; predicted" in page.locator(".map-live").inner_text()
        assert picture(page) != whole
        page.fill("#map-search", "99999")
        page.press("#map-search", "Enter")
        page.locator(".map-hint.shown").wait_for()
        assert page.locator(".map-hint").inner_text() == "No node has this name."


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        ("<script>console.error('a mistake')</script>", "console error: a mistake"),
        ("<script>undefined.x</script>", "error: Cannot read"),
        ("<img src='http://127.0.0.1:9/x.png'>", "request: http://127.0.0.1:9/x.png"),
    ],
)
def test_browser_detects_planted_errors(chromium, tmp_path, planted, message):
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>planted</title>{planted}")
    with pytest.raises(AssertionError, match=re.escape(message)), chromium.page(path) as page:
        page.wait_for_timeout(100)


def test_content_security_policy(chromium, written):
    """Even if a name slipped through as a script, or asked for a picture, the page's own policy would stop it."""
    page_text = render(small()).replace(
        "</main>", "<script>window.hacked = 1</script><img src='http://127.0.0.1:9/x'></main>"
    )
    path = written(small())
    path.write_text(page_text)
    hacked = []
    with pytest.raises(AssertionError, match="Content Security Policy"), chromium.page(path) as page:
        hacked.append(page.evaluate("window.hacked"))
    assert hacked == [None]
