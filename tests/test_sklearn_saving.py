"""Saved classifiers of samples: the same bits in another process, any kind of samples and classes, damage refused."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors.torch import load_file, save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn

from lggd import GCN, GGD, LGGDClassifier, Optimization, load_model
from lggd._system.files import describe_file
from lggd.errors import InputError
from lggd.sklearn import KNNGraphClassifier
from support.command_line import answer
from support.few_labels import BOTH, DISTANCES, ESTIMATORS, LEARNED, moons
from support.processes import finish

NEW = np.array([[0.5, 0.5], [-1.0, 0.2], [3.0, -4.0], [1.1, 0.0]])


class Linear(nn.Module):
    """A backbone of the user's."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 2)

    def forward(self, x, edge_index):
        return self.layer(x)


def largest_difference(a, b):
    return float(np.abs(a - b).max())


def check_same(loaded, model, new):
    """Equal in all that a user can see: predictions, also of new samples and after one more label, and settings."""
    assert type(loaded) is KNNGraphClassifier
    assert repr(loaded) == repr(model)
    assert loaded.n_features_in_ == model.n_features_in_
    assert loaded.classes_.dtype == model.classes_.dtype
    for _ in range(2):
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
        np.testing.assert_array_equal(loaded.transduction_, model.transduction_)
        np.testing.assert_array_equal(loaded.label_distributions_, model.label_distributions_)
        np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
        np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
        assert torch.equal(loaded.model_.labels_, model.model_.labels_)
        assert loaded.model_.history_ == model.model_.history_
        if model.model_.accepts_labels:
            free = int((model.model_.labels_ < 0).nonzero()[-1])
            for one in (loaded, model):
                one.add_labels([free], model.classes_[:1])


def save_and_load(model, folder, **modules):
    model.save(folder)
    return load_model(folder, **modules)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- There and back ----------------------------------------------------------------------------------------------------

ELSEWHERE = """
import sys
from pathlib import Path
import numpy as np
import torch
import lggd
torch.set_num_threads(1)
folder = Path(sys.argv[1])
new = np.load(folder / "new.npy")
for path in list(folder.glob("*/model.json")):
    model = lggd.load_model(path.parent)
    before = model.predict_proba(new)
    np.savez(path.parent.with_suffix(".npz"), before=before, after=model.add_labels([299], [1]).predict_proba(new))
"""


def test_another_process_predicts_the_same_bits(tmp_path):
    X, _, y = moons()
    y[299] = -1
    models = {name: clone(estimator).fit(X, y) for name, estimator in ESTIMATORS.items()}
    for name, model in models.items():
        model.save(tmp_path / name)
    new = np.concatenate([NEW, X[:9], X + 0.05])
    np.save(tmp_path / "new.npy", new)
    status, _, errors = finish(tmp_path, code=ELSEWHERE)
    assert status == 0, errors
    for name, model in models.items():
        found = np.load(tmp_path / f"{name}.npz")
        np.testing.assert_array_equal(found["before"], model.predict_proba(new))
        np.testing.assert_array_equal(found["after"], model.add_labels([299], [1]).predict_proba(new))
        assert not np.array_equal(found["before"], found["after"])


@BOTH
def test_a_loaded_model_is_the_one_that_was_saved(estimator, tmp_path):
    X, truth, y = moons()
    model = clone(estimator).fit(X, y)
    new = np.flatnonzero(y == -1)[:3]
    model.add_labels(new, truth[new])
    loaded = save_and_load(model, tmp_path / "model")
    loaded.save(tmp_path / "again")
    assert files(tmp_path / "again") == files(tmp_path / "model")
    check_same(loaded, model, np.concatenate([NEW, X + 0.05]))
    np.testing.assert_array_equal(
        loaded.fit(X, y).label_distributions_, clone(estimator).fit(X, y).label_distributions_
    )


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        (np.asfortranarray, np.float32), (np.ascontiguousarray, np.float64), (sp.csr_array, np.float32),
        (sp.csr_matrix, np.float64), (sp.coo_array, np.float64),
    ],
)  # fmt: skip
def test_samples_of_any_kind(form, dtype, tmp_path):
    X, _, y = moons()
    X = np.pad(np.where(X < 0, 0, X), ((0, 0), (0, 20))).astype(dtype)  # zeros, equal samples, and brute force
    model = clone(LEARNED).fit(form(X), y)
    check_same(save_and_load(model, tmp_path / "model"), model, form(X + np.eye(*X.shape, dtype=dtype)))


@pytest.mark.parametrize(
    "names",
    [np.array([3, 7], np.int16), np.array([1.0, 2.0]), np.array(["狐", "Fuchs"]), np.array(["a", "bc"], object)],
    ids=["int", "float", "str", "object"],
)
def test_classes_of_any_kind(names, tmp_path):
    X, _, y = moons()
    named = np.where(y < 0, "-1" if names.dtype.kind in "UO" else -1, names[y])
    named = named.astype(object) if names.dtype.kind == "O" else named
    model = clone(DISTANCES).fit(X, named)
    check_same(save_and_load(model, tmp_path / "model"), model, NEW)


