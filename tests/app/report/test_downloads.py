"""The files that a page makes itself."""

import csv
from pathlib import Path

import numpy as np
import pytest

from lggd.app.report import map_data
from support.sample_reports import HOSTILE, hostile, random_report, small

PREDICTIONS = ["node", "predicted", "probability", "labelled", "true class", "test"]


def download(page, name):
    with page.expect_download() as download:
        page.click(f".download[data-file={name}]")
    assert download.value.suggested_filename == f"{name}.csv"
    with Path(download.value.path()).open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


@pytest.mark.parametrize("most", [500, 400], ids=["all drawn", "sampled"])
def test_predictions_of_all_nodes(chromium, written, monkeypatch, most):
    monkeypatch.setattr(map_data, "MAX_NODES", most)
    report = random_report(500, 3)
    with chromium.page(written(report), accept_downloads=True) as page:
        header, *rows = download(page, "predictions")
    assert header == PREDICTIONS
    assert [row[0] for row in rows] == [report.name_of(node) for node in range(report.num_nodes)]
    names = [*report.classes, ""]
    assert [row[1] for row in rows] == [names[k] for k in report.predicted]
    assert [row[3] for row in rows] == [names[k] for k in report.labels]
    assert [row[4] for row in rows] == [names[k] for k in report.y]
    assert [row[5] == "1" for row in rows] == report.test_mask.tolist()
    probability = report.probabilities[np.arange(report.num_nodes), report.predicted]
    assert np.abs(np.array([float(row[2]) for row in rows]) - probability).max() < 1e-4


def test_labels(chromium, written):
    with chromium.page(written(small()), accept_downloads=True) as page:
        assert download(page, "labels") == [["id", "label"], ["a", "red"], ["c", "green"], ["e", "blue"]]


def test_names_keep_commas_quotes_and_line_breaks(chromium, written):
    names = ["a,b", 'c "d"', "e\nf", "ü", "'", " g "]
    with chromium.page(written(small(ids=names)), accept_downloads=True) as page:
        assert [row[0] for row in download(page, "predictions")[1:]] == names


def test_long_names_are_complete(chromium, written):
    with chromium.page(written(hostile()), accept_downloads=True) as page:
        assert download(page, "predictions")[-1][0] == HOSTILE[-1]


def test_only_what_exists_is_offered(chromium, written):
    unlabelled = small(labels=np.full(6, -1))
    with chromium.page(written(unlabelled)) as page:
        assert page.locator(".download").count() == 1
