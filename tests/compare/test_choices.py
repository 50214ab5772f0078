"""The files of chosen settings: their order, what they record, and those of earlier versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from lggd.compare.choices import Choice, read_chosen, write_chosen
from lggd.compare.methods import load_methods
from lggd.errors import InputError, InputTypeError

CORA = Choice("gcn", "cora", 20, 3, {"lr": 1e-05}, 80.0)
PHOTO = Choice("gcn", "photo", 20, 3, {"lr": 0.02, "dropout": 0.3}, 91.238)


def test_files_are_in_order_record_the_effort_and_are_read_by_methods(tmp_path: Path) -> None:
    path = tmp_path / "chosen/gcn.toml"
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/gcn.toml").write_text('number = "01"\nname = "GCN"\nmethod = "Backbone"\n[settings]\nlr = 0.1\n')
    write_chosen(path, [PHOTO, CORA])
    text = path.read_text()
    assert text.endswith(
        "[cora]\ntrials = 20\nsplits = 3\nvalidation = 80.0\n[cora.settings]\nlr = 1e-05\n\n"
        "[photo]\ntrials = 20\nsplits = 3\nvalidation = 91.24\n[photo.settings]\ndropout = 0.3\nlr = 0.02\n"
    )
    assert read_chosen(path)["cora"] == CORA
    method = load_methods(tmp_path)[0]
    assert method.settings_for("photo") == {"lr": 0.02, "dropout": 0.3}
    assert method.settings_for("pubmed") == {"lr": 0.1}
    write_chosen(path, [Choice("gcn", "cora", 40, 3, {"lr": 0.5}, 80.0)])
    assert path.read_text() == text.replace("trials = 20", "trials = 40", 1).replace("1e-05", "0.5")


def test_files_of_earlier_versions_are_read_and_extended(tmp_path: Path) -> None:
    path = tmp_path / "gcn.toml"
    path.write_text("# 10 trials of 6 tuning splits, validation accuracy 83.07 %\n[cora]\nlr = 0.1\n")
    assert read_chosen(path) == {"cora": Choice("gcn", "cora", settings={"lr": 0.1})}
    write_chosen(path, [PHOTO])
    found = read_chosen(path)
    assert (found["cora"].settings, found["photo"].trials) == ({"lr": 0.1}, 20)


def test_a_failed_search_is_recorded_without_settings(tmp_path: Path) -> None:
    failed = Choice("gcn", "cora", 2, 3, reason="MemoryError: too much")
    write_chosen(tmp_path / "gcn.toml", [failed])
    assert read_chosen(tmp_path / "gcn.toml") == {"cora": failed}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[corra]\nk = 32\n", r"got 'corra'. Did you mean 'cora'\?"),
        ("[cora]\ntrials = 3\ntrails = 4\n", r"in \[cora\]: .*got 'trails'. Did you mean 'trials'\?"),
        ("[cora]\ntrials = 3\n[cora.settings]\nk = [3]\n", r"for k in \[cora.settings\], got \[3\]"),
    ],
)
def test_unknown_datasets_and_keys_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gdc.toml").write_text(text)
    with pytest.raises(InputError, match=rf"gdc.toml.*{message}"):
        read_chosen(tmp_path / "gdc.toml")


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "gcn.toml"
    write_chosen(path, [CORA])
    before = path.read_bytes()
    with pytest.raises(InputTypeError, match="`value` must be"):
        write_chosen(path, [Choice("gcn", "cora", 20, 3, {"lr": None}, 80.0)])  # type: ignore[dict-item]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
