"""A table of four fast rows, and the options that measure it on a small graph."""

from __future__ import annotations

from pathlib import Path

import pytest

SHORT = "optimization__epochs = 4\n"
ROWS = {
    "gcn": ("01", "GCN", "gcn", SHORT),
    "ggd": ("08", "GGD", "ggd", SHORT),
    "lggd": ("09", "LGGD", "lggd", SHORT + "features__optimization__epochs = 3\nfeatures__initial__hidden = [8]\n"),
    "gpr": ("11", "GPR-GNN", "gpr-gnn", SHORT + "backbone__hidden = 4\n"),
}


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    folder = tmp_path / "configs"
    (folder / "rows").mkdir(parents=True)
    for slug, (number, name, method, settings) in ROWS.items():
        text = f'number = "{number}"\nname = "{name}"\nmethod = "{method}"\n[settings]\n{settings}'
        (folder / f"rows/{slug}.toml").write_text(text)
    (folder / "ablation.toml").write_text(
        'base = "lggd"\n[variants."as chosen"]\n[variants."nearest class"]\nbackbone = { kind = "none" }\n'
    )
    return folder


@pytest.fixture
def options(configs: Path, tmp_path: Path) -> list[object]:
    return ["--configs", configs, "--results", tmp_path / "results", "--datasets", "karate", "--splits", 2]
