"""The figures of the report show what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from lggd.paper.published import DATASETS
from lggd.paper.result_figures import draw_ablation, draw_backbones, draw_dynamic, draw_table
from result_lines import all_lines, measured


def test_figures_show_what_was_measured(tmp_path: Path) -> None:
    found = measured(tmp_path, all_lines())
    table, backbones, dynamic, ablation = (
        draw(found) for draw in (draw_table, draw_backbones, draw_dynamic, draw_ablation)
    )
    assert [panel.get_title() for panel in table.axes] == list(DATASETS.values())
    assert [len(panel.containers) for panel in table.axes] == [2] * 5
    assert [len(panel.patches) for panel in backbones.axes] == [12] * 5
    assert [len(panel.lines) for panel in dynamic.axes] == [3] * 3
    assert [bar.get_width() for bar in ablation.axes[0].patches] == pytest.approx([1.5, -2, 1.5, -2])
