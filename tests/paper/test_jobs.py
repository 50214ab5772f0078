"""Jobs: labels that are added later, and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from command_line import answer
from lggd.comparison import templates
from lggd.comparison.jobs import JobOptions, run_jobs
from lggd.comparison.methods import load_methods
from lggd.comparison.protocol import load_splits
from lggd.comparison.results import Results
from lggd.errors import InputError
from lggd.paper import experiments, jobs
from lggd.paper.jobs import NewLabelsJob
from result_lines import lines_of


def dynamic_karate(dataset: str, splits: Any, *, device: str, root: Any = None, dynamic: bool = False) -> list[Any]:
    """Karate with three of its test nodes for each of three steps."""
    datas = load_splits(dataset, splits, device=device)
    for data in datas:
        nodes = data.test_mask.nonzero().squeeze(1)[:9].reshape(3, 3)
        data.new_mask = torch.zeros(34, 3, dtype=torch.bool).scatter(0, nodes, True)
        data.test_mask = data.test_mask & ~data.new_mask.any(1)
    return datas


def test_new_labels_are_added_or_trained_with(configs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "load_splits", dynamic_karate)
    gcn, _, learned, _ = load_methods(configs)
    options = JobOptions(Results(tmp_path / "results"), splits=2)
    planned = [
        NewLabelsJob("dynamic", learned, learned.settings, "karate", retrained=False),
        NewLabelsJob("dynamic", gcn, gcn.settings, "karate", retrained=True),
    ]
    result = run_jobs(planned, options)
    assert result.failures == []
    assert [(line["row"], line["additions"]) for line in result.lines] == [
        (row, additions) for row in ("09", "01 retrained") for additions in range(4)
    ]
    assert result.lines[-1]["name"] == "GCN, retrained"
    assert run_jobs(planned, options).reused == 8
    # The same as fitting each split alone.
    for split, data in enumerate(dynamic_karate("karate", range(2), device="cpu")):
        model = templates.build("LGGD", learned.settings, "gcn", split).fit(data)
        for additions in range(4):
            if additions:
                new = data.new_mask[:, additions - 1]
                model.add_labels(new, data.y[new])  # type: ignore[union-attr]
            assert result.lines[additions]["test"][split] == pytest.approx(100 * model.score(data))
        data.train_mask = data.train_mask | data.new_mask[:, :2].any(1)
        model = templates.build("Backbone", gcn.settings, "gcn", split).fit(data)
        assert result.lines[4 + 2]["test"][split] == pytest.approx(100 * model.score(data))


def test_a_model_that_does_not_accept_labels_is_refused(configs: Path) -> None:
    gcn = load_methods(configs)[0]
    job = NewLabelsJob("dynamic", gcn, gcn.settings, "cora", retrained=False)
    with pytest.raises(InputError, match="`rows` must accept labels"):
        job.identities(JobOptions(Results(".")))


def test_figures_are_drawn_with_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"points": 300, "epsilon": 0.3, "extra_edges": [5], "draws": 1}
    monkeypatch.setattr(experiments, "ROBUSTNESS", small)
    options = ["--results", tmp_path / "results"]
    found = answer("reproduce", "robustness", *options)
    (line,) = lines_of(tmp_path / "results", "robustness")
    assert line["figure"] == "figures/robustness.png"
    drawn = tmp_path / "results" / line["figure"]
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert [(one["p"], one["extra_edges"]) for one in line["change"]] == [(1.0, 5), ("inf", 5)]
    assert found["measured"] == 1
    assert answer("reproduce", "robustness", *options)["reused"] == 1
    drawn.unlink()
    assert answer("reproduce", "robustness", *options)["measured"] == 1
    assert drawn.exists()
