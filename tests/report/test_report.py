"""The report of a run: what it accepts, what it counts, and the page in a real browser."""

import base64
import json
import math
import re
from dataclasses import fields
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import browser
import lggd
from lggd.report import embedding, wording
from lggd.report.charts import Axis, Line, axis_for_values, line_chart
from lggd.report.content import Addition, RunReport
from lggd.report.page import render, write
from lggd.report.placement import place

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "' onmouseover='window.hacked = 1",
    "<!-- -->",
    "&lt;b&gt;",
    "$script $data ${x}",
    "lone \ud800 half, \u2028 and \0",
    "a very long name " * 20,
]


def small(**changes):
    """A report of six nodes in three classes. Nodes 0, 2 and 4 are labelled, the others tested."""
    probabilities = np.array(
        [[0.8, 0.1, 0.1], [0.5, 0.4, 0.1], [0.1, 0.8, 0.1], [0.35, 0.33, 0.32], [0.1, 0.1, 0.8], [0.0, 0.2, 0.8]]
    )
    values = {
        "title": "A small run", "dataset": "six", "backbone": "GCN", "created": "2025-01-31T12:00:00",
        "version": "0.1.0", "machine": "a computer", "seconds": 1.5, "settings": {"seed": 0, "split": {"train": 0.5}},
        "num_nodes": 6, "num_edges": 10, "classes": ["red", "green", "blue"], "ids": list("abcdef"),
        "accuracy": {"raw": 50.0, "lggd": 66.7}, "heldout": 3, "labelled": 3,
        "curves": {"raw backbone": {"train_loss": [2.0, 1.0, 0.5], "validation_loss": [2.0, 1.2, 1.3]}},
        "times": [1.0, 2.0], "distances": np.arange(36).reshape(2, 6, 3) / 10,
        "positions": np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]]),
        "edges": np.array([[0, 1, 1, 3, 2, 3, 3, 5, 4, 5], [1, 0, 3, 1, 3, 2, 5, 3, 5, 4]]),
        "truth": np.array([0, 0, 1, 1, 2, 2]), "given": np.array([0, -1, 1, -1, 2, -1]),
        "predicted": probabilities.argmax(1), "probabilities": probabilities,
        "tested": np.array([False, True, False, True, False, True]),
        "additions": [Addition(3, 66.7, 0.0), Addition(4, 100.0, 2.5)], "notes": ["Nothing to note."],
    }  # fmt: skip
    return RunReport(**{**values, **changes})


def bare(**changes):
    """A report with nothing in it that can be left out: a single node, no edge, no accuracy, no curve."""
    nothing = {
        "num_nodes": 1, "num_edges": 0, "classes": ["only"], "ids": None, "accuracy": {"raw": None, "lggd": None},
        "heldout": 0, "labelled": 0, "curves": {}, "times": [1.0], "distances": np.full((1, 1, 1), np.inf),
        "positions": np.zeros((1, 2)), "edges": np.zeros((2, 0), int), "truth": np.array([-1]), "given": np.array([-1]),
        "predicted": np.array([0]), "probabilities": np.ones((1, 1)), "tested": np.array([False]),
        "additions": [], "notes": [], "settings": {},
    }  # fmt: skip
    return small(**{**nothing, **changes})


