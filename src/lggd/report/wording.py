"""Numbers, times and names as a page says them. Whatever a person or a file named passes through `text`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
# Names longer than this are cut; a whole paragraph as a class name would push everything else off the page.
LONGEST_NAME = 80


def text(value: object) -> str:
    """Safe within HTML, between tags and in quoted attributes. Characters that no file can hold become "?"."""
    return escape(str(value).encode("utf-8", "replace").decode("utf-8").replace("\0", "?"), quote=True)


def name(value: object) -> str:
    """The same for a name, which is cut where it is very long."""
    whole = str(value)
    return text(whole if len(whole) <= LONGEST_NAME else whole[: LONGEST_NAME - 1] + "…")


def count(value: int) -> str:
    """12,345."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """1 node, 12,345 nodes, 2 classes."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{value:,} {noun if value == 1 else plural}"


def percent(value: float, digits: int = 1) -> str:
    """93.4 %, with a space that does not break."""
    return f"{value:.{digits}f}\N{NO-BREAK SPACE}%"


def signed(value: float, digits: int = 1) -> str:
    """+7.3, −0.2, 0.0, with a true minus."""
    rounded = f"{abs(value):.{digits}f}"
    sign = "" if float(rounded) == 0 else "+" if value > 0 else "−"
    return sign + rounded


def number(value: float) -> str:
    """Four digits at most: 0.0123, 12.3, 1,234, ∞."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if 100 <= abs(value) < 1e6:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def duration(seconds: float) -> str:
    """0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def moment(iso: str) -> str:
    """31 January 2025, 12:00, with the zone where it is told."""
    at = datetime.fromisoformat(iso)
    zone = f" {at.tzname()}" if at.tzinfo else ""
    return f"{at.day} {MONTHS[at.month - 1]} {at.year}, {at:%H:%M}{zone}"


def flattened(settings: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    """Nested settings as pairs of a dotted name and a value in words."""
    pairs: list[tuple[str, str]] = []
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            pairs += flattened(value, f"{above}{key}.")
        else:
            pairs.append((f"{above}{key}", setting(value)))
    return pairs


def setting(value: object) -> str:
    """A value of a setting: yes, no, none, a number, a list."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else number(value)
    if isinstance(value, Mapping):
        return "none"  # an empty one: others have been flattened
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(setting(item) for item in value) or "none"
    return str(value)
