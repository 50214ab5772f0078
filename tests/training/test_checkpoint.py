"""Checkpoints: one file per stage, whatever the stage is called."""

import torch

from lggd.training.checkpoint import Checkpoint


def test_a_stage_of_several_passes_has_a_file_of_its_own(tmp_path):
    checkpoint = Checkpoint(tmp_path / "training", key="a")
    for number in (1, 2):
        checkpoint.save(f"backbone {number}/2", {"weight": torch.tensor([float(number)])})
    assert sorted(path.name for path in (tmp_path / "training").iterdir()) == [
        "backbone 1 of 2.safetensors",
        "backbone 2 of 2.safetensors",
    ]
    assert [checkpoint.load(f"backbone {number}/2")["weight"].item() for number in (1, 2)] == [1.0, 2.0]