def random_report(nodes, classes, times=5, edges=4, **changes):
    """Random numbers of the given sizes."""
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(classes), nodes)
    truth = generator.integers(classes, size=nodes)
    given = np.where(np.arange(nodes) < 5 * classes, truth, -1)
    return small(**{
        "num_nodes": nodes, "num_edges": edges * nodes, "classes": [f"class {k}" for k in range(classes)], "ids": None,
        "times": list(range(1, times + 1)), "distances": generator.random((times, nodes, classes)),
        "positions": generator.normal(size=(nodes, 2)), "edges": generator.integers(nodes, size=(2, edges * nodes)),
        "truth": truth, "given": given, "predicted": probabilities.argmax(1), "probabilities": probabilities,
        "tested": given < 0, **changes,
    })  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    """A run on real images: distances to five labelled ones of each digit, and what they alone predict."""
    images = load_digits()
    graph = lggd.Graph.from_points(images.data, k=10)
    generator = np.random.default_rng(0)
    given = np.full(graph.num_nodes, -1)
    for k in range(10):
        given[generator.choice(np.flatnonzero(images.target == k), 5, replace=False)] = k
    final = lggd.distance(graph, [np.flatnonzero(given == k).tolist() for k in range(10)]).value.numpy()
    distances = np.stack([np.minimum(final, t) for t in (1.0, 2.0, 8.0)])
    probabilities = torch.softmax(torch.from_numpy(-4 * final), dim=1).numpy()
    predicted, tested = probabilities.argmax(1), given < 0
    losses = {
        f"{part}_loss t={t}": [2 / (1 + k) + t / 10 for k in range(60)]
        for part in ("train", "validation")
        for t in (1, 2)
    }
    accurate = {"train_loss": [2.0, 1.0, math.nan, math.inf, 0.4], "validation_accuracy": [0.1, 0.5, 0.9, 0.8, 0.85]}
    return small(
        title="Handwritten digits", num_nodes=graph.num_nodes, num_edges=graph.num_edges,
        classes=[str(k) for k in range(10)], ids=None, truth=images.target, given=given, predicted=predicted,
        probabilities=probabilities, tested=tested, times=[1.0, 2.0, 8.0], distances=distances, positions=place(graph),
        edges=graph.edge_index, heldout=int(tested.sum()), labelled=50,
        accuracy={"raw": 86.0, "lggd": 100 * float((predicted == images.target)[tested].mean())},
        curves={"raw backbone": accurate, "distances": losses, "backbone on distances": accurate},
    )  # fmt: skip


