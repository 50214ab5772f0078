"""Numbers, durations and times as text for people."""

from __future__ import annotations

import math
from datetime import datetime


def counted(value: int, noun: str, plural: str = "") -> str:
    """1 node, 12,345 nodes, 2 classes; other plurals are passed, such as those of nouns with their verb.

    >>> counted(1, "row repeats", "rows repeat"), counted(1234, "row repeats", "rows repeat")
    ('1 row repeats', '1,234 rows repeat')
    """
    plural = plural or noun + ("es" if noun.endswith("s") else "s")
    return f"{value:,} {noun if value == 1 else plural}"


def percent(value: float, digits: int = 1) -> str:
    """93.4 %, with a no-break space."""
    return f"{value:.{digits}f}\N{NO-BREAK SPACE}%"


def signed(value: float, digits: int = 1) -> str:
    """+7.3, −0.2, 0.0, with a minus sign instead of a hyphen."""
    rounded = f"{abs(value):.{digits}f}"
    return ("" if float(rounded) == 0 else "+" if value > 0 else "−") + rounded


def number(value: float) -> str:
    """At most four digits: 0.0123, 12.3, 1,234, ∞."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:{',.0f' if 100 <= abs(value) < 1e6 else '.3g'}}".replace("-", "−")


def duration(seconds: float) -> str:
    """0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def timestamp(iso: str) -> str:
    """31 January 2025, 12:00, with the time zone if it is known."""
    at = datetime.fromisoformat(iso)
    return f"{at.day} {at:%B %Y, %H:%M}" + (f" {at.tzname()}" if at.tzinfo else "")
