"""Public names in the text of a page, such as `lggd.distance` or `RK4(step=0.1)`, become links to the API reference."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import desc, pending_xref

from building.api_pages import rooms

NAME = re.compile(r"(?P<prefix>lggd\.)?(?P<name>[A-Za-z]\w*(?:\.[A-Za-z]\w*)?)(?P<call>\(.*\))?")


def full_name(text: str, known: set[str], *, lower: bool) -> str | None:
    """Returns the public name that a piece of code shows; `lower`: functions count without `lggd.` or parentheses.

    >>> known = {"lggd.RK4", "lggd.depth"}
    >>> full_name("RK4(step=0.1)", known, lower=False), full_name("depth", known, lower=False)
    ('lggd.RK4', None)
    """
    found = NAME.fullmatch(text)
    if found is None or (found["name"][0].islower() and not (lower or found["prefix"] or found["call"])):
        return None
    for name in (f"lggd.{found['name']}", f"lggd.baselines.{found['name']}", f"lggd.diffusion.{found['name']}"):
        if name in known:
            return name
    return None


def _link_names(app: Any, doctree: nodes.document) -> None:
    known = {name for names in rooms().values() for name in names}
    page = app.env.current_document.docname
    for node in list(doctree.findall(nodes.literal)):
        parents = _parents(node)
        if any(isinstance(parent, (nodes.reference, nodes.title, pending_xref, desc)) for parent in parents):
            continue
        name = full_name(node.astext(), known, lower=page == "api")
        if name is not None:
            options = {"refdomain": "py", "reftype": "obj", "reftarget": name, "refwarn": True, "refdoc": page}
            link = pending_xref("", **options)
            node.replace_self(link)
            link += node


def _parents(node: nodes.Node) -> list[nodes.Node]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def setup(app: Any) -> None:
    app.connect("doctree-read", _link_names)