# -- content ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"num_nodes": 0}, "`num_nodes` must be at least 1, got 0"),
        ({"classes": []}, "`classes` must name at least one class"),
        ({"times": []}, "`times` must hold at least one time"),
        ({"times": [1.0, math.nan]}, "`times` must be finite"),
        ({"ids": ["a"]}, "`ids` must name all 6 nodes, got 1 names. Pass None to number them."),
        ({"accuracy": {"raw": 1.0}}, '`accuracy` must have the keys "raw" and "lggd", got'),
        ({"accuracy": {"raw": 101.0, "lggd": None}}, r'`accuracy\["raw"\]` must be per cent, 0 to 100, got 101'),
        ({"accuracy": {"raw": math.nan, "lggd": None}}, "must be per cent"),
        ({"heldout": -1}, "`heldout` must be a number from 0, got -1"),
        ({"seconds": math.inf}, "`seconds` must be a duration from 0, got inf"),
        ({"created": "yesterday"}, "`created` must be a time in ISO 8601 .* got 'yesterday'"),
        ({"distances": np.zeros((2, 6, 2))}, r"`distances` must have the shape \[2, 6, 3\], got \[2, 6, 2\]"),
        ({"positions": np.zeros((6, 3))}, r"`positions` must have the shape \[6, 2\], got \[6, 3\]"),
        ({"positions": np.full((6, 2), np.nan)}, "`positions` must be finite, got .* at node 0"),
        ({"edges": np.zeros((3, 4), int)}, r"`edges` must have the shape \[2, E\], got \[3, 4\]"),
        ({"edges": np.array([[0], [6]])}, r"`edges` must lie in 0\.\.5, got 6"),
        ({"truth": np.zeros(5, int)}, r"`truth` must have the shape \[6\], got \[5\]"),
        ({"truth": np.full(6, 3)}, r"`truth` must lie in -1\.\.2, got 3"),
        ({"predicted": np.full(6, -1)}, r"`predicted` must lie in 0\.\.2, got -1"),
        ({"truth": np.full(6, -1)}, "`tested` must be nodes whose `truth` is known, but that of node 1 is -1"),
        ({"probabilities": np.full((6, 3), 2.0)}, r"`probabilities` must lie in \[0, 1\], got values from 2 to 2"),
        ({"probabilities": np.full((6, 3), np.nan)}, r"`probabilities` must lie in \[0, 1\]"),
    ],
)
def test_a_wrong_value_is_named(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        small(**changes)


@pytest.mark.parametrize(
    ("name", "value"), [("given", np.zeros(6)), ("edges", np.zeros((2, 3))), ("tested", np.ones(6))]
)
def test_a_wrong_kind_is_named(name, value):
    with pytest.raises(TypeError, match=f"`{name}` must be .*, got float64"):
        small(**{name: value})


@pytest.mark.parametrize(
    ("values", "complaint"),
    [((-1, 50, 1), "`labels`"), ((1, 101, 1), "`accuracy`"), ((1, 50, -1), "`milliseconds`")],
)
def test_a_wrong_addition_is_named(values, complaint):
    with pytest.raises(ValueError, match=complaint):
        Addition(*values)


def test_tensors_and_lists_are_as_good_as_arrays():
    report = small()
    arrays = {field.name: getattr(report, field.name) for field in fields(report)}
    as_tensors = {name: torch.from_numpy(value) for name, value in arrays.items() if isinstance(value, np.ndarray)}
    as_lists = {name: value.tolist() for name, value in arrays.items() if isinstance(value, np.ndarray)}
    assert render(small(**as_tensors)) == render(small(**as_lists)) == render(report)


def test_the_input_is_kept_as_it_was():
    positions = np.zeros((6, 2))
    report = small(positions=positions)
    render(report)
    assert positions.dtype == np.float64
    assert not positions.any()


def test_confusion_counts_tested_nodes_only():
    # Tested: 1 (red, taken for red), 3 (green, taken for red), 5 (blue, taken for blue).
    assert small().confusion().tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert bare().confusion().tolist() == [[0]]


def test_the_least_certain_come_first_and_labelled_ones_last():
    doubts = small().least_certain()
    # Margins: 3 has 0.02, 1 has 0.1, 5 has 0.6; the labelled 0, 2, 4 have 0.7 each and stay in order.
    assert [doubt.node for doubt in doubts] == [3, 1, 5, 0, 2, 4]
    assert [doubt.labelled for doubt in doubts] == [False] * 3 + [True] * 3
    assert (doubts[0].first, doubts[0].second) == (0, 1)
    assert doubts[0].margin == pytest.approx(0.02, abs=1e-6)
    assert [doubt.node for doubt in small().least_certain(2)] == [3, 1]


def test_a_labelled_node_comes_last_even_if_undecided():
    certain = np.tile([1.0, 0.0, 0.0], (6, 1))
    certain[0] = [0.5, 0.5, 0.0]
    assert small(probabilities=certain).least_certain()[3].node == 0


def test_a_single_class_leaves_no_doubt():
    doubt = bare().least_certain()[0]
    assert (doubt.second, doubt.margin) == (-1, 1.0)


@pytest.mark.parametrize(
    ("raw", "with_lggd", "difference"),
    [(50.0, 60.0, 10.0), (60.0, 50.0, -10.0), (None, 50.0, None), (50.0, None, None)],
)
def test_the_difference_needs_both(raw, with_lggd, difference):
    assert small(accuracy={"raw": raw, "lggd": with_lggd}).difference == difference


# -- words and charts -------------------------------------------------------------------------------------------------


def test_numbers_in_words():
    assert [wording.number(x) for x in (0, 0.01234, 12.34, -3.0, 12345.6, 1e9, math.inf, math.nan)] == [
        "0", "0.0123", "12.3", "−3", "12,346", "1e+09", "∞", "–",
    ]  # fmt: skip
    assert [wording.signed(x) for x in (7.25, -0.3, 0.04, -0.04)] == ["+7.2", "−0.3", "0.0", "0.0"]
    assert [wording.duration(x) for x in (0.44, 59.7, 61, 7500)] == ["0.4 s", "1 min 0 s", "1 min 1 s", "2 h 5 min"]
    assert [wording.counted(*x) for x in ((1, "node"), (2, "class"), (1200, "edge"))] == [
        "1 node",
        "2 classes",
        "1,200 edges",
    ]
    assert wording.moment("2025-01-31T12:05:00+00:00") == "31 January 2025, 12:05 UTC"


def test_settings_are_flattened():
    nested = {"a": 1, "b": {"c": None, "d": {"e": [1, 2.5]}}, "f": {}, "g": True, "h": 1e-6, "i": math.inf}
    assert wording.flattened(nested) == [
        ("a", "1"), ("b.c", "none"), ("b.d.e", "1, 2.5"), ("f", "none"), ("g", "yes"), ("h", "1e-06"), ("i", "∞"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.013, 0.0171), (-5, 3), (99.2, 99.9), (0, 1e-9), (1e6, 5e6), (3, 3), (0, 0), (-2, -2)]
)
def test_an_axis_covers_its_values_with_few_distinct_ticks(low, high):
    axis = Axis.around(low, high)
    assert axis.low <= low <= high <= axis.high
    assert axis.low < axis.high
    assert 2 <= len(axis.ticks) <= 8
    assert len(set(axis.labels())) == len(axis.ticks)


