"""The library's errors in the words of the command line: flags for arguments, names for node numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# Longer phrases stand before what they contain.
PHRASES = {
    'symmetrize="max" or "mean"': "--symmetrize max or mean",
    "symmetrize='max'": "--symmetrize max",
    "symmetrize='mean'": "--symmetrize mean",
    "directed=True": "--directed",
    "unbounded=True": "--unbounded",
    "solver=Dijkstra()": "--solver dijkstra",
    "FastMarching()": "--solver marching",
    "`edges`": "The edges",
    "`weight`": "The weights",
}
# For commands with an option --p.
EXPONENT = {"p=math.inf": "--p inf", "`p`": "`--p`"}


def on_command_line(message: str, flags: Mapping[str, str], node_names: Sequence[str] | None) -> str:
    """The message with the command's own `flags` in place of phrases, and nodes by name where names are known."""
    if node_names is not None:
        message = _with_names(message, node_names)
    for phrase, flag in {**flags, **PHRASES}.items():
        message = message.replace(phrase, flag)
    return message


def _with_names(message: str, names: Sequence[str]) -> str:
    def name(number: str) -> str:
        return names[int(number)] if int(number) < len(names) else number

    message = re.sub(r"\((\d+), (\d+)\)", lambda pair: f"({name(pair[1])}, {name(pair[2])})", message)
    return re.sub(r"\bnode (\d+)\b", lambda node: f"node {name(node[1])}", message)
