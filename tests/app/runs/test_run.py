"""Runs as a library: what is measured, and what is not seen while measuring."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lggd.app.report.run_report import McNemarTest
from lggd.app.runs.methods import RunSettings
from lggd.app.runs.run import run, write_run
from lggd.app.runs.run_input import RunInput
from lggd.errors import InputError
from support.tables import path_input, two_rings


def test_held_out_labels_are_not_seen_before_they_are_restored(tmp_path: Path) -> None:
    tables = two_rings(tmp_path)
    ignored = ("remark", "height", "tall")
    found = RunInput.from_tables(tables[1], tables[3], label="kind", ignore=ignored)  # type: ignore[arg-type]
    result = run(found, RunSettings("evolved-ridge"))
    assert result.features is not None
    assert result.features.shape == (40, 6)
    assert bool((result.measured_labels[found.held_out] == -1).all())
    assert torch.equal(result.labels, found.data.y)
    assert len(result.model.additions_) == 1
    without, shown = "use all labels.", "The report shows the predictions without the held-out labels."
    for report in (True, False):
        notes = write_run(tmp_path / "run", result, report=report)["notes"]
        assert any(note.endswith(without) for note in notes)
        assert (shown in notes) == report
    found.data.y[found.held_out] = 1 - found.data.y[found.held_out]
    again = run(found, RunSettings("evolved-ridge"))
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
    result = run(found, RunSettings(reference="none", seed=3))
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


def test_the_p_value_is_that_of_both_on_held_out_nodes() -> None:
    result = run(RunInput.from_dataset("karate"), RunSettings(method="kernel-ridge"))
    tested = result.input.held_out
    y = result.input.data.y[tested]
    correct = [
        (found[tested] == y).numpy() for found in (result.measured_probabilities.argmax(1), result.reference_predicted)
    ]
    assert result.comparison == McNemarTest.of(*correct)
    assert replace(result, reference_predicted=None).comparison is None


@pytest.mark.parametrize(("argument", "value"), [("preset", "paper"), ("epochs", 5)])
def test_settings_are_refused_before_the_reference_is_trained(argument: str, value: str | int) -> None:
    trained: list[str] = []
    with pytest.raises(InputError, match=f"`{argument}` must be omitted"):
        run(
            RunInput.from_dataset("karate"),
            RunSettings(**{argument: value}),  # type: ignore[arg-type]
            callback=lambda progress: trained.append(progress.stage),
        )
    assert trained == []