def test_settings_of_any_kind(tmp_path):
    X, _, y = moons()
    for number, settings in enumerate(
        (
            {"n_neighbors": np.int64(4), "metric": "cosine", "random_state": np.int32(3)},
            {"model": LGGDClassifier(None, GCN(hidden=4), Optimization(epochs=2))},
            {"model": None, "n_neighbors": 1000},
            {"model": GGD(), "random_state": np.random.RandomState(0)},
            {"metric": "manhattan", "random_state": None},
        )
    ):
        model = clone(DISTANCES).set_params(**settings).fit(X, y)
        loaded = save_and_load(model, tmp_path / str(number))
        model.set_params(**{name: value.item() for name, value in settings.items() if isinstance(value, np.generic)})
        if isinstance(model.random_state, np.random.RandomState):
            model.set_params(random_state=model.model_.seed)
        check_same(loaded, model, NEW)


def test_a_random_state_is_saved_as_the_seed_drawn_from_it(tmp_path):
    X, _, y = moons()
    model = clone(LEARNED).set_params(random_state=np.random.RandomState(4)).fit(X, y)
    loaded = save_and_load(model, tmp_path / "model")
    assert loaded.random_state == model.model_.seed
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))


def test_settings_changed_since_the_fit_change_no_prediction(tmp_path):
    X, _, y = moons()
    model = clone(LEARNED).set_params(n_neighbors=3).fit(X, y).set_params(n_neighbors=30, metric="cosine")
    check_same(save_and_load(model, tmp_path / "model"), model, np.concatenate([NEW, X + 0.05]))


def test_loading_leaves_the_global_random_numbers(tmp_path):
    X, _, y = moons()
    clone(DISTANCES).set_params(random_state=None).fit(X, y).save(tmp_path / "model")
    before = np.random.get_state()[2]  # noqa: NPY002
    load_model(tmp_path / "model")
    assert np.random.get_state()[2] == before  # noqa: NPY002


def test_custom_code_is_passed_again(tmp_path):
    X, _, y = moons()
    own = {"metric": largest_difference, "backbone": Linear()}
    model = clone(LEARNED).set_params(metric=own["metric"], model__backbone=own["backbone"]).fit(X, y)
    check_same(save_and_load(model, tmp_path / "model", **own), model, NEW)
    for missing, name in (("metric", "largest_difference"), ("backbone", "Linear")):
        with pytest.raises(InputError, match=f"{missing}` must be passed to load, .*{name}"):
            load_model(tmp_path / "model", **{key: value for key, value in own.items() if key != missing})
    with pytest.raises(InputError, match="distance function"):
        load_model(tmp_path / "model", **{**own, "metric": nn.Identity})


def test_names_of_columns_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, _, y = moons()
    loaded = save_and_load(clone(DISTANCES).fit(pandas.DataFrame(X, columns=["a", "b"]), y), tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(pandas.DataFrame(NEW, columns=["b", "c"]))


# -- Files -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "model"
    X, _, y = moons()
    clone(DISTANCES).fit(X, np.array(["left", "right", "-1"])[y]).save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "model"))


def test_files_are_json_and_safetensors_without_pickles(saved, tmp_path, monkeypatch):
    inner = {f"model/{name}" for name in ("graph.safetensors", "model.json", "weights.safetensors")}
    assert files(saved).keys() == {"model.json", "samples.safetensors", *inner}

    def refuse(*_, **__):
        raise AssertionError("a pickle")

    for module, functions in ((pickle, ("load", "loads", "dump", "dumps")), (torch, ("load", "save"))):
        for function in functions:
            monkeypatch.setattr(module, function, refuse)
    load_model(saved).save(tmp_path / "again")


def test_where_it_is_written(folder, tmp_path):
    model = load_model(folder)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(OSError, match="thesis"):
        model.save(tmp_path / "thesis")
    model.model_.save(folder)  # each replaces the other
    assert load_model(folder).num_classes_ == 2
    model.save(str(folder))
    check_same(load_model(str(folder)), model, NEW)
    with pytest.raises(NotFittedError):
        clone(model).save(tmp_path / "unfitted")
    assert not (tmp_path / "unfitted").exists()


def test_classes_that_no_file_can_hold_are_refused(folder, tmp_path):
    model = load_model(folder)
    model.classes_ = np.array(["2001-01-01", "2002-02-02"], "datetime64[D]")
    with pytest.raises(InputError, match="`classes_` must be numbers or strings"):
        model.save(tmp_path / "dates")
    assert not (tmp_path / "dates").exists()


