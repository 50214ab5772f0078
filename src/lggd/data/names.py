"""Names that people misspell: what to say then."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

# Among how many names to look for one that was misspelt: comparing is slow.
NAMES_COMPARED = 10_000
# How many names an error lists before it stops.
NAMES_LISTED = 12


def suggestion(name: str, known: Sequence[str], otherwise: str = "") -> str:
    """Asks "Did you mean …?" with the closest known name, letter case aside; `otherwise` where none is close."""
    compared = {other.lower(): other for other in reversed(known[:NAMES_COMPARED])}
    close = get_close_matches(name.lower(), list(compared), n=1)
    return f"Did you mean {compared[close[0]]!r}?" if close else otherwise


def listed(names: Sequence[str]) -> str:
    """The names between commas, the first dozen where there are many."""
    shown = ", ".join(names[:NAMES_LISTED])
    return shown if len(names) <= NAMES_LISTED else f"{shown} and {len(names) - NAMES_LISTED} more"
