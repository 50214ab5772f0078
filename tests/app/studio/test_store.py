"""Labels in a file: what is read again is what was acknowledged; versions, history, undo and redo."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from lggd.app.studio.store import LabelEdit, LabelStore, StaleEditError
from lggd.errors import DiskFullError, InputError, InputFileError
from support.processes import finish

NODES = 10


def opened(path: Path, fingerprint: str = "graph") -> LabelStore:
    labels = np.full(NODES, -1)
    labels[:2] = 0, 1
    return LabelStore(path, fingerprint, NODES, ("red", "blue"), labels)


@pytest.fixture
def store(tmp_path: Path):
    store = opened(tmp_path / "labels.sqlite")
    yield store
    store.close()


def put(store: LabelStore, author: str = "ada", version: int | None = None, **labels: str | None):
    with store.transaction():
        edits = [LabelEdit(int(node[1:]), label, version) for node, label in labels.items()]
        return store.set_labels(edits, author)


def undo(store: LabelStore, author: str = "ada"):
    with store.transaction():
        return store.undo(author)


def redo(store: LabelStore, author: str = "ada"):
    with store.transaction():
        return store.redo(author)


def state(store: LabelStore):
    arrays = (store.labels, store.versions, store.kept)
    return list(store.classes), *(array.tolist() for array in arrays), list(store.changes)


def test_a_new_store_begins_with_the_labels_of_the_graph(store) -> None:
    assert store.labels.tolist() == [0, 1] + [-1] * 8
    assert [change.kind for change in store.changes] == ["given"]
    assert undo(store, "") is None


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    store = opened(tmp_path / "labels.sqlite")
    put(store, n3="red", n4="blue")
    put(store, n3="blue")
    put(store, n0=None)
    undo(store)
    with store.transaction():
        store.keep(4, "eve")
        store.add_class("green")
    before = state(store)
    store.close()
    again = opened(tmp_path / "labels.sqlite")
    assert state(again) == before
    again.close()


def test_commits_wait_for_the_disk(store) -> None:
    read = lambda name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]  # noqa: E731
    assert (read("journal_mode"), read("synchronous")) == ("wal", 2)


def test_labels_are_set_changed_and_removed_with_versions(store) -> None:
    for label, version in (("red", 1), ("blue", 2), (None, 3)):
        put(store, n5=label)
        assert store.versions[5] == version
    assert store.labels[5] == -1


def test_a_full_disk_changes_nothing(store) -> None:
    store._connection.execute("PRAGMA max_page_count = 1")  # that is, no more than there are
    before = state(store)
    with pytest.raises(DiskFullError, match="no space is left"), store.transaction():
        store.write_cache("layout", bytes(10**6))
    assert state(store) == before
    store._connection.execute("PRAGMA max_page_count = 100000")
    assert put(store, n5="red") is not None


def test_an_edit_that_changes_nothing_is_no_change(store) -> None:
    put(store, n5="red")
    assert put(store, n5="red", version=0) is None
    assert put(store, n6=None) is None
    assert store.versions[5] == 1


def test_a_stale_edit_is_refused_and_changes_nothing(store) -> None:
    put(store, n5="red", author="eve")
    before = state(store)
    with pytest.raises(StaleEditError) as caught, store.transaction():
        store.set_labels([LabelEdit(6, "red", 0), LabelEdit(5, "blue", 0)], "ada")
    assert caught.value.nodes == [5]
    assert state(store) == before


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ([LabelEdit(5, "green")], "known class"),
        ([LabelEdit(5, "red"), LabelEdit(5, "blue")], "name each node once"),
    ],
)
def test_bad_edits_are_refused_and_change_nothing(store, edit, words) -> None:
    before = state(store)
    with pytest.raises(InputError, match=words), store.transaction():
        store.set_labels(edit, "ada")
    assert state(store) == before


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101, " red"])
def test_bad_names_of_new_classes_are_refused(store, name) -> None:
    with pytest.raises(InputError), store.transaction():
        store.set_labels([LabelEdit(5, name)], "ada", new_classes=True)
    assert store.classes == ["red", "blue"]


def test_new_classes_come_with_their_labels_or_not_at_all(store) -> None:
    put(store, n6="red", author="eve")
    with pytest.raises(StaleEditError), store.transaction():
        store.set_labels([LabelEdit(5, "green"), LabelEdit(6, "blue", 0)], "ada", new_classes=True)
    assert store.classes == ["red", "blue"]
    with store.transaction():
        store.set_labels([LabelEdit(5, "green")], "ada", new_classes=True)
    assert store.classes == ["red", "blue", "green"]
    assert store.labels[5] == 2


def test_undo_and_redo_by_author(store) -> None:
    put(store, n5="red")
    put(store, n6="blue", author="eve")
    put(store, n5="blue", n7="red")
    undo(store)
    assert (store.labels[5], store.labels[7], store.labels[6]) == (0, -1, 1)
    undo(store)
    assert store.labels[5] == -1
    assert undo(store) is None
    redo(store)
    redo(store)
    assert (store.labels[5], store.labels[7]) == (1, 0)
    assert redo(store) is None
    undo(store, "eve")
    assert store.labels[6] == -1


def test_a_new_change_ends_redo(store) -> None:
    put(store, n5="red")
    undo(store)
    put(store, n6="red")
    assert redo(store) is None


def test_undo_does_not_overwrite_somebody_else(store) -> None:
    put(store, n5="red")
    put(store, n5="blue", author="eve")
    with pytest.raises(StaleEditError):
        undo(store)
    assert store.labels[5] == 1
    undo(store, "eve")
    undo(store)  # now it is the last again
    assert store.labels[5] == -1


def test_redo_does_not_overwrite_somebody_else(store) -> None:
    put(store, n5="red")
    undo(store)
    put(store, n5="blue", author="eve")
    with pytest.raises(StaleEditError):
        redo(store)
    assert store.labels[5] == 1


def test_a_kept_label_counts_until_it_changes(store) -> None:
    with store.transaction():
        store.keep(0, "ada")
        assert store.keep(0, "ada") is None
    assert store.kept[0]
    put(store, n0="blue")
    assert not store.kept[0]
    with pytest.raises(InputError, match="have a label"), store.transaction():
        store.keep(9, "ada")


def test_a_failed_transaction_leaves_no_trace(store) -> None:
    before = state(store)

    def fail() -> None:
        with store.transaction():
            store.set_labels([LabelEdit(5, "red")], "ada")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert state(store) == before


def test_the_store_of_another_graph_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "labels.sqlite").close()
    with pytest.raises(InputFileError, match="belong to this graph"):
        opened(tmp_path / "labels.sqlite", "another")


def test_other_files_are_refused_and_kept(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("not a database, and rather longer than the header of one")
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (a)")
    connection.close()
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(InputFileError, match="be a store of labels"):
            opened(path)
        assert path.read_bytes() == before or path == other  # SQLite notes its journal mode


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    link = tmp_path / "labels.sqlite"
    link.symlink_to(tmp_path / "missing" / "labels.sqlite")
    with pytest.raises(InputFileError, match=r"labels\.sqlite` must be a file that can be read and written"):
        opened(link)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path / "labels.sqlite")
    code = f"from lggd.app.studio.store import LabelStore; LabelStore({str(store.path)!r}, 'graph', {NODES})"
    assert "be open in one studio" in finish(code=code)[2]
    store.close()
    opened(tmp_path / "labels.sqlite").close()
