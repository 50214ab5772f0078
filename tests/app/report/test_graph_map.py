"""The map as a component: the modules as a server sends them, without the report."""

import pytest

from support import map_server
from support.browser import LOOK_AT, OVERFLOW, picture, settle

PAINTER = "panel.map.painter.constructor.name"
SCROLLABLE = "document.querySelector('.filler').style.marginTop = '3000px'"
WITHOUT_WEBGL = """const original = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
    return kind.startsWith("webgl") ? null : original.call(this, kind, ...more);
};"""


@pytest.fixture(scope="module")
def address():
    with map_server.serve() as address:
        yield address


@pytest.fixture
def opened(chromium, address):
    """Opens the page with a query, such as nodes=300; with WebGL where it asks for that; options of `Browser.page`."""

    def open_it(query="", **options):
        options = {"webgl": "painter=webgl" in query, **options}
        return chromium.page(f"{address}?{query}", allowed=(address,), **options)

    return open_it


def events(page, name):
    return page.evaluate("name => events.filter(([kind]) => kind === name).map(([, detail]) => detail)", name)


def wait_until(page, condition):
    """The policy of the page forbids Playwright's own way to wait."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never: {condition}")


def place(page, node):
    """The pixel of a node, from the corner of the window."""
    box = page.locator("#map").bounding_box()
    x, y = page.evaluate("node => [panel.map.view.x(node), panel.map.view.y(node)]", node)
    return box["x"] + x, box["y"] + y


def alone(page):
    """A node without others near, so that the pointer finds it."""
    return page.evaluate("""() => { const { view } = panel.map;
        const apart = (a) => Math.min(...Array.from({ length: view.count }, (_, b) =>
            (a === b ? Infinity : Math.hypot(view.x(a) - view.x(b), view.y(a) - view.y(b)))));
        const inside = (a) => view.x(a) > 200 && view.x(a) < view.width - 200 && view.y(a) > 100;
        const nodes = Array.from({ length: view.count }, (_, a) => a).filter(inside);
        return nodes.reduce((best, a) => (apart(a) > apart(best) ? a : best)); }""")


# -- drawing


@pytest.mark.parametrize(
    ("nodes", "painter"),
    [(1, "canvas"), (1, "webgl"), (20_000, "webgl"), (200_000, "canvas"), (200_000, "webgl")],
)
def test_small_and_large_graphs_are_drawn(opened, nodes, painter):
    with opened(f"nodes={nodes}&painter={painter}") as page:
        settle(page)
        look = page.locator(".map-picture").evaluate(LOOK_AT)
        assert page.evaluate(PAINTER).lower() == f"{painter}painter"
        assert look["colours"] > (3 if nodes == 1 else 20)
        page.evaluate("panel.map.zoomBy(4)")
        assert nodes == 1 or picture(page) != look["sum"]


@pytest.mark.parametrize(("nodes", "painter"), [(1_000, "CanvasPainter"), (20_000, "WebGLPainter")])
def test_webgl_draws_large_graphs_if_there_is_a_graphics_processor(opened, nodes, painter):
    pretended = """const original = WebGL2RenderingContext.prototype.getParameter;
        WebGL2RenderingContext.prototype.getParameter = function (name) {
            return name === 0x9246 ? "A graphics processor" : original.call(this, name); };"""
    with opened(f"nodes={nodes}", before=pretended, webgl=True) as page:
        assert page.evaluate(PAINTER) == painter


def test_both_painters_draw_the_same_map(opened):
    """Nodes have the same colours at the same places; edges are only similar."""
    colours = """() => { const { picture, view } = panel.map, ratio = picture.width / view.width;
        const copy = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
        copy.drawImage(picture, 0, 0);
        const pixels = copy.getImageData(0, 0, picture.width, picture.height).data;
        return Array.from({ length: view.count }, (_, node) => {
            const at = 4 * (Math.floor(ratio * view.y(node)) * picture.width + Math.floor(ratio * view.x(node)));
            return [...pixels.subarray(at, at + 3)]; }); }"""
    drawn = {}
    for painter in ("canvas", "webgl"):
        with opened(f"nodes=300&painter={painter}") as page:
            settle(page)
            drawn[painter] = page.evaluate(colours)
    near = [max(abs(a - b) for a, b in zip(*pair, strict=True)) <= 12 for pair in zip(*drawn.values(), strict=True)]
    assert sum(near) > 0.97 * len(near)
    assert len({tuple(colour) for colour in drawn["webgl"]}) >= 3


def test_canvas_replaces_missing_webgl(opened):
    with opened("nodes=20000&painter=webgl", before=WITHOUT_WEBGL, webgl=False) as page:
        settle(page)
        assert page.evaluate(PAINTER) == "CanvasPainter"
        assert page.locator(".map-picture").evaluate(LOOK_AT)["colours"] > 20


def test_canvas_replaces_a_lost_context(opened):
    with opened("nodes=20000&painter=webgl") as page:
        page.evaluate("panel.map.painter.gl.getExtension('WEBGL_lose_context').loseContext()")
        wait_until(page, f"{PAINTER} === 'CanvasPainter'")
        settle(page)
        assert page.locator(".map-picture").evaluate(LOOK_AT)["colours"] > 20


def test_many_edges_are_drawn_on_demand(opened):
    with opened("nodes=70000&edges=250000") as page:
        points = picture(page)
        assert not page.is_checked("#map-edges")
        page.check("#map-edges")
        assert picture(page) != points


@pytest.mark.parametrize("painter", ["canvas", "webgl"])
def test_dark_and_light(opened, painter):
    with opened(f"painter={painter}", color_scheme="dark") as page:
        dark = picture(page)
        page.emulate_media(color_scheme="light")
        assert picture(page) != dark
        page.emulate_media(color_scheme="dark")
        assert picture(page) == dark


def test_no_sideways_scrolling(opened):
    with opened() as page:
        for width in (1024, 375, 320):
            page.set_viewport_size({"width": width, "height": 700})
            settle(page)
            assert page.evaluate(OVERFLOW) <= 0, width


# -- pointer and wheel


def test_wheel_zooms_only_after_a_click_or_with_a_key(opened):
    with opened() as page:
        page.evaluate(SCROLLABLE)
        page.locator("#map").hover()
        page.mouse.wheel(0, 200)
        wait_until(page, "scrollY > 0")
        assert page.evaluate("panel.map.view.zoom") == 1
        page.mouse.wheel(0, -100)
        page.wait_for_timeout(200)
        assert page.evaluate("panel.map.view.zoom") == 1
        assert page.locator(".map-hint.shown").count() == 1
        page.keyboard.down("Control")
        page.mouse.wheel(0, -100)
        page.keyboard.up("Control")
        wait_until(page, "panel.map.view.zoom > 1")
        page.evaluate("panel.map.fit()")
        page.locator("#map").click()
        page.mouse.wheel(0, -100)
        wait_until(page, "panel.map.view.zoom > 1")
        zoom = page.evaluate("panel.map.view.zoom")
        page.locator(".filler").hover()  # outside, the map no longer zooms
        page.locator("#map").hover()
        page.mouse.wheel(0, 50)
        page.wait_for_timeout(200)
        assert page.evaluate("panel.map.view.zoom") == zoom


@pytest.mark.parametrize("way", ["shift", "button", "key"])
def test_lasso_selects_the_nodes_inside(opened, way):
    with opened() as page:
        unselected = picture(page)
        box = page.locator("#map").bounding_box()
        # The letter U: what lies in its gap is not inside.
        left, inner_left, inner_right, right, top, bottom = 300, 500, 650, 850, 100, 450
        corners = [(inner_left, top), (inner_left, 350), (inner_right, 350), (inner_right, top), (right, top)]
        corners += [(right, bottom), (left, bottom)]
        if way == "button":
            page.get_by_role("button", name="Select nodes with a lasso").click()
        if way == "key":
            page.locator("#map").press("l")
        if way == "shift":
            page.keyboard.down("Shift")
        page.mouse.move(box["x"] + left, box["y"] + top)
        page.mouse.down()
        for x, y in corners:
            page.mouse.move(box["x"] + x, box["y"] + y)
        page.mouse.up()
        page.keyboard.up("Shift")
        inside = f"""Array.from({{ length: 300 }}, (_, node) => node).filter((node) => {{
            const x = panel.map.view.x(node), y = panel.map.view.y(node);
            return x > {left} && x < {right} && y > {top} && y < {bottom}
                && !(x > {inner_left} && x < {inner_right} && y < 350); }})"""
        expected = page.evaluate(inside)
        assert len(expected) > 10
        assert events(page, "select") == [{"nodes": expected}]
        assert events(page, "pick") == []
        page.mouse.move(1, 1)
        assert picture(page) != unselected
        page.locator("#map").press("Escape")
        assert picture(page) == unselected


def test_hovering_and_picking(opened):
    with opened() as page:
        node = alone(page)
        page.mouse.move(*place(page, node))
        assert events(page, "hover")[-1] == {"node": node}
        assert f"node n{node}" in page.locator(".tip").inner_text()
        page.mouse.click(*place(page, node))
        assert events(page, "pick") == [{"node": node}]
        page.mouse.move(1, 1)
        assert f"node n{node}" in page.locator(".tip").inner_text()  # it stays
        page.locator("#map").press("Escape")
        assert page.locator(".tip").is_hidden()


def test_neighbours_may_arrive_later(opened):
    with opened("slow=1") as page:
        node = alone(page)
        page.mouse.click(*place(page, node))
        wait_until(page, "panel.map.around")
        expected = [node, (node + 1) % 300, node, (node + 2) % 300]
        assert page.evaluate("panel.map.around") == {"node": node, "edges": expected}


def test_neighbours_that_arrive_too_late_are_not_drawn(opened):
    with opened("nodes=50&slow=1") as page:
        around = page.evaluate("""async () => { const { map } = panel, answers = {};
            map.options.neighbours = (node) => new Promise((answer) => { answers[node] = answer; });
            map.pick(3);
            map.pick(4);
            answers[4]([5]);
            answers[3]([2]);
            await new Promise((done) => setTimeout(done));
            return map.around; }""")
        assert around == {"node": 4, "edges": [4, 5]}


def test_two_fingers_zoom(opened):
    fingers = """() => { const send = (kind, id, x) => panel.map.surface.dispatchEvent(new PointerEvent(kind,
            { pointerId: id, clientX: x, clientY: 200, pointerType: "touch", buttons: 1, bubbles: true }));
        panel.map.surface.setPointerCapture = () => {};
        send("pointerdown", 1, 300); send("pointerdown", 2, 400); send("pointermove", 2, 500);
        return panel.map.view.zoom; }"""
    with opened() as page:
        assert page.evaluate(fingers) == pytest.approx(2)


# -- keyboard and search


def test_keyboard_alone_reaches_nodes(opened):
    with opened() as page:
        page.locator("#map").focus()
        page.keyboard.press("Shift+ArrowRight")
        first = page.evaluate("panel.map.pinned")
        assert page.locator(".map-live").inner_text().startswith(f"node n{first}; predicted")
        page.keyboard.press("Shift+ArrowRight")
        second = page.evaluate("panel.map.pinned")
        assert page.evaluate("([a, b]) => panel.map.view.x(a) < panel.map.view.x(b)", [first, second])
        page.keyboard.press("Enter")
        assert events(page, "pick") == [{"node": second}]
        page.keyboard.press("+")
        zoomed = picture(page)
        page.keyboard.press("ArrowLeft")
        assert picture(page) != zoomed
        page.keyboard.press("Home")
        assert page.evaluate("panel.map.view.zoom") == 1


def test_digits_are_left_to_the_page(opened):
    with opened() as page:
        page.evaluate(
            "() => { window.seen = []; onkeydown = (event) => seen.push([event.key, event.defaultPrevented]); }"
        )
        page.locator("#map").focus()
        for key in ("0", "1", "u"):
            page.keyboard.press(key)
        assert page.evaluate("seen") == [["0", False], ["1", False], ["u", False]]


def test_search_centres_the_node_of_this_name(opened):
    with opened() as page:
        page.evaluate("panel.data.names[5] = 'an12'; panel.data.names[7] = 'n12b'")  # alike, and earlier
        page.fill("#map-search", "N12")
        assert page.locator("#map-names option").first.get_attribute("value") == "n12"
        page.press("#map-search", "Enter")
        wait_until(page, "panel.map.pinned === 12")
        x, y, width, height = page.evaluate(
            "(({ view }) => [view.x(12), view.y(12), view.width, view.height])(panel.map)"
        )
        assert 0 < x < width
        assert 0 < y < height
        zoom = page.evaluate("panel.map.view.zoom")
        assert zoom >= 3
        # In the middle, unless the node lies at the edge of the graph.
        assert abs(x - width / 2) < 0.26 * width
        assert abs(y - height / 2) < 0.26 * height
        page.fill("#map-search", "nobody")
        page.press("#map-search", "Enter")
        page.locator(".map-hint.shown").wait_for()
        assert page.evaluate("panel.map.pinned") == 12


def test_a_node_is_revealed_where_it_is(opened):
    inside = """node => { panel.map.reveal(node); const { view, pinned, tip } = panel.map;
        const [x, y] = [view.x(node), view.y(node)];
        return [view.zoom, pinned === node, tip.hidden, x >= 0 && y >= 0 && x <= view.width && y <= view.height]; }"""
    with opened() as page:
        for node in range(0, 40, 5):
            assert page.evaluate(inside, node) == [1, True, True, True]
        page.evaluate("panel.map.zoomBy(8)")
        for node in range(0, 40, 5):
            assert page.evaluate(inside, node) == [8, True, True, True]


# -- changes


def test_changed_predictions_flash(opened):
    change = """() => { const predicted = panel.data.predicted.map((k, node) => (node < 5 ? (k + 1) % 3 : k));
        return panel.update({ predicted }); }"""
    with opened() as page:
        before = picture(page)
        assert page.evaluate(change) == [0, 1, 2, 3, 4]
        flashing = picture(page)
        wait_until(page, "panel.map.flashing === null")
        after = picture(page)
        assert len({before, flashing, after}) == 3
        counts = page.locator(".chip small").all_inner_texts()
        assert sum(map(int, counts)) == 300
        assert page.evaluate("panel.update({})") == []


def test_legend_shows_only_what_is_there(opened):
    with opened() as page:
        assert page.locator(".map-legend").inner_text().split() == [
            "red",
            "100",
            "green",
            "100",
            "blue",
            "100",
            "labelled",
        ]
        none = "panel.update({ predicted: panel.data.predicted.map(() => 0), label: panel.data.label.map(() => -1) })"
        page.evaluate(none)
        assert page.locator(".map-legend").inner_text().split() == ["red", "300"]


def test_a_graph_may_start_without_labels_and_get_classes_later(opened):
    """As in a studio: at first nothing is known but the graph."""
    with opened("bare=1") as page:
        assert page.locator(".map-legend").inner_text().split() == ["unknown", "300"]
        assert page.locator("#map-colour option").all_inner_texts() == ["predicted class", "certainty"]
        none = picture(page)
        first = """() => panel.update({ classes: ["early", "late"], label: panel.data.label.map((_, k) => (k ? -1 : 1)),
            predicted: panel.data.predicted.map(() => 1) }).length"""
        assert page.evaluate(first) == 300
        assert page.locator(".map-legend").inner_text().split() == ["late", "300", "labelled"]
        assert "label" in page.locator("#map-colour option").all_inner_texts()
        wait_until(page, "panel.map.flashing === null")
        assert picture(page) != none
