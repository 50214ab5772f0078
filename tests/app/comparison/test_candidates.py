"""Who takes part: names, aliases, plug-ins, and objects of the caller."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading
from torch import nn

from lggd.app import comparison
from lggd.app.cli import compare as cli
from lggd.app.comparison import candidates
from lggd.app.comparison.candidates import describe_model, read_candidates, read_model
from lggd.app.runs.methods import Method
from lggd.baselines import GDC
from lggd.errors import InputError
from lggd.models.classifier import LGGDClassifier
from support.small_data import Averages, blocks, changed


def names(found: list[Method]) -> list[str]:
    return [each.name for each in found]


def with_plug_ins(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    points = [EntryPoint(name, value, candidates.GROUP) for name, value in values.items()]
    monkeypatch.setattr(candidates, "entry_points", lambda group: points if group == "lggd.methods" else [])


def test_default_names_exist_and_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    with_plug_ins(monkeypatch)
    assert names(read_candidates()) == [*comparison.DEFAULTS, *comparison.PEERS]
    assert all(each.model(0) is not None for each in read_candidates())
    assert set(comparison.ALIASES.values()) <= set(candidates.known_candidates())


def test_the_command_line_knows_all_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with_plug_ins(monkeypatch)
    assert set(cli.NAMES) == {*candidates.known_candidates(), *comparison.ALIASES}


def test_names_aliases_and_objects_can_be_mixed() -> None:
    mixed = ["closed-form", {"mine": GDC(k=3), "deep": "gcn"}]
    found = read_candidates(mixed)
    assert names(found) == ["kernel-ridge", "mine", "deep"]
    assert found[1].model(4).k == 3
    assert isinstance(found[2].model(0), LGGDClassifier)


def test_each_split_has_its_own_seed_and_its_own_model() -> None:
    own = GDC()
    candidate = read_candidates({"mine": own})[0]
    first, second = candidate.model(1), candidate.model(2)
    assert (first.seed, second.seed, own.seed) == (1, 2, 0)
    assert read_candidates(["lggd-plus"])[0].model(7).get_params()["features__seed"] == 7
    assert read_candidates({"x": LogisticRegression()})[0].model(5).estimator.random_state == 5


def test_plug_ins_take_part_by_name_and_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    with_plug_ins(monkeypatch, theirs="lggd.baselines:GDC", broken="lggd.nothing:Here")
    assert names(read_candidates())[-2:] == ["theirs", "broken"]
    theirs, broken = read_candidates(["theirs", "broken"])
    assert isinstance(theirs.model(0), GDC)
    with pytest.raises(ModuleNotFoundError):  # when its job runs, which stops no other
        broken.model(0)


def test_an_installed_plug_in_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text("from lggd.baselines import GDC\n\ndef make():\n    return GDC(k=4)\n")
    information = tmp_path / "theirs-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[lggd.methods]\nfour-hops = theirs:make\n")
    monkeypatch.syspath_prepend(tmp_path)
    (candidate,) = read_candidates(["four-hops"])
    assert repr(candidate.model(3)) == "GDC(seed=3, k=4)"
    assert "four-hops" in names(read_candidates())


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (["gcnn"], "`methods` must be among .*, got 'gcnn'. Did you mean 'gcn'"),
        ([], "`methods` must name at least one method"),
        (["gcn", "gcn"], "distinct names, but 'gcn' comes twice"),
        ({"mine": 3}, "`methods\\['mine'\\]` must be a model with fit and predict_proba"),
        ([GDC()], "mapping from names to models, got GDC"),
        (7, "be names, or a mapping from names to models, got int"),
    ],
)
def test_what_cannot_take_part_is_refused(methods: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_candidates(methods)


def test_modules_and_classifiers_become_models() -> None:
    module = Averages(6)
    assert isinstance(read_model("m", module), LGGDClassifier)
    assert isinstance(read_model("f", lambda: module), LGGDClassifier)
    assert isinstance(read_model("c", GDC), GDC)
    assert isinstance(read_model("s", LogisticRegression()), candidates.FeatureClassifier)
    assert isinstance(module, nn.Module)


@pytest.mark.parametrize("estimator", [LogisticRegression(), LabelSpreading(kernel="knn", n_neighbors=3)])
def test_classifiers_of_scikit_learn_see_the_features_of_training_nodes(estimator: Any) -> None:
    data = blocks(noise=0.1)
    found = read_model("x", estimator).fit(data).predict_proba()
    assert found.shape == (36, 3)
    assert float((found.argmax(1) == data.y).float().mean()) > 0.95
    # The labels of other nodes make no difference.
    hidden = torch.where(data.train_mask, data.y, (data.y + 1) % 3)
    assert torch.equal(found, read_model("x", estimator).fit(changed(data, y=hidden)).predict_proba())


def test_label_spreading_uses_the_graph_as_scikit_learn_defines_it() -> None:
    data = blocks(weighted=True, lonely=1)
    mine = candidates.GraphLabelSpreading(alpha=0.8, iterations=300).fit(data).predict_proba()
    dense = torch.zeros(36, 36, dtype=torch.float64)
    dense[data.edge_index[0], data.edge_index[1]] = data.edge_weight.double()
    root = dense.sum(1).clamp(min=1e-12).rsqrt()
    operator, start = root[:, None] * dense * root, torch.zeros(36, 3, dtype=torch.float64)
    start[data.train_mask, data.y[data.train_mask]] = 1
    exact = torch.linalg.solve(torch.eye(36, dtype=torch.float64) - 0.8 * operator, 0.2 * start)
    reached = exact.sum(1) > 1e-9
    expected = exact / exact.sum(1, keepdim=True)
    assert bool(reached.sum() >= 33)
    np.testing.assert_allclose(mine[reached], expected[reached], atol=0.01)


def test_reasons_to_skip() -> None:
    gcn, spreading = read_candidates(["gcn", "label-spreading"])
    assert gcn.reason_to_skip(has_features=True) is None
    assert gcn.reason_to_skip(has_features=False) == "needs node features, and there are none"
    assert spreading.reason_to_skip(has_features=False) is None


class Nameless:
    """Its text is its address."""


def test_descriptions_are_the_same_in_every_process() -> None:
    assert describe_model(GDC(k=3)) == "GDC(k=3)"
    assert describe_model(Nameless()) == f"{__name__}.Nameless"
    assert describe_model(blocks) == "support.small_data.blocks"
