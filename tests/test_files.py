"""Folders are replaced completely or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from lggd import files
from lggd.errors import InputFileError
from lggd.files import check_folder_writable, replacing_folder, restore_folder

MARKER = "lggd-run.json"


def fill(folder: Path, text: str) -> None:
    (folder / MARKER).write_text("{}", encoding="utf-8")
    (folder / "deep").mkdir()
    (folder / "deep" / "content.txt").write_text(text, encoding="utf-8")


def content(folder: Path) -> str:
    return (folder / "deep" / "content.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("before", ["nothing", "an empty folder", "one of ours"])
def test_folder_is_replaced(tmp_path: Path, before: str) -> None:
    path = tmp_path / "run"
    if before != "nothing":
        path.mkdir()
    if before == "one of ours":
        fill(path, "old")
        (path / "left over").touch()
    with replacing_folder(path, MARKER) as folder:
        assert folder.parent.parent == tmp_path
        fill(folder, "new")
        assert not (path / "deep").exists() or content(path) == "old"
    assert content(path) == "new"
    assert not (path / "left over").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_new_folder_has_default_permissions(tmp_path: Path) -> None:
    with replacing_folder(tmp_path / "run", MARKER) as folder:
        fill(folder, "new")
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "run").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("existed", [True, False])
def test_failure_removes_the_temporary_folder(tmp_path: Path, failure: type[BaseException], existed: bool) -> None:
    path = tmp_path / "run"
    if existed:
        path.mkdir()
        fill(path, "old")
    with pytest.raises(failure), replacing_folder(path, MARKER) as folder:  # noqa: PT012
        fill(folder, "new")
        raise failure
    assert not existed or content(path) == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"] * existed


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", [1, 2])
def test_failure_between_renames_keeps_one_complete_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException], when: str, step: int
) -> None:
    path = tmp_path / "run"
    path.mkdir()
    fill(path, "old")
    monkeypatch.setattr(files, "exchange", lambda first, second: False)
    rename, steps = Path.rename, []

    def failing(self: Path, target: Path) -> Path:
        steps.append(target)
        if len(steps) == step and when == "before":
            raise failure
        rename(self, target)
        if len(steps) == step and when == "after":
            raise failure
        return target

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(failure), replacing_folder(path, MARKER) as folder:
        fill(folder, "new")
    assert content(path) == ("new" if (step, when) == (2, "after") else "old")
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_folder_that_cannot_be_restored_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    path.mkdir()
    fill(path, "old")
    monkeypatch.setattr(files, "exchange", lambda first, second: False)
    rename = Path.rename

    def only_aside(self: Path, target: Path) -> Path:
        if target == path:
            raise PermissionError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", only_aside)
    with pytest.raises(PermissionError), replacing_folder(path, MARKER) as folder:
        fill(folder, "new")
    (staging,) = tmp_path.iterdir()
    assert staging.name.startswith(".run-")
    assert (content(staging / "old"), content(staging / "new")) == ("old", "new")
    monkeypatch.setattr(Path, "rename", rename)
    restore_folder(path, MARKER)
    assert content(path) == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_other_folders_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").touch()
    with pytest.raises(
        InputFileError, match=r"`.*thesis` must be new, empty or contain lggd-run\.json, got a folder with"
    ):
        check_folder_writable(tmp_path / "thesis", MARKER)
    with pytest.raises(InputFileError, match="must be new"), replacing_folder(tmp_path / "thesis", MARKER):
        pytest.fail("asked too late")
    with pytest.raises(InputFileError, match="got a file"):
        check_folder_writable(tmp_path / "thesis" / "chapter.tex", MARKER)
    with pytest.raises(InputFileError, match="must lie in a folder that exists"):
        check_folder_writable(tmp_path / "nowhere" / "run", MARKER)
    assert (tmp_path / "thesis" / "chapter.tex").exists()


def test_folder_filled_in_the_meantime_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with pytest.raises(InputFileError, match="must be new"), replacing_folder(path, MARKER) as folder:  # noqa: PT012
        fill(folder, "new")
        path.mkdir()
        (path / "mine").touch()
    assert [entry.name for entry in path.iterdir()] == ["mine"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_folder_without_marker_is_rejected(tmp_path: Path) -> None:
    message = r"must contain lggd-run\.json when complete"
    with pytest.raises(InputFileError, match=message), replacing_folder(tmp_path / "run", MARKER):
        pass
    assert list(tmp_path.iterdir()) == []


def test_symbolic_link_is_preserved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    fill(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to("real")
    with replacing_folder(tmp_path / "link", MARKER) as folder:
        fill(folder, "new")
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "real") == "new"