def test_the_command_line_predicts_and_adds_labels(folder, tmp_path):
    model = load_model(folder)
    found = answer("predict", folder)
    assert (found["dataset"], found["classes"]) == ("model", ["left", "right"])
    free = int((model.model_.labels_ < 0).nonzero()[0])
    assert found["predictions"][str(free)] == model.transduction_[free]
    (tmp_path / "labels.csv").write_text(f"id,label\n{free},right\n")
    assert answer("add-labels", folder, tmp_path / "labels.csv", "--out", tmp_path / "new.csv")["new_labels"] == 1
    np.testing.assert_array_equal(
        load_model(folder).label_distributions_, model.add_labels([free], ["right"]).label_distributions_
    )


# -- Damage ------------------------------------------------------------------------------------------------------------


def check_refused(folder):
    with pytest.raises(InputError) as refused:
        load_model(folder)
    assert str(folder) in str(refused.value)


def edit(folder, change):
    path = folder / "model.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("file", ["samples.safetensors", "model.json", "model/model.json", "model/weights.safetensors"])
def test_missing_and_damaged_files_are_refused(file, folder):
    path = folder / file
    path.write_bytes(path.read_bytes()[:40])
    check_refused(folder)
    path.unlink()
    check_refused(folder)


@pytest.mark.parametrize(
    "change",
    [
        *[lambda c, key=key: c.pop(key) for key in ("model", "neighbours", "classes", "classes_dtype", "columns")],
        lambda c: c.pop("files"),
        lambda c: c.update(version=1),
        lambda c: c.update(classes=["left"]),
        lambda c: c.update(classes=3),
        lambda c: c.update(classes_dtype="os.system"),
        lambda c: c.update(columns=["a"]),
        lambda c: c.update(columns=None),
        lambda c: c["model"].update(kind="Unknown"),
        lambda c: c["model"].update(kind=["KNNGraphClassifier"]),
        lambda c: c["model"].update(metric="none"),
        lambda c: c["model"].update(n_neighbors=0),
        lambda c: c["model"].update(neighbours=3),
        lambda c: c["model"].update(features="LGGD"),
        lambda c: c["model"].update(model="LGGDClassifier"),
        lambda c: c["model"].update(model={"kind": "GCN"}),
        lambda c: c["model"]["model"].update(kind="system"),
        lambda c: c["model"]["model"].update(features={"kind": "class", "class": "LGGD"}),
        lambda c: c["model"]["model"]["features"].update(times="soon"),
        lambda c: c["neighbours"].update(metric="none"),
        lambda c: c["neighbours"].update(n_neighbors=0),
        lambda c: c["neighbours"].update(n_neighbors=10**6),
        lambda c: c["neighbours"].update(n_neighbors="many"),
        lambda c: c["neighbours"].pop("metric"),
    ],
)
def test_damaged_settings_are_refused(change, folder):
    edit(folder, change)
    check_refused(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda X: {},
        lambda X: {"samples": X[:-1]},
        lambda X: {"samples": X[:, 0]},
        lambda X: {"samples": X.to(torch.int64)},
        lambda X: {"samples": X * torch.nan},
        lambda X: {"data": X[:3, 0], "indices": torch.tensor([0, 1, 9]), "indptr": torch.tensor([0, 3])},
        lambda X: {
            "data": X[:1, 0], "indices": torch.tensor([9]), "indptr": torch.ones(301, dtype=torch.int64),
            "shape": torch.tensor([300, 2]),
        },
    ],
)  # fmt: skip
@pytest.mark.parametrize("forged", [False, True], ids=["as it is", "described as if it had been saved"])
def test_damaged_samples_are_refused(damage, forged, folder):
    path = folder / "samples.safetensors"
    packed = damage(load_file(path)["samples"])
    save_file({name: value.contiguous() for name, value in packed.items()}, path)
    if forged:
        edit(folder, lambda content: content["files"].update({path.name: describe_file(path)}))
    check_refused(folder)


def test_samples_of_another_model_are_refused(folder, tmp_path):
    X, _, y = moons()
    clone(DISTANCES).fit(X + 1, y).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "samples.safetensors", folder)
    with pytest.raises(InputError, match=rf"{folder}/samples.safetensors` must match its checksum.* Use a copy of"):
        load_model(folder)


@pytest.mark.parametrize("planted", ["order", "neighbours", "labels"])
def test_the_comparison_finds_a_planted_bug(planted, tmp_path):
    """Samples in another order, other neighbours, or a lost label must not pass for the model that was saved."""
    X, _, y = moons()
    model = clone(LEARNED).fit(X, y)
    loaded = save_and_load(model, tmp_path / "model")
    new = np.concatenate([NEW, X + 0.05])
    if planted == "order":
        loaded._index(X[::-1].copy(), 10, "euclidean")
    elif planted == "neighbours":
        loaded._index(X, 9, "euclidean")
    else:
        loaded.model_.labels_ = loaded.model_.labels_.clone()
        loaded.model_.labels_[(y >= 0).argmax()] = -1
    with pytest.raises(AssertionError):
        check_same(loaded, model, new)
