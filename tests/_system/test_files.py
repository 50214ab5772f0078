"""Folders are replaced completely or not at all."""

from __future__ import annotations

import errno
import threading
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from lggd._system import files
from lggd._system.files import (
    SIDECARS,
    check_checksums,
    check_folder_writable,
    check_size,
    describe_file,
    recover_folder,
    replacing,
    replacing_folder,
    save_tensors,
    write_errors,
    write_text,
)
from lggd.errors import DiskFullError, InputFileError
from support.processes import finish

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
        assert folder.parent == tmp_path / ".run.lggd"
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
    rename = Path.rename

    def only_aside(self: Path, target: Path) -> Path:
        if target == path:
            raise PermissionError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", only_aside)
    with pytest.raises(PermissionError), replacing_folder(path, MARKER) as folder:
        fill(folder, "new")
    (staging,) = tmp_path.iterdir()
    assert content(staging / "old") == "old"
    monkeypatch.undo()
    recover_folder(path)
    assert content(path) == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_sidecars_are_moved_next_to_the_folder(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    for failure in (RuntimeError, None):
        with suppress(RuntimeError), replacing_folder(tmp_path / "run", MARKER) as folder:
            fill(folder, "new")
            (folder / SIDECARS).mkdir()
            (folder / SIDECARS / "page.html").write_text("new")
            if failure is not None:
                raise failure
        assert (tmp_path / "page.html").read_text() == ("new" if failure is None else "old")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["page.html", "run"]
    assert sorted(entry.name for entry in (tmp_path / "run").iterdir()) == ["deep", MARKER]


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


# -- processes that are killed ------------------------------------------------------------------------------------


KILLED = """
import os, sys
from lggd._system import files
step, done = int(sys.argv[2]), 0

def counted(function):
    def call(*arguments, **options):
        global done
        if done == step:
            os._exit(9)
        done += 1
        return function(*arguments, **options)
    return call

files.Path.rename, files.Path.replace = counted(files.Path.rename), counted(files.Path.replace)
files.shutil.rmtree, files.Path.mkdir = counted(files.shutil.rmtree), counted(files.Path.mkdir)
with files.replacing_folder(sys.argv[1], "lggd-run.json") as folder:
    (folder / "lggd-run.json").touch()
    (folder / "deep").mkdir()
    (folder / "deep" / "content.txt").write_text("new")
    (folder / files.SIDECARS).mkdir()
    for name in ("a", "b"):
        (folder / files.SIDECARS / name).write_text("new")
"""


def test_a_process_killed_at_any_step_leaves_all_or_nothing(tmp_path: Path) -> None:
    outcomes = []
    for step in range(20):
        parent = tmp_path / str(step)
        path = parent / "run"
        path.mkdir(parents=True)
        fill(path, "old")
        for name in ("a", "b"):
            (parent / name).write_text("old")
        status = finish(path, step, code=KILLED)[0]
        assert status in (0, 9)
        if path.exists():  # what a reader sees that recovers nothing
            assert content(path) in ("old", "new")
        recover_folder(path)
        outcomes.append(content(path))
        assert [(parent / name).read_text() for name in ("a", "b")] == [outcomes[-1]] * 2
        assert {entry.name for entry in parent.iterdir()} - {".run.lock", ".run.lggd"} == {"a", "b", "run"}
        assert sorted(entry.name for entry in path.iterdir()) == ["deep", MARKER]
        with replacing_folder(path, MARKER) as folder:
            fill(folder, "newer")
        assert sorted(entry.name for entry in parent.iterdir()) == ["a", "b", "run"]
        if status == 0:
            break
    assert outcomes == sorted(outcomes, reverse=True)
    assert (outcomes.count("old"), outcomes.count("new")) == (9, 4)


def test_writers_of_a_folder_take_turns_and_others_are_left_alone(tmp_path: Path) -> None:
    path, done = tmp_path / "run", threading.Event()
    (tmp_path / ".run-abcdefgh").mkdir()

    def write() -> None:
        with replacing_folder(path, MARKER) as folder:
            fill(folder, "second")
        done.set()

    with replacing_folder(path, MARKER) as folder:
        other = threading.Thread(target=write)
        other.start()
        fill(folder, "first")
        assert not done.wait(0.2)
    other.join()
    assert content(path) == "second"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".run-abcdefgh", "run"]


