"""Formulas as MathML, which browsers draw themselves: no script, no font and no request."""

from __future__ import annotations

from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml


def _inline(translator: Any, node: Any) -> None:
    translator.body.append(tex2mathml(node.astext()))
    raise SkipNode


def _display(translator: Any, node: Any) -> None:
    translator.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_display, None))