def test_a_wide_range_of_positive_values_has_a_logarithmic_axis():
    x = np.arange(3.0)
    assert axis_for_values([Line("a", x, np.array([1e-4, 1.0, 30.0]), "red")]).logarithmic
    assert not axis_for_values([Line("a", x, np.array([-1.0, 1.0, 300.0]), "red")]).logarithmic


def test_values_that_are_not_finite_leave_gaps():
    y = np.array([1.0, math.nan, 2.0, 3.0, math.inf, 4.0])
    chart = line_chart([Line("loss", np.arange(1.0, 7.0), y, "red")], across="epoch", up="loss", summary="")
    path = re.search(r'class="line".*? d="([^"]*)"', chart)[1]
    assert path.count("M") == 3
    assert "nan" not in chart
    assert "inf" not in chart


def test_a_long_curve_keeps_its_extremes_and_loses_weight():
    y = np.zeros(100_000)
    y[12_345], y[-1] = 7.0, 3.0
    chart = line_chart([Line("loss", np.arange(1.0, 100_001.0), y, "red")], across="epoch", up="loss", summary="")
    assert len(chart) < 20_000
    heights = [
        float(h) for h in re.findall(r"[ML][\d.]+ ([\d.]+)", re.search(r'class="line".*? d="([^"]*)"', chart)[1])
    ]
    assert min(heights) == pytest.approx(100 - 100 * 7 / 8)


# -- what the page carries --------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """What a page holds, by its tags and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.data, self._open = [], "", "", None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._open = dict(attributes).get("id") if tag == "script" else None

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self.cdata_elem is None:
            self.text += data
        if self._open == "report-data":
            self.data += data


def carried(report):
    return json.loads(Reader(render(report)).data)


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


def test_distances_are_carried_to_one_part_in_250():
    report = random_report(50, 3)
    data = carried(report)
    for t in range(5):
        codes = unpacked(data["distances"][t], np.uint8).reshape(3, 50)
        for k in range(3):
            low, high, unit, farther = data["scales"][t][k]
            assert (unit, farther) == (0, 0)
            found = low + codes[k] / 254 * (high - low)
            assert np.abs(found - report.distances[t, :, k]).max() <= (high - low) / 254


def test_nodes_out_of_reach_have_a_code_of_their_own():
    distances = np.ones((2, 6, 3))
    distances[0, 2, 1], distances[0, 3, 1], distances[1, :, 0] = np.inf, np.nan, np.inf
    data = carried(small(distances=distances))
    first, second = (unpacked(text, np.uint8).reshape(3, 6) for text in data["distances"])
    assert first[1].tolist() == [0, 0, 255, 255, 0, 0]
    assert second[0].tolist() == [255] * 6


def test_a_few_distant_nodes_do_not_bleach_the_rest():
    distances = np.linspace(0, 1, 1000)[None, :, None].repeat(2, axis=2)
    distances[0, -1] = 50.0
    data = carried(random_report(1000, 2, times=1, distances=distances))
    low, high, unit, farther = data["scales"][0][0]
    assert (low, unit, farther) == (0, 0, 1)
    assert 0.95 < high < 1
    assert unpacked(data["distances"][0], np.uint8)[999] == 254


