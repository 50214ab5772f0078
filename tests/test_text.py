"""Numbers, durations and times as text."""

import math

from lggd.text import counted, duration, number, signed, timestamp


def test_numbers_durations_and_times() -> None:
    assert [number(x) for x in (0, 0.01234, 12.34, -3.0, 12345.6, 1e9, math.inf, math.nan)] == [
        "0", "0.0123", "12.3", "−3", "12,346", "1e+09", "∞", "–",
    ]  # fmt: skip
    assert [signed(x) for x in (7.25, -0.3, 0.04, -0.04)] == ["+7.2", "−0.3", "0.0", "0.0"]
    assert [duration(x) for x in (0.44, 59.7, 61, 7500)] == ["0.4 s", "1 min 0 s", "1 min 1 s", "2 h 5 min"]
    assert [counted(*x) for x in ((1, "node"), (2, "class"), (1200, "edge"))] == [
        "1 node",
        "2 classes",
        "1,200 edges",
    ]
    assert timestamp("2025-01-31T12:05:00+00:00") == "31 January 2025, 12:05 UTC"
