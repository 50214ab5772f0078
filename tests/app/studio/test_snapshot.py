"""What a snapshot suggests: nodes to label, labels that look wrong, accuracy and distances."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import lggd
from lggd.app.studio import snapshot
from lggd.app.studio.store import LabelStore
from support.studio_cases import edits, settle, small_graph, small_session


def test_suggestions_are_those_of_the_model_with_reasons(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        suggestions = snapshot.all_suggestions(session.snapshot)[:5]
        assert [one.number for one in suggestions] == session.snapshot.model.suggest(50)[:5].tolist()
        assert all(one.reason for one in suggestions)
        assert all(session.snapshot.labels[one.number] < 0 for one in suggestions)


def test_undecided_nodes_say_between_what(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        suggestion = snapshot.with_reason(session.snapshot, 20, 0.1, 0.5, 0.9)
        assert "undecided between" in suggestion.reason
        assert suggestion.first in suggestion.reason
        decided = snapshot.with_reason(session.snapshot, 20, 0.9, 0.5, 0.999)
        assert decided.reason == "less like the labelled nodes than 99\u00a0% of all nodes"


def test_before_predictions_nodes_are_spread_over_the_graph(tmp_path: Path) -> None:
    graph = small_graph(labels=np.full(36, -1))
    with small_session(tmp_path, graph) as session:
        numbers = [one.number for one in snapshot.all_suggestions(session.snapshot)[:6]]
        assert len(set(numbers)) == 6
        assert set(graph.truth[numbers[:5]].tolist()) == {0, 1, 2}
        session.submit(LabelStore.set_labels, edits(**{f"n{numbers[0]}": "red"}), "ada").result()
        assert numbers[0] not in [one.number for one in snapshot.all_suggestions(session.snapshot)[:6]]


def test_all_labelled_leaves_nothing_to_suggest(tmp_path: Path) -> None:
    graph = small_graph()
    graph = small_graph(labels=graph.truth)
    with small_session(tmp_path, graph) as session:
        assert snapshot.all_suggestions(session.snapshot)[:5] == []


def test_a_wrong_label_is_suspicious_until_it_is_kept_or_corrected(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        session.submit(LabelStore.set_labels, edits(n3="blue"), "ada").result()
        settle(session)
        first = snapshot.all_suspicious(session.snapshot)[0]
        assert (first.number, first.label, first.suggested) == (3, "blue", "red")
        assert first.probability < first.suggested_probability
        session.submit(LabelStore.keep, 3, "ada").result()
        assert 3 not in [one.number for one in snapshot.all_suspicious(session.snapshot)[:5]]
        session.submit(LabelStore.set_labels, edits(n3="green"), "ada").result()
        assert 3 in [one.number for one in snapshot.all_suspicious(session.snapshot)[:5]]


def test_accuracy_is_estimated_where_nothing_is_held_out(tmp_path: Path) -> None:
    graph = small_graph(held_out=np.zeros(36, bool))
    with small_session(tmp_path, graph) as session:
        measured = snapshot.quality(session.snapshot)
        left_out = session.snapshot.model.leave_one_out_proba().argmax(1).numpy()
        nodes = np.flatnonzero(session.snapshot.labels >= 0)
        assert not measured.held_out
        assert measured.accuracy == (left_out == session.snapshot.labels[nodes]).mean()
        assert measured.confusion.sum() == len(nodes) == measured.compared


def test_labelled_nodes_are_no_longer_held_out(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        before = snapshot.quality(session.snapshot).compared
        session.submit(LabelStore.set_labels, edits(n20="red"), "ada").result()
        assert snapshot.quality(session.snapshot).compared == before - 1


def test_distances_are_those_to_the_labels_of_a_class(tmp_path: Path) -> None:
    with small_session(tmp_path) as session:
        sources = np.flatnonzero(session.snapshot.labels == 1).tolist()
        expected = lggd.distance(session.graph.graph, sources).value
        assert np.array_equal(snapshot.distances(session.snapshot, 1), expected.numpy())
        session.submit(LabelStore.add_class, "grey").result()
        assert np.isinf(snapshot.distances(session.snapshot, 3)).all()