def test_distances_of_many_sizes_are_coded_by_logarithm():
    distances = np.geomspace(1e-2, 1e6, 200)[None, :, None].repeat(2, axis=2)
    data = carried(random_report(200, 2, times=1, distances=distances))
    codes = unpacked(data["distances"][0], np.uint8).reshape(2, 200)[0]
    assert data["scales"][0][0][2] > 0
    assert len(np.unique(codes)) > 100


def test_positions_keep_their_shape():
    data = carried(small())
    x, y = unpacked(data["x"], np.uint16).astype(int), unpacked(data["y"], np.uint16).astype(int)
    assert (min(x.min(), y.min()), max(x.max(), y.max())) == (0, 10_000)
    # Twice as high as wide, and upside down: screens count downwards.
    assert np.ptp(y) == 2 * np.ptp(x)
    assert y[0] > y[2] > y[4]


def test_each_edge_is_carried_once():
    edges = unpacked(carried(small())["edges"], np.uint16).reshape(-1, 2)
    assert edges.tolist() == [[0, 1], [1, 3], [2, 3], [3, 5], [4, 5]]


def test_the_page_of_digits_is_light(digits):
    assert len(render(digits).encode()) < 600_000


def test_a_page_the_size_of_pubmed_is_light():
    report = random_report(19_717, 3, ids=[f"node number {k}" for k in range(19_717)])
    assert len(render(report).encode()) < 4_000_000
    assert "All 19,717 nodes." in render(report)


@pytest.mark.parametrize(("nodes", "classes"), [(60_000, 10), (20_000, 70)])
def test_a_large_page_draws_some_nodes_and_says_so(nodes, classes):
    report = random_report(nodes, classes)
    page = render(report)
    data = json.loads(Reader(page).data)
    assert len(page.encode()) < 4_000_000
    drawn = unpacked(data["numbers"], np.uint32)
    assert len(drawn) == data["count"] <= embedding.MOST_NODES
    assert set(np.flatnonzero(report.given >= 0)) <= set(drawn.tolist())
    assert {doubt.node for doubt in report.least_certain()} <= set(drawn.tolist())
    assert f"{data['count']:,} nodes of {nodes:,} are drawn" in page
    edges = unpacked(data["edges"], np.uint16)
    assert len(edges) <= 2 * embedding.MOST_EDGES
    assert edges.max() < data["count"]


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_same_report_gives_the_same_page():
    assert render(small()) == render(small())


def test_the_page_is_written_whole(tmp_path):
    path = tmp_path / "report.html"
    write(small(), path)
    assert path.read_text(encoding="utf-8") == render(small())
    assert [other.name for other in tmp_path.iterdir()] == ["report.html"]


def test_a_page_in_no_folder_is_refused(tmp_path):
    with pytest.raises(OSError, match="must lie in a folder that exists"):
        write(small(), tmp_path / "nowhere" / "report.html")


def hostile():
    """A report in which everything that a person can name is an attack."""
    names = HOSTILE[:3]
    return small(
        title=HOSTILE[0], dataset=HOSTILE[1], backbone=HOSTILE[2], version=HOSTILE[3], machine=HOSTILE[4],
        classes=names, ids=HOSTILE[3:9], settings={HOSTILE[0]: {HOSTILE[1]: HOSTILE[2]}}, notes=HOSTILE,
        curves={HOSTILE[1]: {HOSTILE[0]: [1.0, 2.0], f"validation_loss {HOSTILE[2]}": [1.0, 2.0]}},
    )  # fmt: skip


def test_hostile_names_stay_text():
    kinds = [tag for tag, _ in Reader(render(small())).tags]
    read = Reader(render(hostile()))
    assert [tag for tag, _ in read.tags].count("script") == kinds.count("script") == 2
    assert not {"img", "b onerror"} & {tag for tag, _ in read.tags}
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]
    assert read.text.count(HOSTILE[0]) >= 3
    assert json.loads(read.data)["classes"] == HOSTILE[:3]


def test_the_page_names_no_other_place(digits):
    for tag, attributes in Reader(render(digits)).tags:
        assert not {"src", "srcset", "action"} & set(attributes), tag
        assert attributes.get("href", "#").startswith(("#", "data:,"))


