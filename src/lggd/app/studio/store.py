"""Labels in an SQLite file: durable before they are acknowledged, with versions, a history, undo and redo.

Every change is one row of `changes` with one row of `entries` for each node. `labels` is the present state; `origin` is
the change that a label comes from, which tells whether an undo would overwrite somebody else's work.
"""

from __future__ import annotations

import datetime
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lggd._system.files import check_writable
from lggd.errors import DiskFullError, InputError, InputFileError
from lggd.validation import suggestion

UNLABELLED = -1
FORMAT = "1"
# The author of the labels that came with the graph.
GIVEN = ""
MAX_NAME, MAX_CLASSES = 100, 500
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE classes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE changes (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, author TEXT NOT NULL, at TEXT NOT NULL,
                      state TEXT NOT NULL, target INTEGER);
CREATE TABLE entries (change INTEGER NOT NULL, node INTEGER NOT NULL, before INTEGER NOT NULL, after INTEGER NOT NULL,
                      origin INTEGER NOT NULL, PRIMARY KEY (change, node)) WITHOUT ROWID;
CREATE TABLE labels (node INTEGER PRIMARY KEY, label INTEGER NOT NULL, version INTEGER NOT NULL,
                     origin INTEGER NOT NULL, kept INTEGER NOT NULL);
