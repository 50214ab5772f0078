"""The licences of all packages that lggd installs, from their metadata; `--check` fails where one is not in ACCEPTED.

`python tools/licences.py [EXTRA …]` prints a table in Markdown: without extras, of what `pip install lggd` brings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution

PACKAGE = "lggd"
# Permissive licences, and the Mozilla licence, which asks only for changes of its own files. What is none of them needs
# a person to look at it.
ACCEPTED = (
    "MIT", "BSD", "Apache", "ISC", "PSF", "Python Software Foundation", "Zlib", "0BSD", "Unlicense", "HPND", "MPL",
    "Mozilla", "CC0", "MIT-CMU", "Historical Permission",
)  # fmt: skip
REFUSED = re.compile(r"\b(A?GPL|LGPL|GNU|SSPL|BUSL)", re.I)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(name: str, extras: Sequence[str] = ()) -> Iterator[str]:
    """The packages that one requires here, with these extras; markers of other systems and versions are left out."""
    from packaging.requirements import Requirement

    for text in distribution(name).requires or []:
        need = Requirement(text)
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonical(need.name)


def installed(extras: Sequence[str] = ()) -> list[str]:
    """All packages that are required, directly and through others, where they are installed."""
    found, waiting = set[str](), list(requirements(PACKAGE, extras))
    while waiting:
        name = waiting.pop()
        if name not in found and name != PACKAGE:
            try:
                more = list(requirements(name))
            except PackageNotFoundError:
                continue
            found.add(name)
            waiting += more
    return sorted(found)


def licence(name: str) -> str:
    """The licence that a package states: its expression, its classifiers, or the first line of its text."""
    metadata = distribution(name).metadata
    classifiers = [
        value.split(" :: ")[-1] for value in metadata.get_all("Classifier", []) if value.startswith("License ")
    ]
    first = (metadata.get("License") or "").strip().split("\n")[0]
    return metadata.get("License-Expression") or ", ".join(classifiers) or first or "not stated"


def is_accepted(text: str) -> bool:
    """Whether a licence is one of ACCEPTED, and nothing in it is refused."""
    return not REFUSED.search(text) and any(name.lower() in text.lower() for name in ACCEPTED)


def main(words: Sequence[str]) -> int:
    extras = [word for word in words if word != "--check"]
    found = {name: licence(name) for name in installed(extras)}
    doubtful = {name: text for name, text in found.items() if not is_accepted(text)}
    print("| package | version | licence |\n|---|---|---|")
    for name, text in found.items():
        print(f"| {name} | {distribution(name).version} | {text[:100]} |")
    for name, text in doubtful.items():
        print(f"Look at {name}: {text[:100]}", file=sys.stderr)
    return int(bool(doubtful) and "--check" in words)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
