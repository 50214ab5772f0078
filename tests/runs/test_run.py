"""Runs as a library: what is measured, and what is not seen while measuring."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lggd.errors import InputError
from lggd.runs.folder import write_run
from lggd.runs.methods import METHODS, build_model
from lggd.runs.run import RunSettings, run
from lggd.runs.run_input import RunInput
from tables import path_input, two_rings


def test_held_out_labels_are_not_seen_before_they_are_restored(tmp_path: Path) -> None:
    tables = two_rings(tmp_path)
    ignored = ("remark", "height", "tall")
    found = RunInput.from_tables(tables[1], tables[3], label="kind", ignore=ignored)  # type: ignore[arg-type]
    result = run(found)
    assert result.features is not None
    assert result.features.shape == (40, 11)
    assert bool((result.measured_labels[found.held_out] == -1).all())
    assert torch.equal(result.labels, found.data.y)
    assert len(result.model.additions_) == 1
    found.data.y[found.held_out] = 1 - found.data.y[found.held_out]
    again = run(found)
    assert torch.equal(again.measured_probabilities, result.measured_probabilities)
    assert again.accuracy["model"] == 100 - result.accuracy["model"]  # type: ignore[operator]


def test_a_method_that_cannot_add_labels_says_so(tmp_path: Path) -> None:
    tables = two_rings(tmp_path)
    found = RunInput.from_tables(tables[1], tables[3], label="kind", ignore=("remark",))  # type: ignore[arg-type]
    result = run(found, RunSettings("gcn", epochs=3))
    assert torch.equal(result.labels, result.measured_labels)
    assert any("cannot add labels without training" in note for note in result.notes)
    assert (result.distances, result.features, result.additions) == (None, None, ())


def test_too_few_labels_leave_accuracy_unknown(tmp_path: Path) -> None:
    found = path_input(tmp_path, ["a", "b", "", "", ""])
    assert int(found.held_out.sum()) == 0
    assert int(found.data.train_mask.sum()) == 2
    result = run(found)
    assert result.accuracy == {"reference": None, "model": None}
    assert sum("Accuracy is unknown" in note for note in result.notes) == 1
    write_run(tmp_path / "few", result)
    assert "Accuracy is unknown: no held-out node" in (tmp_path / "few" / "report.html").read_text()


def test_test_labels_of_a_split_column_stay_hidden(tmp_path: Path) -> None:
    labels, split = ["a", "a", "b", "b", "a", "b"], ["train", "val", "val", "train", "test", "test"]
    result = run(path_input(tmp_path, labels, split=split))
    assert result.labels.tolist() == [0, -1, -1, 1, -1, -1]
    assert result.model.additions_ == []
    facts = write_run(tmp_path / "x", result, report=False)
    assert (facts["labelled"], facts["validation"], facts["heldout"]) == (2, 2, 2)


def test_additions_are_measured_on_nodes_that_are_never_revealed() -> None:
    found = RunInput.from_dataset("moons")
    result = run(found, RunSettings(backbone="none", seed=3))
    model, truth = result.model, found.data.y
    assert [a.labels for a in result.additions] == [10, 59, 108, 157]
    assert int((model.labels_ >= 0).sum()) == 10
    assert model.additions_ == []
    # The same by hand: draw, add and count.
    nodes = found.held_out.nonzero().squeeze(1)
    order = nodes[torch.randperm(490, generator=torch.Generator().manual_seed(3))]
    never = order[147:]
    for step, addition in enumerate(result.additions):
        correct = float((model.predict()[never] == truth[never]).double().mean())
        assert addition.accuracy == pytest.approx(100 * correct)
        assert addition.milliseconds > 0
        model.add_labels(order[49 * step : 49 * (step + 1)], truth[order[49 * step : 49 * (step + 1)]])
    assert result.additions[-1].accuracy > result.additions[0].accuracy


# -- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "titles"),
    [
        (RunSettings(), {"reference": "GCN", "model": "LGGD with GCN"}),
        (RunSettings("ggd", "gat"), {"reference": "GAT", "model": "GGD with GAT"}),
        (RunSettings(backbone="none"), {"model": "LGGD"}),
        (RunSettings("lggd-plus"), {"reference": "GCN", "model": "LGGD+ with GCN"}),
        (RunSettings("gat"), {"model": "GAT"}),
        (RunSettings("gpr-gnn"), {"reference": "GCN", "model": "GPR-GNN"}),
        (RunSettings("gcn-plus"), {"reference": "GCN", "model": "GCN+"}),
        (RunSettings("label-propagation"), {"reference": "GCN", "model": "Label propagation"}),
        (RunSettings("gdc-ppr", "jknet"), {"reference": "JKNet", "model": "GDC (PPR) with JKNet"}),
    ],
    ids=lambda value: value.method if isinstance(value, RunSettings) else "",
)
def test_models_are_compared_with_their_backbone_alone(settings: RunSettings, titles: dict[str, str]) -> None:
    assert settings.titles() == titles


@pytest.mark.parametrize("method", METHODS)
def test_settings_reach_the_model(method: str) -> None:
    trained = METHODS[method].is_trained
    model = build_model(method, epochs=7 if trained else None, seed=5)
    assert {value for name, value in model.get_params().items() if name.split("__")[-1] == "seed"} == {5}
    if trained:
        assert METHODS[method].network(model).optimization.epochs == 7
    else:
        with pytest.raises(InputError, match=f"`epochs` must be omitted for {method}, which is not trained, got 7"):
            build_model(method, epochs=7)


@pytest.mark.parametrize("settings", [{"method": "nothing"}, {"backbone": "nothing"}])
def test_unknown_names_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InputError) as error:
        RunSettings(**settings)  # type: ignore[arg-type]
    assert error.value.argument in settings