@pytest.mark.parametrize(
    ("raw", "with_lggd", "said"),
    [
        (50.0, 90.0, "LGGD is better."),
        (90.0, 50.0, "LGGD is worse here."),
        (50.0, 50.0, "LGGD makes no difference here."),
        (None, 50.0, "there is nothing to compare"),
        (None, None, "No accuracy is known"),
    ],
)
def test_the_result_is_said_plainly(raw, with_lggd, said):
    assert said in Reader(render(small(accuracy={"raw": raw, "lggd": with_lggd}, heldout=1000))).text


def test_a_difference_within_chance_is_called_so():
    text = Reader(render(small(accuracy={"raw": 80.0, "lggd": 81.0}, heldout=100))).text
    assert "either figure is uncertain by about ±7.7, more than they differ." in text


def test_parts_without_content_are_left_out():
    text = Reader(render(bare())).text
    for heading in ("Training", "Confusion", "Least certain nodes", "Adding labels", "Settings", "Notes"):
        assert heading not in text
        assert heading in Reader(render(small())).text


def test_curves_that_are_never_finite_are_explained():
    report = small(curves={"stage": {"train_loss": [math.nan, math.inf]}, "empty": {"train_loss": []}})
    text = Reader(render(report)).text
    assert "No finite value was recorded." in text
    assert "empty" not in text


def test_the_best_epoch_is_told(digits):
    text = Reader(render(digits)).text
    assert "best validated at 3 with 90.0\N{NO-BREAK SPACE}%" in text
    assert "best validated at 60\N{NO-BREAK SPACE}(t=1), 60\N{NO-BREAK SPACE}(t=2)" in text


# -- in a browser -----------------------------------------------------------------------------------------------------

