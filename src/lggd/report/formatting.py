"""Numbers, times and names as text. All text from users and files passes through `escape_text`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lggd.cards import MAX_NAME_LENGTH as MAX_NAME_LENGTH
from lggd.cards import escape_name as escape_name
from lggd.cards import escape_text as escape_text


def counted(value: int, noun: str) -> str:
    """1 node, 12,345 nodes, 2 classes."""
    plural = noun + ("es" if noun.endswith("s") else "s")
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


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Returns nested settings as pairs of a dotted name and a value as text."""
    pairs: list[tuple[str, str]] = []
    for key, value in settings.items():
        is_nested = isinstance(value, Mapping) and value
        name = f"{prefix}{key}"
        pairs += flatten_settings(value, f"{name}.") if is_nested else [(name, _format_setting(value))]
    return pairs


def _format_setting(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else number(value)
    if value is None or isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return ", ".join(map(_format_setting, value or ())) or "none"
    return str(value)
