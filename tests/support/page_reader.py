"""What a page holds: its tags, its text and its embedded data."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser

import numpy as np

from lggd.app.report.page import render


class PageReader(HTMLParser):
    """The tags, the text and the embedded JSON of a page."""

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


def text_of(report):
    return PageReader(render(report)).text


def embedded(report):
    return json.loads(PageReader(render(report)).data)


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)
