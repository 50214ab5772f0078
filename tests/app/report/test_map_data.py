"""The data that a page embeds for its maps."""

import json

import numpy as np
import pytest

from lggd.app.report import map_data
from lggd.app.report.page import render
from support.page_reader import PageReader, embedded, unpacked
from support.sample_reports import random_report, small


def test_distances_are_encoded_to_one_part_in_250():
    report = random_report(50, 3)
    data = embedded(report)
    for t in range(5):
        codes = unpacked(data["distances"][t], np.uint8).reshape(3, 50)
        for k in range(3):
            low, high, unit, exceeds = data["scales"][t][k]
            assert (unit, exceeds) == (0, 0)
            decoded = low + codes[k] / 254 * (high - low)
            assert np.abs(decoded - report.distances[t, :, k]).max() <= (high - low) / 254


def test_unreachable_nodes_have_their_own_code():
    distances = np.ones((2, 6, 3))
    distances[0, 2, 1], distances[0, 3, 1], distances[1, :, 0] = np.inf, np.nan, np.inf
    data = embedded(small(distances=distances))
    first, second = (unpacked(text, np.uint8).reshape(3, 6) for text in data["distances"])
    assert first[1].tolist() == [0, 0, 255, 255, 0, 0]
    assert second[0].tolist() == [255] * 6


def test_outliers_do_not_compress_the_scale():
    distances = np.linspace(0, 1, 1000)[None, :, None].repeat(2, axis=2)
    distances[0, -1] = 50.0
    data = embedded(random_report(1000, 2, times=1, distances=distances))
    low, high, unit, exceeds = data["scales"][0][0]
    assert (low, unit, exceeds) == (0, 0, 1)
    assert 0.95 < high < 1
    assert unpacked(data["distances"][0], np.uint8)[999] == 254


def test_wide_ranges_are_encoded_logarithmically():
    distances = np.geomspace(1e-2, 1e6, 200)[None, :, None].repeat(2, axis=2)
    data = embedded(random_report(200, 2, times=1, distances=distances))
    codes = unpacked(data["distances"][0], np.uint8).reshape(2, 200)[0]
    assert data["scales"][0][0][2] > 0
    assert len(np.unique(codes)) > 100


def test_positions_keep_their_aspect_ratio():
    data = embedded(small())
    x, y = unpacked(data["x"], np.uint16).astype(int), unpacked(data["y"], np.uint16).astype(int)
    assert (min(x.min(), y.min()), max(x.max(), y.max())) == (0, 10_000)
    # Twice as high as wide, and upside down: screens count downwards.
    assert np.ptp(y) == 2 * np.ptp(x)
    assert y[0] > y[2] > y[4]


def test_each_edge_is_embedded_once():
    edges = unpacked(embedded(small())["edges"], np.uint16).reshape(-1, 2)
    assert edges.tolist() == [[0, 1], [1, 3], [2, 3], [3, 5], [4, 5]]


def test_page_of_digits_is_small(digits):
    assert len(render(digits).encode()) < 600_000


def test_page_of_pubmeds_size_is_small():
    report = random_report(19_717, 3, ids=[f"node number {k}" for k in range(19_717)])
    assert len(render(report).encode()) < 4_000_000
    assert "All 19,717 nodes." in render(report)


@pytest.mark.parametrize(("nodes", "classes"), [(60_000, 10), (20_000, 70)])
def test_large_graphs_are_sampled(nodes, classes):
    report = random_report(nodes, classes)
    page = render(report)
    data = json.loads(PageReader(page).data)
    assert len(page.encode()) < 4_000_000
    drawn = unpacked(data["numbers"], np.uint32)
    assert len(drawn) == data["count"] <= map_data.MAX_NODES
    assert set(np.flatnonzero(report.labels >= 0)) <= set(drawn.tolist())
    assert set(report.least_certain()) <= set(drawn.tolist())
    assert f"A sample of {data['count']:,} nodes of {nodes:,}" in page
    edges = unpacked(data["edges"], np.uint16)
    assert len(edges) <= 2 * map_data.MAX_EDGES
    assert edges.max() < data["count"]