"""


@dataclass(frozen=True)
class LabelEdit:
    """The class to label a node with, None to remove its label. With a `version`, only if the node still has that."""

    node: int
    label: str | None
    version: int | None = None


@dataclass(frozen=True)
class LabelEntry:
    """The label of one node before and after a change, and the change that the label before came from."""

    node: int
    before: int
    after: int
    origin: int


@dataclass(frozen=True)
class LabelChange:
    """One change of labels.

    `kind` is "given", "label", "undo", "redo" or "keep", and `state` "done", "undone" or, if it stays, "final".
    """

    number: int
    kind: str
    author: str
    at: str
    entries: tuple[LabelEntry, ...]
    state: str = "final"
    target: int | None = None


class StaleEditError(Exception):
    """Somebody else has changed these nodes since; `nodes` are the ones in question."""

    def __init__(self, message: str, nodes: Sequence[int]) -> None:
        super().__init__(message)
        self.nodes = list(nodes)


class LabelStore:
    """The labels of one graph. Only one thread may use it, and only one process may have it open.

    Parameters
    ----------
    path : path
        An SQLite file, created where there is none.
    fingerprint : str
        Identifies the graph; a store of another one is refused.
    num_nodes : int
    classes : sequence of str
        The first classes of a new store; those that an existing one lacks are added.
    labels : int64 array [N]
        The first labels of a new store, -1 for none.
    """

    def __init__(
        self,
        path: str | Path,
        fingerprint: str,
        num_nodes: int,
        classes: Sequence[str] = (),
        labels: NDArray[np.int64] | None = None,
    ) -> None:
        self.path, self._num_nodes = check_writable(path), num_nodes
        with _file_errors(self.path):
            # Used by one thread at a time, but not always the one that opened it.
            self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=1)
            try:
                for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
                    self._connection.execute(f"PRAGMA {setting}")
                # Held until the end: a second process is refused instead of writing beside this one.
                self._connection.execute("BEGIN EXCLUSIVE")
                tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
                if "meta" not in tables:
                    if tables:
                        raise _not_a_store(self.path)
                    self._create(fingerprint, classes, labels)
                self._connection.execute("COMMIT")
                self._check(fingerprint)
                self._load()
                for name in classes:  # an existing store may lack some
                    self._insert_class(name)
            except BaseException:
                self._connection.close()
                raise

    def _create(self, fingerprint: str, classes: Sequence[str], labels: NDArray[np.int64] | None) -> None:
        for statement in SCHEMA.split(";")[:-1]:
            self._connection.execute(statement)
        self._connection.executemany("INSERT INTO meta VALUES (?, ?)", [("format", FORMAT), ("graph", fingerprint)])
        self._connection.executemany("INSERT INTO classes VALUES (?, ?)", list(enumerate(classes)))
        nodes = [] if labels is None else np.flatnonzero(labels >= 0).tolist()
        if labels is not None and nodes:
            self._reset()
            entries = tuple(LabelEntry(node, UNLABELLED, int(labels[node]), 0) for node in nodes)
            self._record(LabelChange(1, "given", GIVEN, _now(), entries))

    def _check(self, fingerprint: str) -> None:
        meta = dict(self._connection.execute("SELECT key, value FROM meta WHERE key IN ('format', 'graph')"))
        if meta.get("format") != FORMAT:
            raise _not_a_store(self.path)
        if meta["graph"] != fingerprint:
            rule = "belong to this graph"
            raise InputFileError(self.path, rule, "the labels of another one", "Name another file with --store.")

    # -- memory ---------------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        self.classes: list[str] = []
        self.labels = np.full(self._num_nodes, UNLABELLED, np.int64)
        self.versions = np.zeros(self._num_nodes, np.int64)
        self.kept = np.zeros(self._num_nodes, bool)
        self._origin = np.zeros(self._num_nodes, np.int64)
        self.changes: list[LabelChange] = []

    def _load(self) -> None:
        """Loads all state; the file is authoritative."""
        self._reset()
        query = self._connection.execute
        self.classes = [name for (name,) in query("SELECT name FROM classes ORDER BY id")]
        for node, label, version, origin, kept in query("SELECT node, label, version, origin, kept FROM labels"):
            self.labels[node], self.versions[node], self._origin[node], self.kept[node] = label, version, origin, kept
        entries: dict[int, list[LabelEntry]] = {}
        for change, *entry in query("SELECT change, node, before, after, origin FROM entries ORDER BY change, node"):
            entries.setdefault(change, []).append(LabelEntry(*entry))
        for number, kind, author, at, state, target in query("SELECT * FROM changes ORDER BY id"):
            own = tuple(entries.get(number, ()))
            self.changes.append(LabelChange(number, kind, author, at, own, state, target))

    # -- changes --------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside becomes durable at its end, together; if that fails, nothing of it has happened."""
        with _file_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._load()
                raise

    def add_class(self, name: str) -> None:
        """Adds a class, unless there is one of this name."""
        name = check_class_name(name)
        if name not in self.classes:
            self._check_number_of_classes(1)
        self._insert_class(name)

    def _insert_class(self, name: str) -> None:
        if name not in self.classes:
            self._connection.execute("INSERT INTO classes VALUES (?, ?)", (len(self.classes), name))
            self.classes.append(name)

    def _check_number_of_classes(self, new: int) -> None:
        if len(self.classes) + new > MAX_CLASSES:
            raise InputError("classes", f"be at most {MAX_CLASSES}", len(self.classes) + new, "Use known classes.")

    def set_labels(self, edits: Sequence[LabelEdit], author: str, *, new_classes: bool = False) -> LabelChange | None:
        """Sets and removes labels, all or none; None where nothing would change.

        Unknown classes are an error, or with `new_classes` added. An edit that asks for the present label changes
        nothing, whatever its version: sending it twice is harmless.
        """
        added = self._classes_to_add(edits, new_classes)
        changed = [edit for edit in edits if self._label_of(edit.node) != edit.label]
        stale = [edit.node for edit in changed if edit.version not in (None, self.versions[edit.node])]
        if stale:
            raise StaleEditError("Somebody else has changed this label since you saw it.", stale)
        for name in added:
            self.add_class(name)
        if not changed:
            return None
        for change in self._changes_of(author, "undone"):  # a new change ends what could be made again
            self._set_state(change, "final")
        entries = tuple(
            LabelEntry(e.node, int(self.labels[e.node]), self._number(e.label), int(self._origin[e.node]))
            for e in sorted(changed, key=lambda edit: edit.node)
        )
        return self._record(LabelChange(self._next, "label", author, _now(), entries, "done"))

    def _classes_to_add(self, edits: Sequence[LabelEdit], new_classes: bool) -> list[str]:
        """The classes to add, all checked before anything is written."""
        repeated = [node for node, count in Counter(edit.node for edit in edits).items() if count > 1]
        if repeated:
            raise InputError("labels", "name each node once", "node {0} twice", "Remove one.", nodes=repeated[:1])
        names = dict.fromkeys(edit.label for edit in edits if edit.label is not None)
        new = [name for name in names if name not in self.classes]
        if new and not new_classes:
            remedy = suggestion(new[0][:MAX_NAME], self.classes, "Add the class first.")
            raise InputError("label", "be a known class", repr(new[0][:MAX_NAME]), remedy)
        for name in new:
            if check_class_name(name) != name:
                raise InputError("label", "have no blanks around it", repr(name[:MAX_NAME]), "Remove them.")
        self._check_number_of_classes(len(new))
        return new

    def _label_of(self, node: int) -> str | None:
        return None if self.labels[node] == UNLABELLED else self.classes[self.labels[node]]

    def _number(self, name: str | None) -> int:
        return UNLABELLED if name is None else self.classes.index(name)

    def undo(self, author: str) -> LabelChange | None:
        """Takes back the author's last change; None where there is none.

        Raises a `StaleEditError` where somebody else has changed one of its nodes since.
        """
        own = self._changes_of(author, "done")
        if not own:
            return None
        last = own[-1]
        entries = tuple(LabelEntry(e.node, e.after, e.before, last.number) for e in last.entries)
        return self._repeat(last, "undo", "undone", entries, {e.node: e.origin for e in last.entries})

    def redo(self, author: str) -> LabelChange | None:
        """Makes the author's change again that was undone last; None where there is none."""
        undone = self._changes_of(author, "undone")
        if not undone:
            return None
        first = undone[0]
        return self._repeat(first, "redo", "done", first.entries, {e.node: first.number for e in first.entries})

    def keep(self, node: int, author: str) -> LabelChange | None:
        """Confirms a label, so that it no longer counts as suspicious until it changes; None if it was confirmed."""
        label = int(self.labels[node])
        if label == UNLABELLED:
            raise InputError("node", "have a label to keep", "none", "Label it first.")
        if self.kept[node]:
            return None
        self._connection.execute("UPDATE labels SET kept = 1 WHERE node = ?", (node,))
        self.kept[node] = True
        change = LabelChange(self._next, "keep", author, _now(), (LabelEntry(node, label, label, 0),))
        return self._write(change)

    @property
    def _next(self) -> int:
        return self.changes[-1].number + 1 if self.changes else 1

    def _repeat(
        self, change: LabelChange, kind: str, state: str, entries: tuple[LabelEntry, ...], origins: dict[int, int]
    ) -> LabelChange:
        """Records a change backwards or once more, unless one of its labels comes from another change by now."""
        stale = [entry.node for entry in entries if self._origin[entry.node] != entry.origin]
        if stale:
            text = f"Somebody else has changed this label since: there is nothing to {kind} safely."
            raise StaleEditError(text, stale)
        self._set_state(change, state)
        again = LabelChange(self._next, kind, change.author, _now(), entries, target=change.number)
        return self._record(again, origins)

    def _changes_of(self, author: str, state: str) -> list[LabelChange]:
        return [change for change in self.changes if change.author == author and change.state == state]

    def _set_state(self, change: LabelChange, state: str) -> None:
        self._connection.execute("UPDATE changes SET state = ? WHERE id = ?", (state, change.number))
        self.changes[change.number - 1] = replace(change, state=state)

    def _record(self, change: LabelChange, origins: dict[int, int] | None = None) -> LabelChange:
        """Writes a change and its labels; `origins` are the changes that these come from, if not from this one."""
        rows = []
        for entry in change.entries:
            node, origin = entry.node, change.number if origins is None else origins[entry.node]
            version = int(self.versions[node]) + 1
            self.labels[node], self.versions[node], self._origin[node], self.kept[node] = (
                entry.after, version, origin, False,
            )  # fmt: skip
            rows.append((node, entry.after, version, origin, 0))
        self._connection.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?, ?, ?, ?)", rows)
        return self._write(change)

    def _write(self, change: LabelChange) -> LabelChange:
        row = change.number, change.kind, change.author, change.at, change.state, change.target
        self._connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)", row)
        entries = [(change.number, e.node, e.before, e.after, e.origin) for e in change.entries]
        self._connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", entries)
        self.changes.append(change)
        return change

    # -- other ----------------------------------------------------------------------------------------------------

    def read_cache(self, key: str) -> bytes | None:
        """A value computed once for this graph, such as its layout; None if there is none."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (f"cache {key}",)).fetchone()
        return None if row is None else bytes(row[0])

    def write_cache(self, key: str, value: bytes) -> None:
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"cache {key}", value))

    def close(self) -> None:
        self._connection.close()


def check_class_name(name: str) -> str:
    """The name without blanks around it, which must be printable text."""
    shown = name.strip()
    if not shown or len(shown) > MAX_NAME or not shown.isprintable():
        rule = f"be 1 to {MAX_NAME} printable characters"
        raise InputError("class", rule, repr(name[: MAX_NAME + 1]), "Choose another name.")
    return shown


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    """Turns errors of SQLite about a file into sentences."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
            remedy = "Free some space and try again: what was written before is unchanged."
            raise DiskFullError(path, "fit on its disk", but="no space is left there", remedy=remedy) from error
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            remedy = "Close that one, or name another file with --store."
            raise InputFileError(path, "be open in one studio", "a file that another one uses", remedy) from error
        raise InputFileError(path, "be a file that can be read and written", but=str(error)) from error
    except sqlite3.DatabaseError as error:
        raise _not_a_store(path) from error


def _not_a_store(path: Path) -> InputFileError:
    remedy = "Name another file with --store."
    return InputFileError(path, "be a store of labels", "another kind of file", remedy)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