# The colours of a canvas: how many there are, and a number that changes with any of them.
LOOK_AT = """canvas => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const whole = new Uint32Array(pixels.buffer), seen = new Set();
    let sum = 0;
    for (const pixel of whole) { seen.add(pixel); sum = (Math.imul(sum, 31) + pixel) | 0; }
    return { colours: seen.size, sum };
}"""
# A pixel of a node near the middle, from the corner of the window.
FIND_NODE = """canvas => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const ratio = canvas.width / canvas.clientWidth, box = canvas.getBoundingClientRect();
    let best = null, least = Infinity;
    for (let y = 0; y < canvas.height; y++) for (let x = 0; x < canvas.width; x++) {
        const far = Math.hypot(x - canvas.width / 2, y - canvas.height / 2);
        if (pixels[4 * (y * canvas.width + x) + 3] === 255 && far < least) { least = far; best = [x, y]; }
    }
    return [box.left + best[0] / ratio, box.top + best[1] / ratio];
}"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def chromium():
    with browser.launch() as launched:
        yield launched


@pytest.fixture(scope="module")
def digits_page(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "digits.html"
    write(digits, path)
    return path


@pytest.fixture
def written(tmp_path):
    def write_it(report):
        write(report, tmp_path / "report.html")
        return tmp_path / "report.html"

    return write_it


def settle(page):
    """Waits for what is drawn with the next picture."""
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))"
    )


def picture(page, selector="#map"):
    settle(page)
    return page.locator(selector).first.evaluate(LOOK_AT)["sum"]


def find_node(page):
    page.locator("#map").scroll_into_view_if_needed()
    settle(page)
    return page.locator("#map").evaluate(FIND_NODE)


def test_all_maps_are_drawn(chromium, digits_page):
    with chromium.page(digits_page) as page:
        settle(page)
        canvases = page.locator("canvas").all()
        assert len(canvases) == 11
        looks = [canvas.evaluate(LOOK_AT) for canvas in canvases]
        assert min(look["colours"] for look in looks) > 20
        assert len({look["sum"] for look in looks}) == 11


def test_every_choice_redraws_the_map(chromium, digits_page):
    with chromium.page(digits_page) as page:
        seen = [picture(page)]
        page.select_option("#map-class", "3")
        seen.append(picture(page))
        page.locator("#map-time").fill("0")
        seen.append(picture(page))
        assert page.locator("#map-time-told").inner_text() == "1"
        for colour in ("predicted", "truth", "right", "certainty"):
            page.select_option("#map-colour", colour)
            seen.append(picture(page))
            assert page.locator("#map-class").is_disabled()
        page.uncheck("#map-edges")
        seen.append(picture(page))
        assert len(set(seen)) == len(seen)
        assert "coloured by certainty" in page.locator("#map").get_attribute("aria-label")


def test_hovering_tells_of_a_node(chromium, digits_page):
    with chromium.page(digits_page) as page:
        assert page.locator("#tip").is_hidden()
        page.mouse.move(*find_node(page))
        told = page.locator("#tip").inner_text()
        assert re.search(r"node \d+", told)
        for word in ("predicted", "truth", "distances at time 8"):
            assert word in told
        page.mouse.move(5, 5)
        assert page.locator("#tip").is_hidden()


def test_the_map_zooms_moves_and_comes_back(chromium, digits_page):
    with chromium.page(digits_page) as page:
        page.locator("#map").scroll_into_view_if_needed()
        page.wait_for_timeout(400)
        whole = picture(page)
        box = page.locator("#map").bounding_box()
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(*middle)
        page.mouse.wheel(0, -400)
        closer = picture(page)
        page.mouse.down()
        page.mouse.move(middle[0] + 90, middle[1] + 40, steps=3)
        page.mouse.up()
        page.mouse.move(5, 5)
        moved = picture(page)
        page.click("#map-in")
        by_button = picture(page)
        page.locator("#map").focus()
        page.keyboard.press("ArrowLeft")
        by_key = picture(page)
        assert len({whole, closer, moved, by_button, by_key}) == 5
        page.keyboard.press("0")
        page.locator("#map").evaluate("canvas => canvas.blur()")
        assert picture(page) == whole


def test_a_wheel_that_zooms_no_further_scrolls_the_page(chromium, digits_page):
    with chromium.page(digits_page) as page:
        page.locator("#map").hover()
        page.wait_for_timeout(400)
        before = page.evaluate("scrollY")
        page.mouse.wheel(0, 300)
        page.wait_for_timeout(400)
        assert page.evaluate("scrollY") > before


def test_a_small_map_and_a_doubtful_node_lead_to_the_large_map(chromium, digits_page):
    with chromium.page(digits_page) as page:
        page.locator(".small-map").nth(4).click()
        assert page.locator("#map-class").input_value() == "4"
        assert page.locator(".small-map").nth(4).get_attribute("aria-pressed") == "true"
        button = page.locator(".show").first
        number = button.inner_text()
        button.click()
        settle(page)
        assert f"node {number}" in page.locator("#tip").inner_text()


def test_a_class_in_the_legend_stands_out_when_chosen(chromium, digits_page):
    with chromium.page(digits_page) as page:
        page.select_option("#map-colour", "predicted")
        all_classes = picture(page)
        chip = page.locator(".chip").nth(2)
        chip.click()
        assert chip.get_attribute("aria-pressed") == "true"
        assert picture(page) != all_classes
        chip.click()
        assert picture(page) == all_classes


def test_charts_tell_their_values(chromium, digits_page):
    with chromium.page(digits_page) as page:
        plot = page.locator(".plot").nth(1)
        plot.hover()
        told = plot.locator(".tip").inner_text()
        assert "epoch 3" in told
        assert "validation accuracy" in told
        assert "90" in told


@pytest.mark.parametrize("width", [320, 360, 768])
@pytest.mark.parametrize("kind", ["digits", "hostile"])
def test_a_narrow_page_never_scrolls_sideways(chromium, digits, written, kind, width):
    path = written(digits if kind == "digits" else hostile())
    with chromium.page(path, viewport={"width": width, "height": 740}) as page:
        settle(page)
        assert page.evaluate(OVERFLOW) <= 0


def test_dark_and_light_are_two_pictures(chromium, digits_page):
    background = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    with chromium.page(digits_page, color_scheme="dark") as page:
        dark = picture(page)
        assert max(page.evaluate(background)) < 60
        page.emulate_media(color_scheme="light")
        assert min(page.evaluate(background)) > 200
        assert picture(page) != dark
        page.emulate_media(color_scheme="dark")
        assert picture(page) == dark


def test_paper_is_light_and_leaves_the_screen_as_it_was(chromium, digits_page):
    with chromium.page(digits_page, color_scheme="dark") as page:
        dark = picture(page)
        assert page.pdf().startswith(b"%PDF")
        settle(page)
        assert not page.locator("details").evaluate("details => details.open")
        assert picture(page) == dark


def test_nothing_moves_while_the_page_loads(chromium, digits_page):
    watch = """() => new Promise(done => {
        let moved = 0;
        new PerformanceObserver(list => { for (const one of list.getEntries()) moved += one.value; })
            .observe({ type: "layout-shift", buffered: true });
        setTimeout(() => done(moved), 300);
    })"""
    with chromium.page(digits_page) as page:
        assert page.evaluate(watch) < 0.02


def test_every_control_has_a_name(chromium, digits_page):
    nameless = """() => [...document.querySelectorAll("button, select, input, canvas, a")].filter(one =>
        !(one.getAttribute("aria-label") || one.textContent.trim() || (one.labels && one.labels.length))).length"""
    with chromium.page(digits_page) as page:
        assert page.evaluate(nameless) == 0


def test_hostile_names_do_nothing(chromium, written):
    with chromium.page(written(hostile())) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
        for colour in ("distance", "predicted", "truth"):
            page.select_option("#map-colour", colour)
        page.mouse.move(*find_node(page))
        assert page.locator("#tip").is_visible()
        assert page.evaluate("window.hacked") is None
        assert page.locator("h1").inner_text() == HOSTILE[0]


@pytest.mark.parametrize(
    "make",
    [
        bare,
        small,
        lambda: small(ids=None, additions=[], notes=[], curves={}),
        lambda: small(distances=np.full((2, 6, 3), np.inf)),
        lambda: small(positions=np.zeros((6, 2)), edges=np.zeros((2, 0), int)),
        lambda: small(given=np.full(6, -1), truth=np.full(6, -1), tested=np.zeros(6, bool), labelled=0),
        lambda: small(curves={"a": {"train_loss": [math.nan]}, "b": {"validation_accuracy": [0.5]}}),
        lambda: small(additions=[Addition(5, 50.0, 1.0)]),
        lambda: random_report(3_000, 30),
        lambda: random_report(30_000, 4),
    ],
    ids=[
        "bare",
        "small",
        "little",
        "out of reach",
        "no edges",
        "no labels",
        "odd curves",
        "one addition",
        "30 classes",
        "large",
    ],
)
def test_every_page_opens_without_complaint(chromium, written, make):
    with chromium.page(written(make())) as page:
        for colour in ("predicted", "truth", "right", "certainty", "distance"):
            page.select_option("#map-colour", colour)
            settle(page)
        page.mouse.move(*find_node(page))
        assert page.locator("#tip").is_visible()
        assert page.evaluate(OVERFLOW) <= 0


@pytest.mark.parametrize(
    ("planted", "complaint"),
    [
        ("<script>console.error('a mistake')</script>", "console error: a mistake"),
        ("<script>undefined.x</script>", "error: Cannot read"),
        ("<img src='http://127.0.0.1:9/x.png'>", "request: http://127.0.0.1:9/x.png"),
    ],
)
def test_the_browser_sees_planted_mistakes(chromium, tmp_path, planted, complaint):
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>planted</title>{planted}")
    with pytest.raises(AssertionError, match=re.escape(complaint)), chromium.page(path) as page:
        page.wait_for_timeout(100)


def test_the_page_forbids_what_it_does_not_need(chromium, written):
    """Even if a name slipped through as a script, or asked for a picture, the page's own policy would stop it."""
    page_text = render(small()).replace(
        "</main>", "<script>window.hacked = 1</script><img src='http://127.0.0.1:9/x'></main>"
    )
    path = written(small())
    path.write_text(page_text)
    found = []
    with pytest.raises(AssertionError, match="Content Security Policy"), chromium.page(path) as page:
        found.append(page.evaluate("window.hacked"))
    assert found == [None]