# -- disks that are full or read-only -----------------------------------------------------------------------------


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_text_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    write_text(tmp_path / "page.html", "φ\n")
    assert (tmp_path / "page.html").read_bytes() == "φ\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(InputFileError, match="must lie in a folder that exists"):
        write_text(tmp_path / "nowhere" / "page.html", "")


def test_full_disk_is_a_sentence_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    message = (
        r"`.*table\.csv` must fit on its disk, but it needs more than the .*B that are free there\. Free some space"
    )
    with pytest.raises(DiskFullError, match=message), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("ne")
        full()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_names_the_file_inside_a_folder_by_its_final_path(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    fill(path, "old")
    with pytest.raises(DiskFullError) as stopped, replacing_folder(path, MARKER) as folder:  # noqa: PT012
        (folder / "deep").mkdir()
        with replacing(folder / "deep" / "content.txt"):
            full()
    assert stopped.value.argument == str(path / "deep" / "content.txt")
    assert content(path) == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_quota_is_named(tmp_path: Path) -> None:
    with pytest.raises(DiskFullError, match="exceeds your quota"), write_errors(tmp_path / "x"):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_read_only_folders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, "no")

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    for writing in (replacing(tmp_path / "x.csv"), replacing_folder(tmp_path / "x", MARKER)):
        with pytest.raises(InputFileError, match=r"`.*x.*` must lie in a folder you may write to, got .*"), writing:
            pytest.fail("nothing can be written")


def test_errors_of_other_kinds_are_not_changed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "x"):
        raise ZeroDivisionError
    with pytest.raises(OSError, match="Input/output") as stopped, replacing(tmp_path / "x"):
        raise OSError(errno.EIO, "Input/output error")
    assert not isinstance(stopped.value, InputFileError)
    with pytest.raises(FileNotFoundError, match="elsewhere"), replacing(tmp_path / "x"):
        Path(tmp_path / "elsewhere").read_text()


def test_tensors_are_what_safetensors_writes(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    tensors = {"a": torch.arange(6.0).reshape(2, 3).T, "b": torch.zeros(0)}
    save_tensors(tmp_path / "ours", tensors, {"key": "value"})
    save_file({name: value.contiguous() for name, value in tensors.items()}, tmp_path / "theirs", {"key": "value"})
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


# -- checksums --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 30])
def test_a_file_is_what_was_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(files, "CHECKED_BYTES", 8)
    path, written = tmp_path / "x", bytes(range(size))
    path.write_bytes(written)
    described = describe_file(path)
    assert described == {"bytes": size, "crc32": [zlib.crc32(written[k : k + 8]) for k in range(0, size, 8)]}
    check_size(path, described, "Copy it.")
    check_checksums(path, described, "Copy it.")
    for place in range(size):
        path.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
        check_size(path, described, "Copy it.")
        start = place // 8 * 8
        where = f"between byte {start} and byte {min(start + 8, size)}. Copy it."
        with pytest.raises(InputFileError, match=f"`{path}` must match its checksum, but it differs {where}"):
            check_checksums(path, described, "Copy it.")


def test_a_file_of_another_size_or_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    described = describe_file(path)
    path.write_bytes(b"ab")
    with pytest.raises(InputFileError, match=f"`{path}` must have 3 bytes, but it has 2. Copy it."):
        check_size(path, described, "Copy it.")
    path.unlink()
    with pytest.raises(InputFileError, match=f"`{path}` must have 3 bytes, but there is none. Copy it."):
        check_size(path, described, "Copy it.")


def test_a_description_with_other_checksums_than_the_file_has_blocks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    described = describe_file(path)
    for wrong in ([], [*described["crc32"], 0], ["a"]):
        with pytest.raises(InputFileError, match="must match its checksum"):
            check_checksums(path, described | {"crc32": wrong}, "Copy it.")
