"""The studio without HTTP: labels lead to predictions, many at once to one solve, and nobody waits."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from lggd import KernelRidge
from lggd.app.studio import session as sessions
from lggd.app.studio.store import LabelEdit, LabelStore, StaleEditError
from lggd.errors import InputError
from support.studio_cases import edits, settle, small_graph, small_session, wait_for


def test_predictions_follow_labels_with_kept_settings(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        before = session.snapshot
        outcome = session.submit(LabelStore.set_labels, edits(n13="green"), "ada").result()
        after = outcome.snapshot
        assert after.labels[13] == 1
        assert after.num_labels == before.num_labels + 1
        expected = before.model.with_labels(after.compact())
        assert torch.equal(after.model.predict_proba(), expected.predict_proba())
        assert after.changed.tolist() == np.flatnonzero(after.predicted != before.predicted).tolist()
        assert before.labels[13] == -1
        assert before.model.labels_[13] == -1


def test_a_restart_shows_the_same(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        session.submit(LabelStore.set_labels, edits(n13="green", n14="blue"), "ada").result()
        labels, history = session.snapshot.labels, session.snapshot.history
    with small_session(tmp_path) as again:
        assert np.array_equal(again.snapshot.labels, labels)
        assert again.snapshot.history == history


def test_known_classes_are_numbered_as_in_the_store(tmp_path: Path) -> None:
    """Classes were first added on the page; then the tables got a column of labels, with one more class."""
    nothing = {"labels": np.full(36, -1), "truth": np.full(36, -1), "held_out": np.zeros(36, bool)}
    with small_session(tmp_path, small_graph(classes=(), model=None, **nothing), settled=False) as session:
        session.submit(LabelStore.set_labels, edits(n2="blue", n1="green"), "ada", new_classes=True).result()
        assert session.snapshot.classes == ("blue", "green")
    with small_session(tmp_path, small_graph(), settled=False) as session:
        assert session.snapshot.classes == ("blue", "green", "red")
        assert session.graph.classes == session.snapshot.classes
        assert [session.snapshot.name_of(label) for label in session.graph.truth[:3]] == ["red", "green", "blue"]
        assert session.quality().confusion.shape == (3, 3)


def test_settings_are_chosen_again_when_labels_have_grown(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        model = session.snapshot.model
        outcome = session.submit(LabelStore.set_labels, edits(n13="green"), "ada").result()
        assert not outcome.snapshot.choosing
        outcome = session.submit(LabelStore.set_labels, edits(n14="blue", n15="red"), "ada").result()
        assert outcome.snapshot.choosing
        assert outcome.snapshot.model.kernels_ == model.kernels_
        settle(session)
        wait_for(lambda: session.events["labels"]["choosing"] is False)
        fresh = KernelRidge()
        data = session.graph.data.clone()
        data.y = session.snapshot.compact()
        assert torch.allclose(session.snapshot.model.predict_proba(), fresh.fit(data).predict_proba(), atol=1e-4)


def test_from_nothing_with_new_classes(tmp_path: Path) -> None:
    nothing = {"labels": np.full(36, -1), "truth": np.full(36, -1), "held_out": np.zeros(36, bool)}
    graph = small_graph(classes=(), model=None, **nothing)
    with small_session(tmp_path, graph) as session:
        assert session.snapshot.model is None
        session.submit(LabelStore.set_labels, edits(n0="x", n3="x"), "ada", new_classes=True).result()
        settle(session)
        assert session.snapshot.model is None  # one class
        assert set(session.snapshot.predicted.tolist()) == {-1}
        session.submit(LabelStore.set_labels, edits(n1="y", n4="y"), "ada", new_classes=True).result()
        wait_for(lambda: session.snapshot.model is not None)
        settle(session)
        assert set(session.snapshot.predicted.tolist()) == {0, 1}
        session.submit(LabelStore.set_labels, edits(n2="z"), "ada", new_classes=True).result()
        assert session.snapshot.classes == ("x", "y", "z")
        assert set(session.snapshot.predicted.tolist()) <= {0, 1, 2}
        settle(session)
        session.submit(LabelStore.set_labels, edits(n1=None, n4=None, n2=None), "ada").result()
        assert session.snapshot.model is None  # back to one class
        session.submit(LabelStore.undo, "ada").result()
        assert session.snapshot.model is not None


def test_a_class_that_loses_its_labels_is_not_predicted(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        gone = [LabelEdit(node, None) for node in range(12) if node % 3 == 1]
        after = session.submit(LabelStore.set_labels, gone, "ada").result().snapshot
        assert 1 not in after.predicted
        assert after.top_classes(20, 3)[-1][0] in ("red", "blue")
        assert len(after.top_classes(20, 3)) == 2


def test_many_labels_in_a_moment_are_one_solve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_session(tmp_path) as session:
        solves, gate, with_labels = [], threading.Event(), KernelRidge.with_labels

        def counted(model, labels):
            solves.append(labels)
            gate.wait(30)
            return with_labels(model, labels)

        monkeypatch.setattr(KernelRidge, "with_labels", counted)
        first = session.submit(LabelStore.set_labels, edits(n13="green"), "ada")
        wait_for(lambda: solves)
        rest = [session.submit(LabelStore.set_labels, [LabelEdit(node, "red")], "eve") for node in range(14, 30)]
        gate.set()
        for future in (first, *rest):
            future.result()
        assert len(solves) == 2
        revisions = {future.result().snapshot.revision for future in rest}
        assert len(revisions) == 1
        assert session.snapshot.history[-1].entries[0].node == 29


def test_readers_do_not_wait_for_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_session(tmp_path) as session:
        gate, with_labels = threading.Event(), KernelRidge.with_labels
        monkeypatch.setattr(KernelRidge, "with_labels", lambda *a: (gate.wait(30), with_labels(*a))[1])
        future = session.submit(LabelStore.set_labels, edits(n13="green"), "ada")
        assert session.snapshot.labels[13] == -1
        assert session.snapshot.certainty.mean() > 0
        gate.set()
        assert future.result().snapshot is session.snapshot


def test_a_refused_request_leaves_others_alone(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        session.submit(LabelStore.set_labels, edits(n13="red"), "eve").result()
        stale = session.submit(LabelStore.set_labels, [LabelEdit(13, "blue", 0)], "ada")
        unknown = session.submit(LabelStore.set_labels, edits(n14="purple"), "ada")
        fine = session.submit(LabelStore.set_labels, edits(n15="red"), "ada")
        with pytest.raises(StaleEditError):
            stale.result()
        with pytest.raises(InputError, match="known class"):
            unknown.result()
        assert fine.result().snapshot.labels[13:16].tolist() == [0, -1, 0]


def test_a_solve_that_fails_keeps_the_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_session(tmp_path) as session:

        def fail(*_):
            raise RuntimeError("no solution")

        monkeypatch.setattr(KernelRidge, "with_labels", fail)
        after = session.submit(LabelStore.set_labels, edits(n13="green"), "ada").result().snapshot
        assert after.labels[13] == 1
        monkeypatch.undo()
        wait_for(lambda: session.snapshot.model is not None)
        assert session.snapshot.labels[13] == 1


def test_the_curve_has_a_point_for_every_state_that_lasts(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        session.submit(LabelStore.set_labels, edits(n13="green"), "ada").result()
        settle(session)
        last = session.curve[-1]
        assert last.labels == 13
        assert last.held_out
        held_out = session.graph.held_out & (session.snapshot.labels < 0)
        right = session.snapshot.predicted[held_out] == session.graph.truth[held_out]
        assert last.accuracy == pytest.approx(right.mean())


def test_a_closed_session_takes_no_labels(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        pass
    with pytest.raises(RuntimeError, match="closing"):
        session.submit(LabelStore.set_labels, edits(n13="red"), "ada").result()


def test_suggestions_do_not_wait_and_skip_what_was_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_session(tmp_path) as session:
        before = [each.number for each in session.suggestions(5)]
        gate = threading.Event()
        monkeypatch.setattr(KernelRidge, "suggest", lambda *_: gate.wait(30))
        session.submit(LabelStore.set_labels, [LabelEdit(before[0], "red")], "ada").result()
        assert [each.number for each in session.suggestions(4)] == before[1:]
        monkeypatch.undo()
        gate.set()


def test_a_long_curve_loses_every_other_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_POINTS", 3)
    with small_session(tmp_path) as session:
        for node in range(13, 18):
            session.submit(LabelStore.set_labels, [LabelEdit(node, "red")], "ada").result()
            settle(session)
        assert len(session.curve) <= 4
        assert session.curve[-1].revision == session.snapshot.revision
        assert session.curve[0].labels == 12
